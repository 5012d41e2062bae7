"""The Tensor itself: values, assignment, what is refused."""

import traceback
from collections.abc import Callable

import numpy as np
import pytest

from uop_ir import BackendError, DType, Ops, UopError, dtypes
from uop_tensor import Tensor, TensorError


def test_properties() -> None:
    t = Tensor(np.zeros((2, 3), np.float16))
    assert (t.shape, t.ndim, t.dtype, t.numel(), len(t)) == ((2, 3), 2, dtypes.f16, 6, 2)
    assert (t.size(), t.size(-1)) == ((2, 3), 3)
    assert isinstance(t.device, str)
    assert t.to(t.device).uop is t.uop
    assert Tensor(t, device=t.device).uop is t.uop


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Tensor([1]).to("NOWHERE"),
        lambda: Tensor(Tensor([1]), device="NOWHERE"),
        lambda: Tensor(1, device="NOWHERE"),
    ],
)
def test_devices_that_are_not_installed(wrong: Callable[[], object]) -> None:
    with pytest.raises(BackendError, match="no backend 'NOWHERE'"):
        wrong()


def test_values() -> None:
    t = Tensor([[1, 2], [3, 4]])
    assert t.tolist() == [[1, 2], [3, 4]]
    assert [row.tolist() for row in t] == [[1, 2], [3, 4]]
    assert t[0, 1].item() == 2
    assert (float(t[1, 0]), int(Tensor(2.7)), bool(Tensor([[5]])), bool(Tensor(0.0))) == (3.0, 2, True, False)
    assert isinstance(Tensor(2.5).item(), float)
    t.numpy()[0, 0] = 9
    assert t[0, 0].item() == 1


def test_repr_shows_values() -> None:
    assert repr(Tensor([1.5, 2.0])) == "Tensor([1.5, 2. ], dtype=f32)"
    assert repr(Tensor([[1, 2], [3, 4]]) + 1) == "Tensor([[2, 3],\n        [4, 5]], dtype=i64)"
    assert repr(Tensor(3.0, requires_grad=True)) == "Tensor(3., dtype=f32, requires_grad=True)"
    assert repr(Tensor.zeros(0, 3)) == "Tensor([], shape=(0, 3), dtype=f32)"
    assert "..." in repr(Tensor.zeros(2000))


def test_tensors_hash_by_identity() -> None:
    a, b = Tensor([1.0]), Tensor([1.0])
    assert len({a, b, a}) == 2
    assert {a: 1}[a] == 1


def test_operations_are_lazy() -> None:
    t = Tensor([1.0, 2.0])
    y = (t * 2 + 1).exp().sum()
    assert Ops.EXP2 in {n.op for n in y.uop.toposort()}
    y.realize()
    assert {n.op for n in y.uop.toposort()} == {Ops.BUFFER, Ops.RESHAPE}
    assert t.realize() is t


def test_realize_several_at_once() -> None:
    t = Tensor([1.0, 2.0])
    a, b = t + 1, t * 3
    a.realize(b)
    assert (a.uop.op, b.uop.op) == (Ops.BUFFER, Ops.BUFFER)
    assert (a.tolist(), b.tolist()) == ([2, 3], [3, 6])


# assignment


def test_assign_rebinds_and_old_values_stay() -> None:
    t = Tensor([1.0, 2.0])
    view, lazy, twin = t[::-1], t * 10, t.clone()
    assert t.assign(t + 1) is t
    t.realize()
    assert t.tolist() == [2, 3]
    assert view.tolist() == [2, 1]
    assert lazy.tolist() == [10, 20]
    assert twin.tolist() == [1, 2]


def test_assign_reuses_memory_that_nobody_needs() -> None:
    t = Tensor([1.0, 2.0])
    before = t.uop
    for _ in range(3):
        t.assign(t * 2)
        t.realize()
    assert t.uop is before
    assert t.tolist() == [8, 16]
    keeper = t + 0.5
    t.assign(t * 2).realize()
    assert t.uop is not before
    assert keeper.tolist() == [8.5, 16.5]


def test_assign_twice_before_anything_runs() -> None:
    t = Tensor([1.0])
    t.assign(t + 1)
    t.assign(t * 10)
    assert t.tolist() == [20]


def test_assign_an_array() -> None:
    t = Tensor(np.zeros(2, np.float32))
    t.assign(np.array([1, 2], np.float32))
    assert t.tolist() == [1, 2]


