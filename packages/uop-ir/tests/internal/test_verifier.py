"""The verifier: each rule fires on a program that breaks it alone, and programs of each level pass."""

from collections.abc import Callable

import pytest

from uop_ir import AddrSpace, AxisType, Level, Ops, UOp, VerifyError, dtypes, index, parse_uir, verify
from uop_ir.levels import CONTENTS
from uop_ir.verifier import RULES, facts_of, faults

OUT, IN = UOp.param(0, 4, dtypes.f32), UOp.param(1, 4, dtypes.f32)
ONE = UOp.const(dtypes.f32, 1.0)
R, Q = UOp.range(4, 0), UOp.range(4, 1)
TRUE = UOp.const(dtypes.bool, True)
IF = UOp(Ops.IF, (TRUE,))
ENDIF = UOp(Ops.ENDIF, (IF,))
STORE = OUT.index(R).store(IN.index(R).load())
SHORT = UOp.range(R, 2)
BLOCK = UOp(Ops.SPECIAL, (index(4),), "gidx0")
PUT = OUT.index(index(0)).store(ONE)
BARRIER = UOp(Ops.BARRIER, (PUT,))

#: A product over r for each q, in the sum over r of a sum over q.
INNER = Q.cast(dtypes.i32).reduce(Ops.MUL, 0, (R,))
TWICE = (R < Q).where(INNER, UOp.const(dtypes.i32, 0))
#: A rule, a program that breaks it, the node that is wrong, and what is said of it.
WRONG: list[tuple[str, Callable[[], UOp | list[UOp]], UOp, str]] = [
    ("contents", lambda: UOp.sink(STORE.end(R), OUT.flip((True,)).store(IN)), OUT.flip((True,)), "at loop level"),
    (
        "contents",
        lambda: [R, IN.index(R), IN.index(R).load(), UOp(Ops.STAGE, (IN.index(R).load(),), AddrSpace.REG)],
        UOp(Ops.STAGE, (IN.index(R).load(),), AddrSpace.REG),
        "at linear level (it belongs to tensor or loop level)",
    ),
    (
        "args",
        lambda: UOp.alloc(0, 4, dtypes.f32, AddrSpace.LOCAL).after(IN.store(ONE)),
        UOp.alloc(0, 4, dtypes.f32, AddrSpace.LOCAL),
        "local stands at tensor level (one of global)",
    ),
    ("args", lambda: [vector := UOp.range(4, 0, AxisType.VECTOR), PUT.end(vector)], UOp.range(4, 0, AxisType.VECTOR), "vector stands at linear level"),
    ("order of ifs", lambda: UOp.sink(ENDIF), IF, "only in a linear program"),
    ("outputs", lambda: UOp.sink(OUT.store(IN), IN + IN), IN + IN, "a value beside effects"),
    ("keys", lambda: UOp.sink(OUT.store(UOp.param(0, 4, dtypes.f32)), UOp.param(0, 3, dtypes.f32).store(ONE)), UOp.param(0, 3, dtypes.f32), "slot 0 is that of another param"),
    ("keys", lambda: UOp.sink(STORE.end(R), OUT.index(UOp.range(3, 0)).store(ONE).end(UOp.range(3, 0))), UOp.range(3, 0), "id 0 is that of another range"),
    ("keys", lambda: UOp.variable("n", 1, 4) + UOp.variable("n", 1, 5), UOp.variable("n", 1, 5), "name n is that of another param"),
    ("closers", lambda: UOp.sink(STORE.end(R, R)), STORE.end(R, R), "closes a range twice"),
    (
        "nesting",
        lambda: OUT.index(SHORT).store(ONE).end(SHORT, R),
        OUT.index(SHORT).store(ONE).end(SHORT, R),
        "the end of range 2 depends on range 0, which is inside it",
    ),
    ("rebound ranges", lambda: TWICE.reduce(Ops.ADD, 0, (Q,)).reduce(Ops.ADD, 0, (R,)), INNER, "closes range 0 inside of a loop over it"),
    ("closed ranges", lambda: UOp.sink(STORE), R, "nothing closes range 0"),
    (
        "closed ranges",
        lambda: OUT.index(R).store(IN.index(R).load().reduce(Ops.ADD, 0, (R,))),
        OUT.index(R),
        "uses range 0 outside of the loop that closes it",
    ),
    ("places", lambda: UOp.sink(STORE.end(R), OUT.store(ONE)), OUT.store(ONE), "Ops.PARAM names no element of memory"),
    ("places", lambda: UOp.sink(STORE.end(R), PUT, OUT.index(index(1)).store(IN.load().index(index(0)))), IN.load(), "Ops.PARAM names no element"),
    ("loaded values", lambda: OUT.index(R).store(IN.index(R) + 1.0).end(R), IN.index(R) + 1.0, "takes memory for a value"),
    ("loaded values", lambda: OUT.index(R).store(IN.index(R)).end(R), OUT.index(R).store(IN.index(R)), "takes memory"),
    (
        "registers",
        lambda: OUT.index(R).store(UOp(Ops.STACK, (UOp(Ops.STACK, (ONE, ONE)),)).reduce(Ops.ADD, 2)).end(R),
        UOp(Ops.STACK, (UOp(Ops.STACK, (ONE, ONE)),)),
        "a value of 2 axes",
    ),
    ("order", lambda: [OUT.index(index(0)), PUT, IN.index(index(0)).load() + 1.0], IN.index(index(0)).load() + 1.0, "stands before its source"),
    ("matches", lambda: [R, OUT.index(R), ONE, OUT.index(R).store(ONE)], R, "is never closed"),
    ("matches", lambda: [R, Q, OUT.index(R), OUT.index(R).store(ONE), OUT.index(R).store(ONE).end(R), OUT.index(R).store(ONE).end(R).end(Q)], OUT.index(R).store(ONE).end(R), "what was opened last is"),
    ("matches", lambda: [IF, ENDIF, ENDIF], ENDIF, "opened last is nothing"),
    ("barriers", lambda: [OUT.index(index(0)), PUT, IF, BARRIER, ENDIF], BARRIER, "threads would wait"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "make", "node", "said"), WRONG, ids=[f"{w[0]}-{n}" for n, w in enumerate(WRONG)]
)
def test_each_rule_fires(rule: str, make: Callable[[], UOp | list[UOp]], node: UOp, said: str) -> None:
    found, fault = next(faults(facts_of(make())))
    assert (found.name, fault.node) == (rule, node)
    with pytest.raises(VerifyError) as caught:
        verify(make())
    assert caught.value.node is node
    assert said in str(caught.value)
    assert str(caught.value).startswith(repr(node.op))


