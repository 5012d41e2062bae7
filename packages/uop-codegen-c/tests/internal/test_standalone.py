"""`uopc compile --main`: the program prints what `uopc run` does,
to the bit, and says what is wrong with an argument.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from uop_codegen_c import settings
from uop_codegen_c.commands import compile_command
from uop_ir import UopError, by_name, override

Outputs = dict[str, npt.NDArray[Any]]
Compile = Callable[..., Path]
COMPILERS = [name for name in ("clang", "clang-14", "gcc") if shutil.which(name)]
WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-Werror")
LABEL = re.compile(r"^(%\d+.*: shape \(.*\), dtype (\w+))$", re.MULTILINE)

GEMM = """\
%0 = buffer 30 : dtype=f32 slot=7
%1 = buffer 42 : dtype=f32 slot=3
%2 = reshape %0, (5, 1, 6)
%3 = reshape %1, (6, 7)
%4 = permute %3, (1, 0)
%5 = reshape %4, (1, 7, 6)
%6 = mul %2, %5
%7 = reduce %6 : op=add pop=1
%8 = reduce %7 : op=max pop=2
"""
TWO_OUTPUTS = GEMM + "%9 = cmplt %7, %8\n%10 = sink %7, %9, %8\n"
WINDOW = """\
%0 = param : dtype=index name=n min=1 max=64
%1 = param 64 : dtype=f32 slot=0
%2 = param 64 : dtype=f32 slot=1
%3 = shrink %1, ((0, %0),)
%4 = shrink %2, ((0, %0),)
%5 = param : dtype=f32 name=by
%6 = mul %4, %5
%7 = store %3, %6
%8 = sink %7
"""
#: An input, one twice, constants, one element, none, views of one buffer.
ODD = """\
%0 = buffer 6 : dtype=f16 slot=0
%1 = reshape %0, (2, 3)
%2 = permute %1, (1, 0)
%3 = shrink %1, ((1, 1), (0, 3))
%4 = reduce %1 : op=max pop=2
%5 = const -0x0p+0 : dtype=f32
%6 = const -7 : dtype=i64
%7 = sink %0, %2, %4, %2, %3, %5, %6, %1
"""
EMPTY = "%0 = buffer 0 : dtype=f64 slot=0\n%1 = buffer 3 : dtype=f32 slot=1\n%2 = sink %0, %1\n"


def typed(dtype: str) -> str:
    """3 x 4 elements of a type and a scalar, compared and joined."""
    join = "or" if dtype == "bool" else "max"
    return (
        f"%0 = buffer 12 : dtype={dtype} slot=1\n%1 = reshape %0, (3, 4)\n%2 = param : dtype={dtype} name=x\n"
        f"%3 = cmpne %1, %2\n%4 = {join} %1, %2\n%5 = sink %3, %4\n"
    )


@pytest.fixture(autouse=True)
def _exact() -> Iterator[None]:
    """The interpreter's bits are those of a kernel without freedoms."""
    with override(settings, strict=1):
        yield


