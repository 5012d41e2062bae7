"""New tensors against NumPy."""

import array
import math
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from uop_ir import DType, dtypes
from uop_tensor import Tensor, TensorError

NUMPY = [d for d in dtypes.all if d is not dtypes.index]


@pytest.mark.parametrize("dtype", NUMPY, ids=str)
@pytest.mark.parametrize("shape", [(), (1,), (0,), (2, 3), (2, 0, 3)])
def test_arrays_are_copied_as_they_are(dtype: DType, shape: tuple[int, ...]) -> None:
    x = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype.numpy)
    t = Tensor(x)
    assert (t.dtype, t.shape) == (dtype, shape)
    kept = x.copy()
    x[...] = 1
    np.testing.assert_array_equal(t.numpy(), kept)
    assert t.numpy().dtype == x.dtype


def test_layouts_and_byte_orders() -> None:
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    for y in (x.T, x[::-1, :, ::2], x.astype(">f4"), np.broadcast_to(x[:1], x.shape), np.asfortranarray(x)):
        np.testing.assert_array_equal(Tensor(y).numpy(), y)


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        (3, dtypes.i64),
        (2.5, dtypes.f32),
        (True, dtypes.bool),
        ([1, 2], dtypes.i64),
        ([1, 2.5], dtypes.f32),
        ([[True], [False]], dtypes.bool),
        ([], dtypes.f32),
        (((1, 2), (3, 4)), dtypes.i64),
        (np.float64(2), dtypes.f64),
        (np.int8(2), dtypes.i8),
    ],
)
def test_python_data(data: Sequence[Any] | float | np.generic, dtype: DType) -> None:
    t = Tensor(data)
    assert t.dtype is dtype
    np.testing.assert_array_equal(t.numpy(), np.array(data))


def test_a_dtype_asked_for() -> None:
    assert Tensor([1.5, -2.5], dtypes.i32).tolist() == [1, -2]
    assert Tensor([1.0, np.nan], dtypes.u8).tolist() == [1, 0]
    assert Tensor(2.9, dtypes.i32).item() == 2
    assert Tensor(-1, dtypes.f16).item() == -1.0
    assert Tensor(np.ones(2), dtypes.bf16).numpy().dtype == ml_dtypes.bfloat16
    assert Tensor(Tensor([1, 2]), dtypes.f32).dtype is dtypes.f32
    assert Tensor(7, dtypes.bool).item() is True
    assert Tensor([0.1], dtypes.f64).item() == 0.1
    assert Tensor([2049.0000001], dtypes.f16).item() == 2050  # rounded once


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: Tensor([[1], [2, 3]]), "rows of equal length"),
        (lambda: Tensor("abc"), "str does not hold numbers"),
        (lambda: Tensor([object()]), "does not hold numbers"),
        (lambda: Tensor(None), "NoneType does not hold numbers"),  # type: ignore[arg-type]  # the mistake
        (lambda: Tensor(np.array([1j])), "no dtype for an array of complex128"),
        (lambda: Tensor(2**70), "is not a value of i64"),
        (lambda: Tensor(300, dtypes.u8), "300 is not a value of u8"),
        (lambda: Tensor.zeros(-1), "zeros: shape"),
        (lambda: Tensor.zeros(2.0), "zeros: sizes and axes are ints"),  # type: ignore[arg-type]  # the mistake
        (lambda: Tensor(1, dtypes.index), "a tensor of dtype index"),
        (lambda: Tensor([1]).cast(dtypes.index), "a tensor of dtype index"),
        (lambda: Tensor.zeros(2, dtype=dtypes.index), "a tensor of dtype index"),
        (lambda: Tensor.full(2, "a"), "full: str is no number"),  # type: ignore[arg-type]  # the mistake
        (lambda: Tensor.full(2, -1, dtypes.u8), "full: -1 is not a value of u8"),
        (lambda: Tensor.full(2, -1, dtypes.u8, device=Tensor(0).device), "full: -1 is not a value of u8"),
        (lambda: Tensor.arange(0, 5, 0), "arange: step 0"),
        (lambda: Tensor.arange(5, dtype=dtypes.bool), "arange: dtype bool"),
        (lambda: Tensor.ones(3).tril(), "tril: a tensor of shape"),
        (lambda: Tensor([1], dtypes.u8).full_like(-1), "full: -1 is not a value of u8"),
        (lambda: Tensor.linspace(0, 1, -1), "linspace: shape"),
        (lambda: Tensor.linspace(0, 1, 2.0), "linspace: sizes and axes are ints"),  # type: ignore[arg-type]  # the mistake
        (lambda: Tensor.linspace(0, 1, 2, dtypes.bool), "linspace: dtype bool"),
        (lambda: Tensor.logspace(0, 1, 2, base=-1.0), "logspace: base -1.0"),
        (lambda: Tensor.from_numpy(np.array(["a"])), "no dtype for an array of"),
    ],
)
def test_errors(wrong: Callable[[], object], message: str) -> None:
    with pytest.raises(TensorError, match=message):
        wrong()


