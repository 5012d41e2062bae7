"""Every op has its cell in every column: a row, a meaning,
an index map, an interval, a text in C, a gradient.

A package may keep its cells as it likes, so each is asked for by what it does, through public names. An op
that has none in a column stands in a table here, with the reason.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pytest

from uop_codegen_c import Freedoms, linearize, render, stages
from uop_ir import (
    INDEX_MAPS,
    OPS,
    AddrSpace,
    Kind,
    Ops,
    Plan,
    UOp,
    UopError,
    call_params,
    dtypes,
    evaluate,
    get_backend,
    index,
    index_map,
    run_program,
)
from uop_rewrite import bounds
from uop_tensor import gradient

Array: TypeAlias = "npt.NDArray[Any]"
X = np.array([0.5, 1.25, 2.0, 3.5], np.float32)
Y = np.array([2.0, 0.5, 1.0, 3.0], np.float32)
I = np.array([7, -3, 0, 100], np.int32)
J = np.array([2, 5, 1, 3], np.int32)
U = np.array([1, 2, 3, 40], np.uint32)


def f32(slot: int) -> UOp:
    return UOp.param(slot, 4, dtypes.f32)


def i32(slot: int) -> UOp:
    return UOp.param(slot, 4, dtypes.i32)


def u32(slot: int) -> UOp:
    return UOp.param(slot, 4, dtypes.u32)


@dataclass(frozen=True)
class Sample:
    """A program that stores to slot 0 what `wanted` says of the inputs, which have the slots from 1 on."""

    value: UOp
    inputs: tuple[Array, ...]
    wanted: Array

    @property
    def body(self) -> UOp:
        out = UOp.param(0, self.wanted.size, self.value.dtype)
        return UOp.sink(out.reshape(self.value.shape).store(self.value))

    def memory(self) -> dict[UOp, Array]:
        arrays = (np.zeros(self.wanted.size, self.wanted.dtype), *(a.copy() for a in self.inputs))
        return dict(zip(call_params(self.body), arrays, strict=True))


def unary(op: Ops, wanted: Array, arg: Any = None) -> Sample:
    return Sample(UOp(op, (f32(1),), arg), (X,), wanted)


def floats(op: Ops, wanted: Array) -> Sample:
    return Sample(f32(1).alu(op, f32(2)), (X, Y), wanted)


def integers(op: Ops, wanted: Array) -> Sample:
    return Sample(i32(1).alu(op, i32(2)), (I, J), wanted)


def view(value: UOp, wanted: Array) -> Sample:
    return Sample(value, (X,), np.ascontiguousarray(wanted))


def looped() -> UOp:
    """out[3 - i] = x[i] * 2, of LOADs and STOREs."""
    i = UOp.range(4, 0)
    store = f32(0).index(index(3) - i).store(f32(1).index(i).load() * 2.0)
    return UOp.sink(store.end(i))


def scratch() -> UOp:
    """out[i] = (x[i], put into a register and read back) + 1."""
    i = UOp.range(4, 0)
    register = UOp.alloc(0, 1, dtypes.f32, AddrSpace.REG)
    put = register.index(index(0)).store(f32(1).index(i).load())
    back = register.after(put).index(index(0)).load()
    return UOp.sink(f32(0).index(i).store(back + 1.0).end(i))


def guarded() -> list[UOp]:
    """A thread of a grid of 6: if gidx0 < 4, out[gidx0] = x[gidx0]."""
    number = UOp(Ops.SPECIAL, (index(6),), "gidx0")
    inside = UOp(Ops.IF, (number < 4,))
    load = f32(1).index(number, number < 4).load()
    store = f32(0).index(number, number < 4).store(load)
    closed = UOp(Ops.ENDIF, (inside,))
    order = [n for n in UOp.sink(store).toposort() if n.op not in (Ops.STORE, Ops.SINK)]
    return [*order, inside, store, closed]


def called() -> UOp:
    """A kernel's body, called with BUFFERs."""
    return UOp(Ops.CALL, (unary(Ops.NEG, -X).body, OUT, IN))


OUT, IN = UOp.buffer(4, dtypes.f32), UOp.buffer(4, dtypes.f32)
S = f32(1).reshape((2, 2))
SQUARE = X.reshape(2, 2)
LOG, SINE = np.log2(X.astype(np.float64)), np.sin(X.astype(np.float64))

