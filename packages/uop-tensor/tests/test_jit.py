"""jit: a replay gives what the function gives, and builds nothing. Week 5."""

import gc
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pytest

from uop_ir import UopError
from uop_tensor import JitError, Tensor, jit

Array = npt.NDArray[Any]
Step = Callable[..., Tensor]
F = TypeVar("F", bound=Step)

rng = np.random.default_rng(0)


def array(*shape: int) -> Array:
    return rng.standard_normal(shape).astype(np.float32)


def test_replay_computes_from_the_arguments_of_each_call() -> None:
    @jit
    def f(x: Tensor, y: Tensor) -> Tensor:
        return x @ y + 1.0

    for _ in range(3):
        a, b = array(3, 4), array(4, 2)
        np.testing.assert_allclose(f(Tensor(a), Tensor(b)).numpy(), a @ b + 1, rtol=1e-5)
    assert f.traces == 1


def test_results_of_two_calls_do_not_share_memory() -> None:
    f = jit(lambda x: x * 2.0)
    first, second = f(Tensor([1.0])), f(Tensor([2.0]))
    assert (first.item(), second.item()) == (2.0, 4.0)


def test_structures_and_lazy_arguments() -> None:
    @jit
    def f(pair: tuple[Tensor, Tensor], *, names: dict[str, Tensor]) -> dict[str, Any]:
        return {"sum": pair[0] + names["b"], "rest": [pair[1], None, "text", 3]}

    a, b = array(2), array(2)
    for _ in range(2):
        out = f((Tensor(a) * 2.0, Tensor(b)), names={"b": Tensor(b) + 1.0})
        np.testing.assert_allclose(out["sum"].numpy(), a * 2 + b + 1, rtol=1e-6)
        np.testing.assert_array_equal(out["rest"][0].numpy(), b)
        assert out["rest"][1:] == [None, "text", 3]


def test_numbers_change_without_a_trace() -> None:
    f = jit(lambda x, rate, n: x * rate + n.float())
    for rate, n in [(0.5, 1), (0.25, 2), (1.5, -3)]:
        assert f(Tensor([2.0]), rate, n).item() == 2 * rate + n
    assert f.traces == 1
    assert f(Tensor([2.0]), 1, 1).item() == 3
    assert f.traces == 2
    assert f(Tensor([2.0]), 0.5, 1 << 40).item() == 1 << 40
    with pytest.raises(UopError, match="is not a value of i64"):
        f(Tensor([2.0]), 0.5, 1 << 63)


def test_shapes_dtypes_and_static_arguments_are_the_signature() -> None:
    @jit
    def f(x: Tensor, negative: bool) -> Tensor:
        return -x if negative else x + 0.0

    assert f(Tensor([1.0]), True).item() == -1
    assert f(Tensor([1.0]), False).item() == 1
    assert f(Tensor([1.0, 2.0]), False).numpy().tolist() == [1, 2]
    assert f.traces == 3
    assert f(Tensor([3.0]), True).item() == -3
    assert f.traces == 3


def test_state_is_updated() -> None:
    w = Tensor(array(4))
    expected = w.numpy()

    @jit
    def step(g: Tensor, rate: float) -> Tensor:
        w.assign(w - g * rate)
        return w.sum()

    for rate in (0.5, 0.25, 0.125):
        g = array(4)
        expected = expected - g * np.float32(rate)
        total = step(Tensor(g), rate)
        np.testing.assert_allclose(w.numpy(), expected, rtol=1e-6)
        np.testing.assert_allclose(total.item(), expected.sum(), rtol=1e-5)
    assert step.traces == 1


def test_state_that_reads_other_elements_of_itself() -> None:
    w = Tensor(array(3, 3))
    expected = w.numpy()
    step = jit(lambda: [w.assign(w.transpose(0, 1) + 1.0), None][1])
    for _ in range(3):
        expected = expected.T + 1
        step()
        np.testing.assert_allclose(w.numpy(), expected, rtol=1e-6)


def test_two_states_swap() -> None:
    a, b = Tensor([1.0]), Tensor([2.0])

    @jit
    def swap() -> None:
        old = a.clone()
        a.assign(b)
        b.assign(old)

    for wanted in [(2, 1), (1, 2), (2, 1)]:
        swap()
        assert (a.item(), b.item()) == wanted


