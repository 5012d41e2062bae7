"""A step of training of each model of `uopc train`, on made-up data. Week 9.

`uopc explain` and `uopc tune` run it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from uop_ir import CommandParser

from .options import TrainOptions, add_options
from .train_gpt import GptOptions, gpt_model, gpt_step
from .train_mnist import MnistOptions, image_model, image_step

__all__ = ["cnn", "gpt", "mlp"]

PIXELS, CLASSES = 784, 10
VOCABULARY = 65
Options = TypeVar("Options", bound=TrainOptions)


def mlp(argv: Sequence[str], prog: str) -> None:
    """A step of the MLP on images like those of MNIST, by options of `uopc train mnist`."""
    _image_step("mlp", argv, prog)


def cnn(argv: Sequence[str], prog: str) -> None:
    """A step of the CNN on images like those of MNIST, by options of `uopc train mnist`."""
    _image_step("cnn", argv, prog)


def gpt(argv: Sequence[str], prog: str) -> None:
    """A step of the GPT on as many different characters as Tiny Shakespeare has,
    by options of `uopc train gpt`.
    """
    options = _options(GptOptions, argv, prog)
    tokens = np.zeros((options.batch, options.context), np.int64)
    step = gpt_step(gpt_model(options, VOCABULARY), options)
    step([(tokens, tokens)] * options.accumulate, options.lr)


def _image_step(name: str, argv: Sequence[str], prog: str) -> None:
    options = _options(MnistOptions, argv, prog, model=name)
    images, labels = np.zeros((options.batch, PIXELS), np.float32), np.arange(options.batch) % CLASSES
    step = image_step(image_model(options, PIXELS), options)
    step([(images, labels)] * options.accumulate, options.lr)


def _options(kind: type[Options], argv: Sequence[str], prog: str, **fixed: str) -> Options:
    parser = CommandParser(prog=prog, allow_abbrev=False)
    add_options(parser, kind, without=fixed)
    return kind(**{**vars(parser.parse_args(argv)), **fixed})