#: An op of values: a program with it, and what NumPy makes of its inputs.
SAMPLES: dict[Ops, Sample] = {
    Ops.PARAM: view(f32(1), X),
    Ops.RESHAPE: view(f32(1).reshape((2, 2)), SQUARE),
    Ops.EXPAND: view(f32(1).reshape((4, 1)).expand((4, 3)), np.repeat(X, 3).reshape(4, 3)),
    Ops.PERMUTE: view(S.permute((1, 0)), SQUARE.T),
    Ops.FLIP: view(S.flip((True, False)), SQUARE[::-1]),
    Ops.PAD: view(S.pad(((1, 0), (0, 2))), np.pad(SQUARE, ((1, 0), (0, 2)))),
    Ops.SHRINK: view(S.shrink(((0, 1), (1, 2))), SQUARE[:1, 1:]),
    Ops.STACK: Sample(UOp(Ops.STACK, (f32(1), f32(2))), (X, Y), np.stack([X, Y])),
    Ops.REDUCE: view(S.reduce(Ops.ADD, 1), SQUARE.sum(1)),
    Ops.STAGE: view(UOp(Ops.STAGE, (f32(1) * 2.0,), AddrSpace.LOCAL).flip((True,)), X[::-1] * 2),
    Ops.CONST: Sample(f32(1) + 2.0, (X,), X + 2),
    Ops.CAST: unary(Ops.CAST, X.astype(np.int32), dtypes.i32),
    Ops.BITCAST: unary(Ops.BITCAST, X.view(np.int32), dtypes.i32),
    Ops.RECIP: unary(Ops.RECIP, 1 / X),
    Ops.SQRT: unary(Ops.SQRT, np.sqrt(X)),
    Ops.EXP2: unary(Ops.EXP2, np.exp2(X)),
    Ops.LOG2: unary(Ops.LOG2, LOG.astype(np.float32)),
    Ops.SIN: unary(Ops.SIN, SINE.astype(np.float32)),
    Ops.TRUNC: unary(Ops.TRUNC, np.trunc(X)),
    Ops.NEG: unary(Ops.NEG, -X),
    Ops.ADD: floats(Ops.ADD, X + Y),
    Ops.SUB: floats(Ops.SUB, X - Y),
    Ops.MUL: floats(Ops.MUL, X * Y),
    Ops.DIV: floats(Ops.DIV, X / Y),
    Ops.MOD: integers(Ops.MOD, I % J),
    Ops.MAX: floats(Ops.MAX, np.maximum(X, Y)),
    Ops.AND: integers(Ops.AND, I & J),
    Ops.OR: integers(Ops.OR, I | J),
    Ops.XOR: integers(Ops.XOR, I ^ J),
    Ops.SHL: Sample(u32(1) << u32(2), (J.astype(np.uint32), U), (J.astype(np.uint64) << U).astype(np.uint32)),
    Ops.SHR: Sample(u32(1) >> u32(2), (J.astype(np.uint32), U), (J.astype(np.uint64) >> U).astype(np.uint32)),
    Ops.CMPLT: floats(Ops.CMPLT, X < Y),
    Ops.CMPNE: floats(Ops.CMPNE, X != Y),
    Ops.CMPEQ: floats(Ops.CMPEQ, X == Y),
    Ops.WHERE: Sample((f32(1) < f32(2)).where(f32(1), f32(2)), (X, Y), np.minimum(X, Y)),
    Ops.MULACC: Sample(UOp(Ops.MULACC, (f32(1), f32(2), f32(1))), (X, Y), X * Y + X),
}


@dataclass(frozen=True)
class Effects:
    """A program of effects: what it makes of X in slot 1 or the second buffer."""

    program: UOp | list[UOp]
    wanted: Array
    memory: tuple[UOp, UOp] = field(default_factory=lambda: (f32(0), f32(1)))