@pytest.fixture
def built(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Compile:
    """The program of a .uir text, compiled by each compiler there is, without a warning; that of the last."""

    def build(text: str, *options: str) -> Path:
        file, source, program = tmp_path / "given.uir", tmp_path / "program.c", tmp_path / "program"
        file.write_text(text)
        assert compile_command([str(file), "--main", *options]) == 0
        source.write_text(capsys.readouterr().out)
        for compiler in COMPILERS:
            flags = ("-O1", "-ffp-contract=off", *WARNINGS)
            subprocess.run([compiler, *flags, str(source), "-o", program, "-lm"], check=True)
        return program

    return build


def said(program: Path, *arguments: str) -> Outputs:
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return parsed(done.stdout, lambda word: float.fromhex(word) if "x" in word else float(word))


def interpreted(folder: Path, capsys: pytest.CaptureFixture[str], *options: str) -> Outputs:
    """What `uopc run` prints, with as many digits as tell each value from its neighbours."""
    (run,) = (e for e in entry_points(group="uop.commands") if e.name == "run")
    with np.printoptions(threshold=sys.maxsize, floatmode="unique"):
        assert run.load()([str(folder / "given.uir"), *options]) == 0
    return parsed(capsys.readouterr().out, lambda word: {"True": 1.0, "False": 0.0}.get(word) or float(word))


def parsed(text: str, read: Callable[[str], float]) -> Outputs:
    _, *pieces = LABEL.split(text)
    found = {}
    for label, dtype, body in zip(pieces[::3], pieces[1::3], pieces[2::3], strict=True):
        words = body.translate(str.maketrans("[]", "  ")).split()
        kind = by_name(dtype)
        values = [int(w) if kind.is_int else read(w) for w in words if w != "True" and w != "False"]
        if kind.name == "bool":
            values = [w in ("True", "1") for w in words]
        found[label] = np.array(values, kind.numpy)
    return found


def check_same(got: Outputs, want: Outputs) -> None:
    assert list(got) == list(want)
    for label, array in want.items():
        assert array.tobytes() == got[label].tobytes(), label


@pytest.mark.parametrize("text", [GEMM, TWO_OUTPUTS, ODD, EMPTY], ids=["gemm", "outputs", "odd", "empty"])
@pytest.mark.parametrize("seed", ["0", "5"])
def test_the_program_prints_what_the_interpreter_does(
    text: str, seed: str, built: Compile, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    got = said(built(text, "--seed", seed))
    check_same(got, interpreted(tmp_path, capsys, "--seed", seed))


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("bool", "true"),
        ("i8", "-128"),
        ("i16", "3"),
        ("i32", "4"),
        ("i64", str(-(1 << 63))),
        ("u8", "255"),
        ("u16", "5"),
        ("u32", str((1 << 32) - 1)),
        ("u64", str((1 << 64) - 1)),
        ("f16", "0.1"),
        ("bf16", "0.1"),
        ("f32", "0x1.8p-3"),
        ("f64", "0.1"),
    ],
)
def test_every_type_as_memory_and_as_a_scalar(
    dtype: str, value: str, built: Compile, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    got = said(built(typed(dtype)), f"x={value}")
    check_same(got, interpreted(tmp_path, capsys, "--var", f"x={value}"))


def test_one_program_serves_every_size(
    built: Compile, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = built(WINDOW)
    for size in ("1", "13", "64"):
        got = said(program, f"n={size}", "by=-inf")
        check_same(got, interpreted(tmp_path, capsys, "--var", f"n={size}", "--var", "by=-inf"))


def test_a_scalar_may_have_any_name(
    built: Compile, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [
        "int",
        "data0",
        "val0",
        "ridx0",
        "buffers",
        "größe",
        "a_b",
        "gr__e",
        "errno",
        "EOF",
        "f32x8",
        "max_i32",
        "unix",
    ]
    lines = ["%0 = buffer 3 : dtype=i32 slot=0"]
    for n, name in enumerate(names):
        lines += [f"%{2 * n + 1} = param : dtype=i32 name={json.dumps(name)}"]
        lines += [f"%{2 * n + 2} = {'max' if n % 2 else 'sub'} %{2 * n}, %{2 * n + 1}"]
    given = [f"{name}={7 * n % 11}" for n, name in enumerate(names)]
    got = said(built("\n".join(lines) + "\n"), *given)
    check_same(got, interpreted(tmp_path, capsys, *(w for word in given for w in ("--var", word))))


def test_an_argument_that_no_instruction_uses_keeps_its_place(
    built: Compile, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [f"%{i} = param 4 : dtype=i32 slot={i}" for i in range(3)]
    lines += ["%3 = mul %1, %4", "%5 = add %3, %2", "%6 = store %0, %5", "%7 = sink %6"]
    given = "\n".join([*lines[:3], "%4 = const 0 : dtype=i32", *lines[3:]])
    (want,) = said(built(given)).values()
    compile_command([str(tmp_path / "given.uir"), "--emit", "spread"])
    loops = capsys.readouterr().out
    assert "slot=1" not in loops
    (got,) = said(built(loops, "--from", "linear")).values()
    assert got.tolist() == want.tolist()


@pytest.mark.parametrize("stage", ["simplify", "accumulate", "linear", "c"])
def test_a_program_may_begin_at_any_stage(
    stage: str, built: Compile, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    want = said(built(WINDOW), "n=7", "by=3")
    before = {"simplify": "rangeify", "accumulate": "widen", "linear": "spread", "c": "linear"}[stage]
    compile_command([str(tmp_path / "given.uir"), "--emit", before])
    got = said(built(capsys.readouterr().out, "--from", stage), "n=7", "by=3")
    assert [a.tobytes() for a in got.values()] == [a.tobytes() for a in want.values()]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("by=1",), "n has no value: n=..., 1 to 64\n"),
        (("n=0", "by=1"), "n=0 is no argument with a value that it may have"),
        (("n=65", "by=1"), "n=65 is no argument"),
        (("n=7x", "by=1"), "n=7x is no argument"),
        (("n=99999999999999999999", "by=1"), "is no argument"),
        (("n=7", "by="), "by= is no argument"),
        (("n=7", "by=1", "m=1"), "m=1 is no argument"),
        (("n=7",), "by has no value: by=..., f32\n"),
    ],
)
def test_a_wrong_argument_is_told(arguments: tuple[str, ...], message: str, built: Compile) -> None:
    done = subprocess.run([built(WINDOW), *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert message in done.stderr
    assert done.stdout == ""


def test_a_number_that_64_bits_do_not_hold_is_told(built: Compile) -> None:
    lines = ["%0 = param : dtype=i64 name=a", "%1 = param : dtype=u64 name=b", "%2 = neg %0", "%3 = neg %1"]
    program = built("\n".join([*lines, "%4 = sink %2, %3"]))
    low, high, most = -(1 << 63), (1 << 63) - 1, (1 << 64) - 1
    got = [array.tolist() for array in said(program, f"a={high}", f"b={most}").values()]
    assert got == [[-high], [1]]
    for wrong in (f"a={low - 1}", f"a={high + 1}", "b=-1", f"b={most + 1}"):
        done = subprocess.run([program, "a=1", "b=1", wrong], capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert f"{wrong} is no argument with a value that it may have" in done.stderr


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (GEMM, ("--emit", "linear"), "--emit linear has no --main"),
        (GEMM, ("--seed", "-1"), "--seed -1 is less than 0"),
        ("%0 = buffer 1048577 : dtype=i8 slot=0\n%1 = neg %0\n", (), "1048577 elements are to be generated"),
    ],
)
def test_what_is_no_program_is_refused(
    text: str, options: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    file = tmp_path / "given.uir"
    file.write_text(text)
    with pytest.raises(UopError, match=message):
        compile_command([str(file), "--main", *options])
