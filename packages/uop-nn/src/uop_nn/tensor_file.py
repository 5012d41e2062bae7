"""Named arrays in safetensors files, which PyTorch and others read and write too. Week 5."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy
from numpy.typing import NDArray

from uop_ir import UopError
from uop_tensor import Tensor

from .files import replacing

__all__ = ["CheckpointError", "load_safetensors", "read_tensors", "save_safetensors"]


class CheckpointError(UopError):
    """A checkpoint or a safetensors file that cannot be written, or a file that is none."""


def save_safetensors(
    path: Path | str,
    tensors: Mapping[str, Tensor | NDArray[Any]],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write tensors by name, a model's `state_dict()` say, to a safetensors file, whole or not at all.

    A file that was there before stays until the new one is complete on disk. Raises CheckpointError if a
    dtype has no place in safetensors, `metadata` is not text, or the file cannot be written.
    """
    path = Path(path)
    values = {n: t.numpy() if isinstance(t, Tensor) else np.asarray(t) for n, t in tensors.items()}
    # order="C", not ascontiguousarray: that would turn a scalar into a vector
    arrays = {name: np.asarray(array, order="C") for name, array in values.items()}
    try:
        data = safetensors.numpy.save(arrays, metadata=dict(metadata or {}))
    except (safetensors.SafetensorError, AttributeError, KeyError, TypeError, ValueError) as error:
        dtypes = ", ".join(sorted({str(array.dtype) for array in arrays.values()}))
        raise CheckpointError(f"cannot save arrays of dtypes {dtypes}: {error}") from error
    try:
        with replacing(path) as file:
            file.write(data)
    except OSError as error:
        raise CheckpointError(f"cannot write the checkpoint {path}: {error.strerror}") from error


def load_safetensors(path: Path | str) -> dict[str, NDArray[Any]]:
    """The arrays of a safetensors file by name; bf16 has the dtype of ml_dtypes.

    `Module.load_state_dict` takes them. Raises CheckpointError if the file is missing, truncated, or no such
    file.
    """
    return read_tensors(Path(path))[0]


def read_tensors(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """The arrays of a safetensors file, and its metadata. Raises like `load_safetensors`."""
    if not path.is_file():
        raise CheckpointError(f"no checkpoint at {path}")
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            metadata = dict(file.metadata() or {})
            return {name: file.get_tensor(name) for name in file.keys()}, metadata  # noqa: SIM118  not a mapping
    except safetensors.SafetensorError as error:
        raise CheckpointError(f"{path} is not a safetensors file, or is truncated: {error}") from error
    except (TypeError, AttributeError) as error:
        raise CheckpointError(f"{path} has a tensor of a type that NumPy has not: {error}") from error
    except OSError as error:
        raise CheckpointError(f"cannot read the checkpoint {path}: {error.strerror or error}") from error
