"""Scalar arguments of every type reach a kernel with all their bits,
whatever kind of Python number is given.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from uop_ir import DType, Ops, Param, UOp, VerifyError, dtypes

Array = npt.NDArray[Any]
Runner = Callable[..., list[Array]]
INF, NAN = math.inf, math.nan
FLOATS = [
    0.0,
    -0.0,
    1.0,
    -1.5,
    0.1,
    1 / 3,
    INF,
    -INF,
    NAN,
    True,
    7,
    np.float32(0.3),
    np.float64(0.1),
    np.int8(-3),
]
VALUES: dict[DType, list[Any]] = {
    dtypes.bool: [True, False, 1, 0, np.True_],
    dtypes.f16: [*FLOATS, 65504.0, 65519.99, 65520.0, 6e-8, 2.9e-8, 1 + 2**-11, 1 + 3 * 2**-11, 1e300],
    dtypes.bf16: [*FLOATS, 3.39e38, 3.4e38, 9.2e-41, 1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-40, 1e300],
    dtypes.f32: [
        *FLOATS,
        3.4028235e38,
        3.4028235677973366e38,
        1.4e-45,
        1 + 2**-24,
        1 + 3 * 2**-24,
        -1e300,
        2**24 + 1,
    ],
    dtypes.f64: [*FLOATS, 1.7976931348623157e308, 5e-324, 2**53 + 1, 1 + 2**-52],
}
VALUES |= {
    d: [0, 1, True, np.int64(1), int(d.min), int(d.max), int(d.min) - 1, int(d.max) + 1, -1, 2.0]
    for d in (dtypes.i8, dtypes.i16, dtypes.i32, dtypes.i64, dtypes.u8, dtypes.u16, dtypes.u32, dtypes.u64)
}


def kernel(*types: DType) -> UOp:
    """Stores a scalar of each type into memory of its own."""
    stores = []
    for slot, dtype in enumerate(types):
        scalar = UOp(Ops.PARAM, (), Param(dtype, name=f"s{slot:02}"))
        stores.append(UOp.param(slot, 1, dtype).store(scalar.reshape((1,))))
    return UOp.sink(*stores)


def in_memory(dtype: DType, value: Any) -> Array:
    """NumPy's own conversion; integers wrap. To bf16 it rounds twice:
    the nearest of three neighbours is right.
    """
    if dtype.is_int:
        return np.array([int(value) % (1 << dtype.bits)], f"u{dtype.itemsize}").view(dtype.numpy)
    with np.errstate(over="ignore"):
        near = np.array([value], dtype.numpy)
    if dtype is not dtypes.bf16 or not np.isfinite(near)[0] or value == 0:
        return near
    around = near.view(np.int16) + np.array([-1, 0, 1], np.int16)
    distance = np.abs(around.view(dtype.numpy).astype(np.float64) - float(value))
    nearest = around[distance == distance.min()]
    even: Array = nearest if len(nearest) == 1 else nearest[nearest % 2 == 0]
    return even.view(dtype.numpy)


@pytest.mark.parametrize("dtype", VALUES, ids=str)
def test_a_scalar_keeps_its_bits(
    dtype: DType, run_cpu: Runner, same_bits: Callable[[Array, Array], None]
) -> None:
    body = kernel(dtype)
    for value in VALUES[dtype]:
        (got,) = run_cpu(body, [np.zeros(1, dtype.numpy)], value)
        same_bits(got, in_memory(dtype, value))


def test_scalars_of_all_types_in_one_kernel(
    run_cpu: Runner, run_interp: Runner, same_bits: Callable[[Array, Array], None]
) -> None:
    body, types = kernel(*VALUES), list(VALUES)
    for turn in range(8):
        given = [VALUES[d][turn % len(VALUES[d])] for d in types]
        blank = [np.zeros(1, d.numpy) for d in types]
        for dtype, value, got, interp in zip(
            types, given, run_cpu(body, blank, *given), run_interp(body, blank, *given), strict=True
        ):
            same_bits(got, in_memory(dtype, value))
            same_bits(interp, in_memory(dtype, value))


@pytest.mark.parametrize("value", [None, "3", [1], 1j], ids=repr)
@pytest.mark.parametrize("dtype", VALUES, ids=str)
def test_what_is_no_number_is_refused(dtype: DType, value: Any, run_cpu: Runner) -> None:
    with pytest.raises(VerifyError, match=f"no constant of type {dtype}"):
        run_cpu(kernel(dtype), [np.zeros(1, dtype.numpy)], value)


@pytest.mark.parametrize("value", [None, "3", [1], 1.5], ids=repr)
def test_what_is_no_size_is_refused(value: Any, run_cpu: Runner) -> None:
    size = UOp.variable("n", 1, 9).cast(dtypes.i32)
    body = UOp.sink(UOp.param(0, 1, dtypes.i32).store(size.reshape((1,))))
    with pytest.raises(VerifyError, match="no constant of type index"):
        run_cpu(body, [np.zeros(1, np.int32)], value)


def test_a_scalar_that_is_not_used_keeps_its_place(run_cpu: Runner) -> None:
    first, second, third = (UOp.variable(name, 0, 99).cast(dtypes.i32) for name in "abc")
    value = first * 0 + second * 0 + third
    body = UOp.sink(UOp.param(0, 1, dtypes.i32).store(value.reshape((1,))))
    assert run_cpu(body, [np.zeros(1, np.int32)], 5, 6, 7)[0].tolist() == [7]
