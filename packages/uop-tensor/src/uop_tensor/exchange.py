"""Memory shared with other libraries: DLPack, NumPy's array protocol, buffers; copies and pickles. Week 5."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt

from uop_ir import HostMemory, UOp, dtypes, get_backend, recode_dlpack

from .data import dtype_of, from_array
from .errors import ShareError
from .memory import buffer_of
from .sampling import Sampling

#: DLPack's number of the CPU.
CPU = (1, 0)
#: DLPack's codes of kinds of numbers, of which NumPy knows the first.
UNSIGNED, BFLOAT = 1, 4


class Exchange(Sampling):
    """Whoever gets memory of a tensor is to read it only: it is the tensor's value, and that of others.

    What is shared stays as it is: a later `assign` stores into memory of its own.
    """

    def _stored(self, method: str) -> UOp:
        """The BUFFER in which the elements are, computed for `method`. Raises JitError while jit traces."""
        raise NotImplementedError

    def _data(self, method: str) -> npt.NDArray[Any]:
        """The elements as an array of its own, computed for `method`."""
        memory = self._stored(method).memo["memory"]
        data = np.empty(self.shape, self.dtype.numpy)
        memory.backend.copy_out(memory.handle, data)
        return data

    def _shared(self, method: str) -> npt.NDArray[Any]:
        """The elements as an array over the memory itself.
        Raises ShareError for memory that NumPy cannot reach.
        """
        buffer = self._stored(method)
        memory = buffer.memo["memory"]
        if not isinstance(memory.backend, HostMemory):
            raise ShareError(f"{method}: memory of {memory.backend.name}", remedy="use numpy(), which copies")
        buffer.memo["tensor.kept"] = True
        data: npt.NDArray[Any] = memory.backend.bytes_of(memory.handle)
        return data.view(self.dtype.numpy).reshape(self.shape)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> object:
        """For `numpy.asarray`: an array to read, without a copy;
        with `copy` or in another dtype, an array of its own.

        An object to type checkers: NumPy's types would take the sum of an array and a tensor for an array.
        """
        wanted = self.dtype.numpy if dtype is None else np.dtype(dtype)
        if copy or not isinstance(get_backend(self.device), HostMemory):
            if copy is False:
                raise ShareError(f"__array__: memory of {self.device} without a copy", remedy="copy=None")
            return self._data("__array__").astype(wanted, copy=False)
        if wanted != self.dtype.numpy and copy is False:
            raise ShareError(f"__array__: {self.dtype} as {wanted} without a copy", remedy="cast it before")
        return self._read_only("__array__").astype(wanted, copy=False)

    def __buffer__(self, flags: int) -> memoryview:
        """For `memoryview`, from Python 3.12 on: the elements, to be read. Raises ShareError for bf16."""
        if self.dtype is dtypes.bf16:
            raise ShareError("__buffer__: buffers have no bf16", remedy="cast it, or bitcast it to u16")
        return self._read_only("__buffer__").data

    def _read_only(self, method: str) -> npt.NDArray[Any]:
        array = self._shared(method)
        array.flags.writeable = False
        return array

    def __dlpack_device__(self) -> tuple[int, int]:
        """The CPU, in the numbers of DLPack. Raises ShareError for another device."""
        if not isinstance(get_backend(self.device), HostMemory):
            raise ShareError(f"__dlpack_device__: {self.device} has no number", remedy="move it with to()")
        return CPU

    def __dlpack__(
        self,
        *,
        stream: object = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A capsule of the elements for `from_dlpack` of any library, without a copy unless it is asked for.

        It says that it is to be read only, where `max_version` is 1.0 or later.
        Raises ShareError for another device.
        """
        if stream is not None or (dl_device or CPU) != CPU:
            raise ShareError(
                f"__dlpack__: stream {stream}, device {dl_device}", remedy="memory is of the CPU"
            )
        if copy:
            array = self._data("__dlpack__")
        elif (max_version or (0, 0)) < (1, 0):
            array = self._shared("__dlpack__")
        else:
            array = self._read_only("__dlpack__")
        if self.dtype is not dtypes.bf16:
            return _capsule(array, max_version)
        capsule = _capsule(array.view(np.uint16), max_version)
        recode_dlpack(capsule, {UNSIGNED: BFLOAT})
        return capsule

    @classmethod
    def from_dlpack(cls, x: Any, device: str | None = None, copy: bool | None = None) -> Self:
        """A tensor over the memory of an array of any library that has `__dlpack__`.

        It is copied where `copy` says so or where it must be: to a device whose memory is not that of this
        process, and if it is not contiguous; with `copy=False` that is a ShareError. Who writes to the array
        changes the tensor. Raises ShareError for memory of another device,
        TensorError for a dtype that has no counterpart.
        """
        array = _imported(x)
        dtype, backend = dtype_of(array), get_backend(device)
        whole = array.flags.c_contiguous and array.flags.aligned and array.dtype.isnative
        if copy or not whole or not isinstance(backend, HostMemory):
            if copy is False:
                what = f"to {backend.name}" if whole else "an array that is not contiguous"
                raise ShareError(f"from_dlpack: {what} without a copy", remedy="copy=None")
            return cls._of(from_array(array, device))
        handle = backend.adopt(array.reshape(-1).view(np.uint8))
        buffer = buffer_of(backend, handle, array.size, dtype)
        buffer.memo["tensor.kept"] = True
        return cls._of(buffer.reshape(array.shape))

    def __copy__(self) -> Self:
        """The same value; a parameter gets memory of its own."""
        if not self._requires_grad:
            return self._of(self.uop)
        return self._filled(self._data("copy"), self.device, True)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """A copy with a copy of the gradient."""
        copied = self.__copy__()
        copied.grad = None if self.grad is None else self.grad.__copy__()
        return copied

    def __reduce__(self) -> tuple[Any, ...]:
        """A pickle has the elements, the dtype and `requires_grad`;
        the tensor that it gives is on the default device.
        """
        return _restored, (type(self), self._data("pickle"), self._requires_grad)


def _restored(kind: type[Exchange], data: npt.NDArray[Any], requires_grad: bool) -> Exchange:
    return kind._filled(data, None, requires_grad)


def _capsule(array: npt.NDArray[Any], max_version: tuple[int, int] | None) -> Any:
    try:
        return array.__dlpack__(max_version=max_version)
    except TypeError:  # NumPy before 2.1 makes capsules of the first version only
        return array.__dlpack__()


def _imported(x: Any) -> npt.NDArray[Any]:
    """An array over the memory of what has `__dlpack__`; NumPy takes numbers of bf16 for integers."""
    producer = _Producer(x)
    try:
        array = np.from_dlpack(producer)
    except (AttributeError, BufferError, RuntimeError, TypeError, ValueError) as error:
        raise ShareError(f"from_dlpack: {type(x).__name__}: {error}") from error
    return array.view(dtypes.bf16.numpy) if producer.bfloat else array


class _Producer:
    """What has `__dlpack__`, and whether the capsule was one of bf16: then it says u16."""

    def __init__(self, x: Any) -> None:
        self._x = x
        self.bfloat = False

    def __dlpack_device__(self) -> Any:
        return self._x.__dlpack_device__()

    def __dlpack__(self, **options: Any) -> Any:
        capsule = self._x.__dlpack__(**options)
        self.bfloat = recode_dlpack(capsule, {BFLOAT: UNSIGNED})
        return capsule