def test_every_rule_is_broken_by_a_program_above() -> None:
    assert {rule for rule, *_ in WRONG} == {rule.name for rule in RULES}


def test_a_range_may_be_closed_by_one_loop_after_the_other() -> None:
    """The greatest of a row, and then the row less it: the first loop ends before the second begins."""
    x, out = UOp.param(1, 16, dtypes.f32), UOp.param(0, 16, dtypes.f32)
    element = x.index(Q * 4 + R).load()
    row = out.index(Q * 4 + R).store(element - element.reduce(Ops.MAX, 0, (R,)))
    assert verify(UOp.sink(row.end(Q, R))) is Level.LOOP


def test_every_op_belongs_to_a_level() -> None:
    assert set().union(*CONTENTS.values()) == set(Ops)


def test_a_body_is_checked_where_it_is_called() -> None:
    body = UOp.sink(OUT.index(index(0)).store(UOp.param(1, 4, dtypes.f32).index(index(0))))
    call = UOp(Ops.CALL, (body, UOp.buffer(4, dtypes.f32), UOp.buffer(4, dtypes.f32)))
    with pytest.raises(VerifyError, match="takes memory for a value"):
        verify(UOp.sink(call))


def test_the_place_is_told_where_it_is_known() -> None:
    text = "%0 = param 4 : dtype=f32 slot=0\n%1 = const 4 : dtype=index\n%2 = range %1 : id=7 axis=loop\n"
    parsed = parse_uir(f"{text}%3 = index %0, %2\n%4 = load %3\n", "open.uir")
    with pytest.raises(VerifyError) as caught:
        verify(parsed.program, spans=parsed.spans)
    assert str(caught.value) == (
        "open.uir:3:6: error: Ops.RANGE: nothing closes range 7\n"
        "  %2 = range %1 : id=7 axis=loop\n"
        "       ^ END its effect, or REDUCE its value"
    )


@pytest.mark.parametrize(
    ("program", "level"),
    [
        (IN + IN, Level.TENSOR),
        (UOp.sink(), Level.TENSOR),
        (UOp.sink(OUT.flip((True,)).store(IN)), Level.TENSOR),
        (UOp.sink(STORE.end(R)), Level.LOOP),
        (PUT, Level.LOOP),
        (IN.index(R).load().reduce(Ops.ADD, 0, (R,)), Level.LOOP),
        (OUT.index(BLOCK).store(ONE), Level.LINEAR),
        ([R, OUT.index(R), ONE, OUT.index(R).store(ONE), OUT.index(R).store(ONE).end(R)], Level.LINEAR),
        ([IF, OUT.index(index(0)), PUT, ENDIF, BARRIER], Level.LINEAR),
        ([], Level.LINEAR),
    ],
)
def test_the_level_follows_from_the_content(program: UOp | list[UOp], level: Level) -> None:
    assert verify(program) is level
    assert verify(program, level) is level


def test_a_level_that_is_asked_for_must_fit() -> None:
    with pytest.raises(VerifyError, match="stands at tensor level"):
        verify(UOp.sink(STORE.end(R)), Level.TENSOR)


@pytest.mark.net
def test_a_chain_of_100_000_nodes_is_verified() -> None:
    node = IN.index(R).load()
    for _ in range(100_000):
        node = -node
    assert verify(OUT.index(R).store(node).end(R)) is Level.LOOP
