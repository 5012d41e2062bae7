"""The kernels of the example models are those of kernels.json:
whoever changes their C sees which, and says so.

It stands for no result: a change of text may be right.
Run as a script, it shows the texts or writes the file anew:

    python tests/internal/test_kernels.py --c FOLDER      the C of each kernel, to compare two versions
    python tests/internal/test_kernels.py                 kernels.json, for the kernels as they are now

The machine is given, so that the texts are the same on any. Grading leaves this folder out.
"""

from __future__ import annotations

import argparse
import json
import runpy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from uop_codegen_c import Freedoms, KernelSource, Machine, generate
from uop_ir import Limits, Ops, UOp
from uop_nn import AdamW, Gpt, GptConfig, Mlp, Module
from uop_tensor import Tensor, jit, no_grad

KNOWN = Path(__file__).with_name("kernels.json")
plan_bodies: Callable[[Callable[[], Any], Limits], list[UOp]]
plan_bodies = runpy.run_path(str(Path(__file__).with_name("plan_bodies.py")))["plan_bodies"]
#: 32 bytes a vector, 16 registers, 2 threads.
MACHINE, LIMITS = Machine(32, 16, 2), Limits(threads=2)
HOW = f"""\
what these kernels were is not what they are now. To see the C before and after, with the old code checked out in OLD:
    (cd OLD && python tests/internal/test_kernels.py --c /tmp/before)
    python tests/internal/test_kernels.py --c /tmp/after; diff -r /tmp/before /tmp/after
If the change is meant: python tests/internal/{Path(__file__).name} writes {KNOWN.name} anew"""
Text = dict[str, str]


def mlp() -> None:
    """A training step with AdamW."""
    model = Mlp(np.random.default_rng(0), inputs=20, hidden=16, classes=5)
    train(model, model.loss, np.zeros((8, 20), np.float32), np.zeros(8, np.int32))


def small_gpt() -> Gpt:
    config = GptConfig(vocabulary=17, context=16, layers=1, width=16, heads=2)
    return Gpt(config, np.random.default_rng(0))


def gpt() -> None:
    """A training step with AdamW."""
    model = small_gpt()
    train(model, model.loss, np.zeros((2, 16), np.int32), np.zeros((2, 16), np.int32))


def sample() -> None:
    """The scores of a window, as for each character of a text."""
    model = small_gpt()
    with no_grad():
        jit(model.__call__)(Tensor(np.zeros((1, 16), np.int32)))


def train(model: Module, loss: Callable[..., Tensor], x: Any, y: Any) -> None:
    optimizer = AdamW(model.parameters(), 1e-2)

    def step(x: Tensor, y: Tensor, rate: Tensor | float) -> Tensor:
        found = loss(x, y)
        found.backward()
        optimizer.step(rate)
        optimizer.zero_grad()
        return found

    jit(step)(Tensor(x), Tensor(y), 0.5)


MODELS: dict[str, Callable[[], None]] = {"mlp": mlp, "gpt": gpt, "sample": sample}


def kernels(model: str) -> dict[str, KernelSource]:
    """The kernels of a model's plans by number and outputs, in the order in which they first run."""
    return {
        f"{number:02} {outputs(body)}": generate(body, Freedoms(), MACHINE)
        for number, body in enumerate(plan_bodies(MODELS[model], LIMITS))
    }


def outputs(body: UOp) -> str:
    """What a kernel stores, and how often it reduces."""
    stored = " and ".join(f"{s.src[1].dtype}{list(s.src[1].shape)}" for s in body.src)
    return f"{stored}, {sum(n.op is Ops.REDUCE for n in body.toposort())} reductions"


def names(model: str) -> Text:
    """The name of each kernel, which is a digest of its text and of the helpers that it needs."""
    return {label: kernel.name for label, kernel in kernels(model).items()}


def changes(known: Text, now: Text) -> list[str]:
    """A line for each kernel whose text is new, and for each that is gone."""
    old, new = set(known.values()), set(now.values())
    gone = [f"- {label} ({name})" for label, name in known.items() if name not in new]
    come = [f"+ {label} ({name})" for label, name in now.items() if name not in old]
    return sorted([*gone, *come], key=lambda line: (line[2:], line[0] == "+"))


@pytest.mark.parametrize("model", MODELS)
def test_kernels_are_those_that_are_written_down(model: str) -> None:
    known: dict[str, Text] = json.loads(KNOWN.read_text())
    lines = [f"{model}: {line}" for line in changes(known[model], names(model))]
    assert not lines, "\n".join(["", *lines, HOW])


@pytest.mark.parametrize(
    ("now", "lines"),
    [
        ({"00 a": "k_1", "01 b": "k_2"}, []),
        ({"00 c": "k_3", "01 a": "k_1", "02 b": "k_2"}, ["+ 00 c (k_3)"]),
        ({"00 a": "k_1", "01 b": "k_4"}, ["- 01 b (k_2)", "+ 01 b (k_4)"]),
        ({"00 b": "k_2"}, ["- 00 a (k_1)"]),
    ],
)
def test_what_changed_is_named(now: Text, lines: list[str]) -> None:
    assert changes({"00 a": "k_1", "01 b": "k_2"}, now) == lines


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--c", type=Path, metavar="FOLDER", help="write the C of each kernel there")
    folder = parser.parse_args(arguments).c
    if folder is None:
        KNOWN.write_text(json.dumps({model: names(model) for model in MODELS}, indent=1) + "\n")
        return
    for model in MODELS:
        for label, kernel in kernels(model).items():
            path = folder / model / f"{label.split()[0]}.c"
            path.parent.mkdir(parents=True, exist_ok=True)
            text = kernel.text.replace(kernel.name, "kernel")
            path.write_text(f"/* {label} */\n{kernel.preamble}\n\n{text}\n")


if __name__ == "__main__":
    main()
