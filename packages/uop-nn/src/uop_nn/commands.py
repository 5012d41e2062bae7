"""The commands of this package: `uopc train mnist`, `uopc train gpt` and `uopc sample`. Week 9."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from uop_ir import CommandParser

from .checkpoint import CHECKPOINT, RUNS, load_run
from .choice import TEMPERATURE
from .interrupt import Interrupt
from .options import TrainOptions, add_options, read_config, resumed
from .recipes import learning_rate
from .sample import Sampler, default_prompt, load_gpt
from .train_gpt import GptOptions, gpt_trainer, print_sample
from .train_mnist import MnistOptions, mnist_trainer
from .training import Schedule, Trainer

__all__ = ["sample", "train"]


@dataclass(frozen=True)
class Kind:
    """A model that can be trained: its options, how a run of it is made, what follows the last step."""

    about: str
    options: type[TrainOptions]
    trainer: Callable[[Path, Any], Trainer]
    finish: Callable[[Trainer], None] = lambda trainer: None


def _finish_gpt(trainer: Trainer) -> None:
    print("a sample:\n")
    print_sample(trainer)


KINDS = {
    "mnist": Kind(
        "train an MLP or a CNN on the MNIST digits, or on Fashion-MNIST", MnistOptions, mnist_trainer
    ),
    "gpt": Kind("train a character GPT on a text", GptOptions, gpt_trainer, _finish_gpt),
}


def train(argv: list[str]) -> int:
    """Train a model, with progress, checkpoints and a plot of the losses."""
    given = vars(_train_parser().parse_args(argv))
    name, resume = given.pop("kind"), given.pop("resume")
    folder, config = given.pop("out"), given.pop("config")
    if config is not None:
        given = {**read_config(config, KINDS[name].options), **given}
    return run(name, folder, given, resume=resume)


def run(name: str, folder: Path, given: dict[str, Any], *, resume: bool = False) -> int:
    """Train a model of KINDS in a folder; options that are not given have their defaults.

    `resume` goes on with the run whose checkpoint the folder has. Returns the exit code of the command.
    Raises UopError for options, data, a folder or a checkpoint that will not do.
    """
    kind = KINDS[name]
    options = _options_of_checkpoint(name, folder, given) if resume else kind.options(**given)
    trainer = kind.trainer(folder, options)
    if resume:
        trainer.resume()
        print(f"resumed after step {trainer.done} of {trainer.checkpoint}")
        if trainer.done >= options.steps:
            print(f"all of the {options.steps} steps are done: give a greater --steps to train on")
            return 0
    else:
        trainer.start()
    code = trainer.run(schedule(options))
    if code == 0:
        print(f"saved {trainer.checkpoint}; the losses are plotted beside it")
        kind.finish(trainer)
    return code


def schedule(options: TrainOptions) -> Schedule:
    """How long a run is, and what happens when, by its options."""
    return Schedule(options.steps, learning_rate(options), options.validate_every, options.checkpoint_every)


def sample(argv: list[str]) -> int:
    """Print text that a trained GPT writes."""
    options = _sample_parser().parse_args(argv)
    model, tokenizer = load_gpt(options.checkpoint)
    prompt = default_prompt(tokenizer) if options.prompt is None else options.prompt
    characters = Sampler(model, tokenizer).characters(
        prompt,
        options.length,
        temperature=options.temperature,
        top_k=options.top_k,
        top_p=options.top_p,
        seed=options.seed,
    )
    if options.prompt is not None:
        print(prompt, end="", flush=True)
    with Interrupt() as interrupt:  # raised in a weakref's callback, an exception would be lost
        for character in characters:
            print(character, end="", flush=True)
            if interrupt.asked:
                raise KeyboardInterrupt
    print()
    return 0


def _options_of_checkpoint(name: str, folder: Path, given: dict[str, Any]) -> TrainOptions:
    _, _, meta = load_run(folder / CHECKPOINT, name, name)
    return resumed(KINDS[name].options, meta.get("options"), given)


def _train_parser() -> CommandParser:
    parser = CommandParser(prog="uopc train", description=train.__doc__, allow_abbrev=False)
    models = parser.add_subparsers(dest="kind", metavar="MODEL", required=True)
    for name, kind in KINDS.items():
        model = models.add_parser(name, help=kind.about, description=kind.about, allow_abbrev=False)
        add_options(model, kind.options)
        model.add_argument(
            "--out", type=Path, default=RUNS / name, help="folder of the run (default %(default)s)"
        )
        model.add_argument("--config", type=Path, help="a TOML file of options; those given here come first")
        model.add_argument("--resume", action="store_true", help="go on with the run in that folder")
    return parser


def _sample_parser() -> CommandParser:
    parser = CommandParser(prog="uopc sample", description=sample.__doc__, allow_abbrev=False)
    parser.add_argument(
        "checkpoint",
        nargs="?",
        type=Path,
        default=RUNS / "gpt",
        help="a checkpoint, or the folder of a run (default %(default)s)",
    )
    parser.add_argument("--prompt", help="what the text begins with (default: a line break)")
    parser.add_argument("--length", type=int, default=500, help="characters to write (default %(default)s)")
    parser.add_argument(
        "--temperature",
        type=float,
        default=TEMPERATURE,
        help="0 takes the likeliest character, 1 draws as the model says (default %(default)s)",
    )
    parser.add_argument("--top-k", type=int, help="choose among this many of the likeliest only")
    parser.add_argument(
        "--top-p", type=float, help="choose among the likeliest that have this probability only"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the choices (default %(default)s)")
    return parser