def test_constants() -> None:
    assert Tensor.zeros(2, 3).tolist() == [[0, 0, 0], [0, 0, 0]]
    assert Tensor.ones((2,), dtype=dtypes.i8).numpy().dtype == np.int8
    assert Tensor.full((2, 2), 7).dtype is dtypes.i64
    assert Tensor.full(2, 0.5).tolist() == [0.5, 0.5]
    assert Tensor.full((), True).item() is True
    assert Tensor.full(2, np.float64(0.5)).dtype is dtypes.f64
    t = Tensor(np.ones((2, 3), np.int16))
    for like, value in ((t.zeros_like(), 0), (t.ones_like(), 1), (t.full_like(5), 5)):
        np.testing.assert_array_equal(like.numpy(), np.full((2, 3), value, np.int16))
        assert like.dtype is dtypes.i16
    assert t.full_like(2, dtypes.f64).dtype is dtypes.f64
    assert t.ones_like(dtypes.bool).tolist() == [[True] * 3] * 2
    assert t.zeros_like(dtypes.bf16).dtype is dtypes.bf16
    assert t.empty_like().shape == (2, 3)
    assert Tensor.empty(2, 0, dtype=dtypes.u8).numpy().dtype == np.uint8
    assert Tensor.empty(2, requires_grad=True).requires_grad


@pytest.mark.parametrize(
    "arguments",
    [
        (5,),
        (0,),
        (-3,),
        (2, 9),
        (9, 2),
        (9, 2, -2),
        (2, 9, 3),
        (0.0, 1.0, 0.25),
        (1, 2.2, 0.5),
        (5, 0, -1.5),
        (2.5,),
    ],
)
def test_arange(arguments: tuple[float, ...]) -> None:
    arange: Callable[..., Tensor] = Tensor.arange
    found = arange(*arguments).numpy()
    wanted = np.arange(*arguments)
    assert found.dtype == (np.int64 if all(isinstance(a, int) for a in arguments) else np.float32)
    np.testing.assert_allclose(found, wanted, rtol=1e-7)


@pytest.mark.parametrize("dtype", [d for d in NUMPY if d is not dtypes.bool], ids=str)
def test_arange_of_every_dtype(dtype: DType) -> None:
    found = Tensor.arange(1, 200, 2, dtype=dtype).numpy()
    np.testing.assert_array_equal(found, np.arange(1, 200, 2).astype(dtype.numpy))
    for start, stop, step in ((0.5, 5.5, 1), (0, 100, 0.75), (60, 0, -2.5)):
        found = Tensor.arange(start, stop, step, dtype).numpy()
        np.testing.assert_array_equal(found, np.arange(start, stop, step).astype(dtype.numpy))


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 50, 4097])
def test_linspace(steps: int) -> None:
    for start, stop in ((0.0, 1.0), (-3.5, 17.25), (5, -5), (2.0, 2.0), (1e-30, 1e30)):
        for endpoint in (True, False):
            wanted = np.linspace(start, stop, steps, endpoint)
            np.testing.assert_array_equal(
                Tensor.linspace(start, stop, steps, dtypes.f64, endpoint).numpy(), wanted
            )
            np.testing.assert_array_equal(
                Tensor.linspace(start, stop, steps, endpoint=endpoint).numpy(), wanted.astype(np.float32)
            )
    assert Tensor.linspace(0, 10, 5, dtypes.i32).tolist() == [0, 2, 5, 7, 10]


