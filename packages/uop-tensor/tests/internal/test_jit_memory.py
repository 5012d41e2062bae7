"""jit: what a replay costs, and whose memory it writes. Week 5."""

import gc
import weakref

import numpy as np

from uop_tensor import Tensor, jit
from uop_tensor.memory import whole_buffer
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


def test_arguments_and_results_go_with_their_tensors() -> None:
    """At once: the garbage collector, which does not know how large memory is, has nothing to do."""
    f = jit(lambda x: [x + 1.0])
    gc.collect()
    gc.disable()
    try:
        for _ in range(2):
            x = Tensor(np.ones(3, np.float32))
            (y,) = f(x)
            memory = [weakref.ref(whole_buffer(t.uop)) for t in (x, y)]
            del x, y
            assert [ref() for ref in memory] == [None, None]
    finally:
        gc.enable()