def test_lazy_state() -> None:
    w = Tensor.zeros(3)
    step = jit(lambda: w.assign(w + 1.0).sum())
    assert [step().item() for _ in range(3)] == [3, 6, 9]
    assert w.numpy().tolist() == [3, 3, 3]


def test_values_taken_before_keep_what_they_were() -> None:
    w = Tensor([1.0])

    @jit
    def step() -> None:
        w.assign(w * 2.0)

    lazy, alias = w + 10.0, w.clone()
    step()
    assert (lazy.item(), alias.item(), w.item()) == (11, 1, 2)
    lazy, alias = w + 10.0, w.clone()
    step()
    assert (lazy.item(), alias.item(), w.item()) == (12, 2, 4)


def test_tensor_from_outside_is_looked_up_at_each_call() -> None:
    w = Tensor([1.0])
    f = jit(lambda x: x + w)
    assert f(Tensor([1.0])).item() == 2
    w.assign(Tensor([5.0]))
    assert f(Tensor([1.0])).item() == 6
    w.assign(w * 2.0)
    assert f(Tensor([1.0])).item() == 11
    assert f.traces == 1


def test_tensors_that_part_are_traced_again() -> None:
    a = Tensor([1.0])
    b = a.clone()
    f = jit(lambda x: x + a * 10.0 + b)
    assert f(Tensor([0.0])).item() == 11
    b.assign(Tensor([2.0]))
    assert f(Tensor([0.0])).item() == 12
    assert f.traces == 2


def test_outside_tensor_that_is_gone() -> None:
    def make() -> Step:
        scale = Tensor([3.0]) * 1.0

        def function(x: Tensor) -> Tensor:
            return x * scale

        return jit(function)

    f = make()
    gc.collect()
    assert [f(Tensor([2.0])).item() for _ in range(2)] == [6, 6]


def test_one_tensor_as_two_arguments() -> None:
    f = jit(lambda x, y: x * y + x)
    a, b = Tensor([2.0]), Tensor([3.0])
    assert f(a, b).item() == 8
    assert f(a, a).item() == 6
    assert f(a, a.clone()).item() == 6
    assert f(b, a).item() == 9


def test_argument_that_is_also_state() -> None:
    w = Tensor([1.0, 2.0])

    @jit
    def step(x: Tensor) -> Tensor:
        w.assign(w + x.flip(0))
        return x + 0.0

    for _ in range(2):
        before = w.numpy()
        out = step(w)
        np.testing.assert_array_equal(out.numpy(), before + before[::-1])
        np.testing.assert_array_equal(w.numpy(), before + before[::-1])
        out = step(w.reshape(2))  # another tensor of the same value, and a value stays
        np.testing.assert_array_equal(out.numpy(), before + before[::-1])
        w.assign(before)


def test_argument_that_is_assigned() -> None:
    @jit
    def step(x: Tensor) -> Tensor:
        x.assign(x + 1.0)
        return x

    a = Tensor([1.0])
    old = a.clone()
    assert step(a) is a
    assert step(a).item() == 3
    assert old.item() == 1


def test_outside_tensor_as_result_is_itself() -> None:
    w = Tensor([1.0])
    f = jit(lambda: w.assign(w + 1.0))
    assert f() is w
    assert f() is w
    assert w.item() == 3


@pytest.mark.parametrize("read", [lambda t: t.numpy(), lambda t: t.item(), lambda t: t.tolist(), bool])
def test_reading_a_value_in_the_trace(read: Callable[[Tensor], object]) -> None:
    w = Tensor([1.0])

    @jit
    def f(x: Tensor) -> Tensor:
        w.assign(x)
        read(x)
        return x

    with pytest.raises(JitError, match=r"while f is traced"):
        f(Tensor([2.0]))
    assert w.item() == 1


def test_exception_in_the_trace_leaves_all_as_it_was() -> None:
    w = Tensor([1.0])

    @jit
    def f(x: Tensor) -> None:
        w.assign(w + x)
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        f(Tensor([2.0]))
    assert w.item() == 1
    assert (w + 1.0).item() == 2


