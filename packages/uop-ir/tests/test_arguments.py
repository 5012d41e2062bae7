"""Python arguments that are of no use: each is refused by our error,
which shows the value and says the remedy.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from uop_ir import (
    AddrSpace,
    Const,
    Ops,
    Param,
    UOp,
    UopError,
    by_name,
    call_params,
    definition,
    dtypes,
    evaluate,
    flatten,
    fold,
    format_uir,
    from_numpy,
    get_backend,
    index,
    index_map,
    inline_call,
    level_of,
    override,
    parse_uir,
    promote,
    read_settings,
    read_uir,
    run_program,
    settings,
    sizes,
    to_dot,
    to_svg,
    toposort,
    verify,
)

F32, I32, BOOL = dtypes.f32, dtypes.i32, dtypes.bool
M, X = UOp.param(0, 4, F32), UOp.param(0, 4, F32).reshape((2, 2))
CONDITION, V, R = UOp.param(1, 4, BOOL), UOp.variable("v", 1, 8), UOp.range(3, 0)
SCALAR = UOp(Ops.PARAM, (), Param(F32, name="s"))
MIXED: dict[Any, Any] = {M: 1.0, "a": 2.0}


def overridden(target: Any, **values: Any) -> None:
    with override(target, **values):
        pass


#: The call, of values of any type, and what its error says: of the value, then of the remedy.
CALLS: dict[str, tuple[Callable[[Any], object], Any, str]] = {
    "const of a text": (lambda o: UOp.const(I32, o), "a", "'a' is no constant of type i32 (an int"),
    "const of digits": (lambda o: UOp.const(F32, o), "1.5", "'1.5' is no constant of type f32 (an int"),
    "const of bool": (lambda o: UOp.const(BOOL, o), None, "None is no constant of type bool"),
    "const of an array": (lambda o: UOp.const(F32, o), np.zeros(2), "is no constant of type f32"),
    "const of NumPy's text": (lambda o: UOp.const(F32, o), np.str_("3"), "is no constant of type f32"),
    "const of NumPy's complex": (lambda o: UOp.const(F32, o), np.complex64(1 + 2j), "is no constant of type f32"),
    "const of a ratio": (lambda o: UOp.const(I32, o), Fraction(3**999, 2), "is no constant of type i32 (an int"),
    "const of no number": (lambda o: UOp.const(BOOL, o), Decimal("sNaN"), "is no constant of type bool"),
    "const, no dtype": (lambda o: UOp.const(o, 1), [], "[] is no dtype (such as dtypes.f32)"),
    "const_like": (lambda o: X.const_like(o), 1j, "1j is no constant of type f32"),
    "index": (index, "a", "'a' is no constant of type index"),
    "operator": (lambda o: X + o, "a", "'a' is no constant of type f32"),
    "operator, right": (lambda o: o * X, None, "None is no constant of type f32"),
    "comparison": (lambda o: X.ne(o), "a", "'a' is no constant of type f32"),
    "node, no op": (lambda o: UOp(o), [], "[] is no op (a member of Ops)"),
    "node, sources": (lambda o: UOp(Ops.NEG, o), 5, "Ops.NEG: 5 is no sequence of sources (a tuple"),
    "node, a source": (lambda o: UOp(Ops.NEG, (o,)), [1], "Ops.NEG: source [1] is no UOp (UOp.const"),
    "replace": (lambda o: (-X).replace(src=o), X, "is no sequence of sources"),
    "substitute": (lambda o: X.substitute(o), 5, "substitute: 5 is no mapping (a dict"),
    "substitute, a key": (lambda o: X.substitute(o), {"a": X}, "substitute: 'a' is no UOp"),
    "substitute, a value": (lambda o: X.substitute({X: o}), 5, "substitute: 5 is no UOp"),
    "toposort": (toposort, 5, "toposort: 5 is no sequence of UOps"),
    "toposort, a node": (toposort, X, "is no sequence of UOps (a tuple of UOps)"),
    "toposort, a root": (lambda o: toposort([o]), "a", "toposort: 'a' is no UOp"),
    "toposort, gate": (lambda o: X.toposort(o), 5, "toposort: 5 is no gate (a function"),
    "tree": (lambda o: X.tree(o), "a", "tree: 'a' is no number of lines (an int)"),
    "range": (lambda o: UOp.range(o, 0), "a", "'a' is no constant of type index"),
    "range, number": (lambda o: UOp.range(3, o), "a", "arg must be (number, AxisType)"),
    "buffer": (lambda o: UOp.buffer(o, F32), "a", "arg must be a Buffer"),
    "param": (lambda o: UOp.param(o, 4, F32), "a", "memory needs a slot and a size"),
    "variable": (lambda o: UOp.variable("n", o, 8), "a", "variable n needs min <= max"),
    "variable, integer of NumPy": (
        lambda o: UOp.variable("unlike_any_other", o, 8),  # 1 finds the node that int 1 has made
        np.int64(1),
        "variable unlike_any_other needs min <= max, has min=1 max=8 (int() makes an int of int64)",
    ),
    "alloc": (lambda o: UOp.alloc(0, o, F32, AddrSpace.REG), "a", "arg must be an Alloc"),
    "sink": (lambda o: UOp.sink(o), 5, "Ops.SINK: source 5 is no UOp"),
    "cast": (lambda o: X.cast(o), "f32", "Ops.CAST: from f32 to 'f32'"),
    "alu": (lambda o: X.alu(o, X), "add", "'add' is no op"),
    "where": (lambda o: CONDITION.where(o, 1.0), 2.0, "where: 2.0 is no UOp (UOp.const"),
    "reshape": (lambda o: X.reshape(o), 5, "reshape: 5 is no sequence of sizes (a tuple of sizes)"),
    "reshape, text": (lambda o: X.reshape(o), "4", "reshape: '4' is no sequence of sizes"),
    "reshape, size": (lambda o: X.reshape((o,)), 4.0, "reshape: size 4.0 is neither an int nor a UOp (int()"),
    "reshape, constant": (
        lambda o: X.reshape((o,)),
        UOp.const(dtypes.i32, 4),
        "each symbolic size needs a source of dtype index",
    ),
    "expand": (lambda o: X.expand(o), 5, "expand: 5 is no sequence of sizes"),
    "permute": (lambda o: X.permute(o), 0, "permute: 0 is no sequence of axes"),
    "permute, axis": (lambda o: X.permute((o, 1)), 0.0, "(0.0, 1) is no order of the axes of (2, 2)"),
    "flip": (lambda o: X.flip(o), 5, "flip: 5 is no sequence of bools"),
    "flip, array": (lambda o: X.flip((o, o)), np.zeros(2), "can change"),
    "flip, one": (lambda o: X.flip(o), (False,), "one bool an axis"),
    "pad": (lambda o: X.pad(o), 3, "pad: 3 is no sequence of pairs"),
    "pad, pair": (lambda o: X.pad(o), (1, 2), "pad: 1 is no sequence of two sizes"),
    "pad, three": (lambda o: X.pad(o), ((1, 2, 3), (0, 0)), "pad: (1, 2, 3) is no pair (two sizes an axis)"),
    "shrink": (lambda o: X.shrink(o), None, "shrink: None is no sequence of pairs"),
    "shrink, size": (lambda o: X.shrink(((o, 1), (0, 2))), "a", "shrink: size 'a' is neither an int"),
    "reduce": (lambda o: X.reduce(o), "add", "arg must be (ADD, MUL or MAX, axes)"),
    "reduce, ranges": (lambda o: X.reduce(Ops.ADD, 0, o), 5, "reduce: 5 is no sequence of ranges"),
    "store": (lambda o: M.store(o), 1.0, "source 1.0 is no UOp (UOp.const makes one of a number)"),
    "by_name": (by_name, [], "unknown dtype [] (one of bool"),
    "from_numpy": (from_numpy, 5, "5 is no NumPy dtype (such as np.float32)"),
    "promote": (promote, "a", "'a' is neither a dtype nor a Python number"),
    "call_params": (call_params, 5, "call_params: 5 is no UOp"),
    "inline_call": (inline_call, 5, "inline_call: 5 is no UOp"),
    "definition": (lambda o: definition(Ops.EXP2, o), 5, "definition: 5 is no UOp"),
    "definition, op": (lambda o: definition(o, X), "sin", "definition: 'sin' is no op"),
    "evaluate": (lambda o: evaluate(o, {}), X, "evaluate: UOp(Ops.RESHAPE, f32(2, 2), 1"),
    "evaluate, output": (lambda o: evaluate([o], {}), 5, "evaluate: 5 is no UOp"),
    "evaluate, inputs": (lambda o: evaluate([X], o), [1], "evaluate: [1] is no mapping"),
    "evaluate, key": (lambda o: evaluate([X], o), MIXED, "evaluate: 'a' is no UOp"),
    "evaluate, variable": (lambda o: evaluate([V + 1], {V: o}), 1.5, "v = 1.5 is no integer (an int)"),
    "evaluate, scalar": (lambda o: evaluate([SCALAR], {SCALAR: o}), "a", "'a' is no constant of type f32"),
    "run_program": (lambda o: run_program(o, {}), 5, "run_program: 5 is no sequence of UOps"),
    "run_program, memory": (lambda o: run_program(UOp.sink(), o), 5, "run_program: 5 is no mapping"),
    "fold": (lambda o: fold(Ops.ADD, None, o), 5, "fold: 5 is no sequence of Consts"),
    "fold, values": (lambda o: fold(Ops.ADD, None, [o, o]), 5, "arg must be a Const, not 5"),
    "fold, op": (lambda o: fold(o, None, []), Ops.SINK, "fold: Ops.SINK is not elementwise"),
    "fold, arg": (lambda o: fold(Ops.CAST, o, [Const(I32, 1)]), "f32", "from i32 to 'f32'"),
    "index_map": (lambda o: index_map(o, [R]), M, "index_map: Ops.PARAM is no movement op"),
    "index_map, at": (lambda o: index_map(X, o), R, "is no sequence of UOps"),
    "index_map, few": (lambda o: index_map(X, [o]), R, "index_map: 1 indices of a value of 2 axes"),
    "flatten": (lambda o: flatten((2, 2), o), [1, 1], "flatten: 1 is no UOp"),
    "flatten, shape": (lambda o: flatten(o, [R, R]), 4, "flatten: 4 is no sequence of sizes"),
    "sizes": (sizes, X, "sizes: Ops.RESHAPE has no pairs of sizes"),
    "level_of": (level_of, X, "is no sequence of ops"),
    "override": (lambda o: overridden(settings, DEBUG=o), 1, "IrSettings has no setting 'DEBUG' (one of"),
    "override, no settings": (lambda o: overridden(o, debug=1), 5, "int has no setting 'debug'"),
    "read_settings": (read_settings, 5, "read_settings: 5 is no dataclass"),
    "parse_uir": (parse_uir, b"", "parse_uir: b'' is no text (a str"),
    "read_uir": (read_uir, 5, "read_uir: 5 is no path (a str or a Path)"),
    "format_uir": (format_uir, 5, "format_uir: 5 is no sequence of UOps"),
    "to_dot": (to_dot, "a", "to_dot: 'a' is no UOp"),
    "to_svg": (to_svg, "a", "to_svg: 'a' is no UOp"),
    "verify": (verify, [5], "verify: 5 is no UOp"),
    "get_backend": (get_backend, [], "[] is no name of a backend"),
}  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
def test_an_argument_of_no_use_is_refused(call: str) -> None:
    function, argument, message = CALLS[call]
    with pytest.raises(UopError, match=re.escape(message)):
        function(argument)


def odd() -> Iterator[object]:
    """Values of many types, few of which any call can use."""
    yield from (
        5,
        -1,
        2.5,
        1j,
        "add",
        "",
        b"x",
        None,
        True,
        [],
        [1],
        (),
        (1,),
        {},
        {1: 2},
        {1},
        object(),
        Path(),
    )
    yield from (np.zeros(2), np.float32(1), np.int64(1), Ops.ADD, F32, AddrSpace.REG, Const(I32, 1), X, R)
    yield from ((X, X), ((X,), (X,)), ((None, 1), (1, 1)), (1.0, 2.0))


@pytest.mark.parametrize("call", CALLS)
def test_no_argument_ends_in_an_error_of_python(call: str) -> None:
    function, _, _ = CALLS[call]
    for argument in odd():
        with suppress(UopError):
            function(argument)
