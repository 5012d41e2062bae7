"""Parameters by the names of torch, and scalars along an axis, against NumPy."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from uop_tensor import Tensor, TensorError

X = np.arange(24.0).reshape(2, 3, 4)

NAMED: list[tuple[Callable[[Any], Any], Any]] = [
    (lambda t: t.flatten(start_dim=1, end_dim=2), X.reshape(2, 12)),
    (lambda t: t.transpose(dim0=0, dim1=2), X.swapaxes(0, 2)),
    (lambda t: t.swapaxes(axis0=0, axis1=1), X.swapaxes(0, 1)),
    (lambda t: t.permute(dims=(2, 0, 1)), X.transpose(2, 0, 1)),
    (lambda t: t.flip(dims=(0, 2)), X[::-1, :, ::-1]),
    (lambda t: t.roll(shifts=1, dims=1), np.roll(X, 1, 1)),
    (lambda t: t.rot90(k=1, dims=(0, 1)), np.rot90(X)),
    (lambda t: t.tile(dims=(2, 1, 1)), np.tile(X, (2, 1, 1))),
    (lambda t: t.repeat(repeats=(1, 2, 1)), np.tile(X, (1, 2, 1))),
    (lambda t: t[:, :1].expand(size=(2, 5, 4)), np.broadcast_to(X[:, :1], (2, 5, 4))),
    (lambda t: t.chunk(chunks=2, dim=2)[1], X[:, :, 2:]),
    (lambda t: t.split(split_size=2, dim=1)[1], X[:, 2:]),
    (lambda t: t.tensor_split(indices_or_sections=2, dim=1)[1], X[:, 2:]),
    (lambda t: t.pad(pad=(1, 0)), np.pad(X, [(0, 0), (0, 0), (1, 0)])),
    (lambda t: t.unfold(dimension=2, size=2, step=2)[:, :, 1], X[:, :, 2:]),
    (lambda t: t.full_like(fill_value=3), np.full_like(X, 3)),
    (lambda t: t.full(size=(2,), fill_value=2.0).double(), np.full(2, 2.0)),
    (lambda t: t.zeros(size=(2, 3)).double(), np.zeros((2, 3))),
    (lambda t: t.arange(start=1, end=4), np.arange(1, 4)),
    (lambda t: t.addcmul(tensor1=t, tensor2=t, value=2), X + 2 * X * X),
]


@pytest.mark.parametrize(("found", "wanted"), NAMED)
def test_names_of_torch(found: Callable[[Any], Any], wanted: Any) -> None:
    np.testing.assert_array_equal(found(Tensor(X)).numpy(), wanted, strict=True)


def test_one_parameter_by_two_names() -> None:
    with pytest.raises(TensorError, match="flatten: both start and start_dim"):
        Tensor(X).flatten(start=0, start_dim=1)  # type: ignore[call-arg]


OF_SCALARS = "sum prod mean max min amax argmax std_mean softmax log_softmax logsumexp cumsum cumprod cummax sort argsort"


@pytest.mark.parametrize("name", OF_SCALARS.split())
def test_a_scalar_is_one_of_one_axis(name: str) -> None:
    scalar, vector = Tensor(2.5), Tensor([2.5])
    for axis in (0, -1):
        found, wanted = (getattr(t, name)(axis) for t in (scalar, vector))
        for one, other in zip(*((r if isinstance(r, tuple) else (r,)) for r in (found, wanted)), strict=True):
            np.testing.assert_array_equal(one.numpy(), other.numpy().reshape(()), strict=True)
    with pytest.raises(TensorError, match=": axis 1 of a tensor"):
        getattr(scalar, name)(1)


def test_parts_of_a_scalar() -> None:
    x, at = Tensor(2.5), Tensor([0])
    assert x.index_select(-1, at).numpy().tolist() == 2.5
    for source in (Tensor(4.0), Tensor([4.0])):
        assert x.index_add(0, at, source).numpy().tolist() == 6.5
        assert x.index_copy(0, at, source).numpy().tolist() == 4
        assert x.index_reduce(-1, at, source, "prod").numpy().tolist() == 10
    assert Tensor([1.0, 2.0]).index_copy(0, at, Tensor(4.0)).tolist() == [4, 2]
    for quantile in (x.quantile, x.nanquantile):
        assert quantile(0.3, 0).numpy().tolist() == 2.5
        assert quantile([0.3], -1, keepdim=True).tolist() == [2.5]


def test_the_gradient_of_a_scalar_along_an_axis() -> None:
    x = Tensor(2.5)
    (found,) = (x * x).sum(0).gradient(x)
    assert found.shape == ()
    assert found.item() == 5.0


Y = np.array([[0.5, -0.25, np.nan], [1.0, 0.0, -1.0]])

OTHER_NAMES: list[tuple[str, list[Any]]] = [
    ("absolute", []), ("negative", []), ("arcsin", []), ("arccos", []), ("arctan", []), ("arcsinh", []),
    ("arccosh", []), ("arctanh", []), ("arctan2", [2.0]), ("multiply", [3.0]), ("subtract", [3.0]), ("divide", [3.0]),
    ("true_divide", [3.0]), ("greater", [0.0]), ("greater_equal", [0.0]), ("less", [0.0]), ("less_equal", [0.0]),
    ("not_equal", [0.0]), ("fmax", [0.2]), ("fmin", [0.2]), ("ravel", []),
]  # fmt: skip


@pytest.mark.parametrize(("name", "others"), OTHER_NAMES)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_methods_by_the_names_of_numpy(name: str, others: list[Any]) -> None:
    found = getattr(Tensor(Y), name)(*others).numpy()
    np.testing.assert_allclose(found, getattr(np, name)(Y, *others), rtol=1e-14, strict=True)


def test_methods_by_the_names_of_torch() -> None:
    t = Tensor(X)
    assert (t.dim(), t.nelement()) == (3, 24)
    wanted = {
        "t": (t[0].t(), X[0].T),
        "select": (t.select(-1, 2), X[:, :, 2]),
        "concat": (t.concat(t, axis=1), np.concatenate([X, X], 1)),
        "clamp_min": (t.clamp_min(3), X.clip(3)),
        "clamp_max": (t.clamp_max(3), X.clip(None, 3)),
        "type_as": (t.type_as(Tensor([1])), X.astype(np.int64)),
        "new_zeros": (t.new_zeros(2, 3), np.zeros((2, 3))),
        "new_ones": (t.new_ones((2,)), np.ones(2)),
        "new_full": (t.new_full((1, 2), 7), np.full((1, 2), 7.0)),
        "dist": (t.dist(t + 1), np.sqrt(24.0)),
    }
    for name, (found, expected) in wanted.items():
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-14, err_msg=name)
    both = np.array([[[2.0, 1.0], [1.0, 3.0]], [[1.0, 2.0], [2.0, 1.0]]])
    np.testing.assert_allclose(Tensor(both).logdet().numpy(), [np.log(5.0), np.nan], rtol=1e-14)
    with pytest.raises(TensorError, match="t: a tensor of shape"):
        t.t()
