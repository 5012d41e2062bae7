"""A convolutional network with batch normalization and dropout on MNIST: 97% after 200 steps.

python examples/cnn.py [--steps 200] [--width 16]
"""

import argparse

import numpy as np
from made_up import digits

from uop_nn import SGD, BatchNorm2d, Conv2d, Dropout, Linear, MaxPool2d, OneCycle, Sequential
from uop_tensor import Tensor, jit, manual_seed, no_grad


def network(width: int) -> Sequential:
    """Layers one after the other; a function is a layer too."""
    return Sequential(
        lambda x: x.reshape(-1, 1, 28, 28),
        Conv2d(1, width, 3, padding=1, bias=False),
        BatchNorm2d(width),
        Tensor.relu,
        MaxPool2d(2),
        Conv2d(width, 2 * width, 3, padding=1, bias=False),
        BatchNorm2d(2 * width),
        Tensor.relu,
        MaxPool2d(2),
        lambda x: x.flatten(1),
        Dropout(0.2),
        Linear(2 * width * 7 * 7, 10),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--width", type=int, default=16)
    options = parser.parse_args()
    manual_seed(0)
    data = digits()
    model = network(options.width)
    optimizer = SGD(model.parameters(), momentum=0.9, nesterov=True, weight_decay=1e-4)
    rate = OneCycle(0.1, options.steps)

    @jit
    def step(x: Tensor, y: Tensor, lr: float) -> Tensor:
        """The rate is an argument: a number that changes from call to call without another trace."""
        loss = model(x).cross_entropy(y)
        loss.backward()
        optimizer.step(lr)
        optimizer.zero_grad()
        return loss

    @jit
    def right(x: Tensor, y: Tensor) -> Tensor:
        with no_grad(), model.evaluating():  # no dropout, and the averages that training has learned
            return (model(x).argmax(-1) == y).sum()

    random = np.random.default_rng(0)
    for number in range(options.steps):
        chosen = random.integers(0, len(data.train_images), 64)
        loss = step(Tensor(data.train_images[chosen]), Tensor(data.train_labels[chosen]), rate(number))
        if (number + 1) % 50 == 0 or number + 1 == options.steps:
            print(f"step {number + 1}: loss {loss.item():.4f}")
    parts = range(0, len(data.test_images), 500)
    found = sum(
        int(right(Tensor(data.test_images[i : i + 500]), Tensor(data.test_labels[i : i + 500])))
        for i in parts
    )
    print(f"{found / len(data.test_images):.1%} of the test images are right")


if __name__ == "__main__":
    main()
