"""A character GPT on Tiny Shakespeare, or on a text of one's own, that writes when it has been trained.

python examples/gpt.py [--steps 300] [--text FILE]
"""

import argparse
from pathlib import Path

from uop_nn import (
    AdamW,
    CharTokenizer,
    Cosine,
    Gpt,
    GptConfig,
    LinearWarmup,
    RandomBatches,
    Sampler,
    clip_grad_norm,
    load_text,
    save_safetensors,
)
from uop_tensor import Tensor, jit, manual_seed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--text", type=Path)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--save", type=Path)
    options = parser.parse_args()
    manual_seed(0)
    text, note = load_text(options.text, 1000)
    if note:
        print(note)
    tokenizer = CharTokenizer(text)
    model = Gpt(GptConfig(len(tokenizer), context=32, layers=2, width=options.width, heads=4, dropout=0.1))
    optimizer = AdamW(model.parameters(), betas=(0.9, 0.99))
    rate = LinearWarmup(20, Cosine(5e-3, options.steps))
    batches = RandomBatches(tokenizer.encode(text), batch=16, context=32, seed=0)

    @jit
    def step(x: Tensor, y: Tensor, lr: float) -> tuple[Tensor, Tensor]:
        loss = model.loss(x, y)
        loss.backward()
        norm = clip_grad_norm(model.parameters(), 1.0)
        optimizer.step(lr)
        optimizer.zero_grad()
        return loss, norm

    for number in range(options.steps):
        x, y = next(batches)
        loss, norm = step(Tensor(x), Tensor(y), rate(number))
        if (number + 1) % 50 == 0 or number + 1 == options.steps:
            print(f"step {number + 1}: loss {loss.item():.3f}, norm of the gradients {norm.item():.2f}")
    for piece in Sampler(model, tokenizer).characters("\n", 200, temperature=0.8, top_k=20, top_p=0.95):
        print(piece, end="", flush=True)
    print()
    if options.save:
        save_safetensors(options.save, model.state_dict())


if __name__ == "__main__":
    main()
