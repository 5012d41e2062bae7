"""The order of kernels: every edge kept, and little memory between them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from uop_ir import UOp, dtypes, get_backend
from uop_tensor import Tensor, checkpoint
from uop_tensor.order import run_order
from uop_tensor.program import program
from uop_tensor.schedule import Graph, Kernel


def arena(recompute: bool) -> int:
    """Bytes of scratch memory of the gradients of 6 blocks of 4 layers, each of 1 KB."""
    weights = [[Tensor(np.ones((16, 16), np.float32)) for _ in range(4)] for _ in range(6)]

    def block(x: Tensor, number: int) -> Tensor:
        for w in weights[number]:
            x = (x @ w).sin()
        return x

    x = Tensor(np.ones((16, 16), np.float32))
    for number in range(len(weights)):
        x = checkpoint(block, x, number) if recompute else block(x, number)
    gradients = x.sum().gradient(*(w for layer in weights for w in layer))
    values = [g.uop for g in gradients]
    return program(values, [None] * len(values), False, get_backend()).planned.plan.arena


def test_what_is_computed_again_is_so_when_it_is_needed() -> None:
    # a copy of each block's input, and the layers of one block with their derivatives
    assert arena(recompute=True) < (6 + 3 * 4) * 1024 + 1024
    assert arena(recompute=False) >= 24 * 1024


@given(st.data())
def test_every_edge_is_kept_and_every_kernel_runs_once(data: st.DataObject) -> None:
    values: list[UOp] = []
    kernels = []
    for number in range(data.draw(st.integers(1, 12))):
        size = data.draw(st.integers(1, 4))
        value = UOp.buffer(size, dtypes.f32)
        reads = data.draw(st.lists(st.sampled_from(values), max_size=3)) if values else []
        values.append(value)
        kernels.append(Kernel([value], dict.fromkeys(reads), False, number))
    homes = set(data.draw(st.lists(st.sampled_from(values))))
    graph = Graph(kernels)
    order = run_order(graph, homes)
    assert sorted(order) == list(range(len(kernels)))
    for k, kernel in enumerate(kernels):
        for value in kernel.reads:
            assert order.index(values.index(value)) < order.index(k)
