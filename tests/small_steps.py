"""Training steps of an MLP and a GPT of odd sizes:
prints the bits of each loss. Run under guard pages and sanitizers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from uop_nn import AdamW, Gpt, GptConfig, Mlp
from uop_tensor import Tensor, jit

Array = npt.NDArray[Any]


def train(model: Mlp | Gpt, x: Array, y: Array) -> None:
    optimizer = AdamW(model.parameters(), 1e-2)

    def step(x: Tensor, y: Tensor, rate: float) -> Tensor:
        loss = model.loss(x, y)
        loss.backward()
        optimizer.step(rate)
        optimizer.zero_grad()
        return loss

    replay = jit(step)
    losses = [
        how(Tensor(x), Tensor(y), rate).item() for how, rate in ((step, 0.01), (replay, 0.02), (replay, 0.03))
    ]
    print(type(model).__name__, *(float(loss).hex() for loss in losses))


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    mlp = Mlp(rng, inputs=51, hidden=33, classes=7)
    train(mlp, rng.standard_normal((5, 51)).astype(np.float32), rng.integers(0, 7, 5).astype(np.int32))
    gpt = Gpt(GptConfig(vocabulary=13, context=11, layers=1, width=18, heads=3), rng)
    tokens = rng.integers(0, 13, (3, 12)).astype(np.int32)
    train(gpt, tokens[:, :-1].copy(), tokens[:, 1:].copy())
