"""Memory shared with NumPy, both ways; copies and pickles."""

import copy
import ctypes
import pickle
import sys
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from uop_ir import DType, UopError, dtypes
from uop_tensor import JitError, ShareError, Tensor, TensorError, jit

DTYPES = [d for d in dtypes.all if d is not dtypes.index]
BF16 = np.dtype(ml_dtypes.bfloat16)


class Producer:
    """An array of another library: DLPack and nothing else."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (3,), (0, 2), (2, 3)])
def test_asarray_reads_the_memory(dtype: DType, shape: tuple[int, ...]) -> None:
    x = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype.numpy)
    t = Tensor(x)
    array = np.asarray(t)
    assert (array.dtype, array.shape, array.flags.writeable) == (x.dtype, shape, False)
    np.testing.assert_array_equal(array, x)
    if x.size:
        assert np.shares_memory(array, np.asarray(t))
        assert not np.shares_memory(array, np.array(t))
        assert not np.shares_memory(array, t.numpy())
    assert np.array(t).flags.writeable
    assert np.asarray(t, np.float64).dtype == np.float64


def test_an_array_outlives_its_tensor() -> None:
    t = Tensor([1.0, 2.0]) * 3
    array = np.asarray(t)
    del t
    others = [(Tensor([5.0, 5.0]) + i).realize() for i in range(5)]
    assert array.tolist() == [3, 6]
    assert others[1].tolist() == [6, 6]


@pytest.mark.parametrize("share", [np.asarray, np.from_dlpack], ids=["asarray", "from_dlpack"])
def test_what_is_shared_stays_as_it_is(share: Callable[[Any], np.ndarray]) -> None:
    t = Tensor([1.0, 2.0]).realize()
    array = share(t)
    t.assign(t + 1).realize()
    assert array.tolist() == [1, 2]
    assert t.tolist() == [2, 3]

    @jit
    def step(x: Tensor) -> Tensor:
        t.assign(t * x)
        return t + x

    shared = []
    for _ in range(3):
        out = step(Tensor([2.0, 2.0]))
        shared += [share(t), share(out)]
        del out
    assert [a.tolist() for a in shared] == [[4, 6], [6, 8], [8, 12], [10, 14], [16, 24], [18, 26]]


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d is not dtypes.bf16], ids=str)
def test_dlpack_to_numpy(dtype: DType) -> None:
    x = np.arange(6).reshape(2, 3).astype(dtype.numpy)
    t = Tensor(x)
    array = np.from_dlpack(t)
    np.testing.assert_array_equal(array, x)
    assert array.dtype == x.dtype
    assert np.shares_memory(array, np.asarray(t))
    assert t.__dlpack_device__() == (1, 0)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (2, 3)])
def test_dlpack_there_and_back(dtype: DType, shape: tuple[int, ...]) -> None:
    x = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype.numpy)
    t = Tensor(x)
    u = Tensor.from_dlpack(t)
    assert (u.dtype, u.shape) == (dtype, shape)
    np.testing.assert_array_equal(u.numpy(), x)
    if x.size:
        assert np.shares_memory(np.asarray(u), np.asarray(t))


def test_bf16_is_bf16_in_a_capsule() -> None:
    """What another library sees is the code of bf16, 4: NumPy, which does not know it, refuses."""
    with pytest.raises((BufferError, RuntimeError, TypeError)):
        np.from_dlpack(Tensor([1.0], dtypes.bf16))
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    # in a DLTensor the dtype stands after the pointer,
    # the device and the rank; 32 bytes are before a DLTensor of 1.0
    for version, name, begin in ((None, b"dltensor", 0), ((1, 0), b"dltensor_versioned", 32)):
        capsule = Tensor([1.5, -2.0], dtypes.bf16).__dlpack__(max_version=version)
        assert tuple(ctypes.string_at(pointer(capsule, name) + begin + 20, 2)) == (4, 16)


def test_dlpack_in_shares_memory() -> None:
    x = np.arange(6.0).reshape(2, 3)
    t = Tensor.from_dlpack(Producer(x))
    assert np.shares_memory(np.asarray(t), x)
    assert (t + 1).tolist() == (x + 1).tolist()
    before = t + 0
    t.assign(t * 2).realize()
    assert t.tolist() == (x * 2).tolist()
    np.testing.assert_array_equal(x, np.arange(6.0).reshape(2, 3))
    np.testing.assert_array_equal(before.numpy(), x)


def test_dlpack_in_copies_where_it_must() -> None:
    x = np.arange(6.0).reshape(2, 3)
    for y in (x.T, x[:, ::2], x[::-1]):
        np.testing.assert_array_equal(Tensor.from_dlpack(Producer(y)).numpy(), y)
        with pytest.raises(ShareError, match="not contiguous without a copy"):
            Tensor.from_dlpack(Producer(y), copy=False)
    assert not np.shares_memory(np.asarray(Tensor.from_dlpack(Producer(x), copy=True)), x)
    assert np.shares_memory(np.asarray(Tensor.from_dlpack(Producer(x), copy=False)), x)
    offset = np.arange(9, dtype=np.uint8)[1:]
    assert Tensor.from_dlpack(Producer(offset)).tolist() == offset.tolist()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda t: t.__dlpack__(stream=1), "stream 1"),
        (lambda t: t.__dlpack__(dl_device=(2, 0)), r"device \(2, 0\)"),
        (lambda t: t.__array__(np.float64, copy=False), "f32 as float64 without a copy"),
        (lambda t: t.bfloat16().__buffer__(0), "buffers have no bf16"),
        (lambda t: Tensor.from_dlpack([1.0]), "from_dlpack: list"),
        (lambda t: Tensor.from_dlpack(1), "from_dlpack: int"),
    ],
)
def test_errors_are_buffer_errors(wrong: Callable[[Tensor], object], message: str) -> None:
    with pytest.raises(ShareError, match=message):
        wrong(Tensor([1.0]))
    assert issubclass(ShareError, BufferError)
    assert issubclass(ShareError, UopError)


def test_a_dtype_without_counterpart() -> None:
    with pytest.raises(TensorError, match="no dtype for an array of complex128"):
        Tensor.from_dlpack(Producer(np.array([1j])))


@pytest.mark.parametrize(
    "method",
    [np.asarray, Tensor.from_dlpack, lambda t: t.__dlpack__(), pickle.dumps],
    ids=["asarray", "from_dlpack", "dlpack", "pickle"],
)
def test_a_trace_has_no_memory(method: Callable[[Tensor], object]) -> None:
    @jit
    def traced(x: Tensor) -> Tensor:
        method(x)
        return x

    with pytest.raises(JitError, match="while traced is traced"):
        traced(Tensor([1.0]))


def test_sharing_does_not_cut_gradients() -> None:
    w = Tensor([1.0, 2.0], requires_grad=True)
    y = w * w
    assert np.asarray(y).tolist() == [1, 4]
    y.sum().backward()
    assert w.grad is not None
    assert w.grad.tolist() == [2, 4]


@pytest.mark.skipif(sys.version_info < (3, 12), reason="Python asks classes for buffers from 3.12 on")
def test_buffers() -> None:
    view = memoryview(Tensor([[1, 2], [3, 4]], dtypes.i16))
    assert (view.format, view.shape, view.readonly) == ("h", (2, 2), True)
    assert bytes(Tensor([1, 2], dtypes.u8)) == b"\1\2"


def test_arrays_of_other_libraries_are_data() -> None:
    class Array:
        def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
            return np.array([1.5, 2.5])

    assert Tensor(Array()).dtype is dtypes.f64  # type: ignore[arg-type]  # what NumPy takes for an array
    assert Tensor([Tensor(1.0), Tensor(2.0)]).tolist() == [1, 2]
    array = np.ones(2)
    assert isinstance(array + Tensor([1.0, 2.0]), Tensor)


def test_as_tensor() -> None:
    t = Tensor([1, 2])
    assert Tensor.as_tensor(t) is t
    assert Tensor.as_tensor(t, dtypes.i64) is t
    assert Tensor.as_tensor(t, dtypes.f32).dtype is dtypes.f32
    assert Tensor.as_tensor(t, device=t.device) is t
    assert Tensor.as_tensor([1.5]).tolist() == [1.5]
    assert Tensor.as_tensor(np.int8(3)).dtype is dtypes.i8


def pickled(t: Tensor, protocol: int | None = None) -> Any:
    return pickle.loads(pickle.dumps(t, protocol))  # noqa: S301  # what was written here


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_pickle(dtype: DType) -> None:
    x = np.arange(6).reshape(2, 3).astype(dtype.numpy)
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        t = pickled(Tensor(x).reshape(3, 2), protocol)
        assert t.dtype is dtype
        assert t.flatten().tolist() == x.flatten().tolist()
    assert pickled(Tensor(3.0)).item() == 3


def test_copies_of_parameters_are_parameters() -> None:
    w = Tensor([1.0, 2.0], requires_grad=True)
    (w * w).sum().backward()
    for copied in (copy.copy(w), copy.deepcopy(w), pickled(w)):
        assert copied.requires_grad
        assert copied.tolist() == [1, 2]
    deep = copy.deepcopy({"w": w, "lazy": w * 3})
    assert deep["w"].grad is not None
    assert deep["w"].grad.tolist() == [2, 4]
    (w * deep["w"]).sum().backward()
    assert deep["w"].grad.tolist() == [3, 6]
    assert w.grad is not None
    assert w.grad.tolist() == [3, 6]
    assert deep["lazy"].tolist() == [3, 6]
    assert copy.copy(w).grad is None
