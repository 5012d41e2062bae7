"""Convolutions, reductions, functions of elements, attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .work import Work, arrays, on_arrays, torch

functional: Any = torch.nn.functional if torch else None
#: Images, filters, stride, padding: the first of performance, five of a ResNet-18, one of MNIST.
CONVOLUTIONS = (
    ((16, 64, 56, 56), (64, 64, 3, 3), 1, 1),
    ((4, 3, 224, 224), (64, 3, 7, 7), 2, 3),
    ((4, 64, 56, 56), (64, 64, 3, 3), 1, 1),
    ((4, 64, 56, 56), (128, 64, 3, 3), 2, 1),
    ((4, 128, 28, 28), (128, 128, 3, 3), 1, 1),
    ((4, 256, 14, 14), (512, 256, 1, 1), 2, 0),
    ((32, 1, 28, 28), (32, 1, 3, 3), 1, 1),
)
LARGE = (4096, 4096)  # 16M elements


def convolution(images: tuple[int, ...], filters: tuple[int, ...], stride: int, padding: int) -> Work:
    places = (images[2] + 2 * padding - filters[2]) // stride + 1
    count = images[0] * filters[0] * places**2
    depth = int(np.prod(filters[1:]))
    name = f"conv {'x'.join(map(str, images))}, {filters[0]} of {filters[2]}x{filters[3]}, stride {stride}"
    return Work(
        name,
        on_arrays(
            lambda: arrays(images, filters),
            lambda x, w: x.conv2d(w, None, stride, padding),
            lambda x, w: functional.conv2d(x, w, None, stride, padding),
        ),
        2.0 * count * depth,
        4.0 * (np.prod(images) + np.prod(filters) + count),
    )


def elements(
    name: str,
    ours: Callable[..., Any],
    theirs: Callable[..., Any],
    out: Callable[..., Any] | None = None,
    *,
    shape: tuple[int, ...] = LARGE,
    written: float = 1.0,
) -> Work:
    """A function of one large array; `written` is how many
    results there are for each element that is read.
    """
    size = 4.0 * np.prod(shape)
    text = f"{name} {'x'.join(map(str, shape))}"
    return Work(text, on_arrays(lambda: arrays(shape), ours, theirs, None, out), 0.0, size * (1 + written))


def cross_entropy() -> Work:
    rows, classes = 4096, 4096

    def given() -> list[Any]:
        return [*arrays((rows, classes)), np.random.default_rng(1).integers(0, classes, rows)]

    sides = on_arrays(given, lambda x, y: x.cross_entropy(y), lambda x, y: functional.cross_entropy(x, y))
    return Work(f"cross entropy {rows}x{classes}", sides, 0.0, 4.0 * rows * classes)


def attention(time: int, causal: bool, backward: bool = False) -> Work:
    """Of 4 texts, 8 heads and vectors of 64; backward: the gradients of all three, forward included."""
    shape = (4, 8, time, 64) if time <= 1024 else (1, 8, time, 64)

    def ours(q: Any, k: Any, v: Any) -> Any:
        value = q.scaled_dot_product_attention(k, v, is_causal=causal)
        return value.sum().gradient(q, k, v) if backward else value

    def theirs(q: Any, k: Any, v: Any) -> Any:
        if not backward:
            return functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
        leaves = [x.detach().requires_grad_() for x in (q, k, v)]
        return torch.autograd.grad(
            functional.scaled_dot_product_attention(*leaves, is_causal=causal).sum(), leaves
        )

    operations = 4.0 * shape[0] * shape[1] * time**2 * 64 * (3.5 if backward else 1.0)
    ends = 6 if backward else 4  # q, k and v are read; what is written: their gradients, or the value
    return Work(
        f"attention {'x'.join(map(str, shape))}{', causal' if causal else ''}{', backward' if backward else ''}",
        on_arrays(lambda: arrays(shape, shape, shape), ours, theirs),
        operations / 2 if causal else operations,
        4.0 * ends * np.prod(shape),
    )


WORKS = (
    *(convolution(*case) for case in CONVOLUTIONS),
    elements(
        "sum of the last axis",
        lambda x: x.sum(1),
        lambda x: x.sum(1),
        lambda x, o: torch.sum(x, 1, out=o),
        written=0,
    ),
    elements(
        "sum of the first axis",
        lambda x: x.sum(0),
        lambda x: x.sum(0),
        lambda x, o: torch.sum(x, 0, out=o),
        written=0,
    ),
    elements(
        "softmax", lambda x: x.softmax(-1), lambda x: x.softmax(-1), lambda x, o: torch.softmax(x, -1, out=o)
    ),
    elements(
        "LayerNorm",
        lambda x: x.layer_norm(1024),
        lambda x: functional.layer_norm(x, (1024,)),
        shape=(4096, 1024),
    ),
    elements(
        "RMSNorm", lambda x: x.rms_norm(1024), lambda x: functional.rms_norm(x, (1024,)), shape=(4096, 1024)
    ),
    cross_entropy(),
    elements(
        "tanh GELU",
        lambda x: x.gelu("tanh"),
        lambda x: functional.gelu(x, approximate="tanh"),
        lambda x, o: torch._C._nn.gelu(x, approximate="tanh", out=o),
    ),
    elements("ReLU", lambda x: x.relu(), lambda x: x.relu(), lambda x, o: torch.clamp_min(x, 0, out=o)),
    attention(1024, False),
    attention(1024, True),
    attention(1024, True, True),
    attention(4096, True),
)
