"""New tensors: constants, sequences and triangles. Week 5."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, isfinite, isnan, prod
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from uop_ir import DType, Ops, UOp, dtypes, from_numpy
from uop_rewrite import bounds

from . import compose, shapes
from .data import Number, from_array
from .errors import TensorError
from .graph import broadcast_to, shape_of
from .promotion import DEFAULT, with_number
from .rearrange import Rearrange

#: How many entries a table of digits has.
_BASE = 64


def count(n: int | UOp, dtype: DType) -> UOp:
    """0, 1, ..., n-1 of an integer dtype, without data: the sum of tables of the digits to base 64.

    The graph has 64 constants a digit and the work is linear in n; the code generators turn each table, an
    arithmetic progression, into the loop index that it is.
    """
    if isinstance(n, UOp):
        raise TensorError(
            "a size of a jitted function stands where its value is needed",
            remedy="compute it for the greatest size, then slice",
        )
    if n == 0:
        return broadcast_to(UOp.const(dtype, 0), (0,))
    digits = 1
    while _BASE**digits < n:
        digits += 1
    total: UOp | None = None
    for digit in range(digits):
        unit = _BASE**digit
        size = _BASE if digit < digits - 1 else -(-n // unit)
        table = UOp(Ops.STACK, [UOp.const(dtype, k) for k in range(size)]).reshape((size,) + (1,) * digit)
        scaled = table * unit if unit > 1 else table
        total = scaled if total is None else total + scaled
    assert total is not None
    return total.reshape((prod(shape_of(total)),)).shrink(((0, n),))


def count_to(n: int | UOp, dtype: DType) -> UOp:
    """`count`, also of a size of a jitted function: the front of as many as it may be."""
    return count(int(bounds(n)[1]), dtype).shrink(((0, n),)) if isinstance(n, UOp) else count(n, dtype)


class Creation(Rearrange):
    """`dtype` is f32 where nothing says otherwise. `requires_grad=True` gives the tensor memory of its own at
    once.
    """

    @classmethod
    def full(
        cls,
        shape: int | Sequence[int],
        value: Number,
        dtype: DType | None = None,
        device: str | None = None,
        requires_grad: bool = False,
    ) -> Self:
        """One number everywhere; the dtype is that of a tensor of it (see Tensor) where none is given.

        A float is cast to an integer dtype. Raises TensorError for what is no number,
        and for an integer that the dtype does not hold.
        """
        wanted = sizes("full", (shape,))
        if isinstance(value, np.generic):
            dtype, value = dtype or from_numpy(value.dtype), value.item()
        weak = getattr(value, "_weak", None)
        if weak is not None:  # a number that a jitted function is given
            return cls._of(broadcast_to(weak.node(dtype or DEFAULT[weak.kind]), wanted))
        if type(value) not in DEFAULT:
            raise TensorError(
                f"full: {type(value).__name__} is no number", remedy="give a bool, int or float"
            )
        dtype = dtype or DEFAULT[type(value)]
        if dtype.is_int and isinstance(value, float):
            value = int(min(max(value, dtype.min), dtype.max)) if not isnan(value) else 0
        with_number("full", dtype, value)
        one = UOp.const(dtype, value)
        if device is None and not requires_grad:
            return cls._of(broadcast_to(one, wanted))
        return cls._filled(np.full(wanted, one.value, dtype.numpy), device, requires_grad)

    @classmethod
    def _filled(cls, array: npt.NDArray[Any], device: str | None, requires_grad: bool) -> Self:
        self = cls._of(from_array(array, device))
        if requires_grad:
            self._check_gradient()
        self._requires_grad = requires_grad
        return self

    @classmethod
    def zeros(
        cls,
        *shape: int | Sequence[int],
        dtype: DType = dtypes.f32,
        device: str | None = None,
        requires_grad: bool = False,
    ) -> Self:
        """0 everywhere, in a shape that is given as numbers or as a sequence of them."""
        return cls.full(sizes("zeros", shape), 0, dtype, device, requires_grad)

    @classmethod
    def ones(
        cls,
        *shape: int | Sequence[int],
        dtype: DType = dtypes.f32,
        device: str | None = None,
        requires_grad: bool = False,
    ) -> Self:
        """1 everywhere, in a shape that is given as numbers or as a sequence of them."""
        return cls.full(sizes("ones", shape), 1, dtype, device, requires_grad)

    @classmethod
    def empty(
        cls,
        *shape: int | Sequence[int],
        dtype: DType = dtypes.f32,
        device: str | None = None,
        requires_grad: bool = False,
    ) -> Self:
        """Zeros: there is no value that is not defined."""
        return cls.full(sizes("empty", shape), 0, dtype, device, requires_grad)

    def zeros_like(self, dtype: DType | None = None) -> Self:
        """Zeros of this shape and dtype, or another dtype."""
        return self.full_like(0, dtype)

    empty_like = zeros_like

    def ones_like(self, dtype: DType | None = None) -> Self:
        """Ones of this shape and dtype, or another dtype."""
        return self.full_like(1, dtype)

    def full_like(self, value: Number, dtype: DType | None = None) -> Self:
        """One number, in this shape and dtype, or another dtype.

        Raises TensorError for an integer that the dtype does not hold.
        """
        return self.full(self.shape, value, dtype or self.dtype)

    def new_zeros(self, *shape: int | Sequence[int], dtype: DType | None = None) -> Self:
        """Zeros of another shape, in this dtype or another one."""
        return self.full(sizes("new_zeros", shape), 0, dtype or self.dtype)

    def new_ones(self, *shape: int | Sequence[int], dtype: DType | None = None) -> Self:
        """Ones of another shape, in this dtype or another one."""
        return self.full(sizes("new_ones", shape), 1, dtype or self.dtype)

    def new_full(self, shape: int | Sequence[int], value: Number, dtype: DType | None = None) -> Self:
        """One number in another shape, in this dtype or another one."""
        return self.full(shape, value, dtype or self.dtype)

    @classmethod
    def from_numpy(cls, array: npt.NDArray[Any]) -> Self:
        """A copy of an array. Raises TensorError for a dtype that has no counterpart."""
        return cls._of(from_array(array))

    @classmethod
    def arange(
        cls, start: Number, stop: Number | None = None, step: Number = 1, dtype: DType | None = None
    ) -> Self:
        """start, start + step, ... up to stop, excluded; i64 from ints, else f32.

        Integers from a start or step that is a float are computed in f64 and truncated.
        """
        if stop is None:
            start, stop = 0, start
        start, stop, step = (n.item() if isinstance(n, np.generic) else n for n in (start, stop, step))
        if step == 0:
            raise TensorError("arange: step 0", remedy="give a step other than 0")
        whole = all(isinstance(n, int) for n in (start, stop, step))
        if not all(map(isfinite, (start, stop, step))):
            raise TensorError(f"arange: {start}, {stop}, {step}", remedy="give finite numbers")
        dtype = dtype or (dtypes.i64 if whole else dtypes.f32)
        if dtype is dtypes.bool:
            raise TensorError("arange: dtype bool", remedy="compare an arange instead")
        n = max(-((start - stop) // step) if whole else ceil((stop - start) / step), 0)
        inner = dtype if dtype.is_int and n <= dtype.max else dtypes.i64
        x = count(int(n), inner)
        if dtype.is_float:
            x = x.cast(dtypes.f64 if dtype is dtypes.f64 else dtypes.f32)
        elif isinstance(start, float) or isinstance(step, float):
            x = x.cast(dtypes.f64)
        x = x if step == 1 else x * step
        x = x if start == 0 else x + start
        return cls._of(x.cast(dtype))

    @classmethod
    def linspace(
        cls, start: float, stop: float, steps: int, dtype: DType = dtypes.f32, endpoint: bool = True
    ) -> Self:
        """`steps` numbers at equal distances from `start` to `stop`, included unless `endpoint` is false.

        They are computed in f64 and rounded once; integers are truncated.
        """
        return cls._of(_linspace("linspace", start, stop, steps, dtype, endpoint).cast(dtype))

    @classmethod
    def logspace(
        cls, start: float, stop: float, steps: int, base: float = 10.0, dtype: DType = dtypes.f32
    ) -> Self:
        """`base` to the powers of `linspace(start, stop, steps)`."""
        if not base > 0:
            raise TensorError(f"logspace: base {base}", remedy="greater than 0")
        exponents = _linspace("logspace", start, stop, steps, dtype, True)
        return cls._of(compose.power(exponents.const_like(base), exponents).cast(dtype))

    @classmethod
    def eye(cls, rows: int, columns: int | None = None, dtype: DType = dtypes.f32) -> Self:
        """Ones on the diagonal, zeros elsewhere."""
        i, j = (count(n, dtypes.i32) for n in sizes("eye", (rows, rows if columns is None else columns)))
        return cls._of(i.reshape((*i.shape, 1)).eq(j).cast(dtype))

    def tril(self, diagonal: int = 0) -> Self:
        """The last two axes with zeros above a diagonal."""
        return self._of(_lower_of("tril", self.shape, diagonal).where(self.uop, 0))

    def triu(self, diagonal: int = 0) -> Self:
        """The last two axes with zeros below a diagonal."""
        return self._of(_lower_of("triu", self.shape, diagonal - 1).where(self.uop.const_like(0), self.uop))


def sizes(method: str, given: Sequence[object]) -> tuple[int, ...]:
    """A shape that is given as loose numbers or as one tuple. Raises TensorError for a negative size."""
    shape = shapes.integers(method, given)
    if any(shapes.size_of(n) is None and n < 0 for n in shape):
        raise TensorError(f"{method}: shape {shape}", remedy="sizes are at least 0")
    return shape


def lower(rows: int | UOp, columns: int | UOp, diagonal: int = 0) -> UOp:
    """Where column <= row + diagonal, in a matrix."""
    limit = count_to(rows, dtypes.i32).reshape((rows, 1)) + (diagonal + 1)
    return count_to(columns, dtypes.i32) < limit


def _lower_of(method: str, shape: tuple[int, ...], diagonal: int) -> UOp:
    if len(shape) < 2:
        raise TensorError(f"{method}: a tensor of shape {shape}", remedy="it needs two axes or more")
    rows, columns = shape[-2:]
    return lower(rows, columns, diagonal)


def _linspace(method: str, start: float, stop: float, steps: int, dtype: DType, endpoint: bool) -> UOp:
    (n,) = sizes(method, (steps,))
    if dtype is dtypes.bool:
        raise TensorError(f"{method}: dtype bool", remedy="a dtype of numbers")
    at = count(n, dtypes.i64)
    parts = n - 1 if endpoint else n
    x = at.cast(dtypes.f64) * ((stop - start) / max(parts, 1)) + start
    return at.eq(n - 1).where(x.const_like(stop), x) if endpoint and n > 1 else x
