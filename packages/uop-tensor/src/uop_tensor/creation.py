"""New tensors: constants, sequences, triangles and random numbers. Week 5."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, prod
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from uop_ir import DType, Ops, UOp, dtypes, from_numpy

from . import shapes
from .data import Number, from_array
from .errors import TensorError
from .graph import broadcast_to, shape_of
from .live import capture
from .promotion import DEFAULT, with_number
from .rearrange import Rearrange

_generator = [np.random.default_rng(0)]
#: How many entries a table of digits has.
_BASE = 64


def manual_seed(seed: int) -> None:
    """Start the sequence of random numbers of this process anew."""
    _generator[0] = np.random.default_rng(seed)


def count(n: int, dtype: DType) -> UOp:
    """0, 1, ..., n-1 of an integer dtype, without data: the sum of tables of the digits to base 64.

    The graph has 64 constants a digit and the work is linear in n; the code generators turn each table, an
    arithmetic progression, into the loop index that it is.
    """
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

        Raises TensorError for what is no number, and for an integer that the dtype does not hold.
        """
        sizes = _shape("full", (shape,))
        if isinstance(value, np.generic):
            dtype, value = dtype or from_numpy(value.dtype), value.item()
        if type(value) not in DEFAULT:
            raise TensorError(
                f"full: {type(value).__name__} is no number", remedy="give a bool, int or float"
            )
        dtype = dtype or DEFAULT[type(value)]
        with_number("full", dtype, value)
        one = UOp.const(dtype, value)
        if device is None and not requires_grad:
            return cls._of(broadcast_to(one, sizes))
        return cls._filled(np.full(sizes, one.value, dtype.numpy), device, requires_grad)

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
        return cls.full(_shape("zeros", shape), 0, dtype, device, requires_grad)

    @classmethod
    def ones(
        cls,
        *shape: int | Sequence[int],
        dtype: DType = dtypes.f32,
        device: str | None = None,
        requires_grad: bool = False,
    ) -> Self:
        return cls.full(_shape("ones", shape), 1, dtype, device, requires_grad)

    def zeros_like(self) -> Self:
        """Zeros of this shape and dtype."""
        return self._of(broadcast_to(self.uop.const_like(0), self.shape))

    def ones_like(self) -> Self:
        """Ones of this shape and dtype."""
        return self._of(broadcast_to(self.uop.const_like(1), self.shape))

    def full_like(self, value: Number) -> Self:
        """One number, in this shape and dtype."""
        return self._of(broadcast_to(self.uop.const_like(value), self.shape))

    @classmethod
    def arange(
        cls, start: Number, stop: Number | None = None, step: Number = 1, dtype: DType | None = None
    ) -> Self:
        """start, start + step, ... up to stop, excluded; i64 from ints, else f32."""
        if stop is None:
            start, stop = 0, start
        if step == 0:
            raise TensorError("arange: step 0", remedy="give a step other than 0")
        whole = all(isinstance(n, int) for n in (start, stop, step))
        dtype = dtype or (dtypes.i64 if whole else dtypes.f32)
        if dtype is dtypes.bool:
            raise TensorError("arange: dtype bool", remedy="compare an arange instead")
        n = max(-((start - stop) // step) if whole else ceil((stop - start) / step), 0)
        inner = dtype if dtype.is_int and n <= dtype.max else dtypes.i64
        x = count(int(n), inner)
        if dtype.is_float:
            x = x.cast(dtypes.f64 if dtype is dtypes.f64 else dtypes.f32)
        x = x if step == 1 else x * step
        x = x if start == 0 else x + start
        return cls._of(x.cast(dtype))

    @classmethod
    def eye(cls, rows: int, columns: int | None = None, dtype: DType = dtypes.f32) -> Self:
        """Ones on the diagonal, zeros elsewhere."""
        sizes = _shape("eye", (rows, rows if columns is None else columns))
        i, j = (count(n, dtypes.i32) for n in sizes)
        return cls._of(i.reshape((sizes[0], 1)).eq(j).cast(dtype))

    def tril(self, diagonal: int = 0) -> Self:
        """The last two axes with zeros above a diagonal."""
        return self._of(_lower("tril", self.shape, diagonal).where(self.uop, 0))

    def triu(self, diagonal: int = 0) -> Self:
        """The last two axes with zeros below a diagonal."""
        return self._of(_lower("triu", self.shape, diagonal - 1).where(self.uop.const_like(0), self.uop))

    @classmethod
    def rand(
        cls,
        *shape: int | Sequence[int],
        low: float = 0.0,
        high: float = 1.0,
        dtype: DType = dtypes.f32,
        device: str | None = None,
        requires_grad: bool = False,
    ) -> Self:
        """Uniform on [low, high)."""
        sizes = _shape("rand", shape)
        if dtype.is_float and dtype.bits < 64:
            # in f32, so that rounding does not reach `high`; what is narrower takes fewer bits
            bits = {dtypes.f32: 24, dtypes.f16: 11, dtypes.bf16: 8}[dtype]
            unit = (_random("rand").integers(0, 1 << bits, sizes) / (1 << bits)).astype(np.float64)
        else:
            unit = _random("rand").random(sizes)
        return cls._filled(_in_float("rand", low + (high - low) * unit, dtype), device, requires_grad)

    @classmethod
    def randn(
        cls,
        *shape: int | Sequence[int],
        dtype: DType = dtypes.f32,
        device: str | None = None,
        requires_grad: bool = False,
    ) -> Self:
        """Normal with mean 0 and variance 1."""
        data = np.asarray(_random("randn").standard_normal(_shape("randn", shape)))
        return cls._filled(_in_float("randn", data, dtype), device, requires_grad)

    @classmethod
    def randint(
        cls,
        low: int,
        high: int,
        shape: int | Sequence[int],
        dtype: DType = dtypes.i64,
        device: str | None = None,
    ) -> Self:
        """Uniform integers from low to high, excluded."""
        if not dtype.is_int or not dtype.min <= low < high <= dtype.max + 1:
            raise TensorError(
                f"randint: {low} to {high} as {dtype}", remedy="low < high, within an integer dtype"
            )
        data = _random("randint").integers(low, high, _shape("randint", (shape,)), dtype=dtype.numpy)
        return cls._filled(np.asarray(data), device, False)


def _shape(method: str, given: Sequence[object]) -> tuple[int, ...]:
    sizes = shapes.integers(method, given)
    if min(sizes, default=0) < 0:
        raise TensorError(f"{method}: shape {sizes}", remedy="sizes are at least 0")
    return sizes


def _lower(method: str, shape: tuple[int, ...], diagonal: int) -> UOp:
    """Where column <= row + diagonal."""
    if len(shape) < 2:
        raise TensorError(f"{method}: a tensor of shape {shape}", remedy="it needs two axes or more")
    rows, columns = shape[-2:]
    limit = count(rows, dtypes.i32).reshape((rows, 1)) + (diagonal + 1)
    return count(columns, dtypes.i32) < limit


def _random(method: str) -> np.random.Generator:
    trace = capture()
    if trace is not None:
        trace.forbid(method, "draw before the call, and give the tensor to the function as an argument")
    return _generator[0]


def _in_float(method: str, data: npt.NDArray[Any], dtype: DType) -> npt.NDArray[Any]:
    if not dtype.is_float:
        raise TensorError(f"{method}: dtype {dtype}", remedy="a float dtype, or randint")
    return data.astype(dtype.numpy)
