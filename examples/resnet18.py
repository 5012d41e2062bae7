"""ResNet-18 with the weights of torchvision, in a safetensors file; without one, with random weights.

python examples/resnet18.py [weights.safetensors] [--image image.npy] [--side 224]

The weights:
`safetensors.torch.save_file(torchvision.models.resnet18(weights="DEFAULT").state_dict(), "w.safetensors")`.
The image: float32 (3, height, width) in [0, 1].
"""

import argparse
from pathlib import Path

import numpy as np

from uop_nn import load_safetensors, resnet18
from uop_tensor import Tensor, jit, no_grad

MEAN, STD = (np.array(v, np.float32).reshape(3, 1, 1) for v in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("weights", nargs="?", type=Path)
    parser.add_argument("--image", type=Path)
    parser.add_argument("--side", type=int, default=224)
    options = parser.parse_args()
    model = resnet18(np.random.default_rng(0)).eval()
    if options.weights:
        model.load_state_dict(load_safetensors(options.weights))
    if options.image:
        image = np.load(options.image)
    else:
        image = np.random.default_rng(1).uniform(size=(3, options.side, options.side)).astype(np.float32)

    @jit
    def classify(x: Tensor) -> Tensor:
        with no_grad():
            return model(x).softmax(-1)

    probabilities = classify(Tensor((image - MEAN)[None] / STD)).numpy()[0]
    for number in np.argsort(-probabilities)[:5]:
        print(f"class {number}: {probabilities[number]:.2%}")


if __name__ == "__main__":
    main()
