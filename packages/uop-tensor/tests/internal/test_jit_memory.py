"""jit: what a replay costs, and whose memory it writes. Week 5."""

import gc
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import numpy as np
import pytest

from uop_tensor import JitError, Tensor, jit, live
from uop_tensor.memory import whole_buffer
from uop_tensor.outside import alone
from uop_tensor.program import COUNTERS


def test_replay_schedules_nothing_and_is_one_run() -> None:
    @jit
    def f(x: Tensor) -> tuple[Tensor, Tensor]:
        return x.softmax(), x.sum()

    f(Tensor(np.ones((3, 4), np.float32)))
    before = COUNTERS.plans, COUNTERS.cache_hits, COUNTERS.realizes
    f(Tensor(np.ones((3, 4), np.float32)))
    assert (COUNTERS.plans, COUNTERS.cache_hits, COUNTERS.realizes) == (before[0], before[1], before[2] + 1)


def test_state_keeps_its_memory() -> None:
    w = Tensor([1.0, 2.0]).realize()
    memory = whole_buffer(w.uop)

    @jit
    def step(rate: float) -> Tensor:
        w.assign(w * rate)
        return w.sum()

    for rate in (0.5, 0.25, 4.0):
        step(rate)
        assert whole_buffer(w.uop) is memory
    assert w.tolist() == [0.5, 1.0]


def test_training_step_with_moments_is_few_kernels() -> None:
    w = Tensor(np.ones((3, 2), np.float32), requires_grad=True)
    m = Tensor.zeros(3, 2)

    @jit
    def step(x: Tensor, y: Tensor, rate: float) -> Tensor:
        w.grad = None
        loss = ((x @ w - y) * (x @ w - y)).mean()
        (gradient,) = loss.gradient(w)
        m.assign(m * 0.9 + gradient)
        w.assign(w - m * rate)
        return loss

    step(Tensor(np.ones((8, 3), np.float32)), Tensor(np.ones((8, 2), np.float32)), 0.1)
    (replay,) = step.captures.values()
    assert replay.program is not None
    assert len(replay.program.planned.plan.calls) <= 4


def memory(t: Tensor) -> object:
    return whole_buffer(t.uop)


def test_arguments_go_with_their_tensors() -> None:
    """At once: the garbage collector, which does not know how large memory is, has nothing to do."""
    f = jit(lambda x: [x + 1.0])
    gc.collect()
    gc.disable()
    try:
        for _ in range(2):
            x = Tensor(np.ones(3, np.float32))
            f(x)
            alive = weakref.ref(whole_buffer(x.uop))
            del x
            assert alive() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("shape", [(3,), (3, 1)])  # a view is the BUFFER itself, or a RESHAPE of it
def test_memory_of_a_result_that_is_dropped_is_used_again(shape: tuple[int, ...]) -> None:
    f = jit(lambda x: x + 1.0)
    x = Tensor(np.ones(shape, np.float32))
    seen = set()
    for _ in range(10):
        y = f(x)  # holds the last result while the next is computed
        seen.add(id(memory(y)))
    assert len(seen) == 2


@pytest.mark.parametrize("shape", [(3,), (3, 1)])
def test_memory_of_a_result_that_anything_holds_is_not_used_again(shape: tuple[int, ...]) -> None:
    f = jit(lambda x: x + 1.0)
    ones = np.ones(shape, np.float32)
    kept = [f(Tensor(ones * i)) for i in range(5)]
    lazy = [f(Tensor(ones * i)) * 2.0 for i in range(5)]  # the tensors are gone, graphs read their memory
    nodes = [f(Tensor(ones * i)).uop for i in range(5)]
    turned = [f(Tensor(ones * i)).reshape(-1, 3).permute(1, 0) for i in range(5)]
    for i in range(5):
        np.testing.assert_array_equal(kept[i].numpy(), ones * (i + 1))
        np.testing.assert_array_equal(lazy[i].numpy(), ones * (i + 1) * 2)
        np.testing.assert_array_equal(Tensor(nodes[i]).numpy(), ones * (i + 1))
        np.testing.assert_array_equal(turned[i].numpy(), np.full((3, 1), i + 1))


def test_a_result_that_is_assigned_keeps_its_memory() -> None:
    f = jit(lambda x: x + 1.0)
    w = Tensor(np.zeros(3, np.float32))
    for i in range(4):
        w.assign(f(Tensor(np.full(3, float(i), np.float32))))
        f(Tensor(np.full(3, -1.0, np.float32)))
        assert w.tolist() == [i + 1.0] * 3


def test_threads_that_replay_one_function() -> None:
    f = jit(lambda x: x * 2.0)
    f(Tensor(np.zeros(3, np.float32)))

    def many(start: int) -> bool:
        ones = np.ones(3, np.float32)
        return all(f(Tensor(ones * i)).tolist() == [2.0 * i] * 3 for i in range(start, start + 50))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(many, range(0, 400, 100)))


