"""An autoencoder of digits: convolutions to 32 numbers an image, transposed convolutions back.

python examples/autoencoder.py [--steps 200]
"""

import argparse

import numpy as np
from made_up import digits

from uop_nn import Adam, Conv2d, ConvTranspose2d, Linear, Sequential
from uop_tensor import Tensor, jit, manual_seed


def network() -> Sequential:
    """The encoder and the decoder."""
    return Sequential(
        Conv2d(1, 8, 3, stride=2, padding=1),  # 28 -> 14
        Tensor.relu,
        Conv2d(8, 16, 3, stride=2, padding=1),  # 14 -> 7
        Tensor.relu,
        lambda x: x.flatten(1),
        Linear(16 * 7 * 7, 32),  # the code
        Linear(32, 16 * 7 * 7),
        Tensor.relu,
        lambda x: x.reshape(-1, 16, 7, 7),
        ConvTranspose2d(16, 8, 3, stride=2, padding=1, output_padding=1),
        Tensor.relu,
        ConvTranspose2d(8, 1, 3, stride=2, padding=1, output_padding=1),
        Tensor.sigmoid,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    steps = parser.parse_args().steps
    manual_seed(0)
    images = digits().train_images.reshape(-1, 1, 28, 28)
    model = network()
    optimizer = Adam(model.parameters(), 2e-3)

    @jit
    def step(x: Tensor) -> Tensor:
        loss = (model(x) - x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    random = np.random.default_rng(0)
    for number in range(1, steps + 1):
        loss = step(Tensor(images[random.integers(0, len(images), 32)]))
        if number % 50 == 0 or number == steps:
            print(f"step {number}: mean square error {loss.item():.4f}")


if __name__ == "__main__":
    main()
