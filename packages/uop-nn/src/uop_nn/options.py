"""Options of a training run: a dataclass whose fields become options of the command. Week 9."""

from __future__ import annotations

import math
from argparse import SUPPRESS, ArgumentParser
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, TypeVar

from uop_ir import UopError

__all__ = ["OptionError", "TrainOptions", "add_options", "option", "resumed"]


class OptionError(UopError):
    """An option whose value is out of range, or not that of the run to go on with."""


def option(default: Any, about: str) -> Any:
    """A field with its default and its line of help."""
    return field(default=default, metadata={"help": about})


@dataclass(frozen=True)
class TrainOptions:
    """What every training run has. Raises OptionError for a value out of range."""

    steps: int = option(0, "how many steps to train")
    batch: int = option(0, "examples a step")
    lr: float = option(0.0, "the greatest learning rate: after a warm-up it falls along a cosine")
    warmup: int = option(0, "steps in which the learning rate rises")
    seed: int = option(0, "seed of the first weights and of the batches")
    validate_every: int = option(0, "steps from one validation to the next")
    checkpoint_every: int = option(0, "steps from one checkpoint to the next")

    #: Options that may be 0.
    may_be_zero = ("warmup", "seed")

    def __post_init__(self) -> None:
        for f in fields(self):
            value = getattr(self, f.name)
            if isinstance(value, str):
                continue
            least = 0 if f.name in self.may_be_zero else 1
            if isinstance(value, float):
                if not (math.isfinite(value) and value > 0):
                    raise OptionError(f"{flag(f.name)} must be above 0 and finite, not {value}")
            elif value < least:
                raise OptionError(f"{flag(f.name)} must be at least {least}, not {value}")


Options = TypeVar("Options", bound=TrainOptions)

#: What a run may be resumed with another value of. A text may have moved; that it is the same one is checked later.
FREE = ("steps", "validate_every", "checkpoint_every", "text")


def flag(name: str) -> str:
    """The option of a field."""
    return f"--{name.replace('_', '-')}"


def add_options(parser: ArgumentParser, options: type[TrainOptions]) -> None:
    """Add an option for each field. What is not given does not appear among the parsed arguments."""
    for f in fields(options):
        about = f"{f.metadata['help']} (default {f.default})" if f.default != "" else f.metadata["help"]
        parser.add_argument(flag(f.name), type=type(f.default), default=SUPPRESS, metavar="X", help=about)


def resumed(options: type[Options], saved: object, given: Mapping[str, Any]) -> Options:
    """The options of a run to go on with: those saved with it, and of those given the ones that may change.

    Raises OptionError for another that is given and differs, and for saved options that are none.
    """
    try:
        before = options(**saved)  # type: ignore[arg-type]  # what is no mapping of strings is refused here
    except TypeError as error:
        raise OptionError(f"the checkpoint has no options of this kind of run: {error}") from error
    kept = asdict(before)
    for name, value in given.items():
        if name not in FREE and value != kept[name]:
            raise OptionError(
                f"the run to resume has {flag(name)} {kept[name]}, not {value}",
                remedy=f"leave {flag(name)} out, or start a new run",
            )
    return options(**{**kept, **given})
