"""Determinants, inverses, equations and factors against NumPy; gradients against their formulas."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from uop_ir import dtypes
from uop_tensor import Tensor, TensorError

Array = npt.NDArray[Any]

RNG = np.random.default_rng(37)
SHAPES = [(1, 1), (2, 2), (4, 4), (2, 3, 3), (2, 1, 3, 3)]


def normal(*shape: int) -> Array:
    return RNG.normal(0, 1, shape)


def close(found: Tensor, wanted: Array, rtol: float = 1e-9) -> None:
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found.numpy(), wanted, rtol=rtol, atol=1e-11)


def turned(x: Array) -> Array:
    return x.swapaxes(-1, -2)


@pytest.mark.parametrize("shape", SHAPES)
def test_inverses_and_determinants(shape: tuple[int, ...]) -> None:
    x = normal(*shape)
    close(Tensor(x).inv(), np.linalg.inv(x))
    close(Tensor(x).inverse(), np.linalg.inv(x))
    close(Tensor(x).det(), np.linalg.det(x))
    sign, logarithm = Tensor(x).slogdet()
    close(sign, np.linalg.slogdet(x)[0])
    close(logarithm, np.linalg.slogdet(x)[1])


@pytest.mark.parametrize("shape", SHAPES)
def test_equations(shape: tuple[int, ...]) -> None:
    x, y = normal(*shape), normal(*shape[:-1], 2)
    close(Tensor(x).solve(Tensor(y)), np.linalg.solve(x, y))
    close(Tensor(x).solve(y), np.linalg.solve(x, y))
    v = normal(shape[-1])
    close(
        Tensor(x).solve(Tensor(v)), np.linalg.solve(x, np.broadcast_to(v[:, None], (*shape[:-1], 1)))[..., 0]
    )
    for upper in (False, True):
        triangle = np.triu(x) if upper else np.tril(x)
        close(Tensor(x).solve_triangular(Tensor(y), upper=upper), np.linalg.solve(triangle, y))
        found = Tensor(x).solve_triangular(Tensor(turned(y)), upper=upper, left=False)
        close(found @ Tensor(triangle), turned(y))
        unit = triangle.copy()
        np.einsum("...ii->...i", unit)[:] = 1
        found = Tensor(x).solve_triangular(Tensor(y), upper=upper, unitriangular=True)
        close(found, np.linalg.solve(unit, y))


@pytest.mark.parametrize("shape", SHAPES)
def test_cholesky(shape: tuple[int, ...]) -> None:
    x = normal(*shape)
    x = x @ turned(x) + np.eye(shape[-1])
    close(Tensor(np.tril(x)).cholesky(), np.linalg.cholesky(x))
    close(Tensor(np.triu(x)).cholesky(upper=True), turned(np.linalg.cholesky(x)))
    assert np.isnan(Tensor(-x).cholesky().numpy()).any()


@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (4, 2), (2, 4), (2, 3, 2)])
@pytest.mark.parametrize("mode", ["reduced", "complete"])
def test_qr(shape: tuple[int, ...], mode: Any) -> None:
    x = normal(*shape)
    q, r = Tensor(x).qr(mode)
    wanted = np.linalg.qr(x, mode)
    close(q, wanted[0])
    close(r, wanted[1])


def test_pivots() -> None:
    x = np.array([[0.0, 2, 1], [1, 0, 0], [3, 0, 1]])  # every row must move
    close(Tensor(x).inv(), np.linalg.inv(x))
    close(Tensor(x).det(), np.linalg.det(x))
    small = np.array([[1e-20, 1.0], [1.0, 1.0]])
    close(Tensor(small).solve(Tensor(np.array([1.0, 2.0]))), np.array([1.0, 1.0]))
    for permutation in ([1, 0, 2], [1, 2, 0], [2, 1, 0], [3, 2, 1, 0], [1, 0, 3, 2]):
        p = np.eye(len(permutation))[permutation]
        close(Tensor(p).det(), np.linalg.det(p))
        close(Tensor(p).inv(), p.T)


def test_singular_matrices() -> None:
    x = np.array([[1.0, 2.0], [2.0, 4.0]])
    assert Tensor(x).det().item() == 0
    sign, logarithm = Tensor(x).slogdet()
    assert (sign.item(), logarithm.item()) == (0, -np.inf)
    assert not np.isfinite(Tensor(x).inv().numpy()).all()
    q, r = Tensor(np.array([[1.0, 2.0], [0.0, 3.0]])).qr()  # nothing to reflect
    close(q, np.eye(2))
    close(r, np.array([[1.0, 2.0], [0.0, 3.0]]))


def test_dtypes() -> None:
    assert Tensor([[2, 1], [1, 1]]).inv().tolist() == [[1.0, -1.0], [-1.0, 2.0]]
    assert Tensor([[2, 1], [1, 1]]).det().dtype is dtypes.f32
    half = Tensor(np.array([[2, 1], [1, 1]], np.float16)).inv()
    assert half.dtype is dtypes.f16
    assert half.tolist() == [[1.0, -1.0], [-1.0, 2.0]]


GRADIENTS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "inv": lambda x, w: (x.inv() * w).sum(),
    "det": lambda x, w: x.det(),
    "slogdet": lambda x, w: x.slogdet()[1],
    "solve": lambda x, w: (x.solve(w) * w).sum(),
    "solve_triangular": lambda x, w: (x.solve_triangular(w, upper=True) * w).sum(),
    "cholesky": lambda x, w: ((x @ x.T).cholesky() * w).sum(),
    "qr": lambda x, w: (x.qr()[0] * w).sum() + (x.qr()[1] * w).sum(),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name: str, slopes_agree: Callable[..., None]) -> None:
    x, weight = normal(3, 3) + 2 * np.eye(3), Tensor(normal(3, 3))
    slopes_agree(lambda t: GRADIENTS[name](t, weight), x)


def test_no_matrices() -> None:
    none = Tensor(np.zeros((0, 3, 3)))
    for name in ("det", "inverse", "cholesky", "slogdet", "qr"):
        wanted = getattr(np.linalg, {"inverse": "inv"}.get(name, name))(np.zeros((0, 3, 3)))
        found = getattr(none, name)()
        for f, w in zip(
            *([x] if name in ("det", "inverse", "cholesky") else x for x in (found, wanted)), strict=True
        ):
            assert f.numpy().shape == w.shape
    assert none.solve(Tensor(np.zeros((0, 3, 2)))).numpy().shape == (0, 3, 2)


def test_errors() -> None:
    x = Tensor(normal(2, 3))
    square = Tensor(normal(3, 3))
    calls: list[tuple[Callable[[], Any], str]] = [
        (lambda: x.inv(), r"inv: a tensor of shape \(2, 3\)"),
        (lambda: x[0].qr(), r"qr: a tensor of shape \(3,\)"),
        (lambda: Tensor.zeros(65, 65).det(), "1 to 64 rows"),
        (lambda: Tensor.zeros(0, 0).det(), "1 to 64 rows"),
        (lambda: square.solve(Tensor(normal(2, 2))), "a right side of shape"),
        (lambda: square.solve_triangular(Tensor(normal(3)), upper=True), "two axes or more"),
        (lambda: Tensor(normal(2, 3, 3)).solve(Tensor(normal(4, 3, 1))), "do not broadcast"),
        (lambda: square.solve(2.0), "float is no tensor"),
        (lambda: square.qr("r"), "mode='r'"),
    ]
    for call, text in calls:
        with pytest.raises(TensorError, match=text):
            call()


def test_powers_of_the_inverse() -> None:
    a = np.array([[2.0, 1.0], [-1.0, 3.0]])
    for n in (-1, -3):
        np.testing.assert_allclose(
            Tensor(a).matrix_power(n).numpy(), np.linalg.matrix_power(a, n), rtol=1e-12
        )
