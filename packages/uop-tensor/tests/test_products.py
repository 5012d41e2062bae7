"""einsum and other products against NumPy: notation, dtypes, gradients, errors."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from uop_ir import DType, Ops, dtypes
from uop_tensor import Tensor, TensorError

Array = npt.NDArray[Any]

RNG = np.random.default_rng(31)


def normal(*shape: int) -> Array:
    return RNG.normal(0, 1, shape)


EQUATIONS: list[tuple[str, tuple[tuple[int, ...], ...]]] = [
    ("ij,jk->ik", ((2, 3), (3, 4))),
    ("ij,jk", ((2, 3), (3, 4))),
    (" i j , j k -> k i ", ((2, 3), (3, 4))),
    ("ba,cb", ((2, 3), (4, 2))),
    ("Ab,bC", ((2, 3), (3, 4))),
    ("ij->ji", ((2, 3),)),
    ("ji", ((2, 3),)),
    ("ij->", ((2, 3),)),
    ("ij->j", ((2, 3),)),
    ("ii", ((3, 3),)),
    ("ii->i", ((3, 3),)),
    ("iji->j", ((3, 2, 3),)),
    ("iij->ji", ((3, 3, 2),)),
    ("iii->i", ((3, 3, 3),)),
    ("iijj->ij", ((2, 2, 3, 3),)),
    ("i,i->", ((4,), (4,))),
    ("i,i->i", ((4,), (4,))),
    ("i,j->ij", ((4,), (3,))),
    ("i,i", ((1,), (4,))),
    ("ij,ij->i", ((2, 1), (2, 4))),
    ("bij,bjk->bik", ((2, 3, 4), (2, 4, 5))),
    ("bhid,bhjd->bhij", ((2, 2, 3, 4), (2, 2, 5, 4))),
    ("...ij,...jk->...ik", ((2, 1, 3, 4), (5, 4, 2))),
    ("...ij,...jk", ((2, 1, 3, 4), (5, 4, 2))),
    ("i...->...", ((2, 3, 4),)),
    ("i...j->j...i", ((2, 5, 3),)),
    ("...,...->...", ((2, 3), (3,))),
    ("...i,i->...", ((2, 3), (3,))),
    ("...", ((2, 3),)),
    ("ij,jk,kl->il", ((2, 3), (3, 4), (4, 5))),
    ("ij,kl,jk->il", ((2, 3), (4, 5), (3, 4))),
    ("i,i,i,i->i", ((3,), (3,), (3,), (3,))),
    ("ij,k,j->k", ((2, 3), (4,), (3,))),
    ("ijk,ilm,njm,nlk,abc->", ((2, 3, 4), (2, 5, 3), (2, 3, 3), (2, 5, 4), (1, 2, 3))),
    ("ab,ab,c->", ((2, 3), (2, 3), (4,))),
    (",i,->i", ((), (3,), ())),
    ("->", ((),)),
    ("ij,jk->ik", ((2, 0), (0, 4))),
    ("ij,jk->ik", ((0, 2), (2, 4))),
]


@pytest.mark.parametrize(("equation", "sizes"), EQUATIONS)
def test_einsum(equation: str, sizes: tuple[tuple[int, ...], ...]) -> None:
    arrays = [normal(*s) for s in sizes]
    wanted = np.einsum(equation, *arrays)
    found = Tensor.einsum(equation, *map(Tensor, arrays))
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-12, atol=1e-13)


def test_einsum_without_an_equation() -> None:
    x, y = normal(2, 3), normal(3, 4)
    a, b = Tensor(x), Tensor(y)
    np.testing.assert_allclose(Tensor.einsum(a, [0, 1], b, [1, 2], [2, 0]).numpy(), (x @ y).T, rtol=1e-12)
    np.testing.assert_allclose(Tensor.einsum(a, [0, 1], b, [1, 2]).numpy(), x @ y, rtol=1e-12)
    np.testing.assert_allclose(Tensor.einsum(a, [..., 1], b, [1, 2], [..., 2]).numpy(), x @ y, rtol=1e-12)
    np.testing.assert_allclose(Tensor.einsum("ij,jk", [a, b]).numpy(), x @ y, rtol=1e-12)
    np.testing.assert_allclose(Tensor.einsum("ij,jk", a, y).numpy(), x @ y, rtol=1e-12)
    # an ellipsis that the result does not name is summed, as in torch
    np.testing.assert_allclose(Tensor.einsum("...i->i", a).numpy(), x.sum(0), rtol=1e-12)


def test_a_matrix_product_is_that_of_matmul() -> None:
    x, y = Tensor(normal(2, 3)), Tensor(normal(3, 4))
    ops = [n.op for n in Tensor.einsum("ij,jk->ik", x, y).uop.toposort()]
    assert ops.count(Ops.REDUCE) == 1
    assert ops[-1] is Ops.REDUCE
    # of three operands, two at a time: not one product of all axes
    z = Tensor(normal(4, 5))
    three = Tensor.einsum("ij,jk,kl->il", x, y, z).uop.toposort()
    assert [n.op for n in three].count(Ops.REDUCE) == 2
    assert max(math.prod(s for s in n.shape if isinstance(s, int)) for n in three) < 2 * 3 * 4 * 5


@pytest.mark.parametrize(
    ("equation", "sizes"), [e for e in EQUATIONS if all(np.prod(s) for s in e[1]) and len(e[1]) < 4]
)
def test_gradients_of_einsum(equation: str, sizes: tuple[tuple[int, ...], ...]) -> None:
    """einsum is linear in each operand: the gradient times a step is the difference."""
    arrays = [normal(*s) for s in sizes]
    tensors = [Tensor(a) for a in arrays]
    out = Tensor.einsum(equation, *tensors)
    seed = normal(*out.shape)
    found = out.gradient(*tensors, seed=Tensor(seed))
    for number, array in enumerate(arrays):
        step = normal(*array.shape)
        with_step = [step if i == number else a for i, a in enumerate(arrays)]
        wanted = (np.einsum(equation, *with_step) * seed).sum()
        np.testing.assert_allclose((found[number].numpy() * step).sum(), wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dtype", [dtypes.f16, dtypes.bf16], ids=str)
def test_narrow_floats_add_up_in_f32(dtype: DType) -> None:
    x, y = normal(300).astype(dtype.numpy), normal(300).astype(dtype.numpy)
    found = Tensor.einsum("i,i->", Tensor(x), Tensor(y))
    assert found.dtype is dtype
    wanted = (x.astype(np.float64) * y.astype(np.float64)).sum()
    unit = {dtypes.f16: 2.0**-10, dtypes.bf16: 2.0**-7}[dtype]
    np.testing.assert_allclose(float(found.item()), wanted, rtol=0.51 * unit, atol=1e-4)


def test_integers_keep_their_dtype() -> None:
    x, y = RNG.integers(-100, 100, (3, 4), np.int8), RNG.integers(-100, 100, (4, 2), np.int8)
    np.testing.assert_array_equal(Tensor.einsum("ij,jk", Tensor(x), Tensor(y)).numpy(), x @ y)
    assert Tensor.einsum("i,i", Tensor([1, 2]), Tensor([0.5, 1.0])).dtype is dtypes.f32


CASES: dict[str, tuple[Callable[[Any, Any], Tensor], Callable[[Array, Array], Any], tuple[int, ...], tuple[int, ...]]] = {
    "tensordot": (lambda x, y: x.tensordot(y), lambda x, y: np.tensordot(x, y), (2, 3, 4), (3, 4, 5)),
    "tensordot 1": (lambda x, y: x.tensordot(y, 1), lambda x, y: np.tensordot(x, y, 1), (2, 3), (3, 4)),
    "tensordot 0": (lambda x, y: x.tensordot(y, 0), lambda x, y: np.tensordot(x, y, 0), (2,), (3, 4)),
    "tensordot of axes": (
        lambda x, y: x.tensordot(y, ([0, -1], [2, 0])),
        lambda x, y: np.tensordot(x, y, ([0, -1], [2, 0])),
        (2, 3, 4),
        (4, 5, 2),
    ),
    "inner": (lambda x, y: x.inner(y), np.inner, (2, 3, 4), (5, 4)),
    "inner of numbers": (lambda x, y: x.inner(y), np.inner, (), (5, 4)),
    "outer": (lambda x, y: x.outer(y), np.outer, (3,), (4,)),
    "kron": (lambda x, y: x.kron(y), np.kron, (2, 3), (3, 2)),
    "kron of unequal ranks": (lambda x, y: x.kron(y), np.kron, (2,), (2, 3, 2)),
    "vdot": (lambda x, y: x.vdot(y), np.vdot, (4,), (4,)),
    "vecdot": (lambda x, y: x.vecdot(y), lambda x, y: (x * y).sum(-1), (2, 3, 4), (3, 1)),
    "vecdot of an axis": (lambda x, y: x.vecdot(y, 0), lambda x, y: (x * y).sum(0), (3, 4), (3, 4)),
    "mm": (lambda x, y: x.mm(y), np.matmul, (2, 3), (3, 4)),
    "mv": (lambda x, y: x.mv(y), np.matmul, (2, 3), (3,)),
    "bmm": (lambda x, y: x.bmm(y), np.matmul, (5, 2, 3), (5, 3, 4)),
    "cross": (lambda x, y: x.cross(y), np.cross, (5, 3), (3,)),
    "cross of axis 0": (lambda x, y: x.cross(y, 0), lambda x, y: np.cross(x, y, axis=0), (3, 5), (3, 5)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_products(name: str) -> None:
    call, formula, left, right = CASES[name]
    x, y = normal(*left), normal(*right)
    wanted = np.asarray(formula(x, y))
    found = call(Tensor(x), Tensor(y))
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-12, atol=1e-13)


def test_products_added() -> None:
    x, y, v = normal(2, 3), normal(3, 4), normal(3)
    m, w = normal(2, 4), normal(2)
    a, b, c = Tensor(x), Tensor(y), Tensor(v)
    np.testing.assert_allclose(Tensor(m).addmm(a, b).numpy(), m + x @ y, rtol=1e-12)
    np.testing.assert_allclose(
        Tensor(m).addmm(a, b, beta=0.5, alpha=2).numpy(), 0.5 * m + 2 * (x @ y), rtol=1e-12
    )
    assert not np.isnan(Tensor(m * np.nan).addmm(a, b, beta=0).numpy()).any()
    np.testing.assert_allclose(Tensor(w).addmv(a, c, alpha=3).numpy(), w + 3 * (x @ v), rtol=1e-12)
    np.testing.assert_allclose(Tensor(x).addr(Tensor(w), c).numpy(), x + np.outer(w, v), rtol=1e-12)
    p, q = normal(5, 2, 3), normal(5, 3, 4)
    np.testing.assert_allclose(Tensor(m).baddbmm(Tensor(p), Tensor(q)).numpy(), m + p @ q, rtol=1e-12)


def test_powers_and_traces() -> None:
    x = normal(2, 3, 3)
    for n in (0, 1, 2, 3, 7):
        np.testing.assert_allclose(
            Tensor(x).matrix_power(n).numpy(), np.linalg.matrix_power(x, n), rtol=1e-11
        )
    np.testing.assert_allclose(Tensor(x[0]).trace().numpy(), np.trace(x[0]), rtol=1e-12)
    y = normal(2, 5)
    np.testing.assert_allclose(Tensor(y).trace().numpy(), np.trace(y), rtol=1e-12)
    np.testing.assert_allclose(Tensor(y.T).trace().numpy(), np.trace(y.T), rtol=1e-12)


def test_errors() -> None:
    x, y = Tensor(normal(2, 3)), Tensor(normal(2, 3))
    calls: list[tuple[Callable[[], Tensor], str]] = [
        (lambda: Tensor.einsum("ij,jk->ik", x), "2 terms for 1 operands"),
        (lambda: Tensor.einsum("ij,jk->ik", x, y), "'j' has the sizes 3 and 2"),
        (lambda: Tensor.einsum("ii", x), "'i' has the sizes 2 and 3"),
        (lambda: Tensor.einsum("ijk", x), "operand of 2 axes"),
        (lambda: Tensor.einsum("i->i", x), "operand of 2 axes"),
        (lambda: Tensor.einsum("ij->k", x), "'k' in"),
        (lambda: Tensor.einsum("ij->ii", x), "names each axis once"),
        (lambda: Tensor.einsum("i1", x), "'i1' in"),
        (lambda: Tensor.einsum("i......j", x), "at most one"),
        (lambda: Tensor.einsum("ij->i->j", x), "'i->j' in"),
        (lambda: Tensor.einsum("...i,...j", x, Tensor(normal(3, 3))), r"'\.\.\.' has the sizes 2 and 3"),
        (lambda: Tensor.einsum("i,i", x[0], 2.0), "float is no tensor"),
        (lambda: Tensor.einsum("i->", Tensor([True])), "dtype bool"),
        (lambda: Tensor.einsum(x, x), "numbers are from 0 to 51"),
        (lambda: x.tensordot(y, 3), "dims=3"),
        (lambda: x.tensordot(y, 1), "tensordot: axes"),
        (lambda: x.tensordot(y, [1]), r"dims=\[1\]"),
        (lambda: x.outer(y), r"outer: shapes \(2, 3\)"),
        (lambda: x.inner(y.T), "the last axes must be equal"),
        (lambda: x.mm(y[0]), "mm: shapes"),
        (lambda: x.mm(y), "3 columns meet 2 rows"),
        (lambda: Tensor(normal(1, 2, 3)).bmm(Tensor(normal(2, 3, 2))), "batches of equal size"),
        (lambda: x.cross(y, 0), "3 elements in both"),
        (lambda: x.matrix_power(2), "square matrices"),
        (lambda: x[0].trace(), "two axes"),
    ]
    for call, text in calls:
        with pytest.raises(TensorError, match=text):
            call()
