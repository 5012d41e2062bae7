"""The text of a schedule: printed, read, replayed, and refused with the place where it is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from uop_codegen_c import (
    ACTIONS as KNOWN,
)
from uop_codegen_c import (
    Hold,
    Machine,
    Pad,
    Reorder,
    Retype,
    Schedule,
    ScheduleError,
    Split,
    Stage,
    apply_schedule,
    render,
    stages,
)
from uop_ir import AxisType, BackendError, Ops, ParseError, UOp, dtypes, toposort
from uop_rewrite import Trace, observing, trace_text

TEXT = "split 0 32 upcast; retype 1 thread; reorder (3, 0, 4); stage 1 (2, 3); stage 2 (7); "
TEXT += "stage 0 (2, 3) 5; pad 2 8; hold 2 (5, 6)"
ACTIONS = (
    Split(0, 32, AxisType.UPCAST),
    Retype(1, AxisType.THREAD),
    Reorder((3, 0, 4)),
    Stage(1, (2, 3)),
    Stage(2, (7,)),
    Stage(0, (2, 3), 5),
    Pad(2, 8),
    Hold(2, (5, 6)),
)


def doubled() -> UOp:
    """A program with one range, 0, of 8 elements."""
    x = UOp.param(1, 8, dtypes.f32)
    return next(
        root
        for name, root in stages(UOp.sink(UOp.param(0, 8, dtypes.f32).store(x * 2.0)))
        if name == "bounds"
    )


def test_a_schedule_reads_back_as_it_was_printed() -> None:
    assert str(Schedule(ACTIONS)) == TEXT
    assert Schedule.parse(TEXT) == Schedule(ACTIONS)
    assert Schedule.parse("") == Schedule() == Schedule.parse(" ;\n; # nothing\n")


def test_lines_spaces_and_comments_make_no_difference() -> None:
    text = "# a schedule\n\nsplit 0   32 upcast # rows\n retype 1 thread;reorder( 3,0 ,4,)\r\nstage 1 (2,3)\n"
    text += "stage 2 (7,)\nstage 0(2,3)5\n\tpad 2 8;hold 2(5,6);"
    assert Schedule.parse(text) == Schedule(ACTIONS)


@pytest.mark.parametrize("axis", list(AxisType), ids=lambda a: a.value)
def test_every_axis_type_has_its_word(axis: AxisType) -> None:
    assert Schedule.parse(str(Schedule((Retype(3, axis),)))).actions == (Retype(3, axis),)


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("splt 0 4 upcast", 1, 1, "expected an action: split, retype, reorder, pad, stage, hold"),
        ("split 0 4 upcast; tile 1", 1, 19, "expected an action"),
        ("split 0 4 upcast\nsplit x 4 upcast", 2, 7, "expected a range, an integer"),
        ("split 0 4", 1, 10, "expected an axis: loop, reduce"),
        ("split 0 4 lanes", 1, 11, "expected an axis: loop, reduce"),
        ("split 0 -4 upcast", 1, 9, "expected a factor, an integer"),
        ("retype 0 thread 1", 1, 17, "expected ; or the end of the line"),
        ("reorder 1, 0", 1, 9, r"expected \("),
        ("reorder (1 0)", 1, 12, r"expected \)"),
        ("stage 1 ()", 1, 10, "expected a range, an integer"),
        ("stage 1 (2, 3 # open", 1, 14, r"expected \)"),
        ("stage 1 (2, 3) x", 1, 16, "expected a padding, an integer"),
    ],
)
def test_an_error_of_the_text_has_its_place(text: str, line: int, column: int, message: str) -> None:
    with pytest.raises(ParseError, match=message) as error:
        Schedule.parse(text, "my.schedule")
    assert error.value.span is not None
    assert (error.value.span.file, error.value.span.line, error.value.span.column) == (
        "my.schedule",
        line,
        column,
    )


def test_an_action_of_another_package_is_read_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KNOWN, "twice", lambda read: Split(read.integer("a range"), 2, AxisType.LOOP))
    assert Schedule.parse("twice 3; pad 2 8").actions == (Split(3, 2, AxisType.LOOP), Pad(2, 8))


def test_c_has_no_tensor_cores() -> None:
    pair = UOp(Ops.STACK, (UOp.const(dtypes.f32, 1.0), UOp.const(dtypes.f32, 2.0)))
    tile = UOp(Ops.WMMA, (pair, pair, pair), "mma")
    with pytest.raises(BackendError, match=r"the C backend has no Ops\.WMMA"):
        render("kernel", list(toposort((UOp.sink(tile),))), ())


def test_an_illegal_action_has_its_place_too() -> None:
    with pytest.raises(ScheduleError) as error:
        Schedule.parse("split 0 4 loop\nretype 2 thread").apply(doubled())
    assert str(error.value) == (
        "schedule:2:1: error: thread: range 2 is not the outermost loop of a store\n  retype 2 thread\n  ^"
    )
    with pytest.raises(
        ScheduleError, match="action 2, retype 2 thread: thread: range 2 is not the outermost"
    ):
        Schedule((Split(0, 4, AxisType.LOOP), Retype(2, AxisType.THREAD))).apply(doubled())


def test_what_is_no_schedule_is_refused() -> None:
    wrong: Any = "retype 0 vector"
    with pytest.raises(
        ScheduleError, match=r"a schedule that is a text, 'retype 0 vector' \(Schedule.parse reads"
    ):
        apply_schedule(doubled(), wrong)
    wrong = [Retype(0, AxisType.VECTOR), 3]
    with pytest.raises(ScheduleError, match="action 2 is 3"):
        apply_schedule(doubled(), wrong)
    wrong = 3
    with pytest.raises(ScheduleError, match=r"Schedule.parse: 3 is no text"):
        Schedule.parse(wrong)
    with pytest.raises(BackendError, match=r"stages: no pass 'fuse'.*one of rangeify, simplify"):
        next(stages(UOp.sink(), first="fuse"))
    for bytes_, registers, threads in ((0, 16, 1), (24, 16, 1), (32, 0, 1), (32, 16, 0)):
        with pytest.raises(BackendError, match="Machine"):
            Machine(bytes_, registers, threads)


def test_each_action_is_a_step_of_a_trace() -> None:
    trace, root = Trace(), doubled()
    with observing(trace):
        result = Schedule.parse("split 0 4 upcast; retype 1 thread").apply(root)
    lines = [line for line in trace_text(trace) if not line.startswith(("-", "+"))]
    assert [line.split(": ")[1] for line in lines[:2]] == ["split 0 4 upcast", "retype 1 thread"]
    assert [step.own[0].graph(1) for step in trace.passes][-1] is result
    assert any(n.op is Ops.RANGE and n.arg == (1, AxisType.THREAD) for n in result.toposort())
