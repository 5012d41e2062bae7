"""Train the character GPT on a text: batches, validation, checkpoint, and a sample at the end. Week 10."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from uop_tensor import Tensor, jit, manual_seed, no_grad

from .data import load_text
from .gpt import Gpt, GptConfig
from .options import TrainOptions, default, option
from .recipes import train_step
from .sample import Sampler, default_prompt
from .text import CharTokenizer, RandomBatches, Tokens, train_validation_split
from .train_step import TrainStep
from .training import Score, Trainer

__all__ = ["GptOptions", "gpt_model", "gpt_step", "gpt_trainer", "print_sample"]

BETAS = (0.9, 0.99)
VALIDATION_BATCHES = 20
SAMPLE = 500  # characters of the sample at the end


@dataclass(frozen=True)
class GptOptions(TrainOptions):
    """The defaults are the main job: 111,360 parameters, 600 steps on Tiny Shakespeare."""

    steps: int = default("steps", 600)
    batch: int = default("batch", 32, "windows of text at once")
    lr: float = default("lr", 6e-3)
    warmup: int = default("warmup", 50)
    validate_every: int = default("validate_every", 100)
    checkpoint_every: int = default("checkpoint_every", 100)
    # it may have moved; that it is the same text is checked when a run is resumed
    text: str = option("", "a UTF-8 file to train on (default: Tiny Shakespeare)", free=True)
    context: int = option(64, "characters that the model sees at once")
    layers: int = option(2, "transformer blocks")
    width: int = option(64, "numbers that stand for a character")
    heads: int = option(4, "attention heads; they divide the width")
    dropout: float = option(0.0, "probability with which training drops an element", least=0, below=1)


def gpt_trainer(folder: Path, options: GptOptions) -> Trainer:
    """A run in `folder` that has not begun. Raises UopError for a text or sizes that will not do."""
    # A tenth of the text validates, and has room for a window and the character after it.
    text, note = load_text(Path(options.text) if options.text else None, 10 * (options.context + 1))
    if note is not None:
        print(note)
    tokenizer = CharTokenizer(text)
    training, validation = train_validation_split(tokenizer.encode(text))
    manual_seed(options.seed % (1 << 64))
    model = gpt_model(options, len(tokenizer))
    print(
        f"GPT of {model.parameter_count():,} parameters; {len(training):,} characters to train on, "
        f"{len(validation):,} to validate on, {len(tokenizer)} different ones"
    )
    return Trainer(
        step=gpt_step(model, options),
        batches=RandomBatches(training, options.batch, options.context, options.seed),
        validate=_validation(model, validation, options.batch),
        folder=folder,
        options=options,
        description={
            "kind": "gpt",
            "options": asdict(options),
            "config": asdict(model.config),
            "tokenizer": tokenizer.to_dict(),
            "text": hashlib.sha256(text.encode()).hexdigest(),
        },
        items=options.batch * options.context * options.accumulate,
        unit="tokens",
    )


def gpt_model(options: GptOptions, vocabulary: int) -> Gpt:
    """The model that the options ask for. Raises ModelError for sizes that will not do."""
    sizes = options.context, options.layers, options.width, options.heads
    return Gpt(GptConfig(vocabulary, *sizes, options.dropout), np.random.default_rng(options.seed))


def gpt_step(model: Gpt, options: GptOptions) -> TrainStep:
    """The step of its training. Raises OptionError for an optimizer that will not do."""
    hidden = [p for block in model.blocks for p in block.parameters() if p.ndim == 2]
    return train_step(model, model.loss, options, betas=BETAS, matrices=hidden)


def print_sample(trainer: Trainer) -> None:
    """Print some text by the model of a run."""
    model = trainer.step.model
    assert isinstance(model, Gpt)
    tokenizer = CharTokenizer.from_dict(trainer.description["tokenizer"])
    characters = Sampler(model, tokenizer).characters(default_prompt(tokenizer), SAMPLE)
    print("".join(characters))


def _validation(model: Gpt, tokens: Tokens, batch: int) -> Callable[[], Score]:
    """The mean loss over windows that lie evenly in the text, the same every time."""
    context = model.config.context
    starts = np.linspace(0, len(tokens) - context - 1, VALIDATION_BATCHES * batch).astype(np.int64)
    at = starts.reshape(VALIDATION_BATCHES, batch, 1) + np.arange(context)

    def evaluate(x: Tensor, y: Tensor) -> Tensor:
        with no_grad(), model.evaluating():
            return model.loss(x, y)

    jitted = jit(evaluate)

    def validate() -> Score:
        losses = [jitted(Tensor(tokens[a]), Tensor(tokens[a + 1])).item() for a in at]
        loss = float(np.mean(losses))
        return Score(loss, f"validation loss {loss:.4f}")

    return validate
