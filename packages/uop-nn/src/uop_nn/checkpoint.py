"""Checkpoints: named arrays and what describes them, in one safetensors file. Week 5."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy
from numpy.typing import NDArray

from uop_ir import UopError

from .files import replacing

__all__ = ["CheckpointError", "load_checkpoint", "save_checkpoint"]

META = "uop_nn"  # the one key of the safetensors metadata that we write: a JSON object


class CheckpointError(UopError):
    """A checkpoint that cannot be written, or a file that is none."""


def save_checkpoint(path: Path, tensors: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> None:
    """Write `tensors` and `meta` (what JSON can hold) to `path`, whole or not at all.

    A checkpoint that was there before stays until the new one is complete on disk. Integers of any size and floats
    in `meta` come back exactly. Raises CheckpointError if `meta` is not JSON, an array's dtype has no place in
    safetensors, or the file cannot be written.
    """
    try:
        text = json.dumps(dict(meta))
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"the description of a checkpoint must be JSON: {error}") from error
    # order="C", not ascontiguousarray: that would turn a scalar into a vector
    arrays = {name: np.asarray(array, order="C") for name, array in tensors.items()}
    try:
        data = safetensors.numpy.save(arrays, metadata={META: text})
    except (safetensors.SafetensorError, KeyError, ValueError) as error:
        dtypes = ", ".join(sorted({str(array.dtype) for array in arrays.values()}))
        raise CheckpointError(f"cannot save arrays of dtypes {dtypes}: {error}") from error
    try:
        with replacing(Path(path)) as file:
            file.write(data)
    except OSError as error:
        raise CheckpointError(f"cannot write the checkpoint {path}: {error.strerror}") from error


def load_checkpoint(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Return the tensors and the description that `save_checkpoint` wrote to `path`.

    Raises CheckpointError if the file is missing, truncated, or not a checkpoint of this package.
    """
    path = Path(path)
    if not path.is_file():
        raise CheckpointError(f"no checkpoint at {path}")
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  not a mapping
    except safetensors.SafetensorError as error:
        raise CheckpointError(f"{path} is not a safetensors file, or is truncated: {error}") from error
    except OSError as error:
        raise CheckpointError(f"cannot read the checkpoint {path}: {error.strerror or error}") from error
    try:
        meta = json.loads(metadata[META])
    except (KeyError, ValueError):
        meta = None
    if not isinstance(meta, dict):
        raise CheckpointError(f"{path} is a safetensors file, but not a checkpoint of uop-nn")
    return tensors, meta
