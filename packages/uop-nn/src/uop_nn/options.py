"""Options of a training run: fields of a dataclass, options of the command, keys of a TOML file. Week 9."""

from __future__ import annotations

import json
import math
import tomllib
from argparse import SUPPRESS, ArgumentParser
from collections.abc import Collection, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

from uop_ir import UopError

__all__ = [
    "OptionError",
    "TrainOptions",
    "add_options",
    "default",
    "option",
    "read_config",
    "resumed",
    "to_toml",
]


class OptionError(UopError):
    """An option whose value is out of range, or not that of the run to go on with."""


def option(
    default: Any,
    about: str,
    *,
    least: float = 1,
    above: float = -math.inf,
    below: float = math.inf,
    choices: tuple[str, ...] = (),
    free: bool = False,
) -> Any:
    """A field with its default (MISSING: none) and its line of help.

    An int or float is from `least` on, greater than `above` and less than `below`, a str one of `choices`,
    where there are any. A run may be resumed with another value of a `free` one.
    """
    rules = {
        "help": about,
        "least": least,
        "above": above,
        "below": below,
        "choices": choices,
        "free": free,
    }
    return field(default=default, metadata=rules)


@dataclass(frozen=True)
class TrainOptions:
    """What every training run has; those without a default each kind of run gives one, see `default`.

    Raises OptionError for a value out of range.
    """

    steps: int = option(MISSING, "how many steps to train", free=True)
    batch: int = option(MISSING, "examples a step")
    lr: float = option(MISSING, "the greatest learning rate", least=0, above=0)
    warmup: int = option(MISSING, "steps in which the learning rate rises", least=0)
    validate_every: int = option(MISSING, "steps from one validation to the next", free=True)
    checkpoint_every: int = option(MISSING, "steps from one checkpoint to the next", free=True)
    seed: int = option(0, "seed of the first weights, of the batches and of dropout", least=0)
    optimizer: str = option(
        "adamw", "what changes the weights", choices=("adamw", "adam", "lion", "muon", "sgd")
    )
    schedule: str = option(
        "cosine",
        "how the rate goes on after it has risen",
        choices=("cosine", "constant", "step", "one-cycle"),
    )
    weight_decay: float = option(0.01, "weight decay", least=0)
    clip: float = option(0.0, "the greatest norm of the gradients (0: as they are)", least=0)
    accumulate: int = option(1, "batches whose gradients make one step")
    ema: float = option(
        0.0, "decay of an average of the weights to validate with (0: none)", least=0, below=1
    )
    dtype: str = option("f32", "type to compute in; the weights stay f32", choices=("f32", "bf16"))

    def __post_init__(self) -> None:
        for f in fields(self):
            check_option(f.name, getattr(self, f.name), f.metadata)


def default(name: str, value: Any, about: str | None = None) -> Any:
    """The field of TrainOptions with the default of a kind of run,
    and perhaps with a line of help of its own.
    """
    rules = next(f.metadata for f in fields(TrainOptions) if f.name == name)
    return field(default=value, metadata={**rules, "help": about or rules["help"]})


Options = TypeVar("Options", bound=TrainOptions)


def check_option(name: str, value: Any, rules: Mapping[str, Any]) -> None:
    """Raise OptionError for a value that the rules of its option do not allow."""
    if isinstance(value, str):
        if rules["choices"] and value not in rules["choices"]:
            raise OptionError(f"{flag(name)} must be one of {', '.join(rules['choices'])}, not {value!r}")
        return
    what = f"above {rules['above']}" if math.isfinite(rules["above"]) else f"at least {rules['least']}"
    what += " and finite" if isinstance(value, float) else ""
    if not (math.isfinite(value) and value >= rules["least"] and value > rules["above"]):
        raise OptionError(f"{flag(name)} must be {what}, not {value}")
    if not value < rules["below"]:
        raise OptionError(f"{flag(name)} must be less than {rules['below']}, not {value}")


def flag(name: str) -> str:
    """The option of a field."""
    return f"--{name.replace('_', '-')}"


def add_options(parser: ArgumentParser, options: type[TrainOptions], without: Collection[str] = ()) -> None:
    """Add an option for each field but those of these names.
    What is not given is not among the parsed arguments.
    """
    for f in fields(options):
        if f.name in without:
            continue
        about = f"{f.metadata['help']} (default {f.default})" if f.default != "" else f.metadata["help"]
        choices = f.metadata["choices"] or None
        metavar = "{" + ",".join(choices) + "}" if choices else "X"
        parser.add_argument(flag(f.name), type=type(f.default), default=SUPPRESS, metavar=metavar, help=about)


def read_config(path: Path, options: type[TrainOptions]) -> dict[str, Any]:
    """The options that a TOML file gives, by field; a key may have - or _. Raises OptionError for what is
    none.
    """
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise OptionError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise OptionError(f"{path} is not TOML: {error}") from error
    types = {f.name: type(f.default) for f in fields(options)}
    rules = {f.name: f.metadata for f in fields(options)}
    given = {}
    for key, value in found.items():
        name = key.replace("-", "_")
        if name in given:
            raise OptionError(f"{path}: {key} stands twice, with - and with _")
        given[name] = _typed(path, key, value, types, options.__name__)
        try:
            check_option(name, given[name], rules[name])
        except OptionError as error:
            raise OptionError(f"{path}: {error}") from None
    return given


def _typed(path: Path, name: str, value: object, types: Mapping[str, type], kind: str) -> object:
    """A value of a TOML file as its field wants it."""
    wanted = types.get(name.replace("-", "_"))
    if wanted is None:
        near = get_close_matches(name.replace("-", "_"), types, 1)
        raise OptionError(
            f"{path}: {name} is no option of this kind of run",
            remedy=f"did you mean {near[0]}?" if near else f"the options are {', '.join(types)}",
        )
    if wanted is float and type(value) is int:
        return float(value)
    if type(value) is not wanted:
        raise OptionError(f"{path}: {name} must be of type {wanted.__name__}, not {value!r}")
    return value


def to_toml(options: TrainOptions) -> str:
    """The options as TOML that `read_config` reads."""
    lines = [f"{name} = {_toml(value)}\n" for name, value in asdict(options).items()]
    return "".join(lines)


def _toml(value: object) -> str:
    # The strings of JSON are strings of TOML: quotes, backslashes and control characters are escaped alike.
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def resumed(options: type[Options], saved: object, given: Mapping[str, Any]) -> Options:
    """The options of a run to go on with: those saved with it, and of those given the ones that may change.

    Raises OptionError for another that is given and differs, and for saved options that are none.
    """
    try:
        before = options(**saved)  # type: ignore[arg-type]  # what is no mapping of strings is refused here
    except TypeError as error:
        raise OptionError(f"the checkpoint has no options of this kind of run: {error}") from error
    kept = asdict(before)
    free = {f.name for f in fields(options) if f.metadata["free"]}
    for name, value in given.items():
        if name not in free and value != kept[name]:
            raise OptionError(
                f"the run to resume has {flag(name)} {kept[name]}, not {value}",
                remedy=f"leave {flag(name)} out, or start a new run",
            )
    return options(**{**kept, **given})
