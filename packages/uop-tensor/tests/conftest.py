"""The suite runs on the interpreter, unless DEV names another backend.
`graphs` makes graphs for several tests.
"""

import math
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from uop_ir import DType, Ops, UOp, dtypes, override, settings
from uop_tensor import Tensor


@pytest.fixture(autouse=True)
def _device() -> Iterator[None]:
    """For the time of a test: other suites may run in this process."""
    with override(settings, dev=settings.dev or "INTERP"):
        yield


@pytest.fixture(autouse=True)
def _same_numbers(request: pytest.FixtureRequest) -> None:
    """A test draws the same numbers from its module's RNG whatever ran before it, and in whatever process."""
    rng = getattr(request.module, "RNG", None)
    if rng is not None:
        rng.bit_generator.state = np.random.default_rng(0).bit_generator.state


def buffer(*shape: int, dtype: DType = dtypes.f32) -> UOp:
    return UOp.buffer(math.prod(shape), dtype).reshape(shape)


def softmax(x: UOp) -> UOp:
    shape = (*x.shape[:-1], 1)
    top = x.reduce(Ops.MAX, 1).reshape(shape).expand(x.shape)
    e = ((x - top) * 1.4426950408889634).alu(Ops.EXP2)
    return e / e.reduce(Ops.ADD, 1).reshape(shape).expand(x.shape)


def layer_norm(x: UOp, gain: UOp, bias: UOp) -> UOp:
    shape, n = (*x.shape[:-1], 1), x.shape[-1]
    assert isinstance(n, int)
    mean = (x.reduce(Ops.ADD, 1) * (1 / n)).reshape(shape).expand(x.shape)
    off = x - mean
    variance = (off * off).reduce(Ops.ADD, 1) * (1 / n)
    return off * (variance + 1e-5).alu(Ops.SQRT).alu(Ops.RECIP).reshape(shape).expand(x.shape) * gain + bias


def matmul(a: UOp, b: UOp) -> UOp:
    """(..., n, k) @ (..., k, m)"""
    *batch, n, k = a.shape
    m = b.shape[-1]
    axes = (*range(len(batch)), len(batch) + 1, len(batch))
    left = a.reshape((*batch, n, 1, k)).expand((*batch, n, m, k))
    right = b.permute(axes[-len(b.shape) :] if len(b.shape) > 2 else (1, 0))
    return (left * right.reshape((*b.shape[:-2], 1, m, k)).expand((*b.shape[:-2], n, m, k))).reduce(
        Ops.ADD, 1
    )


def gelu(x: UOp) -> UOp:
    inner = (x + x * x * x * 0.044715) * (2 * 0.7978845608028654 * 1.4426950408889634)
    return x / ((-inner).alu(Ops.EXP2) + 1.0)


def adam(make: Callable[..., UOp] = buffer, count: int = 1) -> tuple[list[UOp], dict[int, UOp]]:
    """The updates of parameters and their moments, and the buffers that they replace."""
    values, donors = [], []
    for _ in range(count):
        p, g, m, v = (make(16, 8) for _ in range(4))
        m2 = m * 0.9 + g * 0.1
        v2 = v * 0.99 + g * g * 0.01
        values += [m2, v2, p - m2 / (v2.alu(Ops.SQRT) + 1e-8) * 0.001]
        donors += [m, v, p]
    return values, dict(enumerate(donors))


@pytest.fixture
def graphs() -> SimpleNamespace:
    return SimpleNamespace(
        softmax=softmax, layer_norm=layer_norm, matmul=matmul, gelu=gelu, adam=adam, buffer=buffer
    )


@pytest.fixture
def differences() -> Callable[..., np.ndarray[Any, Any]]:
    """Gives the gradient of `sum(seed * function(x))`, of arrays in float64, by central differences."""

    def gradient(
        function: Callable[[Any], Any],
        x: np.ndarray[Any, Any],
        seed: np.ndarray[Any, Any],
        step: float = 1e-6,
    ) -> np.ndarray[Any, Any]:
        out = np.zeros_like(x)
        for i in np.ndindex(*x.shape):
            way = np.zeros_like(x)
            way[i] = step
            out[i] = ((function(x + way) - function(x - way)) * seed).sum() / (2 * step)
        return out

    return gradient


@pytest.fixture
def slopes_agree() -> Callable[..., None]:
    """Hold the gradients of a function of float64 tensors against central differences,
    along random directions.
    """

    def hold(function: Callable[..., Tensor], *arrays: np.ndarray[Any, Any], rtol: float = 1e-6) -> None:
        rng, step = np.random.default_rng(1), 1e-5
        tensors = [Tensor(a) for a in arrays]
        out = function(*tensors)
        seed = rng.standard_normal(out.shape)
        found = out.gradient(*tensors, seed=Tensor(seed))
        for _ in range(3):
            ways = [rng.standard_normal(a.shape) for a in arrays]
            ahead, behind = (
                function(*(Tensor(a + s * w) for a, w in zip(arrays, ways, strict=True))).numpy()
                for s in (step, -step)
            )
            wanted = ((ahead - behind) * seed).sum() / (2 * step)
            slope = sum((g.numpy() * w).sum() for g, w in zip(found, ways, strict=True))
            np.testing.assert_allclose(slope, wanted, rtol=rtol, atol=1e-8)
            assert all(
                g.dtype is dtypes.f64 and g.shape == a.shape for g, a in zip(found, arrays, strict=True)
            )

    return hold
