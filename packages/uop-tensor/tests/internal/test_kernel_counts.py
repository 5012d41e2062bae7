"""How many kernels what models are made of takes, with its gradients:
fixed, so that a change is noticed. Week 5.

Each kernel stores values of one shape. So a softmax with its gradient, which asks for what is known of each
row (its greatest element, its sum), is three kernels:
the rows, the result, and the gradient, which walks through the result.
"""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from uop_ir import Limits, UOp
from uop_tensor import Tensor
from uop_tensor.memory import base
from uop_tensor.plan import Want, make_plan
from uop_tensor.program import canonical


def new(*shape: int) -> Tensor:
    return Tensor(np.zeros(shape, np.float32))


def kernels(values: Sequence[Tensor], donors: Sequence[UOp] = ()) -> int:
    roots, buffers = canonical([v.uop for v in values], donors)
    wants = [Want(buffers.index(d), must=True) for d in donors] or [Want()] * len(values)
    return len(make_plan(UOp.sink(*roots), len(buffers), tuple(wants), Limits()).plan.calls)


def normalized(x: Tensor, w: Tensor) -> Tensor:
    return x * ((x * x).mean(axis=-1, keepdim=True) + 1e-5).rsqrt() * w


def inputs() -> dict[str, Tensor]:
    heads = {name: new(2, 4, 64, 16) for name in "qkv"}
    return {"x": new(256, 512), "w": new(512), "b": new(512), **heads}


LABELS = np.zeros(256, np.int32)
#: What is computed, of which inputs; kernels of the value, of the gradients, of both.
COUNTS: dict[str, tuple[Callable[..., Tensor], str, tuple[int, int, int]]] = {
    "softmax": (lambda x: x.softmax(), "x", (1, 1, 3)),
    "log_softmax": (lambda x: x.log_softmax(), "x", (1, 1, 2)),
    "layernorm": (lambda x, w, b: x.layernorm(w, b), "xwb", (1, 4, 4)),
    "rmsnorm": (normalized, "xw", (1, 3, 3)),
    "cross_entropy": (lambda x: x.cross_entropy(Tensor(LABELS)), "x", (1, 1, 3)),
    "attention": (lambda q, k, v: q.scaled_dot_product_attention(k, v), "qkv", (3, 8, 9)),
    "causal": (lambda q, k, v: q.scaled_dot_product_attention(k, v, is_causal=True), "qkv", (3, 8, 9)),
}


@pytest.mark.parametrize("name", COUNTS)
def test_values_and_gradients(name: str) -> None:
    function, names, counts = COUNTS[name]
    given = [inputs()[n] for n in names]
    value = function(*given)
    seed = None if value.ndim == 0 else new(*value.shape)
    grads = value.gradient(*given, seed=seed)
    assert (kernels([value]), kernels(grads), kernels([value, *grads])) == counts


def adam(count: int, shapes: Sequence[tuple[int, ...]]) -> int:
    """A step of Adam over so many parameters of each shape, which shares its corrections."""
    beta = [0.9, 0.999]
    corrections = [new(), new()]
    changed = [c * b + (1 - b) for c, b in zip(corrections, beta, strict=True)]
    values, donors = list(changed), [base(c.uop) for c in corrections]
    for shape in [s for s in shapes for _ in range(count)]:
        p, g, m, v = (new(*shape) for _ in range(4))
        m2, v2 = m * 0.9 + g * 0.1, v * 0.999 + g * g * 0.001
        values += [m2, v2, p - 0.001 / changed[0] * m2 / ((v2 / changed[1]).sqrt() + 1e-8)]
        donors += [base(t.uop) for t in (m, v, p)]
    return kernels(values, donors)


def test_an_optimizer_takes_a_kernel_a_parameter_and_one_for_what_they_share() -> None:
    assert adam(1, [(64, 64)]) == 2
    assert adam(3, [(64, 64), (64,), (10, 64)]) == 10


def test_products_that_share_an_operand_stay_apart() -> None:
    x = new(64, 64)
    assert kernels([x @ new(64, 64), x @ new(64, 64)]) == 2


def test_reductions_that_walk_through_one_value_are_one_kernel() -> None:
    x = new(64, 64)
    assert kernels([x.sum(0), (x * x).sum(0), x.max(0)]) == 1
    assert kernels([x.sum(1), (x - x.max(1, keepdim=True)).exp().sum(1)]) == 1
    assert kernels([x.sum(0), x.sum(1)]) == 2  # one by columns, one by rows
    assert kernels([x.sum(0), new(64, 64).sum(0)]) == 2


def blocks(count: int) -> tuple[int, int]:
    """Kernels, and different ones, of a training step of so many equal blocks."""
    x, weights = new(8, 16), [(new(16, 32), new(32, 16)) for _ in range(count)]
    for up, down in weights:
        x = x + (x.layernorm() @ up).gelu() @ down
    parameters = [w for pair in weights for w in pair]
    grads = (x * x).mean().gradient(*parameters)
    roots, buffers = canonical([(p - g).uop for p, g in zip(parameters, grads, strict=True)])
    wants = [Want()] * len(roots)
    plan = make_plan(UOp.sink(*roots), len(buffers), tuple(wants), Limits()).plan
    return len(plan.calls), len(plan.bodies)


def test_equal_blocks_are_compiled_once() -> None:
    """So a deep model is compiled as fast as a shallow one of the same blocks."""
    (few, different), (more, also), (most, again) = blocks(3), blocks(6), blocks(12)
    assert different == also == again
    assert more - few == (most - more) // 2
