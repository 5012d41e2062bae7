"""A multilayer perceptron on MNIST, in a training loop of one's own: 93% of the test digits after 400 steps.

python examples/mlp.py [--steps 400]
"""

import argparse

import numpy as np
from made_up import digits

from uop_nn import AdamW, Linear, Module
from uop_tensor import Tensor, jit, manual_seed, no_grad


class Mlp(Module):
    """A module is a class: its attributes are its parameters and its parts."""

    def __init__(self) -> None:
        self.hidden = Linear(784, 128)
        self.output = Linear(128, 10)

    def __call__(self, images: Tensor) -> Tensor:
        return self.output(self.hidden(images).relu())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=400)
    steps = parser.parse_args().steps
    manual_seed(0)
    data = digits()
    model = Mlp()
    optimizer = AdamW(model.parameters(), lr=2e-3)

    @jit
    def step(x: Tensor, y: Tensor) -> Tensor:
        """Traced once, then replayed: loss, gradients and update are one call of compiled code."""
        loss = model(x).cross_entropy(y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    random = np.random.default_rng(0)
    for number in range(1, steps + 1):
        chosen = random.integers(0, len(data.train_images), 128)
        loss = step(Tensor(data.train_images[chosen]), Tensor(data.train_labels[chosen]))
        if number % 100 == 0 or number == steps:
            print(f"step {number}: loss {loss.item():.4f}")
    with no_grad():
        right = model(Tensor(data.test_images)).argmax(-1) == Tensor(data.test_labels)
    print(f"{right.float().mean().item():.1%} of the test images are right")


if __name__ == "__main__":
    main()
