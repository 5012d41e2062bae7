"""Promotion, against NumPy's where the Array API defines it, and the rules beyond."""

import itertools

import numpy as np
import pytest

from uop_ir import DType, Kind, dtypes
from uop_tensor import Tensor, TensorError
from uop_tensor.promotion import promote, sum_type, with_number

PLAIN = [d for d in dtypes.all if d not in (dtypes.index, dtypes.bf16)]


@pytest.mark.parametrize(("a", "b"), [*itertools.product(PLAIN, PLAIN)])
def test_promotion_of_one_kind_is_that_of_numpy(a: DType, b: DType) -> None:
    mixed_integers = {a.kind, b.kind} == {Kind.SIGNED, Kind.UNSIGNED}
    if mixed_integers and dtypes.u64 in (a, b):
        with pytest.raises(TensorError, match="no dtype holds both"):
            promote("f", a, b)
    elif a.is_float != b.is_float:
        assert promote("f", a, b) is (a if a.is_float else b)
    else:
        assert promote("f", a, b).numpy == np.promote_types(a.numpy, b.numpy)


def test_bf16() -> None:
    assert promote("f", dtypes.bf16, dtypes.bf16) is dtypes.bf16
    assert promote("f", dtypes.bf16, dtypes.f16) is dtypes.f32
    assert promote("f", dtypes.f64, dtypes.bf16) is dtypes.f64
    assert promote("f", dtypes.i64, dtypes.bf16) is dtypes.bf16


@pytest.mark.parametrize("dtype", PLAIN)
def test_python_numbers_are_weak(dtype: DType) -> None:
    assert with_number("f", dtype, True) is dtype
    assert with_number("f", dtype, 1) is (dtypes.i64 if dtype is dtypes.bool else dtype)
    assert with_number("f", dtype, 1.0) is (dtype if dtype.is_float else dtypes.f32)
    assert (Tensor(np.zeros(2, dtype.numpy)) + 1.5).dtype is with_number("f", dtype, 1.5)


def test_numpy_scalars_and_arrays_are_not_weak() -> None:
    assert (Tensor([1.0]) + np.float64(2)).dtype is dtypes.f64
    assert (np.zeros(2) + Tensor([1.0])).dtype is dtypes.f64
    assert isinstance(np.zeros(2) * Tensor([1.0]), Tensor)
    assert isinstance(np.float32(2) - Tensor([1.0]), Tensor)


def test_an_integer_that_the_dtype_does_not_hold() -> None:
    with pytest.raises(TensorError, match="300 is not a value of u8"):
        Tensor(np.zeros(2, np.uint8)) + 300


@pytest.mark.parametrize("dtype", PLAIN)
def test_sums_have_the_dtype_that_numpy_gives(dtype: DType) -> None:
    assert sum_type(dtype).numpy == np.ones(2, dtype.numpy).sum().dtype
