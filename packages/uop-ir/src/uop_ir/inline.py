"""A CALL as what it means: the body of the kernel, with the arguments in the place of its PARAMs. Week 5."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from .arguments import node as checked
from .dtype import dtypes
from .errors import VerifyError
from .infer_structure import call_params
from .movement import INDEX_MAPS, index_map, sizes
from .ops import Ops
from .ranges import own_sources, postorder
from .scalar import INDEX_ARITHMETIC, index_op
from .uop import UOp
from .walks import toposort


def inline_call(call: UOp) -> UOp:
    """The body of a CALL with its arguments for its PARAMs, a SINK:
    `run_program` does with it what the CALL does.

    Sizes that were symbolic take the values of constant arguments. An element of a view that was given as
    memory becomes the element of the memory under it. The body's own scratch memory gets slots that no
    argument has, and bodies that it calls stay as they are.
    Raises VerifyError for any other op, and for an argument that does not fit a shape.
    """
    if checked("inline_call", call).op is not Ops.CALL:
        raise VerifyError(f"{call.op!r} is no CALL", remedy="inline_call takes a CALL")
    body, *arguments = call.src
    mapping = dict(zip(call_params(body), arguments, strict=True))
    taken = [int(n.arg.slot) for n in toposort(arguments) if n.op is Ops.ALLOC]
    own = [n for n in body.toposort() if n.op is Ops.ALLOC] if taken else []
    for slot, alloc in enumerate(own, max(taken, default=0) + 1):
        mapping[alloc] = UOp.alloc(slot, alloc.arg.size, alloc.dtype, alloc.arg.addrspace)
    return bind(body, mapping)


def bind(body: UOp, mapping: Mapping[UOp, UOp]) -> UOp:
    """The body of a kernel with each key of `mapping` replaced by its value, all at once.

    Bodies that it calls are not entered.
    """
    new: dict[UOp, UOp] = {}
    for node in postorder([body], lambda n: () if n in mapping else own_sources(n)):
        if node in mapping:
            new[node] = mapping[node]
            continue
        called = node.src[: len(node.src) - len(own_sources(node))]
        src = (*called, *(new[s] for s in own_sources(node)))
        new[node] = node if src == node.src else _made(node, src)
    return new[body]


#: A movement op whose sizes may have become constants, built anew: a builder spells those as ints.
_BUILDERS: dict[Ops, Callable[[UOp], UOp]] = {
    Ops.RESHAPE: lambda node: node.src[0].reshape(node.shape),
    Ops.EXPAND: lambda node: node.src[0].expand(node.shape),
    Ops.PAD: lambda node: node.src[0].pad(sizes(node)),
    Ops.SHRINK: lambda node: node.src[0].shrink(sizes(node)),
}


def _made(node: UOp, src: tuple[UOp, ...]) -> UOp:
    """A node on new sources: arithmetic of constant sizes is done,
    an element of a view is led to its memory.
    """
    if node.op in INDEX_ARITHMETIC and node.dtype is dtypes.index and all(s.op is Ops.CONST for s in src):
        return UOp.const(dtypes.index, index_op(node.op, *(s.value for s in src)))
    if node.op is Ops.INDEX and src[0] is not node.src[0]:
        return _element(*src)
    return resized(node, src)


def resized(node: UOp, src: tuple[UOp, ...]) -> UOp:
    """A node on new sources, among which a symbolic size may have become a constant."""
    made = node.replace(src=src)
    return _BUILDERS[node.op](made) if node.op in _BUILDERS and len(src) > 1 else made


def _element(view: UOp, position: UOp, valid: UOp | None = None) -> UOp:
    """An INDEX of the memory under a view."""
    at: tuple[UOp, ...] = (position,)
    effects: list[UOp] = []
    while view.op in INDEX_MAPS or view.op is Ops.AFTER:
        if view.op is Ops.AFTER:
            effects.extend(view.src[1:])
        else:
            at, _ = index_map(view, at)  # a view of memory has no element that comes from nowhere
        view = view.src[0]
    return view.after(*effects).index(*at, *(() if valid is None else (valid,)))
