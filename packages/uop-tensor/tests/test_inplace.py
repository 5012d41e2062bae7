"""Methods whose names end in `_`: the value is that of the method without it; the old one stays elsewhere."""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from uop_ir import DType, dtypes
from uop_tensor import Tensor, TensorError, jit, manual_seed, no_grad

NAMES = sorted(name for name in dir(Tensor) if name.endswith("_") and not name.startswith("_"))
#: What is more than the method without the `_`, of the class or of another shape.
OWN = {
    "zero_", "fill_", "copy_", "uniform_", "normal_", "exponential_", "bernoulli_", "random_", "requires_grad_",
    "detach_",
}  # fmt: skip
#: What is given beside the tensor itself; else as many tensors of its shape as the method takes.
GIVEN: dict[str, tuple[Any, ...]] = {
    "addmm_": (np.array([[1.0, 2.0], [3.0, 4.0]], np.float32),) * 2,
    "addmv_": (np.array([[1.0, 2.0], [3.0, 4.0]], np.float32), np.array([5.0, 6.0], np.float32)),
    "clamp_": (0.3, 0.6),
    "clip_": (0.3, 0.6),
    "index_add_": (0, [1], np.array([2.0], np.float32)),
    "index_copy_": (0, [1], np.array([2.0], np.float32)),
    "index_reduce_": (0, [1], np.array([2.0], np.float32), "prod"),
    "index_fill_": (0, [1], 2.0),
    "index_put_": (([1],), 2.0),
    "put_": ([1], 2.0),
    "masked_fill_": (np.array([True, False]), 2.0),
    "masked_scatter_": (np.array([True, False]), np.array([2.0], np.float32)),
    "scatter_": (0, [1], 2.0),
    "scatter_add_": (0, [1], np.array([2.0], np.float32)),
    "scatter_reduce_": (0, [1], np.array([2.0], np.float32), "amax"),
    "cumsum_": (0,),
    "cumprod_": (0,),
    "lerp_": (np.array([1.0, 2.0], np.float32), 0.25),
    "addcmul_": (np.array([1.0, 2.0], np.float32), 0.25),
    "addcdiv_": (np.array([1.0, 2.0], np.float32), 0.25),
    "addr_": (np.array([1.0, 2.0], np.float32), np.array([3.0, 4.0], np.float32)),
    "baddbmm_": (np.array([[[1.0, 2.0], [3.0, 4.0]]], np.float32),) * 2,
}
DIGITS = {dtypes.f16: 11, dtypes.bf16: 8, dtypes.f32: 24, dtypes.f64: 53}
OF_INTEGERS = ("bitwise", "gcd", "lcm")
SHAPES = {"addmm_": (2, 2), "addr_": (2, 2), "baddbmm_": (1, 2, 2), "tril_": (2, 2), "triu_": (2, 2)}


@pytest.mark.parametrize("name", [n for n in NAMES if n not in OWN])
def test_the_value_is_that_of_the_method(name: str) -> None:
    shape = SHAPES.get(name, (2,))
    x = Tensor(np.linspace(0.25, 0.75, int(np.prod(shape))).reshape(shape))
    x = (x * 8).cast(dtypes.i64) if name.startswith(OF_INTEGERS) else x.float()
    method = getattr(Tensor, name.removesuffix("_"))
    required = [p for p in inspect.signature(method).parameters.values() if p.default is p.empty]
    arguments = GIVEN.get(name, (x,) * (len(required) - 1))
    given = [Tensor(a) if isinstance(a, np.ndarray) else a for a in arguments]
    wanted = method(x, *given).cast(x.dtype).numpy()
    view, double, own = x[:1], x * 2, x.numpy()
    assert getattr(x, name)(*given) is x
    np.testing.assert_array_equal(x.numpy(), wanted, strict=True)
    np.testing.assert_array_equal(view.numpy(), own[:1])
    np.testing.assert_array_equal(double.numpy(), own * 2)


def test_filled_and_copied() -> None:
    x = Tensor([[1.0, 2.0], [3.0, 4.0]])
    assert x.zero_().tolist() == [[0, 0], [0, 0]]
    assert x.fill_(2).tolist() == [[2, 2], [2, 2]]
    assert x.fill_(Tensor(3)).tolist() == [[3, 3], [3, 3]]
    assert x.copy_(Tensor([5, 6])).tolist() == [[5, 6], [5, 6]]
    assert Tensor([1, 2]).copy_(Tensor([1.5, -1.5])).tolist() == [1, -1]
    assert x.dtype is dtypes.f32


