"""Checkpoints: what was saved comes back bit for bit, and nothing else passes for one."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from uop_nn import CheckpointError, load_checkpoint, save_checkpoint

TENSORS: dict[str, Any] = {
    "weight": np.arange(12, dtype=np.float32).reshape(3, 4).T[::2],
    "scale": np.array(0.1, np.float64),
    "empty": np.zeros((0, 3), np.int32),
    "odd": np.array([math.nan, -0.0, math.inf, 1e-45], np.float32),
    "mask": np.array([True, False]),
}
META: dict[str, Any] = {
    "step": 600,
    "random": {"state": 2**127 + 1, "name": "PCG64"},
    "losses": [0.1, 1 / 3, 5e-324],
    "tokenizer": {"characters": "\n\"'\u00e9\u4e2d"},
}


def test_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "model.safetensors"
    save_checkpoint(path, TENSORS, META)
    tensors, meta = load_checkpoint(path)
    assert meta == META
    assert tensors.keys() == TENSORS.keys()
    for name, array in TENSORS.items():
        assert tensors[name].dtype == array.dtype
        assert tensors[name].shape == array.shape
        assert tensors[name].tobytes() == array.tobytes()
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]
    other = safetensors.numpy.load(path.read_bytes())  # the file is an ordinary safetensors file
    np.testing.assert_array_equal(other["weight"], [[0, 4, 8], [2, 6, 10]])


def test_saving_again_replaces(tmp_path: Path) -> None:
    path = tmp_path / "model"
    save_checkpoint(path, TENSORS, META)
    save_checkpoint(path, {"x": np.ones(2)}, {})
    tensors, meta = load_checkpoint(path)
    assert list(tensors) == ["x"]
    assert meta == {}


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_a_failed_save_keeps_the_old_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    path = tmp_path / "model"
    save_checkpoint(path, TENSORS, META)

    def fail(descriptor: int) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        expected = CheckpointError if isinstance(error, OSError) else KeyboardInterrupt
        with pytest.raises(expected):
            save_checkpoint(path, {"x": np.ones(2)}, {})
    assert [entry.name for entry in tmp_path.iterdir()] == ["model"]
    assert load_checkpoint(path)[1] == META


def test_what_cannot_be_saved(tmp_path: Path) -> None:
    path = tmp_path / "model"
    with pytest.raises(CheckpointError, match="must be JSON"):
        save_checkpoint(path, {}, {"x": np.float32(1)})
    with pytest.raises(CheckpointError, match="object"):
        save_checkpoint(path, {"x": np.array([None])}, {})
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(CheckpointError, match="cannot write"):
        save_checkpoint(tmp_path, {}, {})


def test_every_truncation_is_told(tmp_path: Path) -> None:
    path, cut = tmp_path / "model", tmp_path / "cut"
    save_checkpoint(path, TENSORS, META)
    data = path.read_bytes()
    for length in range(len(data)):
        cut.write_bytes(data[:length])
        with pytest.raises(CheckpointError) as error:
            load_checkpoint(cut)
        assert str(cut) in str(error.value)
        assert "\n" not in str(error.value)


def test_foreign_and_missing_files(tmp_path: Path) -> None:
    path = tmp_path / "model"
    with pytest.raises(CheckpointError, match="no checkpoint at"):
        load_checkpoint(path)
    with pytest.raises(CheckpointError, match="no checkpoint at"):
        load_checkpoint(tmp_path)
    path.write_bytes(b"PK\x03\x04" + bytes(1000))
    with pytest.raises(CheckpointError, match="not a safetensors file"):
        load_checkpoint(path)
    for metadata in (None, {"format": "pt"}, {"uop_nn": "{not json"}, {"uop_nn": "[1]"}):
        path.write_bytes(safetensors.numpy.save({"x": np.ones(2)}, metadata=metadata))
        with pytest.raises(CheckpointError, match="not a checkpoint of uop-nn"):
            load_checkpoint(path)
