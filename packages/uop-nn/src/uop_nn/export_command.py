"""The command `uopc export`: a trained model as C that builds and runs without Python. Week 10."""

from __future__ import annotations

import math
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from uop_ir import CommandParser, UopError
from uop_tensor import Tensor
from uop_tensor import export as export_function

from .checkpoint import RUNS, CheckpointError, load_run
from .cnn import Cnn
from .mlp import Mlp
from .module import Module
from .options import OptionError
from .sample import load_gpt
from .training import part

__all__ = ["export"]


@dataclass(frozen=True)
class Loaded:
    """A model, what it computes, from what, and files of text to be written beside it."""

    model: Module
    function: Callable[[Tensor], Tensor]
    example: Tensor
    texts: dict[str, str]


@dataclass(frozen=True)
class Kind:
    """A model that can be exported: how it is made from a checkpoint, for so many examples a run."""

    about: str
    load: Callable[[Path, int], Loaded]


def _gpt(path: Path, batch: int) -> Loaded:
    model, tokenizer = load_gpt(path)
    tokens = np.zeros((batch, model.config.context), np.int32)
    return Loaded(model, model.__call__, Tensor(tokens), {"gpt.txt": "".join(tokenizer.characters)})


def _mnist(path: Path, batch: int) -> Loaded:
    model, pixels = load_image_model(path)
    return Loaded(model, model.__call__, Tensor(np.zeros((batch, pixels), np.float32)), {})


KINDS = {
    "mnist": Kind("the MLP or CNN of images: from (N, 784) to scores (N, 10)", _mnist),
    "gpt": Kind(
        "the GPT: from tokens (N, context) to scores (N, context, vocabulary); gpt.txt has the characters",
        _gpt,
    ),
}


def export(argv: list[str]) -> int:
    """Write a trained model as C: a header, its source, weights, a program and a Makefile."""
    options = _parser().parse_args(argv)
    if options.batch < 1:
        raise OptionError(f"--batch must be at least 1, not {options.batch}")
    loaded = KINDS[options.kind].load(options.checkpoint, options.batch)
    files = _write(loaded, options)
    print(f"{loaded.model.parameter_count():,} parameters; wrote to {options.out}: {', '.join(files)}")
    print(f"make -C {options.out} builds lib{options.kind}.a, and the program {options.kind}")
    return 0


def _write(loaded: Loaded, options: Namespace) -> list[str]:
    with loaded.model.evaluating():  # without dropout
        files = export_function(
            loaded.function,
            [loaded.example],
            options.out,
            options.kind,
            weights=loaded.model.state_dict(),
            outputs=["scores"],
        )
    for name, text in loaded.texts.items():
        try:
            (options.out / name).write_text(text, encoding="utf-8", newline="")
        except OSError as error:
            raise UopError(f"cannot write to {options.out}: {error.strerror}") from None
    return [*(file.name for file in files), *loaded.texts]


def load_image_model(path: Path) -> tuple[Mlp | Cnn, int]:
    """The model of a checkpoint, or of the one in a folder, and the pixels of an image.

    Raises CheckpointError if it has none.
    """
    path, tensors, _ = load_run(path, "mnist", "of images")
    state = part(tensors, "model.")
    generator = np.random.default_rng(0)
    try:
        classes, inputs = state["output.weight"].shape
        if "conv1.weight" in state:
            width, channels, *_ = state["conv1.weight"].shape
            side = 4 * math.isqrt(inputs // (2 * width))
            model: Mlp | Cnn = Cnn(generator, side=side, channels=channels, width=width, classes=classes)
            pixels = channels * side * side
        else:
            hidden, pixels = state["hidden.weight"].shape
            model = Mlp(generator, inputs=pixels, hidden=hidden, classes=classes)
        model.load_state_dict(state)
    except (KeyError, TypeError, ValueError, ZeroDivisionError, UopError) as error:
        raise CheckpointError(f"{path} is damaged: {error}") from error
    return model, pixels


def _parser() -> CommandParser:
    parser = CommandParser(prog="uopc export", description=export.__doc__, allow_abbrev=False)
    models = parser.add_subparsers(dest="kind", metavar="MODEL", required=True)
    for name, kind in KINDS.items():
        model = models.add_parser(name, help=kind.about, description=kind.about, allow_abbrev=False)
        model.add_argument(
            "--checkpoint",
            type=Path,
            default=RUNS / name,
            help="a checkpoint, or the folder of a run (default %(default)s)",
        )
        model.add_argument(
            "--out", type=Path, default=RUNS / name / "c", help="folder of the C (default %(default)s)"
        )
        model.add_argument("--batch", type=int, default=1, help="examples a run (default %(default)s)")
    return parser
