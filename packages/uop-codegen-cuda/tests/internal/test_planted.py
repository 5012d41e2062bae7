"""Bugs planted in kernels: the checker reports each at its line, and nothing in the kernels as they are."""

from __future__ import annotations

import re
import shutil
import tomllib
from pathlib import Path

import pytest

from uop_codegen_cuda import CudaSource, Report, read_cuda
from uop_codegen_cuda.check import check_compiled, compile_checked
from uop_ir import UOp, generated, override, settings

TABLE = tomllib.loads(Path(__file__).with_name("planted.toml").read_text())
TEXTS = {k["name"]: k["text"].lstrip("\n") for k in TABLE["kernel"]}
BUGS = {f"{b['kernel']}: {b['what']}": b for b in TABLE["bug"]}


def planted(bug: dict[str, str]) -> str:
    """The text of a kernel with a bug, which stands in it once."""
    text: str = TEXTS[bug["kernel"]]
    before = bug["before"].removeprefix("\n")
    assert text.count(before) == 1, bug
    return text.replace(before, bug["after"].removeprefix("\n"))


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Report]:
    """What the checker says of each kernel and each bug:
    all are compiled together, each under a name of its own.
    """
    if shutil.which("g++") is None:
        pytest.skip("no g++ to compile CUDA text with (apt install g++)")
    folder = tmp_path_factory.mktemp("planted")
    texts = TEXTS | {name: planted(bug) for name, bug in BUGS.items()}
    read: dict[str, tuple[CudaSource, dict[UOp, float | int]]] = {}
    for number, (name, text) in enumerate(texts.items()):
        kernel = name.partition(":")[0]
        path = folder / f"{number}.cu"
        path.write_text(re.sub(rf"\b{kernel}\b", f"{kernel}_{number}", text))
        read[name] = read_cuda(str(path))
    with override(settings, check=True):  # a warning is an error
        compiled = compile_checked([source for source, _ in read.values()])
    return {
        name: check_compiled(
            kernel, [generated(p, 0) for p in source.params if p.arg.size is not None], scalars
        )
        for (name, (source, scalars)), kernel in zip(read.items(), compiled, strict=True)
    }


@pytest.mark.parametrize("name", TEXTS)
def test_nothing_is_found_in_a_kernel_that_is_right(name: str, reports: dict[str, Report]) -> None:
    assert reports[name].findings == ()
    assert reports[name].costs


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_found(name: str, reports: dict[str, Report]) -> None:
    bug = BUGS[name]
    lines = reports[name].source.text.splitlines()
    at = bug.get("line", bug["after"])
    found = [(f.kind, lines[f.line - 1]) for f in reports[name].findings]
    assert any(kind == bug["kind"] and at in line for kind, line in found), str(reports[name])


def test_there_are_bugs_of_each_kind() -> None:
    assert len(BUGS) >= 40
    assert len(BUGS) == len(TABLE["bug"])
    assert {b["kind"] for b in BUGS.values()} == {
        *("out of bounds", "race", "race between blocks", "uninitialised", "barrier", "mask", "misaligned"),
    }