def grad(t: Tensor) -> Tensor:
    assert t.grad is not None
    return t.grad


def test_assign_keeps_a_parameter_a_parameter() -> None:
    w = Tensor([1.0, 2.0], requires_grad=True)
    (w * w).sum().backward()
    w.assign(w - 0.5 * grad(w))
    w.grad = None
    (w * 3).sum().backward()
    assert grad(w).tolist() == [3, 3]
    assert w.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda t: t.assign(Tensor([1.0])), r"assign: f32\(1,\) to a tensor f32\(2,\)"),
        (lambda t: t.assign(Tensor([1, 2])), r"assign: i64\(2,\) to a tensor f32\(2,\).*cast"),
        (lambda t: t.item(), r"item: a tensor of shape \(2,\)"),
        (lambda t: bool(t), r"bool: a tensor of shape \(2,\) \(use any\(\) or all\(\)\)"),
        (lambda t: len(t.sum()), r"len: a tensor of shape \(\)"),
        (lambda t: list(t.sum()), r"len: a tensor of shape \(\)"),
        (lambda t: t.size(3), "size: axis 3"),
    ],
)
def test_errors(wrong: Callable[[Tensor], object], message: str) -> None:
    with pytest.raises(TensorError, match=message):
        wrong(Tensor([1.0, 2.0]))


def test_an_error_is_raised_where_the_mistake_is_made() -> None:
    with pytest.raises(TensorError) as caught:
        Tensor([1.0, 2.0]) + Tensor([1.0, 2.0, 3.0])
    assert isinstance(caught.value, UopError)
    assert caught.value.exit_code == 3
    frames = traceback.extract_tb(caught.tb)
    assert frames[0].line == "Tensor([1.0, 2.0]) + Tensor([1.0, 2.0, 3.0])"
    assert "remedy" not in str(caught.value)
    assert str(caught.value) == (
        "+: shapes (2,) and (3,) do not broadcast "
        "(aligned on the right, sizes must be equal or 1; reshape or unsqueeze one)"
    )


def test_text_and_indices_of_one_element() -> None:
    loss = Tensor(1.23456)
    assert f"{loss:.3f} {Tensor([7]):4d} {Tensor([1, 2])}" == "1.235    7 Tensor([1, 2], dtype=i64)"
    assert ["a", "b"][Tensor(1)] == "b"
    assert list(range(Tensor([3]))) == [0, 1, 2]
    assert repr(Tensor([1.5, -0.0], dtype=dtypes.bf16)) == "Tensor([ 1.5, -0. ], dtype=bf16)"
    with pytest.raises(TensorError, match=r"item: a tensor of shape \(2,\)"):
        format(Tensor([1.0, 2.0]), ".2f")
    with pytest.raises(TensorError, match=r"index: a tensor f32\(\)"):
        ["a"][Tensor(0.0)]


def test_what_was_read_is_said_to_be_a_value_of_its_own() -> None:
    x = Tensor([1.0, 2.0])
    y = x * x
    y.numpy()
    with pytest.raises(TensorError, match=r"gradient: input 0 .* has requires_grad=True"):
        y.sum().gradient(x)
    x = Tensor([1.0, 2.0], requires_grad=True)
    y = x * x
    y.numpy()
    assert y.sum().gradient(x)[0].tolist() == [2, 4]


@pytest.mark.parametrize("dtype", [dtypes.bool, dtypes.i16, dtypes.bf16, dtypes.f64])
def test_bytes(dtype: DType) -> None:
    x = Tensor.zeros(2, 3, dtype=dtype)
    assert x.element_size() == x.numpy().itemsize
    assert x.nbytes == x.numpy().nbytes
    assert x.is_floating_point() == (dtype in (dtypes.bf16, dtypes.f64))
    assert x.short().dtype is dtypes.i16


def test_to_a_dtype() -> None:
    x = Tensor([1.5, -2.5])
    assert x.to(dtypes.i32).tolist() == [1, -2]
    assert x.to(dtypes.i32).dtype is dtypes.i32
    assert x.to(dtype=dtypes.f64).dtype is dtypes.f64
    assert x.to("INTERP", dtypes.f16).dtype is dtypes.f16
    assert x.to(Tensor([1])).dtype is dtypes.i64
    with pytest.raises(TensorError, match="to: device"):
        x.to(3)  # type: ignore[arg-type]
