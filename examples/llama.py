"""A small Llama in mixed precision: bf16 over f32 weights,
Muon beside AdamW, several batches a step, an average.

python examples/llama.py [--steps 100]
"""

import argparse

from uop_ir import dtypes
from uop_nn import (
    AdamW,
    CharTokenizer,
    CombinedOptimizer,
    Ema,
    GradientAccumulator,
    Llama,
    LlamaConfig,
    Muon,
    RandomBatches,
    load_text,
)
from uop_tensor import Tensor, jit, manual_seed, no_grad

BATCHES = 2  # a step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--layers", type=int, default=2)
    options = parser.parse_args()
    manual_seed(0)
    text, note = load_text(None, 1000)
    if note:
        print(note)
    tokenizer = CharTokenizer(text)
    config = LlamaConfig(
        len(tokenizer), context=32, layers=options.layers, width=32, heads=4, groups=2, hidden=64
    )
    model = Llama(config)
    matrices = [p for block in model.model.layers for p in block.parameters() if p.ndim == 2]
    others = [p for p in model.parameters() if all(p is not m for m in matrices)]
    optimizer = CombinedOptimizer(Muon(matrices, 0.02), AdamW(others, 3e-3))
    gradients = GradientAccumulator(model.parameters())
    average = Ema(model, 0.95)

    @jit
    def add(x: Tensor, y: Tensor) -> Tensor:
        with model.computing_in(dtypes.bf16):
            loss = model.loss(x, y)
        loss.backward()
        gradients.add(1 / BATCHES)
        return loss

    @jit
    def step() -> None:
        gradients.apply()
        optimizer.step()
        optimizer.zero_grad()
        average.update()

    @jit
    def validate(x: Tensor, y: Tensor) -> Tensor:
        with no_grad():
            return model.loss(x, y)

    batches = RandomBatches(tokenizer.encode(text), batch=8, context=32, seed=0)
    x, y = next(batches)
    for number in range(1, options.steps + 1):
        losses = [add(Tensor(a), Tensor(b)) for a, b in (next(batches) for _ in range(BATCHES))]
        step()
        if number % 25 == 0 or number == options.steps:
            with average.in_place():
                validation = validate(Tensor(x), Tensor(y)).item()
            loss = sum(loss.item() for loss in losses) / BATCHES
            print(f"step {number}: loss {loss:.3f}; of averaged weights {validation:.3f}")


if __name__ == "__main__":
    main()