def test_realize_in_the_trace_waits() -> None:
    w = Tensor([1.0])

    @jit
    def f(x: Tensor) -> Tensor:
        y = (x + w).realize()
        w.assign(y).realize()
        return y * 2.0

    assert f(Tensor([1.0])).item() == 4
    assert f(Tensor([1.0])).item() == 6
    assert w.item() == 3


def test_traced_value_that_escapes() -> None:
    kept: list[Tensor] = []
    f = jit(lambda x: kept.append(x + 1.0))
    f(Tensor([1.0]))
    with pytest.raises(UopError, match="return the tensor"):
        kept[0].numpy()


def test_state_that_is_made_in_the_trace() -> None:
    kept: list[Tensor] = []

    @jit
    def f(x: Tensor) -> None:
        if not kept:
            kept.append(Tensor.zeros(1))
        kept[0].assign(kept[0] + x)

    with pytest.raises(JitError, match="make the tensor before"):
        f(Tensor([1.0]))


def test_what_no_replay_can_give() -> None:
    with pytest.raises(JitError, match="object as argument"):
        jit(lambda x: x)(object())


def test_callable_objects() -> None:
    class Scale:
        def __init__(self) -> None:
            self.traces = Tensor([3.0])

        def __call__(self, x: Tensor) -> Tensor:
            return x * self.traces

    scale = jit(Scale())
    assert [scale(Tensor([float(i)])).item() for i in range(3)] == [0, 3, 6]
    assert scale.traces == 1
    with pytest.raises(JitError, match="Scale: object as argument"):
        scale(object())  # type: ignore[arg-type]
    assert jit(partial(Tensor.sum, axis=0))(Tensor([1.0, 2.0])).item() == 3


def test_jitted_function_within_another() -> None:
    inner = jit(lambda x: x + 1.0)
    outer = jit(lambda x: inner(x) * 2.0)
    assert [outer(Tensor([float(i)])).item() for i in range(3)] == [2, 4, 6]
    assert inner.traces == 0


def grad(t: Tensor) -> Tensor:
    assert t.grad is not None
    return t.grad


def test_training_step_with_moments() -> None:
    """SGD with momentum on a linear model: jitted, against the same step without jit."""
    xs, ys = array(8, 3), array(8, 2)

    def train(wrap: Callable[[Step], F]) -> tuple[list[float], Array, F]:
        w = Tensor(np.ones((3, 2), np.float32), requires_grad=True)
        m = Tensor.zeros(3, 2)

        def step(x: Tensor, y: Tensor, rate: float) -> Tensor:
            w.grad = None
            loss = ((x @ w - y) * (x @ w - y)).mean()
            loss.backward()
            m.assign(m * 0.9 + grad(w))
            w.assign(w - m * rate)
            Tensor.realize(loss, w, m)
            return loss

        run = wrap(step)
        losses = [float(run(Tensor(xs), Tensor(ys), 0.1 / (i + 1)).item()) for i in range(4)]
        return losses, w.numpy(), run

    plain, w, _ = train(lambda f: f)
    jitted, w2, step = train(jit)
    np.testing.assert_allclose(jitted, plain, rtol=1e-5)
    np.testing.assert_allclose(w2, w, rtol=1e-5)
    assert step.traces == 1


def test_array_that_the_trace_has_filled() -> None:
    kept: list[Tensor] = []

    @jit
    def f(x: Tensor) -> Tensor:
        kept.append(Tensor(np.ones(2, np.float32)))
        return x + kept[0]

    assert f(Tensor([1.0, 2.0])).tolist() == [2, 3]
    kept[0].assign(kept[0] * 10.0).realize()
    assert f(Tensor([1.0, 2.0])).tolist() == [2, 3]
    assert kept[0].tolist() == [10, 10]


def test_two_states_that_begin_as_one_value() -> None:
    a = Tensor([1.0])
    b = a.clone()

    @jit
    def f() -> None:
        a.assign(a + 1.0)
        b.assign(b * 10.0)

    for wanted in [(2, 10), (3, 100), (4, 1000)]:
        f()
        assert (a.item(), b.item()) == wanted


def test_lazy_tensor_from_outside_still_feeds_backward() -> None:
    w = Tensor([2.0], requires_grad=True)
    y = w * 3.0
    f = jit(lambda x: x + y)
    assert f(Tensor([1.0])).item() == 7
    with pytest.raises(UopError, match="realized before"):
        y.backward()
