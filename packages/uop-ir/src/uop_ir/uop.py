"""UOp: the one node of which every program is made,
immutable, interned and checked when it is made. Week 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import is_
from typing import Any, final

from . import arguments, drawing, inspection, walks
from .dtype import Const, DType, constant_bits, dtypes
from .errors import VerifyError
from .interning import Fields, alive, enter, slots
from .ops import AddrSpace, Alloc, AxisType, Buffer, Ops, Param
from .shapes import all_bools, all_natural, text
from .table import infer
from .walks import toposort

#: By names of their own: see `interning`. A method that is asked
#: of an imported name takes a tenth of a microsecond.
_CONST = Ops.CONST
_find = alive.get


@final
class UOp(Fields):
    """A node `(op, src, arg)`.

    The same three give the same object, in every thread, so equality is identity. `dtype`, `shape` and
    `addrspace` follow from the three and are computed once. `memo` is for the packages above: what they
    derive from a node, by their own key. Raises VerifyError where the sources or the arg do not fit the op.
    """

    __slots__ = ()

    def __new__(cls, op: Ops, src: Sequence[UOp] = (), arg: Any = None) -> UOp:
        if type(src) is not tuple:
            src = tuple(src) if type(src) is list else arguments.items(repr(op), src, "sources")
        key = (op, src, arg)
        try:
            found = _find(key)
        except TypeError:
            raise arguments.unhashable(op, src, arg) from None
        if found is not None:
            known = found()
            if known is not None:
                return known
        for s in src:
            if s.__class__ is not UOp:
                raise VerifyError(f"{op!r}: source {s!r} is no UOp", remedy="UOp.const makes one of a number")
        new: Any = Fields()
        new.dtype, new.shape, new.addrspace = infer(op, src, arg)
        new.op = op
        new.src = src
        new.arg = arg
        new.memo = {}
        new._digest = b""
        new.__class__ = UOp
        return enter(key, new)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a UOp is immutable: cannot set {name} (make a new node with replace)")

    def __repr__(self) -> str:
        arg = "" if self.arg is None else f", {self.arg}"
        return f"UOp({self.op!r}, {self.dtype}{text(self.shape)}, {len(self.src)} sources{arg})"

    def __str__(self) -> str:
        return inspection.one_line(self)

    def _repr_html_(self) -> str:
        return drawing.to_html(self)

    def tree(self, limit: int = 200) -> str:
        """The graph as a tree of at most `limit` lines, in which what is shared is shown once."""
        return inspection.tree(self, limit)

    # walks

    def toposort(self, gate: Callable[[UOp], bool] | None = None) -> dict[UOp, None]:
        """All nodes that this one stands on, itself last, each after its sources. Iterative.

        Where `gate(node)` is false, the node is listed and its sources are not entered.
        """
        return toposort((self,), gate)

    def replace(self, *, src: Sequence[UOp] | None = None, arg: Any = ...) -> UOp:
        """This node with other sources or another arg."""
        listed = arg is ... and type(src) in (tuple, list)
        if src is not None and listed and len(src) == len(self.src) and all(map(is_, src, self.src)):
            return self
        return UOp(self.op, self.src if src is None else src, self.arg if arg is ... else arg)

    def substitute(self, mapping: dict[UOp, UOp]) -> UOp:
        """This graph with each key of `mapping` replaced by its value,
        all at once; values are not entered.
        """
        return walks.substitute(self, mapping)

    @property
    def key(self) -> str:
        """The digest of the content in hexadecimal, the same in every process. Iterative, computed once."""
        return walks.digest(self).hex()

    # values of constants and shapes

    @property
    def value(self) -> Any:
        """The Python value of a CONST. Raises VerifyError on any other op."""
        if self.op is not Ops.CONST:
            raise VerifyError(f"{self.op} has no constant value")
        return self.arg.value

    @property
    def ndim(self) -> int:
        """How many axes the shape has."""
        return len(self.shape)

    # building

    @staticmethod
    def const(dtype: DType, value: float | bool) -> UOp:
        """A constant of shape (); see `constant` for how the value is brought into the type."""
        bits = constant_bits(dtype, value)
        # the pair equals a Const, and takes less to make
        found = _find((_CONST, (), (dtype, bits)))
        if found is not None:
            known = found()
            if known is not None:
                return known
        return UOp(_CONST, (), Const(dtype, bits))

    def const_like(self, value: float | bool) -> UOp:
        """A constant of this node's dtype and shape ()."""
        return UOp.const(self.dtype, value)

    @staticmethod
    def buffer(size: int, dtype: DType, device: str = "CPU") -> UOp:
        """A new BUFFER, with a slot of its own."""
        return UOp(Ops.BUFFER, (), Buffer(size, dtype, slots.new(), device))

    @staticmethod
    def variable(name: str, minimum: int, maximum: int) -> UOp:
        """A scalar PARAM of dtype index with inclusive bounds: a symbolic size."""
        return UOp(Ops.PARAM, (), Param(dtypes.index, name=name, min=minimum, max=maximum))

    @staticmethod
    def param(slot: int, size: int, dtype: DType) -> UOp:
        """The memory argument number `slot` of a kernel."""
        return UOp(Ops.PARAM, (), Param(dtype, slot=slot, size=size))

    @staticmethod
    def alloc(slot: int, size: int, dtype: DType, addrspace: AddrSpace) -> UOp:
        """Scratch memory of a program, told apart from its others by `slot`."""
        return UOp(Ops.ALLOC, (), Alloc(size, dtype, slot, addrspace))

    @staticmethod
    def range(end: int | UOp, number: int, axis: AxisType = AxisType.LOOP) -> UOp:
        """A loop index from 0 to `end`, `end` excluded."""
        return UOp(Ops.RANGE, (index(end),), (number, axis))

    @staticmethod
    def sink(*src: UOp) -> UOp:
        """The end of a program: its effects or outputs, in order."""
        return UOp(Ops.SINK, src)

    def cast(self, dtype: DType) -> UOp:
        """The value in another dtype; this node itself where it is of that dtype."""
        return self if self.dtype is dtype else UOp(Ops.CAST, (self,), dtype)

    def bitcast(self, dtype: DType) -> UOp:
        """The same bits as another dtype of the same width."""
        return self if self.dtype is dtype else UOp(Ops.BITCAST, (self,), dtype)

    def alu(self, op: Ops, *others: UOp | float | bool) -> UOp:
        """`op` of this node and others; Python numbers take this node's dtype."""
        return UOp(op, (self, *[o if isinstance(o, UOp) else self.const_like(o) for o in others]))

    def where(self, yes: UOp, no: UOp | float | bool) -> UOp:
        """`yes` where this is true, else `no`."""
        yes = arguments.node("where", yes)
        return UOp(Ops.WHERE, (self, yes, no if isinstance(no, UOp) else yes.const_like(no)))

    def reshape(self, shape: Sequence[int | UOp]) -> UOp:
        """The same elements, row-major, in another shape; a size may be a node of dtype index."""
        shape = arguments.dimensions("reshape", shape)
        return self if shape == self.shape else _with_shape(Ops.RESHAPE, self, shape)

    def expand(self, shape: Sequence[int | UOp]) -> UOp:
        """Axes of size 1 repeated to the sizes of `shape`, which has as many axes."""
        shape = arguments.dimensions("expand", shape)
        return self if shape == self.shape else _with_shape(Ops.EXPAND, self, shape)

    def permute(self, axes: Sequence[int]) -> UOp:
        """The axes in another order: axis i of the result is axis `axes[i]`."""
        axes = arguments.items("permute", axes, "axes")
        in_order = all_natural(axes) and axes == tuple(range(self.ndim))
        return self if in_order else UOp(Ops.PERMUTE, (self,), axes)

    def flip(self, axes: Sequence[bool]) -> UOp:
        """Reverse each axis that is marked true."""
        axes = arguments.items("flip", axes, "bools, one an axis")
        still = all_bools(axes) and not any(axes) and len(axes) == self.ndim
        return self if still else UOp(Ops.FLIP, (self,), axes)

    def pad(self, widths: Sequence[tuple[int | UOp, int | UOp]]) -> UOp:
        """Grow each axis by (before, after), filled with zero."""
        widths = arguments.pairs("pad", widths)
        return _with_pairs(Ops.PAD, self, widths, neutral=tuple((0, 0) for _ in self.shape))

    def shrink(self, bounds: Sequence[tuple[int | UOp, int | UOp]]) -> UOp:
        """Keep of each axis the part (begin, end), end excluded."""
        bounds = arguments.pairs("shrink", bounds)
        return _with_pairs(Ops.SHRINK, self, bounds, neutral=tuple((0, s) for s in self.shape))

    def reduce(self, op: Ops, axes: int = 0, ranges: Sequence[UOp] = ()) -> UOp:
        """Fold the last `axes` axes (tensor level), or close `ranges`, outermost first (loop level)."""
        return UOp(Ops.REDUCE, (self, *arguments.items("reduce", ranges, "ranges")), (op, axes))

    def index(self, *at: UOp) -> UOp:
        """An element of memory or a lane of a vector; a second operand is the validity."""
        return UOp(Ops.INDEX, (self, *at))

    def load(self) -> UOp:
        """The value in the memory that this names."""
        return UOp(Ops.LOAD, (self,))

    def store(self, value: UOp) -> UOp:
        """The effect that puts a value of this dtype, which broadcasts, into the memory that this names."""
        return UOp(Ops.STORE, (self, value))

    def end(self, *ranges: UOp) -> UOp:
        """This effect, once for each value of the ranges, outermost first."""
        return UOp(Ops.END, (self, *ranges)) if ranges else self

    def after(self, *effects: UOp) -> UOp:
        """This node, after the effects."""
        return UOp(Ops.AFTER, (self, *effects)) if effects else self

    def __add__(self, other: UOp | float) -> UOp:
        return self.alu(Ops.ADD, other)

    def __radd__(self, other: float) -> UOp:
        return self.const_like(other).alu(Ops.ADD, self)

    def __sub__(self, other: UOp | float) -> UOp:
        return self.alu(Ops.SUB, other)

    def __rsub__(self, other: float) -> UOp:
        return self.const_like(other).alu(Ops.SUB, self)

    def __mul__(self, other: UOp | float) -> UOp:
        return self.alu(Ops.MUL, other)

    def __rmul__(self, other: float) -> UOp:
        return self.const_like(other).alu(Ops.MUL, self)

    def __floordiv__(self, other: UOp | int) -> UOp:
        return self.alu(Ops.DIV, other)

    def __truediv__(self, other: UOp | float) -> UOp:
        return self.alu(Ops.DIV, other)

    def __mod__(self, other: UOp | int) -> UOp:
        return self.alu(Ops.MOD, other)

    def __and__(self, other: UOp | int) -> UOp:
        return self.alu(Ops.AND, other)

    def __or__(self, other: UOp | int) -> UOp:
        return self.alu(Ops.OR, other)

    def __xor__(self, other: UOp | int) -> UOp:
        return self.alu(Ops.XOR, other)

    def __lshift__(self, other: UOp | int) -> UOp:
        return self.alu(Ops.SHL, other)

    def __rshift__(self, other: UOp | int) -> UOp:
        return self.alu(Ops.SHR, other)

    def __neg__(self) -> UOp:
        return self.alu(Ops.NEG)

    def __lt__(self, other: UOp | float) -> UOp:
        return self.alu(Ops.CMPLT, other)

    def __gt__(self, other: UOp | float) -> UOp:
        return (other if isinstance(other, UOp) else self.const_like(other)).alu(Ops.CMPLT, self)

    def eq(self, other: UOp | float) -> UOp:
        """CMPEQ. (`==` is identity.)"""
        return self.alu(Ops.CMPEQ, other)

    def ne(self, other: UOp | float) -> UOp:
        """CMPNE. (`!=` is identity.)"""
        return self.alu(Ops.CMPNE, other)

    def maximum(self, other: UOp | float) -> UOp:
        """MAX: `other` where it is NaN or greater, else this node."""
        return self.alu(Ops.MAX, other)


def index(value: int | UOp) -> UOp:
    """A dimension or bound as a node of dtype index."""
    return value if isinstance(value, UOp) else UOp.const(dtypes.index, value)


def _with_shape(op: Ops, x: UOp, shape: Sequence[int | UOp]) -> UOp:
    arg, symbolic = arguments.split(shape)
    return UOp(op, (x, *symbolic), arg)


def _with_pairs(
    op: Ops,
    x: UOp,
    pairs: Sequence[tuple[int | UOp, int | UOp]],
    neutral: tuple[tuple[int, int | UOp], ...],
) -> UOp:
    if pairs == neutral:
        return x
    arg, symbolic = arguments.split(d for pair in pairs for d in pair)
    return UOp(op, (x, *symbolic), tuple(zip(arg[::2], arg[1::2], strict=True)))
