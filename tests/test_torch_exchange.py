"""Memory shared with PyTorch by DLPack."""

from __future__ import annotations

import numpy as np
import pytest

from uop_ir import dtypes
from uop_tensor import Tensor

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

pytestmark = pytest.mark.torch
PAIRS = {
    dtypes.bool: torch.bool,
    dtypes.i8: torch.int8,
    dtypes.i16: torch.int16,
    dtypes.i32: torch.int32,
    dtypes.i64: torch.int64,
    dtypes.u8: torch.uint8,
    dtypes.u16: torch.uint16,
    dtypes.u32: torch.uint32,
    dtypes.u64: torch.uint64,
    dtypes.f16: torch.float16,
    dtypes.bf16: torch.bfloat16,
    dtypes.f32: torch.float32,
    dtypes.f64: torch.float64,
}


def test_both_ways() -> None:
    for ours, theirs in PAIRS.items():
        t = Tensor(np.arange(6).reshape(2, 3), ours).realize()
        other = torch.from_dlpack(t)
        assert other.dtype is theirs
        assert other.tolist() == t.tolist()
        back = Tensor.from_dlpack(other)
        assert back.dtype is ours
        assert np.shares_memory(np.asarray(back), np.asarray(t))


def test_a_tensor_over_memory_of_pytorch() -> None:
    x = torch.arange(6, dtype=torch.bfloat16).reshape(2, 3)
    t = Tensor.from_dlpack(x)
    x[0, 0] = 9
    assert t.tolist() == [[9, 1, 2], [3, 4, 5]]
    assert Tensor.from_dlpack(x.T).tolist() == x.T.tolist()
    assert Tensor(torch.ones(2, dtype=torch.float64)).dtype is dtypes.f64
