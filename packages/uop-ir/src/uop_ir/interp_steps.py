"""What running one node does, a row an op: the interpreter's table. Week 1.

A step gets the node, the values of its sources and the machine that runs it, and returns the node's value: an
array or NumPy scalar of the node's dtype,
an int for an index of shape (), a Place for memory, None for an effect.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from .arguments import items, shown
from .definitions import DEFINED, definition
from .dtype import Const, DType, constant, dtypes
from .errors import BoundsError, UopError, VerifyError
from .infer_structure import REDUCE_IDENTITY
from .interp_call import call
from .interp_memory import Place, read, scratch, write
from .interp_movement import MOVEMENT
from .ops import AddrSpace, Ops, Param
from .scalar import EVALUATE, INDEX_ARITHMETIC, evaluate_op, from_array, index_op, to_array
from .uop import UOp
from .walks import base

Array: TypeAlias = "npt.NDArray[Any]"


class Machine(Protocol):
    """What a step may use of the machine: the values so far, and the memory and scalars that it was given."""

    values: dict[UOp, Any]
    memory: Mapping[UOp, Array]
    scalars: Mapping[UOp, Any]

    def call(self, body: UOp, memory: Mapping[UOp, Array], scalars: Mapping[UOp, Any]) -> None:
        """Run the body of a kernel."""


Step: TypeAlias = "Callable[[UOp, list[Any], Machine], Any]"


@dataclass
class Stores:
    """A tensor-level STORE that waits for the effect that it belongs to,
    so that all values come before all stores.
    """

    memory: Array
    positions: Array
    value: Array
    done: bool = False

    def perform(self) -> None:
        if not self.done:
            self.memory[self.positions] = np.broadcast_to(self.value, self.positions.shape)
            self.done = True


def array(node: UOp, value: Any) -> Array:
    """The value of a node as an array: memory is read.
    Raises BoundsError for an index that needs more than 64 bits.
    """
    if isinstance(value, Place):
        return read(value)
    if type(value) is int and not -(1 << 63) <= value < 1 << 63:
        raise BoundsError(f"{node.op!r}: index overflows 64 bits: {value}", remedy="smaller sizes")
    return np.asarray(value, node.dtype.numpy)


def arrays(node: UOp, values: Sequence[Any]) -> list[Array]:
    return [array(s, v) for s, v in zip(node.src, values, strict=True)]


# memory and scalars


def scalar(param: UOp, value: Any) -> Any:
    """A number given for a scalar PARAM, in its type.
    Raises BoundsError where it is outside of the PARAM's bounds.
    """
    arg: Param = param.arg
    if arg.dtype is dtypes.index:
        try:
            number = operator.index(value)
        except TypeError:
            what = f"{arg.name} = {shown(value)} is no integer"
            raise VerifyError(what, remedy="an int", node=param) from None
        least, most = arg.min, arg.max
        if (least is not None and number < least) or (most is not None and number > most):
            raise BoundsError(f"{arg.name} = {number} is not in {least} to {most}", node=param)
        return number
    if isinstance(value, np.ndarray | np.generic) and value.dtype == arg.dtype.numpy:
        return np.asarray(value).reshape(())
    return to_array(constant(arg.dtype, value))


def _param(node: UOp, values: list[Any], machine: Machine) -> Any:
    given = machine.memory if node.shape else machine.scalars
    if node not in given:
        what = f"scalar {node.arg.name}" if not node.shape else f"{node.op.value} slot={node.arg.slot}"
        raise VerifyError(f"no value is given for {what}")
    return machine.memory[node] if node.shape else scalar(node, machine.scalars[node])


def _alloc(node: UOp, values: list[Any], machine: Machine) -> Any:
    return machine.memory[node] if node in machine.memory else scratch(node.arg.size, node.dtype)


def _index(node: UOp, values: list[Any], machine: Machine) -> Any:
    valid = values[2] if len(values) == 3 else True
    if np.ndim(valid) == 0:
        valid = bool(valid)
    place = Place(node, values[0], values[1], valid)
    return read(place) if node.addrspace is AddrSpace.ALU else place


def _load(node: UOp, values: list[Any], machine: Machine) -> Any:
    return read(values[0]) if isinstance(values[0], Place) else values[0].copy()


def _store(node: UOp, values: list[Any], machine: Machine) -> Any:
    target, value = node.src
    if isinstance(values[0], Place):
        if base(target.src[0]).op in MOVEMENT:
            raise VerifyError(f"{node.op!r}: INDEX of a view is no place to store", remedy="INDEX its memory")
        write(values[0], array(value, values[1]))
        return None
    memory, positions = _positions(target, machine)
    return Stores(memory, positions, array(value, values[1]).copy())


def _positions(view: UOp, machine: Machine) -> tuple[Array, Array]:
    """The memory under a chain of movement ops, and for each element of the view its position there."""
    chain: list[UOp] = []
    while view.op in MOVEMENT or view.op is Ops.AFTER:
        chain.append(view)
        view = view.src[0]
    memory = machine.values[view]
    at = np.arange(len(memory))
    for node in reversed(chain):
        if node.op in MOVEMENT:
            at = MOVEMENT[node.op](node, at, [machine.values[s] for s in node.src[1:]])
    return memory, at


def _effects(node: UOp, values: list[Any], machine: Machine) -> Any:
    for value in values:
        if isinstance(value, Stores):
            value.perform()


def _after(node: UOp, values: list[Any], machine: Machine) -> Any:
    _effects(node, values[1:], machine)
    return values[0]


# movement


def _move(node: UOp, values: list[Any], machine: Machine) -> Any:
    return MOVEMENT[node.op](node, array(node.src[0], values[0]), values[1:])


def _stack(node: UOp, values: list[Any], machine: Machine) -> Any:
    return np.stack(arrays(node, values))


# values

#: Comparisons of index on Python's integers.
_COMPARE: dict[Ops, Callable[[int, int], bool]] = {
    Ops.CMPLT: operator.lt,
    Ops.CMPNE: operator.ne,
    Ops.CMPEQ: operator.eq,
}


def _elementwise(node: UOp, values: list[Any], machine: Machine) -> Any:
    if all(type(v) is int for v in values):
        if node.op in INDEX_ARITHMETIC:
            return index_op(node.op, *values)
        if node.op in _COMPARE:
            return np.bool_(_COMPARE[node.op](*values))
    result = evaluate_op(node.op, node.dtype, arrays(node, values))
    return int(result) if node.dtype is dtypes.index and result.ndim == 0 else result


def _defined(node: UOp, values: list[Any], machine: Machine) -> Any:
    return call_function(node.op, node.dtype, array(node.src[0], values[0]))


def call_function(op: Ops, dtype: DType, x: Array) -> Array:
    """EXP2, LOG2 or SIN: its definition, node by node, on a whole array."""
    operand, order = _function(op, dtype)
    values: dict[UOp, Any] = {operand: x}
    for node in order:
        values[node] = (
            to_array(node.arg)
            if node.op is Ops.CONST
            else evaluate_op(node.op, node.dtype, [values[s] for s in node.src])
        )
    return np.asarray(values[order[-1]])


@cache
def _function(op: Ops, dtype: DType) -> tuple[UOp, tuple[UOp, ...]]:
    """A definition on a scalar PARAM, which stands for an element:
    the PARAM, and the other nodes in order.
    """
    operand = UOp(Ops.PARAM, (), Param(dtype, name="x"))
    return operand, tuple(n for n in definition(op, operand).toposort() if n is not operand)


def fold(op: Ops, arg: Any, values: Sequence[Const]) -> Const:
    """One elementwise op on constants; `arg` is the op's.

    Raises BoundsError where an index overflows, and VerifyError where the constants do not fit the op.
    """
    try:
        return _fold(op, arg, values)
    except (AttributeError, LookupError, TypeError, ValueError):
        node = UOp(op, [UOp(Ops.CONST, (), v) for v in items("fold", values, "Consts")], arg)
        if node.op not in EVALUATE and node.op not in DEFINED:
            raise VerifyError(f"fold: {op!r} is not elementwise", remedy="such as ADD or CAST") from None
        raise


def _fold(op: Ops, arg: Any, values: Sequence[Const]) -> Const:
    args = [to_array(v) for v in values]
    if op in DEFINED:
        return from_array(values[0].dtype, call_function(op, values[0].dtype, args[0]))
    dtype = arg if op in (Ops.CAST, Ops.BITCAST) else dtypes.bool if op in _COMPARE else values[-1].dtype
    return from_array(dtype, evaluate_op(op, dtype, args))


def accumulator(op: Ops, dtype: DType) -> Array:
    """What a REDUCE starts from: the identity, in f32 for a 16-bit float."""
    wide = dtypes.f32 if dtype.bits == 16 and dtype.is_float else dtype
    return to_array(constant(wide, REDUCE_IDENTITY[op](wide)))


#: Folds that NumPy knows how to do left to right.
_ACCUMULATE: dict[Ops, np.ufunc] = {Ops.ADD: np.add, Ops.MUL: np.multiply}


def fold_axes(node: UOp, total: Array, x: Array) -> Array:
    """`total` with the last axes of `x` folded in, left to right, row-major. See `accumulator`, `reduced`."""
    op, axes = node.arg
    dtype = dtypes.f32 if node.dtype.bits == 16 and node.dtype.is_float else node.dtype
    kept = x.shape[: x.ndim - axes]
    extent = int(np.prod(x.shape[len(kept) :]))
    rows = np.moveaxis(x.astype(dtype.numpy).reshape(*kept, extent), -1, 0)
    total = np.broadcast_to(total, kept)
    if dtype is not dtypes.index and extent > total.size:
        # the loop below takes 100 times as long for a sum of 2**18
        steps = np.concatenate([total[None], rows])
        if op is Ops.MAX:  # the first of equal ones, which may be zeros of two signs, or a NaN
            return np.asarray(np.take_along_axis(steps, steps.argmax(axis=0)[None], axis=0)[0])
        with np.errstate(all="ignore"):
            return np.asarray(_ACCUMULATE[op].accumulate(steps, axis=0, dtype=dtype.numpy)[-1])
    for row in np.ascontiguousarray(rows):
        total = evaluate_op(op, dtype, [total, row])
    return total


def reduced(node: UOp, total: Array) -> Any:
    """The value of a REDUCE from its accumulator."""
    out = evaluate_op(Ops.CAST, node.dtype, [total]) if total.dtype != node.dtype.numpy else total
    return int(out) if node.dtype is dtypes.index and np.ndim(out) == 0 else out


def _reduce(node: UOp, values: list[Any], machine: Machine) -> Any:
    x = array(node.src[0], values[0])
    return reduced(node, fold_axes(node, accumulator(node.arg[0], node.dtype), x))


def _const(node: UOp, values: list[Any], machine: Machine) -> Any:
    return node.arg.bits if node.dtype is dtypes.index else to_array(node.arg)


def _same(node: UOp, values: list[Any], machine: Machine) -> Any:
    return values[0]


def _barrier(node: UOp, values: list[Any], machine: Machine) -> Any:
    if any(n.op is Ops.SPECIAL for n in node.toposort()):
        raise UopError("the interpreter runs threads one after another: no BARRIER among SPECIALs")
    return _effects(node, values, machine)


def _wmma(node: UOp, values: list[Any], machine: Machine) -> Any:
    raise UopError("the interpreter runs threads one after another: no WMMA, which a warp computes together")


def _refuse(node: UOp, values: list[Any], machine: Machine) -> Any:
    raise VerifyError(f"{node.op!r} has a meaning only in a linear program", remedy="give its nodes in order")


STEPS: dict[Ops, Step] = {
    **dict.fromkeys(EVALUATE, _elementwise),
    **dict.fromkeys(DEFINED, _defined),
    **dict.fromkeys(MOVEMENT, _move),
    Ops.CONST: _const,
    Ops.BUFFER: _param,
    Ops.PARAM: _param,
    Ops.ALLOC: _alloc,
    Ops.INDEX: _index,
    Ops.LOAD: _load,
    Ops.STORE: _store,
    Ops.STACK: _stack,
    Ops.REDUCE: _reduce,
    Ops.STAGE: _same,
    Ops.COPY: _same,
    Ops.AFTER: _after,
    Ops.CALL: call,
    Ops.SINK: _effects,
    Ops.END: _effects,
    Ops.BARRIER: _barrier,
    Ops.IF: _refuse,
    Ops.ENDIF: _refuse,
    Ops.WMMA: _wmma,
}
