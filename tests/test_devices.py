"""Two devices in one process: tensors stay where they are,
and arrays and lists go to the tensor beside them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from uop_ir import backend_names, dtypes
from uop_tensor import Tensor, jit, manual_seed

DEVICES = [name for name in backend_names() if name in ("CPU", "INTERP")]
X = np.arange(6, dtype=np.float32).reshape(2, 3)
ROW = np.array([2, 0, 1], np.float32)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("apply", "wanted"),
    [
        (lambda x: x + ROW, X + ROW),
        (lambda x: ROW - x, ROW - X),
        (lambda x: (x < 3).where(x, ROW), np.where(X < 3, X, ROW)),
        (lambda x: x @ ROW, X @ ROW),
        (lambda x: x[[1, 0, 1]], X[[1, 0, 1]]),
        (lambda x: x[:, np.array([2, 0])], X[:, [2, 0]]),
        (lambda x: x.take([1, 0], 1), X[:, [1, 0]]),
        (lambda x: x.cross_entropy(np.array([2, 2]), "sum"), 2 * np.log(np.exp(X[0] - 2).sum())),
        (lambda x: x.assign(X * 2), X * 2),
        (lambda x: x + Tensor.arange(3), X + np.arange(3, dtype=np.float32)),
    ],
)
def test_arrays_go_to_the_tensor_beside_them(
    apply: Callable[[Tensor], Tensor], wanted: np.ndarray, device: str
) -> None:
    out = apply(Tensor(X, device=device))
    np.testing.assert_allclose(out.numpy(), wanted, rtol=1e-6)
    assert out.device == device


def test_there_and_back() -> None:
    x = Tensor(X, device="INTERP", requires_grad=True)
    ((x * 2).to("CPU") + ROW).square().sum().to("INTERP").backward()
    assert x.grad is not None
    assert x.grad.device == "INTERP"
    np.testing.assert_array_equal(x.grad.numpy(), 4 * (2 * X + ROW))


def test_random_numbers_are_the_same_bits_on_every_device() -> None:
    """With all freedoms of compiled code, and within jit."""

    def draws(x: Tensor) -> list[Tensor]:
        normal = [Tensor.randn(1001, dtype=d, device=x.device) for d in (dtypes.f16, dtypes.f64)]
        return [*normal, Tensor.randint(-5, 2**63, 77, device=x.device), x.dropout(0.3)]

    found = []
    for device in DEVICES:
        x = Tensor(np.linspace(1, 2, 99, dtype=np.float32), device=device)
        manual_seed(11)
        results = draws(x) if device == "INTERP" else jit(draws)(x)
        found.append([t.numpy().tobytes() for t in results])
    assert all(each == found[0] for each in found)