_LOOPED, _SCRATCH = Effects(looped(), X[::-1] * 2), Effects(scratch(), X + 1)
_GUARDED = Effects(guarded(), X)
#: An op of loops, of memory or of a grid: a program with it.
EFFECTS: dict[Ops, Effects] = {
    Ops.CALL: Effects(UOp.sink(called()), -X, (OUT, IN)),
    Ops.BUFFER: Effects(UOp.sink(OUT.store(IN)), X, (OUT, IN)),
    Ops.COPY: Effects(UOp.sink(OUT.store(UOp(Ops.COPY, (IN,), "CPU"))), X, (OUT, IN)),
    **dict.fromkeys((Ops.INDEX, Ops.LOAD, Ops.STORE, Ops.RANGE, Ops.END, Ops.SINK), _LOOPED),
    **dict.fromkeys((Ops.ALLOC, Ops.AFTER), _SCRATCH),
    **dict.fromkeys((Ops.SPECIAL, Ops.IF, Ops.ENDIF), _GUARDED),
    Ops.BARRIER: Effects(UOp.sink(UOp(Ops.BARRIER, (OUT.store(IN),))), X, (OUT, IN)),
}

NO_MEANING = {Ops.WMMA: "of a warp, whose lanes the interpreter does not run together"}
NO_INDEX_MAP = {Ops.STACK: "its operands are several: the index chooses among them"}
#: Of the ops that give integers.
NO_INTERVAL = {
    Ops.BITCAST: "the bits of a float are any integer",
    Ops.TRUNC: "of floats",
    Ops.LOAD: "what memory holds is not known",
    Ops.REDUCE: "its length is not reckoned with",
    **dict.fromkeys((Ops.RECIP, Ops.SQRT, Ops.EXP2, Ops.LOG2, Ops.SIN), "of floats"),
    **dict.fromkeys((Ops.INDEX, Ops.ALLOC, Ops.BUFFER, Ops.AFTER), "memory"),
    **dict.fromkeys((Ops.CALL, Ops.STORE, Ops.END, Ops.SINK, Ops.BARRIER, Ops.IF, Ops.ENDIF), "an effect"),
    Ops.WMMA: "its values are not reckoned with",
}  # fmt: skip
#: Gone from the linear program, which is what is rendered.
LOWERED = {
    **dict.fromkeys(
        (Ops.RESHAPE, Ops.EXPAND, Ops.PERMUTE, Ops.FLIP, Ops.PAD, Ops.SHRINK), "index arithmetic"
    ),
    Ops.REDUCE: "an accumulator",
    Ops.STAGE: "scratch memory, and loops that fill it",
    Ops.STACK: "a choice by index; it is a vector where it stays",
    **dict.fromkeys((Ops.EXP2, Ops.LOG2, Ops.SIN), "its definition"),
}
NO_C = {
    Ops.CALL: "the host runs it",
    Ops.BUFFER: "becomes a PARAM",
    Ops.COPY: "the host does it",
    Ops.SPECIAL: "of a grid, which C has not",
    Ops.WMMA: "of a warp, which C has not",
}
NO_GRADIENT = {
    **dict.fromkeys((Ops.CALL, Ops.STORE, Ops.SINK, Ops.END, Ops.BARRIER, Ops.IF, Ops.ENDIF), "an effect"),
    **dict.fromkeys((Ops.INDEX, Ops.LOAD, Ops.RANGE, Ops.ALLOC, Ops.SPECIAL), "not at tensor level"),
    **dict.fromkeys((Ops.PARAM, Ops.BUFFER, Ops.CONST), "a leaf"),
    **dict.fromkeys((Ops.AND, Ops.OR, Ops.XOR, Ops.SHL, Ops.SHR, Ops.BITCAST), "of bits"),
    **dict.fromkeys((Ops.CMPLT, Ops.CMPNE, Ops.CMPEQ), "gives bool"),
    Ops.TRUNC: "zero almost everywhere",
    Ops.AFTER: "how a gradient is stopped",
    Ops.WMMA: "not at tensor level",
}
ULPS = {Ops.EXP2: 2, Ops.LOG2: 2, Ops.SIN: 2}


def all_but(*marked: dict[Ops, str]) -> list[Ops]:
    """The ops that are not marked as having no cell."""
    return [op for op in Ops if not any(op in none for none in marked)]


def same(got: Array, wanted: Array, ulps: int = 0) -> None:
    assert got.dtype == wanted.dtype
    if ulps:
        np.testing.assert_array_max_ulp(got.reshape(wanted.shape), wanted, ulps)
    else:
        np.testing.assert_array_equal(got.reshape(wanted.shape), wanted)


@pytest.mark.parametrize("op", Ops, ids=lambda op: op.name)
def test_row(op: Ops) -> None:
    row = OPS[op]
    assert row.meaning
    assert row.most is None or row.least <= row.most