def test_logspace() -> None:
    for base in (10.0, 2.0, 0.5):
        wanted = np.logspace(-3, 4, 20, base=base)
        np.testing.assert_allclose(Tensor.logspace(-3, 4, 20, base, dtypes.f64).numpy(), wanted, rtol=1e-12)
        np.testing.assert_allclose(Tensor.logspace(-3, 4, 20, base).numpy(), wanted, rtol=1e-7)


def test_from_numpy_copies() -> None:
    x = np.arange(6).reshape(2, 3)
    t = Tensor.from_numpy(x[:, ::-1])
    x[0] = 9
    assert t.tolist() == [[2, 1, 0], [5, 4, 3]]


def test_eye_and_triangles() -> None:
    np.testing.assert_array_equal(Tensor.eye(3, 4).numpy(), np.eye(3, 4, dtype=np.float32))
    np.testing.assert_array_equal(Tensor.eye(2, dtype=dtypes.i32).numpy(), np.eye(2, dtype=np.int32))
    x = np.arange(1, 25.0).reshape(2, 3, 4)
    x[0, 0, 3] = np.nan
    for k in (-3, -1, 0, 1, 4):
        np.testing.assert_array_equal(Tensor(x).tril(k).numpy(), np.tril(x, k))
        np.testing.assert_array_equal(Tensor(x).triu(k).numpy(), np.triu(x, k))
    np.testing.assert_array_equal(Tensor(x > 3).tril().numpy(), np.tril(x > 3))


def test_integers_that_a_dtype_does_not_hold() -> None:
    """Of Python, as of a number; an array of another dtype is cast, and wraps."""
    for wrong in ([300], [[0], [-1]], 300):
        with pytest.raises(TensorError, match=r"Tensor: (300|-1) is not a value of u8"):
            Tensor(wrong, dtype=dtypes.u8)
    assert Tensor(np.array([300, -1]), dtype=dtypes.u8).tolist() == [44, 255]
    assert Tensor([255, 0], dtype=dtypes.u8).tolist() == [255, 0]
    assert Tensor([[], []], dtype=dtypes.u8).shape == (2, 0)


def test_numbers_of_numpy_are_numbers() -> None:
    n: Any = np.int64(4)
    assert Tensor.arange(n).dtype is dtypes.i64
    assert [part.tolist() for part in Tensor.arange(4).split(np.int64(3))] == [[0, 1, 2], [3]]  # type: ignore[arg-type]
    assert [part.shape for part in Tensor.arange(5).tensor_split(np.int64(2))] == [(3,), (2,)]  # type: ignore[arg-type]
    with pytest.raises(TensorError, match="arange: 0, inf, 1"):
        Tensor.arange(math.inf)


THIRD = 1 / 3


@pytest.mark.parametrize(
    "data",
    [
        [np.full(2, THIRD), np.zeros(2)],
        [[np.float64(THIRD), 1], [2, 3.0]],
        [Tensor(THIRD, dtype=dtypes.f64), 1.0],
        memoryview(array.array("d", [THIRD, 1.0])),
        array.array("d", [THIRD, 1.0]),
    ],
)
def test_doubles_keep_their_dtype_in_lists_and_buffers(data: Any) -> None:
    found = Tensor(data)
    np.testing.assert_array_equal(found.numpy(), np.asarray(data), strict=True)
    assert found.flatten()[0].item() == THIRD


def test_lists_of_other_floats() -> None:
    assert Tensor([np.float32(1), 2.5]).dtype is dtypes.f32
    assert Tensor([1, 2.5]).dtype is dtypes.f32
    assert Tensor(array.array("f", [1.0])).dtype is dtypes.f32


def test_a_float_in_an_integer_dtype() -> None:
    for value, wanted in ((2.7, 2), (-2.7, -2), (1e9, 127), (-math.inf, -128), (math.nan, 0)):
        assert Tensor.full((2,), value, dtypes.i8).tolist() == [wanted] * 2
        assert Tensor([1], dtype=dtypes.i8).full_like(value).item() == wanted
