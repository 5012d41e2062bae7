"""Checkpoints: named arrays and what describes them, in one safetensors file. Week 5."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from .tensor_file import CheckpointError, read_tensors, save_safetensors

__all__ = ["CHECKPOINT", "RUNS", "CheckpointError", "load_checkpoint", "load_run", "save_checkpoint"]

RUNS = Path("runs")  # the folder of all runs, where no other is given
CHECKPOINT = "checkpoint.safetensors"  # in the folder of a run
META = "uop_nn"  # the one key of the safetensors metadata that we write: a JSON object


def save_checkpoint(path: Path | str, tensors: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> None:
    """Write `tensors` and `meta` (what JSON can hold) to `path`, whole or not at all.

    A checkpoint that was there before stays until the new one is complete on disk. Integers of any size and
    floats in `meta` come back exactly. Raises CheckpointError if `meta` is not JSON, an array's dtype has no
    place in safetensors, or the file cannot be written.
    """
    try:
        text = json.dumps(dict(meta))
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"the description of a checkpoint must be JSON: {error}") from error
    save_safetensors(path, tensors, {META: text})


def load_checkpoint(path: Path | str) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Return the tensors and the description that `save_checkpoint` wrote to `path`.

    Raises CheckpointError if the file is missing, truncated, or not a checkpoint of this package.
    """
    path = Path(path)
    tensors, metadata = read_tensors(path)
    try:
        meta = json.loads(metadata[META])
    except (KeyError, ValueError):
        meta = None
    if not isinstance(meta, dict):
        raise CheckpointError(f"{path} is a safetensors file, but not a checkpoint of uop-nn")
    return tensors, meta


def load_run(path: Path, kind: str, what: str) -> tuple[Path, dict[str, NDArray[Any]], dict[str, Any]]:
    """The place of the checkpoint at `path`, a file or the folder of a run, its tensors and its description.

    Raises CheckpointError if there is none, and for one of another kind; `what` says what it should be of.
    """
    path = path / CHECKPOINT if path.is_dir() else path
    tensors, meta = load_checkpoint(path)
    if meta.get("kind") != kind:
        raise CheckpointError(f"{path} is a checkpoint of kind {meta.get('kind')}, not {what}")
    return path, tensors, meta