def test_every_op_has_a_program() -> None:
    assert SAMPLES.keys() | EFFECTS.keys() == set(all_but(NO_MEANING))
    for op, sample in SAMPLES.items():
        assert any(n.op is op for n in sample.body.toposort())
    for op, effects in EFFECTS.items():
        nodes = effects.program if isinstance(effects.program, list) else effects.program.toposort()
        assert any(n.op is op for n in nodes) or op is Ops.SINK


@pytest.mark.parametrize("op", SAMPLES, ids=lambda op: op.name)
def test_meaning_of_a_value(op: Ops) -> None:
    sample = SAMPLES[op]
    (got,) = evaluate([sample.value], dict(list(sample.memory().items())[1:]))
    same(got, sample.wanted, ULPS.get(op, 0))


@pytest.mark.parametrize("op", EFFECTS, ids=lambda op: op.name)
def test_meaning_of_an_effect(op: Ops) -> None:
    effects = EFFECTS[op]
    memory = dict(zip(effects.memory, (np.zeros_like(X), X.copy()), strict=True))
    run_program(effects.program, memory)
    same(memory[effects.memory[0]], effects.wanted)


def test_what_has_no_meaning_is_refused() -> None:
    pair = UOp(Ops.STACK, (UOp.const(dtypes.f32, 1.0), UOp.const(dtypes.f32, 2.0)))
    for op in NO_MEANING:
        with pytest.raises(UopError, match="the interpreter runs threads one after another"):
            evaluate([UOp(op, (pair,) * OPS[op].least, "m16n8k8_tf32")], {})


MOVEMENT = (Ops.RESHAPE, Ops.EXPAND, Ops.PERMUTE, Ops.FLIP, Ops.PAD, Ops.SHRINK, Ops.STACK)


@pytest.mark.parametrize("op", [op for op in MOVEMENT if op not in NO_INDEX_MAP], ids=lambda op: op.name)
def test_index_map(op: Ops) -> None:
    """Each element is where the map says."""
    assert INDEX_MAPS.keys() == set(MOVEMENT) - NO_INDEX_MAP.keys()
    node = SAMPLES[op].value
    (source,) = evaluate([node.src[0]], {f32(1): X})
    wanted = SAMPLES[op].wanted
    for at in np.ndindex(wanted.shape):
        position, valid = index_map(node, [index(i) for i in at])
        numbers = [int(v) for v in evaluate([UOp.sink(*position).src[k] for k in range(len(position))], {})]
        inside = valid is None or bool(evaluate([valid], {})[0])
        assert wanted[at] == (source[tuple(numbers)] if inside else 0)


