"""Reverse-mode differentiation: graph in, graph out, one rule an op. Week 5.

A rule takes a node and its upstream gradient, of the node's dtype and shape, and gives the gradient of each
source (None: there is none). A source that was broadcast gets its gradient summed up again, by `gradient`
itself. Gradients are graphs like any other, so they have gradients of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from uop_ir import Ops, UOp, dtypes, sizes, toposort

from . import compose
from .creation import count
from .errors import TensorError
from .graph import (
    OWN_RULE,
    Gradients,
    Rule,
    broadcast_to,
    fold,
    is_constant,
    is_detached,
    known_device,
    stored,
    sum_to,
)
from .memory import numel
from .promotion import accumulator


def gradient(outputs: Sequence[UOp], seeds: Sequence[UOp], inputs: Sequence[UOp]) -> list[UOp | None]:
    """The gradient of `sum(seed * output)` with respect to each input: a node of its dtype and shape.

    Each seed has the dtype and shape of its output. None stands where no output depends on the input at all;
    where it depends on it only through ops whose derivative is zero, so is the gradient.
    """
    for output, seed in zip(outputs, seeds, strict=True):
        if seed.dtype is not output.dtype or seed.shape != output.shape:
            raise TensorError(
                f"gradient: seed {seed.dtype}{seed.shape} for an output {output.dtype}{output.shape}",
                remedy="a seed has the dtype and shape of its output",
            )
    nodes = toposort(outputs, gate=lambda n: not is_detached(n))
    wanted = set(inputs)
    path: set[UOp] = set()
    for node in nodes:
        if node in wanted or (not is_detached(node) and any(s in path for s in node.src)):
            path.add(node)
    found: dict[UOp, UOp] = {}
    for output, seed in zip(outputs, seeds, strict=True):
        _add(found, output, seed)
    for node in reversed(nodes):
        rule = RULES[node.op]
        if node not in path or node not in found or rule is None or not node.dtype.is_float:
            continue
        for source, upstream in zip(node.src, rule(node, found[node]), strict=False):
            if upstream is not None and source in path and source.dtype.is_float:
                _add(found, source, sum_to(upstream, source.shape))
    return [found.get(x, _zeros(x)) if x in path else None for x in inputs]


def _add(found: dict[UOp, UOp], node: UOp, upstream: UOp) -> None:
    found[node] = found[node] + upstream if node in found else upstream


def _zeros(x: UOp) -> UOp:
    return broadcast_to(x.const_like(0), x.shape)


def _pass(node: UOp, g: UOp) -> Gradients:
    return (g,)


def _both(node: UOp, g: UOp) -> Gradients:
    return g, g


def _sub(node: UOp, g: UOp) -> Gradients:
    return g, -g


def _mul(node: UOp, g: UOp) -> Gradients:
    x, y = node.src
    return g * y, g * x


def _mulacc(node: UOp, g: UOp) -> Gradients:
    x, y, _ = node.src
    return g * y, g * x, g


def _div(node: UOp, g: UOp) -> Gradients:
    y = node.src[1]
    return g / y, -(g * node) / y


def _mod(node: UOp, g: UOp) -> Gradients:
    """x - n y, with the whole number n, which is constant almost everywhere."""
    x, y = node.src
    return g, -(g * compose.round_half_even((x - node) / y))


def _max(node: UOp, g: UOp) -> Gradients:
    """To the greater; a tie is shared, except with a constant: so the derivative of relu at 0 is 0."""
    x, y = node.src
    tie = 0.0 if is_constant(x) or is_constant(y) else 0.5
    shared = x.eq(y).where(g * tie, 0)
    return (y < x).where(g, shared), (x < y).where(g, shared)


def _where(node: UOp, g: UOp) -> Gradients:
    condition = node.src[0]
    return None, condition.where(g, 0), condition.where(g.const_like(0), g)


def _recip(node: UOp, g: UOp) -> Gradients:
    return (-(g * node * node),)


def _sqrt(node: UOp, g: UOp) -> Gradients:
    return (g * 0.5 / node,)


def _exp2(node: UOp, g: UOp) -> Gradients:
    return (g * node * math.log(2),)


def _log2(node: UOp, g: UOp) -> Gradients:
    return (g * math.log2(math.e) / node.src[0],)


def _sin(node: UOp, g: UOp) -> Gradients:
    return (g * compose.cos(node.src[0]),)


def _neg(node: UOp, g: UOp) -> Gradients:
    return (-g,)


def _cast(node: UOp, g: UOp) -> Gradients:
    return (g.cast(node.src[0].dtype),)


def _reshape(node: UOp, g: UOp) -> Gradients:
    return (g.reshape(node.src[0].shape),)


def _permute(node: UOp, g: UOp) -> Gradients:
    return (g.permute(sorted(range(g.ndim), key=node.arg.__getitem__)),)


def _flip(node: UOp, g: UOp) -> Gradients:
    return (g.flip(node.arg),)


def _pad(node: UOp, g: UOp) -> Gradients:
    bounds = zip(sizes(node), node.src[0].shape, strict=True)
    return (g.shrink(tuple((before, size + before) for (before, _), size in bounds)),)


def _shrink(node: UOp, g: UOp) -> Gradients:
    bounds = zip(sizes(node), node.src[0].shape, strict=True)
    return (g.pad(tuple((begin, size - end) for (begin, end), size in bounds)),)


def _stack(node: UOp, g: UOp) -> Gradients:
    rest = tuple((0, s) for s in node.shape[1:])
    return tuple(g.shrink(((i, i + 1), *rest)).reshape(node.shape[1:]) for i in range(len(node.src)))


def _copy(node: UOp, g: UOp) -> Gradients:
    home = known_device(node.src[0])
    return (g if home is None else UOp(Ops.COPY, (g,), home),)


def _after(node: UOp, g: UOp) -> Gradients:
    rule: Rule | None = node.memo.get(OWN_RULE)
    return (None, g) if rule is None else rule(node, g)


def _reduce(node: UOp, g: UOp) -> Gradients:
    x = node.src[0]
    pop = x.ndim - node.ndim
    inner = (1,) * pop
    return (_REDUCE[node.arg[0]](x, node.reshape(node.shape + inner), g.reshape(g.shape + inner), pop),)


def _reduce_add(x: UOp, total: UOp, g: UOp, pop: int) -> UOp:
    return g.expand(x.shape)


def _reduce_max(x: UOp, greatest: UOp, g: UOp, pop: int) -> UOp:
    """Evenly to all elements that are the greatest."""
    chosen = x.eq(greatest)
    inner = accumulator(g.dtype)
    count = _fold_last(chosen.cast(inner), Ops.ADD, pop)
    return chosen.where((g.cast(inner) / count).cast(g.dtype), 0)


def _reduce_mul(x: UOp, product: UOp, g: UOp, pop: int) -> UOp:
    """The product of the elements before each, times that of those after it: no division, so that zeros need
    no care, and higher derivatives are right beside them.
    """
    kept = x.shape[: x.ndim - pop]
    rows = x.reshape((*kept, numel(x.shape[x.ndim - pop :])))
    last = [a == len(kept) for a in range(rows.ndim)]
    # stored, so that each of the two is a running product of its own
    after = stored(_products_before(rows.flip(last))).flip(last)
    return g * (_products_before(rows) * after).reshape(x.shape)


def _products_before(rows: UOp) -> UOp:
    """For each element of the last axis, the product of those before it."""
    *kept, n = rows.shape
    assert isinstance(n, int)
    here, there = count(n, dtypes.i64).reshape((n, 1)), count(n, dtypes.i64)
    return (there < here).where(rows.reshape((*kept, 1, n)), 1).reduce(Ops.MUL, 1)


def _fold_last(x: UOp, op: Ops, pop: int) -> UOp:
    return fold(x, op, range(x.ndim - pop, x.ndim), keepdim=True)


_REDUCE: dict[Ops, Callable[[UOp, UOp, UOp, int], UOp]] = {
    Ops.ADD: _reduce_add,
    Ops.MAX: _reduce_max,
    Ops.MUL: _reduce_mul,
}

#: Marks an op without gradient: its derivative is zero, or it does not stand in a tensor's graph.
NONE = None

#: One row an op.
RULES: dict[Ops, Rule | None] = {
    Ops.CALL: NONE,  # an effect
    Ops.PARAM: NONE,  # a leaf
    Ops.BUFFER: NONE,  # a leaf
    Ops.INDEX: NONE,  # loop level
    Ops.LOAD: NONE,  # loop level
    Ops.STORE: NONE,  # an effect
    Ops.RESHAPE: _reshape,
    Ops.EXPAND: _pass,  # the sum over the grown axes is that of any broadcast
    Ops.PERMUTE: _permute,
    Ops.FLIP: _flip,
    Ops.PAD: _pad,
    Ops.SHRINK: _shrink,
    Ops.STACK: _stack,
    Ops.REDUCE: _reduce,
    Ops.RANGE: NONE,  # loop level
    Ops.END: NONE,  # loop level
    Ops.STAGE: _pass,
    Ops.ALLOC: NONE,  # loop level
    Ops.AFTER: _after,  # `detach` stops a gradient, `with_gradient_of` leads it elsewhere
    Ops.COPY: _copy,
    Ops.CONST: NONE,  # a leaf
    Ops.CAST: _cast,
    Ops.BITCAST: NONE,  # of bits
    Ops.RECIP: _recip,
    Ops.SQRT: _sqrt,
    Ops.EXP2: _exp2,
    Ops.LOG2: _log2,
    Ops.SIN: _sin,
    Ops.TRUNC: NONE,  # zero almost everywhere
    Ops.NEG: _neg,
    Ops.ADD: _both,
    Ops.SUB: _sub,
    Ops.MUL: _mul,
    Ops.DIV: _div,
    Ops.MOD: _mod,
    Ops.MAX: _max,
    Ops.AND: NONE,  # of bits
    Ops.OR: NONE,  # of bits
    Ops.XOR: NONE,  # of bits
    Ops.SHL: NONE,  # of bits
    Ops.SHR: NONE,  # of bits
    Ops.CMPLT: NONE,  # gives bool
    Ops.CMPNE: NONE,  # gives bool
    Ops.CMPEQ: NONE,  # gives bool
    Ops.WHERE: _where,
    Ops.MULACC: _mulacc,
    Ops.SINK: NONE,  # an effect
    Ops.SPECIAL: NONE,  # late
    Ops.BARRIER: NONE,  # late
    Ops.IF: NONE,  # late
    Ops.ENDIF: NONE,  # late
    Ops.WMMA: NONE,  # late
}