@pytest.mark.parametrize("shape", [(4,), (2, 2)])  # a view is the BUFFER itself, or a RESHAPE of it
@pytest.mark.parametrize(
    "take",
    [
        lambda w: w.clone(),
        lambda w: w.reshape(4)[1:],
        lambda w: w.reshape(2, 2).permute(1, 0),
        lambda w: w * 2.0 + w.sum(),
        lambda w: (w * 2.0).detach(),
    ],
)
def test_what_reads_a_state_is_found_after_it_was_alone(
    shape: tuple[int, ...], take: Callable[[Tensor], Tensor]
) -> None:
    w = Tensor(np.arange(4.0, dtype=np.float32).reshape(shape))

    @jit
    def step() -> None:
        w.assign(w + 1.0)

    for _ in range(3):
        step()
    (replay,) = step.captures.values()
    assert replay.outside.last is not None
    assert alone(replay.outside.last)
    kept, wanted = take(w), take(Tensor(w.numpy())).numpy()
    moved = memory(w)
    step()
    assert memory(w) is not moved
    step()
    np.testing.assert_array_equal(kept.numpy(), wanted)
    np.testing.assert_array_equal(w.numpy(), np.arange(5.0, 9.0).reshape(shape))


def test_a_state_that_shared_its_value_with_another_tensor_has_parted_from_it() -> None:
    """In the first call their contents are equal; from the second on they are two values."""
    a, b, c = (Tensor([v]) for v in (1.0, 2.0, 3.0))
    c.assign(a)

    @jit
    def step() -> None:
        a.assign(b + 0.0)
        b.assign(a * 0.5 - c)

    values = [1.0, 2.0, 1.0]
    for _ in range(4):
        step()
        values = [values[1], values[1] * 0.5 - values[2], values[2]]
        assert [t.item() for t in (a, b, c)] == values


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("same", [lambda w: w, lambda w: w.reshape(-1)])
def test_a_state_that_is_an_argument_too(lazy: bool, same: Callable[[Tensor], Tensor]) -> None:
    other = Tensor(np.arange(3.0))
    w = other + 0.0 if lazy else other

    @jit
    def step(x: Tensor) -> None:
        w.assign(w * 0.5 + x)

    for call in range(1, 4):
        step(same(w))
        np.testing.assert_array_equal(w.numpy(), np.arange(3.0) * 1.5**call)


def test_a_thread_waits_while_another_one_traces() -> None:
    """Its tensors are made of what was there, not of placeholders;
    what it stores, draws and replays comes afterwards.
    """
    w, v = Tensor(np.ones(3, np.float32)), Tensor(np.zeros(3, np.float32))
    old = Tensor([1.0, 2.0, 3.0]) * 2.0
    other = jit(lambda x: x + w)
    other(old)
    results: list[object] = []
    traced, lazy = Event(), Event()

    def work() -> None:
        traced.wait()
        new = old.reshape(3) + w * 10.0
        lazy.set()
        results.append(new.tolist())
        results.append(other(old).tolist())
        v.assign(v + 1.0)
        results.append(jit(lambda x: x * v)(old).tolist())

    @jit
    def step(x: Tensor) -> Tensor:
        traced.set()
        lazy.wait()
        w.assign(w + x)
        return w * 2.0

    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(work)
        assert step(Tensor([4.0, 4.0, 4.0])).tolist() == [10, 10, 10]
        working.result()
    assert results[0] in ([12, 14, 16], [52, 54, 56])  # w was read as it is before or after the step
    assert results[1] in ([3, 5, 7], [7, 9, 11])
    assert results[2] == [2, 4, 6]
    assert (w.tolist(), v.tolist()) == ([5] * 3, [1] * 3)


def test_a_trace_that_waits_for_a_thread_that_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "PATIENCE", 0.01)
    with ThreadPoolExecutor(1) as pool:
        f = jit(lambda x: x + pool.submit(lambda: Tensor([1.0]).item()).result())
        with pytest.raises(JitError, match=r"traced by another thread for more than 0\.01 s"):
            f(Tensor([1.0]))
    assert (Tensor([1.0]) + 1.0).item() == 2


def test_a_trace_that_waits_for_a_thread_that_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "PATIENCE", 0.01)

    @jit
    def double(x: Tensor) -> Tensor:
        return x * 2

    with ThreadPoolExecutor(1) as pool:
        pool.submit(live.begin_work).result()
        with pytest.raises(
            JitError, match=r"double is .* another thread computes for more than 0\.01 s"
        ) as error:
            double(Tensor([1.0]))
        assert "call double once before threads begin" in (error.value.remedy or "")
        pool.submit(live.end_work).result()
    assert double(Tensor([1.0])).item() == 2