V, W = UOp.variable("v", 2, 9), UOp.variable("w", 1, 3)
DIGITS = UOp.param(0, 4, dtypes.u8) % 3 + 2
#: A node, and its interval by hand.
INTERVALS: dict[Ops, tuple[UOp, tuple[int, int]]] = {
    Ops.PARAM: (V, (2, 9)),
    Ops.CONST: (index(5), (5, 5)),
    Ops.RANGE: (UOp.range(V, 0), (0, 8)),
    Ops.SPECIAL: (UOp(Ops.SPECIAL, (W,), "gidx0"), (0, 2)),
    Ops.ADD: (V + W, (3, 12)),
    Ops.SUB: (V - W, (-1, 8)),
    Ops.MUL: (V * W, (2, 27)),
    Ops.NEG: (-V, (-9, -2)),
    Ops.DIV: (V // W, (0, 9)),
    Ops.MOD: (V % 4, (0, 3)),
    Ops.MAX: (V.maximum(4), (4, 9)),
    Ops.AND: (V.cast(dtypes.i32) & 7, (0, 7)),
    Ops.OR: (V.cast(dtypes.i32) | 4, (4, 13)),
    Ops.XOR: (V.cast(dtypes.i32) ^ 4, (0, 13)),
    Ops.SHL: (V.cast(dtypes.u8) << 2, (8, 36)),
    Ops.SHR: (V.cast(dtypes.u8) >> 1, (1, 4)),
    Ops.MULACC: (UOp(Ops.MULACC, (V.cast(dtypes.i32), V.cast(dtypes.i32), W.cast(dtypes.i32))), (5, 84)),
    Ops.CMPLT: (V < 10, (1, 1)),
    Ops.CMPNE: (V.ne(11), (1, 1)),
    Ops.CMPEQ: (V.eq(11), (0, 0)),
    Ops.WHERE: ((V < 5).where(V, W), (1, 4)),
    Ops.CAST: (V.cast(dtypes.i32), (2, 9)),
    Ops.STACK: (UOp(Ops.STACK, (V, W)), (1, 9)),
    Ops.RESHAPE: (DIGITS.reshape((4, 1)), (2, 4)),
    Ops.EXPAND: (DIGITS.reshape((4, 1)).expand((4, 3)), (2, 4)),
    Ops.PERMUTE: (DIGITS.reshape((2, 2)).permute((1, 0)), (2, 4)),
    Ops.FLIP: (DIGITS.flip((True,)), (2, 4)),
    Ops.SHRINK: (DIGITS.shrink(((1, 3),)), (2, 4)),
    Ops.PAD: (DIGITS.pad(((1, 0),)), (0, 4)),
    Ops.STAGE: (UOp(Ops.STAGE, (DIGITS,), AddrSpace.LOCAL), (2, 4)),
    Ops.COPY: (UOp(Ops.COPY, (DIGITS,), "INTERP"), (2, 4)),
}


def test_every_op_has_an_interval_or_is_marked() -> None:
    assert INTERVALS.keys() == set(all_but(NO_INTERVAL))


@pytest.mark.parametrize("op", INTERVALS, ids=lambda op: op.name)
def test_interval(op: Ops) -> None:
    node, wanted = INTERVALS[op]
    assert node.op is op
    assert bounds(node) == wanted


def test_what_has_no_interval_may_be_anything() -> None:
    for op, sample in SAMPLES.items():
        if op in NO_INTERVAL and sample.value.dtype.kind is not Kind.FLOAT:
            assert bounds(sample.value) == (sample.value.dtype.min, sample.value.dtype.max)


def linear(sample: Sample) -> list[UOp]:
    *_, (_, root) = stages(sample.body, Freedoms(contract=False, reassociate=False))
    return list(linearize(root))


@pytest.mark.parametrize("op", [op for op in SAMPLES if op not in NO_C], ids=lambda op: op.name)
def test_c_of_a_value(op: Ops) -> None:
    sample = SAMPLES[op]
    assert any(n.op is op for n in linear(sample)) != (op in LOWERED)
    backend = get_backend("CPU")
    arrays = list(sample.memory().values())
    memory = [backend.allocate(a.nbytes) for a in arrays]
    for handle, array in zip(memory, arrays, strict=True):
        backend.copy_in(handle, array)
    params = call_params(sample.body)
    backend.link(Plan((UOp(Ops.CALL, (sample.body, *params)),), params))(memory, ())
    backend.copy_out(memory[0], arrays[0])
    same(arrays[0], sample.wanted, ULPS.get(op, 0))


#: What an op of loops becomes.
TEXTS = {
    Ops.RANGE: "for (int ridx0 = 0; ridx0 < 4; ridx0++) {",
    Ops.END: "    }\n}",
    Ops.INDEX: "[ridx0]",
    Ops.LOAD: "data1[ridx0]",
    Ops.STORE: "data0[3-ridx0] =",
    Ops.ALLOC: "float acc0 = data1[ridx0];",
    Ops.AFTER: "acc0 + 1.0f",
    Ops.IF: "if (ridx0 < 3) {",
    Ops.ENDIF: "    }\n    }\n}",
    Ops.BARRIER: "void k(",
    Ops.SINK: "void k(",
}


@pytest.mark.parametrize("op", [op for op in EFFECTS if op not in NO_C], ids=lambda op: op.name)
def test_c_of_an_effect(op: Ops) -> None:
    program = EFFECTS[op].program
    order = guarded_loop() if isinstance(program, list) or op is Ops.BARRIER else [*linearize(program)]
    assert any(n.op is op for n in order)
    _, text = render("k", order, (f32(0), f32(1)))
    assert TEXTS[op] in text.replace("        ", "    "), text


def guarded_loop() -> list[UOp]:
    i = UOp.range(4, 0)
    inside = UOp(Ops.IF, (i < 3,))
    store = f32(0).index(i).store(f32(1).index(i).load())
    end = UOp(Ops.ENDIF, (inside,))
    before = [n for n in UOp.sink(inside, store).toposort() if n not in (inside, store)]
    return [*before[:-1], inside, store, end, store.end(i), UOp(Ops.BARRIER), UOp.sink(store.end(i))]


DOUBLE, OTHER = UOp.buffer(4, dtypes.f64), UOp.buffer(4, dtypes.f64)
WIDE, WIDER = X.astype(np.float64), Y.astype(np.float64)
SQUARED = DOUBLE.reshape((2, 2))
#: A function of DOUBLE (and OTHER) at float64, whose last op it is.
GRADIENTS: dict[Ops, UOp] = {
    Ops.RESHAPE: DOUBLE.reshape((2, 2)),
    Ops.EXPAND: DOUBLE.reshape((4, 1)).expand((4, 3)),
    Ops.PERMUTE: SQUARED.permute((1, 0)),
    Ops.FLIP: SQUARED.flip((True, False)),
    Ops.PAD: SQUARED.pad(((1, 0), (0, 2))),
    Ops.SHRINK: SQUARED.shrink(((0, 1), (1, 2))),
    Ops.STACK: UOp(Ops.STACK, (DOUBLE, OTHER)),
    Ops.REDUCE: SQUARED.reduce(Ops.MUL, 1),
    Ops.STAGE: UOp(Ops.STAGE, (DOUBLE,), AddrSpace.GLOBAL),
    Ops.COPY: UOp(Ops.COPY, (DOUBLE,), "CPU"),
    Ops.CAST: DOUBLE.cast(dtypes.f32).cast(dtypes.f64),
    Ops.RECIP: DOUBLE.alu(Ops.RECIP),
    Ops.SQRT: DOUBLE.alu(Ops.SQRT),
    Ops.EXP2: DOUBLE.alu(Ops.EXP2),
    Ops.LOG2: DOUBLE.alu(Ops.LOG2),
    Ops.SIN: DOUBLE.alu(Ops.SIN),
    Ops.NEG: -DOUBLE,
    Ops.ADD: DOUBLE + OTHER,
    Ops.SUB: DOUBLE - OTHER,
    Ops.MUL: DOUBLE * OTHER,
    Ops.DIV: DOUBLE / OTHER,
    Ops.MOD: DOUBLE % OTHER,
    Ops.MAX: DOUBLE.maximum(OTHER),
    Ops.WHERE: (DOUBLE < OTHER).where(DOUBLE, OTHER),
    Ops.MULACC: UOp(Ops.MULACC, (DOUBLE, OTHER, DOUBLE)),
}


def test_every_op_has_a_gradient_or_is_marked() -> None:
    assert GRADIENTS.keys() == set(all_but(NO_GRADIENT))


@pytest.mark.parametrize("op", GRADIENTS, ids=lambda op: op.name)
def test_gradient(op: Ops) -> None:
    """Against central differences; a CAST passes it on as it is."""
    y = GRADIENTS[op]
    assert y.op is op
    seed = UOp.const(dtypes.f64, 1.0).reshape((1,) * y.ndim).expand(y.shape)
    inputs = [b for b in (DOUBLE, OTHER) if b in y.toposort()]
    # apart, so that no step crosses a corner of MAX, MOD or WHERE
    values = {DOUBLE: WIDE + 0.01, OTHER: WIDER + 0.3}
    for node, got in zip(inputs, gradient([y], [seed], inputs), strict=True):
        assert got is not None
        wanted = np.zeros(4)
        for at in range(4):
            step = np.zeros(4)
            step[at] = 1e-6
            ends = [evaluate([y], {**values, node: values[node] + s * step})[0].sum() for s in (1, -1)]
            wanted[at] = (ends[0] - ends[1]) / 2e-6
        expected = np.ones(4) if op is Ops.CAST else wanted
        np.testing.assert_allclose(evaluate([got], values)[0], expected, rtol=1e-6, atol=1e-8)


def test_what_has_no_gradient_passes_none_on() -> None:
    seed = UOp.const(dtypes.f32, 1.0).reshape((1,)).expand((4,))
    x = f32(1)
    for y in (x.alu(Ops.TRUNC), x.bitcast(dtypes.i32).bitcast(dtypes.f32), (x < 1.0).cast(dtypes.f32)):
        (got,) = gradient([y], [seed], [x])
        assert got is not None
        assert not evaluate([got], {x: X})[0].any()
    assert gradient([x.after(UOp(Ops.BARRIER))], [seed], [x]) == [None]
