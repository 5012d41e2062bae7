"""Graphs that tensors and gradients share: folding axes, undoing a broadcast, the device. Week 5."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, cast

from uop_ir import AddrSpace, Ops, UOp, dtypes

from .promotion import accumulator

#: For each operand of a node the gradient, None where none flows;
#: and how it follows from the node and its gradient.
Gradients: TypeAlias = "tuple[UOp | None, ...]"
Rule: TypeAlias = "Callable[[UOp, UOp], Gradients]"

#: In the memo of an AFTER: its rule, where it is not that all goes to the second source.
OWN_RULE = "tensor.rule"


def fold(x: UOp, op: Ops, axes: Sequence[int], keepdim: bool = False) -> UOp:
    """REDUCE over any axes: they are moved to the end, in order, and popped. No axes: `x` itself."""
    if not axes:
        return x
    kept = [a for a in range(x.ndim) if a not in axes]
    folded = x.permute((*kept, *sorted(axes))).reduce(op, len(axes))
    if keepdim:
        folded = folded.reshape(tuple(1 if a in axes else s for a, s in enumerate(x.shape)))
    return folded


def sum_to(x: UOp, shape: Sequence[int | UOp]) -> UOp:
    """What a broadcast from `shape` to the shape of `x` spread out, summed up again (f16 and bf16 in f32)."""
    extra = x.ndim - len(shape)
    grown = [a for a in range(x.ndim) if a < extra or (shape[a - extra] == 1 and x.shape[a] != 1)]
    return (
        fold(x.cast(accumulator(x.dtype)), Ops.ADD, grown).reshape(shape).cast(x.dtype)
        if grown
        else x.reshape(shape)
    )


def broadcast_to(x: UOp, shape: Sequence[int | UOp]) -> UOp:
    """`x` with new axes in front and axes of size 1 grown, to `shape`."""
    return x.reshape((1,) * (len(shape) - x.ndim) + x.shape).expand(shape)


def unsqueezed(x: UOp, axis: int) -> UOp:
    """`x` with a new axis of size 1."""
    return x.reshape((*x.shape[:axis], 1, *x.shape[axis:]))


def stored(x: UOp) -> UOp:
    """The same value, which the scheduler puts in memory, in the order of its axes: a STAGE."""
    return UOp(Ops.STAGE, (x,), AddrSpace.GLOBAL)


def detach(x: UOp) -> UOp:
    """The same value, through which no gradient flows: an AFTER without effects.

    The scheduler drops it, so that it costs nothing in a kernel.
    """
    return x if is_detached(x) or not x.dtype.is_float else UOp(Ops.AFTER, (x,))


def is_detached(x: UOp) -> bool:
    """Whether no gradient flows through `x`: an AFTER behind nothing but effects."""
    return x.op is Ops.AFTER and all(s.dtype is dtypes.void for s in x.src[1:])


def with_gradient_of(x: UOp, *through: UOp) -> UOp:
    """The value `x`, whose gradient flows through other nodes: an AFTER that stands behind them.

    Without a rule of its own (see `gradient`), all of it goes to the first of `through`, which has the shape
    and dtype of `x`. The scheduler keeps the value and drops the rest.
    """
    return UOp(Ops.AFTER, (detach(x), *through))


def substituted(root: UOp, mapping: Mapping[UOp, UOp]) -> UOp:
    """`root.substitute(mapping)` that keeps rules of gradients:
    nodes made anew have those of what they stand for.
    """
    new = dict(mapping)
    for node in root.toposort(gate=lambda n: n not in mapping):
        if node not in new:
            src = tuple([new[s] for s in node.src])
            new[node] = node if src == node.src else node.replace(src=src)
            if new[node] is not node and OWN_RULE in node.memo:
                new[node].memo[OWN_RULE] = _elsewhere(node.memo[OWN_RULE], mapping)
    return new[root]


def _elsewhere(rule: Rule, mapping: Mapping[UOp, UOp]) -> Rule:
    """A rule for a node in a graph in which others were replaced: also those that the rule itself knows."""
    kept = {value: value for value in mapping.values()}

    def ruled(node: UOp, g: UOp) -> Gradients:
        known = {**mapping, **kept, node: node, g: g}
        return tuple([None if own is None else substituted(own, known) for own in rule(node, g)])

    return ruled


def shape_of(x: UOp) -> tuple[int, ...]:
    """The shape of a tensor's node, whose sizes are ints."""
    return cast("tuple[int, ...]", x.shape)


def is_constant(x: UOp) -> bool:
    """Whether `x` is one CONST, whatever its shape and sign."""
    while x.op in (Ops.RESHAPE, Ops.EXPAND, Ops.NEG):
        x = x.src[0]
    return x.op is Ops.CONST


def known_device(x: UOp) -> str | None:
    """The device on which `x` is: that of its buffers or of its last COPY; None where there is no memory."""
    for node in x.toposort(gate=lambda n: "device" not in n.memo and n.op is not Ops.COPY):
        if "device" not in node.memo:
            node.memo["device"] = _own_device(node)
    device: str | None = x.memo["device"]
    return device


def _own_device(node: UOp) -> str | None:
    if node.op is Ops.BUFFER:
        return str(node.arg.device)
    if node.op is Ops.COPY:
        return str(node.arg)
    return next((s.memo["device"] for s in node.src if s.memo["device"] is not None), None)