def test_random_numbers_are_those_of_the_class() -> None:
    draws: list[tuple[Callable[[Tensor], Tensor], Callable[[], Tensor]]] = [
        (lambda x: x.uniform_(-1, 2), lambda: Tensor.rand(3, low=-1, high=2, dtype=dtypes.f64)),
        (lambda x: x.normal_(1, 2), lambda: Tensor.normal(3, mean=1, std=2, dtype=dtypes.f64)),
        (lambda x: x.exponential_(2), lambda: Tensor.exponential(3, lambd=2, dtype=dtypes.f64)),
        (lambda x: x.bernoulli_(0.3), lambda: (Tensor.rand(3, dtype=dtypes.f64) < 0.3).double()),
    ]
    for change, draw in draws:
        manual_seed(3)
        found = change(Tensor.zeros(3, dtype=dtypes.f64)).tolist()
        manual_seed(3)
        assert found == draw().tolist()
    assert set(Tensor.zeros(50, dtype=dtypes.i32).bernoulli_().tolist()) == {0, 1}


@pytest.mark.parametrize("dtype", [d for d in dtypes.all if d is not dtypes.index], ids=str)
def test_random_whole_numbers(dtype: DType) -> None:
    x = Tensor.zeros(3000, dtype=dtype)
    whole = x.random_().double().numpy()
    most = int(dtype.max) if dtype.is_int else 1 << DIGITS.get(dtype, 0)
    assert whole.min() >= 0
    assert 0.4 < whole.mean() / most < 0.6
    assert whole.max() > most * 0.9
    assert (whole == np.floor(whole)).all()
    assert x.random_(1).double().sum().item() == 0
    if dtype is dtypes.bool:
        return
    assert set(x.random_(3, 6).tolist()) == {3, 4, 5}
    if dtype.min < 0:
        assert set(x.random_(-2, 1).tolist()) == {-2, -1, 0}
    for bounds in ((most + 2,), (3, 3), (0,), (0, 1, 2)):
        with pytest.raises(TensorError, match=r"random_: bounds \("):
            x.random_(*bounds)


def test_gradients_flow_through_the_new_value() -> None:
    w = Tensor([1.0, 2.0]).requires_grad_()
    y = w * 3
    early = y * y
    y.add_(1).mul_(y)
    (early + y).sum().backward()
    assert w.grad is not None
    np.testing.assert_array_equal(w.grad.numpy(), 18 * np.array([1, 2]) + 6 * (3 * np.array([1, 2]) + 1))
    w.grad.zero_()
    with no_grad():
        w.sub_(0.5)
    assert (w.tolist(), w.requires_grad, w.grad.tolist()) == ([0.5, 1.5], True, [0, 0])
    assert not w.detach_().requires_grad
    assert w.mul_(2).tolist() == [1, 3]
    assert w.requires_grad_(False) is w


def test_a_replay_changes_in_place() -> None:
    total = Tensor([0.0, 0.0]).realize()

    @jit
    def step(x: Tensor) -> Tensor:
        return total.add_(x).sum()

    assert [step(Tensor([1.0, 2.0])).item() for _ in range(3)] == [3, 6, 9]
    assert total.tolist() == [3, 6]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: Tensor([1.0], requires_grad=True).add_(1), "add_: a tensor with requires_grad is changed"),
        (lambda: Tensor([1.0], requires_grad=True).zero_(), "zero_: a tensor with requires_grad is changed"),
        (lambda: Tensor([1]).add_(0.5), r"add_: f32\(1,\) into a tensor i64\(1,\)"),
        (lambda: Tensor([True]).add_(1), r"add_: i64\(1,\) into a tensor bool\(1,\)"),
        (lambda: Tensor([1]).mul_(Tensor([1, 2])), r"mul_: i64\(2,\) into a tensor i64\(1,\)"),
        (lambda: Tensor([1]).normal_(), r"normal_: f32\(1,\) into a tensor i64"),
        (lambda: Tensor([1]).fill_(Tensor([1])), r"fill_: a value of shape \(1,\)"),
        (lambda: Tensor([1]).copy_(Tensor([1, 2])), r"copy_: \(2,\) into \(1,\)"),
        (lambda: Tensor([1]).requires_grad_(), "requires_grad: a tensor of dtype i64"),
    ],
)
def test_what_does_not_fit(wrong: Callable[[], object], message: str) -> None:
    with pytest.raises(TensorError, match=message):
        wrong()
