"""Walks over graphs, none of which recurses: nodes in order, replaced, or under AFTERs; digests. Week 1."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from typing import TYPE_CHECKING

from .arguments import by_node, items, nodes, shown
from .errors import VerifyError
from .interning import Fields
from .ops import Ops

if TYPE_CHECKING:
    from .uop import UOp

#: Bytes of a digest: two contents in 2**64 would share one.
_DIGEST = 16
#: Writes to the slot: what a UOp forbids, and faster than object.__setattr__.
_keep: Callable[[UOp, bytes], None] = vars(Fields)["_digest"].__set__
_HEADS = {op: f"{op.value} ".encode() for op in Ops}
#: A copy of it takes a quarter less time than a new one.
_HASH = blake2b()


def toposort(roots: Iterable[UOp], gate: Callable[[UOp], bool] | None = None) -> dict[UOp, None]:
    """All nodes below `roots`, each after its sources, roots in order.
    Iterative; see `UOp.toposort` for `gate`.
    """
    order: dict[UOp, None] = {}
    try:
        roots = [*roots]
    except TypeError:
        items("toposort", roots, "UOps")
        raise
    for root in roots:
        if not isinstance(root, Fields):
            raise VerifyError(f"toposort: {shown(root)} is no UOp", remedy="a sequence of UOps")
    if gate is not None and not callable(gate):
        raise VerifyError(f"toposort: {shown(gate)} is no gate", remedy="a function from a node to a bool")
    #: The nodes whose sources are walked, outermost first, and what is left to walk beside each.
    path: list[UOp] = []
    beside: list[Iterator[UOp]] = []
    walk = iter(roots)
    while True:
        for node in walk:
            if node not in order:
                if node.src and (gate is None or gate(node)):
                    path.append(node)
                    beside.append(walk)
                    walk = iter(node.src)
                    break
                order[node] = None
        else:  # the sources of the last of the path are in order
            if not path:
                return order
            order[path.pop()] = None
            walk = beside.pop()


def substitute(root: UOp, mapping: dict[UOp, UOp]) -> UOp:
    """The graph with each key of `mapping` replaced by its value, all at once; values are not entered."""
    nodes("substitute", by_node("substitute", mapping).values())
    new = dict(mapping)
    path: list[UOp] = []
    beside: list[Iterator[UOp]] = []
    walk = iter((root,))
    while True:  # as toposort, without a call of a gate for each node
        for node in walk:
            if node not in new:
                if node.src:
                    path.append(node)
                    beside.append(walk)
                    walk = iter(node.src)
                    break
                new[node] = node
        else:
            if not path:
                return new[root]
            node = path.pop()
            src = tuple([new[s] for s in node.src])
            new[node] = node if src == node.src else node.replace(src=src)
            walk = beside.pop()


def base(node: UOp) -> UOp:
    """What stands under AFTERs."""
    while node.op is Ops.AFTER:
        node = node.src[0]
    return node


def digest(root: UOp) -> bytes:
    """What stands for the content of a node, the same in every process:
    a hash of its op, arg and sources' digests.

    Each node keeps its own.
    """
    stack = [root]
    while stack:
        node = stack.pop()
        if node._digest:
            continue
        parts = [_HEADS[node.op]]
        for s in node.src:
            if not s._digest:  # first the sources, then this node again
                stack.append(node)
                stack += node.src
                break
            parts.append(s._digest)
        else:
            if node.arg is not None:
                parts.append(repr(node.arg).encode())
            content = _HASH.copy()
            content.update(b"".join(parts))
            _keep(node, content.digest()[:_DIGEST])
    return root._digest
