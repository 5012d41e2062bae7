"""`uopc trace` and `uopc profile`: what they print and write, the passes they take, and their errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from uop_ir import ParseError, UOp, UopError, VerifyError, override, read_uir
from uop_ir import settings as ir_settings
from uop_rewrite import (
    Fold,
    Pass,
    Simplify,
    Trace,
    commands,
    installed,
    settings,
    trace_html,
    trace_json,
    trace_text,
)

PROGRAM = """# row and column of an element, put together again
%0 = param : dtype=index name=i min=0 max=23
%1 = const 4 : dtype=index
%2 = mod %0, %1
%3 = div %0, %1
%4 = mul %3, %1
%5 = add %4, %2
%6 = add %1, %1
%7 = mul %5, %6
"""


class Broken(Pass):
    name: ClassVar = "broken"
    purpose: ClassVar = "finds fault with a node"

    def run(self, root: UOp) -> UOp:
        raise VerifyError("this is wrong", node=root.src[1])


@dataclass(frozen=True)
class Offer:
    """What an installed package offers; None: it cannot be loaded."""

    name: str
    value: str
    made: Callable[[], Any] | None

    def load(self) -> Callable[[], Any]:
        if self.made is None:
            raise ImportError(f"No module named {self.value!r}")
        return self.made


OFFERED = [
    Offer("fold", "", Fold),
    Offer("simplify", "", Simplify),
    Offer("both", "", lambda: (Fold(), Simplify())),
    Offer("broken", "", Broken),
    Offer("nowhere", "uop_nowhere", None),
]


@pytest.fixture(autouse=True)
def _offered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed, "entry_points", lambda group: OFFERED if group == "uop.passes" else [])


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "index.uir"
    path.write_text(PROGRAM)
    return str(path)


def traced(file: str, *passes: Pass) -> tuple[Trace, tuple[UOp, ...]]:
    program, trace = read_uir(file), Trace()
    trace.run(program.root, passes)
    return trace, program.nodes


def test_trace_prints_each_step_with_the_numbers_of_the_file(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert commands.trace_command([file]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == list(trace_text(*traced(file, Simplify())))
    assert "- %6 = add %1, %1" in lines
    assert lines[-1].endswith("steps, 8 nodes before, 3 after")


@pytest.mark.parametrize(
    "asked",
    [
        ["--pass", "fold,simplify"],
        ["--pass", "fold", "--pass", "simplify"],
        ["--pass", "both"],
        ["--pass", "fold, simplify"],
    ],
)
def test_several_passes_in_a_row(file: str, asked: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.trace_command([file, *asked]) == 0
    assert capsys.readouterr().out.splitlines() == list(trace_text(*traced(file, Fold(), Simplify())))


def test_trace_writes_json_and_html(file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, data = tmp_path / "trace.html", tmp_path / "trace.json"
    assert commands.trace_command([file, "--pass", "both", "--json", str(data), "--html", str(page)]) == 0
    trace, first = traced(file, Fold(), Simplify())
    assert json.loads(data.read_text()) == trace_json(trace, first)
    assert page.read_text() == trace_html(trace, file, first)
    assert capsys.readouterr().out.splitlines() == list(trace_text(trace, first))[-2:]


@pytest.mark.parametrize(
    ("terminal", "no_color", "coloured"), [(True, "", True), (True, "1", False), (False, "", False)]
)
def test_colour_is_for_terminals_that_want_it(
    file: str, terminal: bool, no_color: str, coloured: bool,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal)
    with override(settings, no_color=no_color):
        commands.trace_command([file])
    assert ("\x1b[" in capsys.readouterr().out) == coloured


@pytest.mark.parametrize("command", [commands.trace_command, commands.profile_command])
@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("simplfy", r"no pass 'simplfy' \(installed: both, broken, fold, nowhere, simplify\)"),
        ("fold,", "no pass ''"),
        ("nowhere", "the pass nowhere cannot be loaded from uop_nowhere"),
    ],
)
def test_a_pass_that_is_not_there(
    file: str, command: Callable[[list[str]], int], asked: str, message: str
) -> None:
    with pytest.raises(UopError, match=message):
        command([file, "--pass", asked])


def test_print_after_knows_the_passes_that_packages_offer(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with override(settings, print_after="broken"):
        commands.trace_command([file])
    assert capsys.readouterr().err == ""
    with (
        override(settings, print_after="both"),
        pytest.raises(UopError, match="PRINT_AFTER: no pass 'both'") as error,
    ):
        commands.trace_command([file])
    assert {"fold", "simplify", "broken", "all"} <= set((error.value.remedy or "").split(", "))


@pytest.mark.parametrize(
    ("text", "error", "place"),
    [
        ("%0 = param 4 : dtype=f32 slot=0\n%1 = nag %0\n", ParseError, "2:6"),
        (
            "%0 = const 4 : dtype=index\n%1 = special %0 : name=gidx0\n",
            VerifyError,
            "2:6",
        ),
    ],
)
def test_errors_have_their_place(tmp_path: Path, text: str, error: type[UopError], place: str) -> None:
    path = tmp_path / "bad.uir"
    path.write_text(text)
    with pytest.raises(error) as found:
        commands.trace_command([str(path)])
    assert str(found.value).startswith(f"{path}:{place}: error: ")


def test_an_error_of_a_pass_has_the_place_of_its_node(file: str) -> None:
    with pytest.raises(VerifyError) as found:
        commands.trace_command([file, "--pass", "broken"])
    assert str(found.value).startswith(f"{file}:8:6: error: this is wrong\n  %6 = add %1, %1\n")


def test_check_verifies_the_file(tmp_path: Path) -> None:
    path = tmp_path / "open.uir"
    path.write_text("%0 = const 4 : dtype=index\n%1 = range %0 : id=0 axis=loop\n%2 = add %1, %0\n")
    assert commands.trace_command([str(path)]) == 0
    with (
        override(ir_settings, check=1),
        pytest.raises(VerifyError, match=r"open\.uir:2:6: error: .*nothing closes"),
    ):
        commands.trace_command([str(path)])


@pytest.mark.parametrize("option", ["--json", "--html"])
def test_a_file_that_cannot_be_written(file: str, option: str, tmp_path: Path) -> None:
    with pytest.raises(UopError, match=r"cannot write .*: No such file or directory"):
        commands.trace_command([file, option, str(tmp_path / "nowhere" / "trace")])


def test_profile_prints_a_table(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.profile_command([file, "--pass", "both"]) == 0
    above, below = capsys.readouterr().out.split("\n\n")
    heading, *passes = [line.split() for line in above.splitlines()]
    assert heading == ["pass", "nodes", "after", "time", "share"]
    assert [(p[0], *p[1:3]) for p in passes] == [("fold", "8", "8"), ("simplify", "8", "3")]
    heading, *rules = [line.split() for line in below.splitlines()]
    assert heading == ["pass", "rule", "tried", "applied", "time", "share"]
    times = [float(r[-3]) for r in rules]
    assert times == sorted(times, reverse=True)
    assert sum(float(r[-1].rstrip("%")) for r in rules) == pytest.approx(100, abs=0.1 * len(rules))
    assert [r[:5] for r in rules if r[:3] == ["fold", "fold", "constants"]] == [
        ["fold", "fold", "constants", "6", "1"]
    ]


def test_profile_prints_json(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.profile_command([file, "--pass", "both", "--json"]) == 0
    fold, simplify = json.loads(capsys.readouterr().out)
    assert (fold["name"], fold["before"], fold["after"]) == ("fold", 8, 8)
    assert fold["rules"].keys() == {"fold constants"}
    assert (fold["rules"]["fold constants"]["tried"], fold["rules"]["fold constants"]["applied"]) == (6, 1)
    assert simplify["seconds"] > sum(rule["seconds"] for rule in simplify["rules"].values()) > 0
