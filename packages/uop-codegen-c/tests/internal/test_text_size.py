"""The C of a kernel stays short whatever its extents: at most 20 KB with its helpers, on each machine."""

from __future__ import annotations

from math import prod
from typing import Any

import pytest

from uop_codegen_c import Freedoms, generate, optimize
from uop_codegen_c.machine import Machine
from uop_ir import DType, Ops, UOp, dtypes

MOST = 20_000
F32 = dtypes.f32
FREEDOMS = {
    "plain": (Freedoms(optimize=False, contract=False, reassociate=False), Machine(16, 16, 1)),
    "16 bytes": (Freedoms(), Machine(16, 32, 4)),
    "32 bytes": (Freedoms(), Machine(32, 16, 4)),
    "64 bytes": (Freedoms(), Machine(64, 32, 4)),
}
EXTENTS = (1, 7, 1000, 1_000_003)
Shape = tuple[Any, ...]


def param(slot: int, shape: Shape, dtype: DType = F32) -> UOp:
    return UOp.param(slot, prod(shape), dtype).reshape(shape)


def spread(rows: UOp, n: int) -> UOp:
    return rows.reshape((*rows.shape, 1)).expand((*rows.shape, n))


def turned(x: UOp) -> UOp:
    return x.permute(tuple(reversed(range(x.ndim))))


def matmul(a: UOp, b: UOp) -> UOp:
    (n, k), (_, m) = a.shape, b.shape
    shape = (n, m, k)
    left = a.reshape((n, 1, k)).expand(shape)
    return (left * b.permute((1, 0)).reshape((1, m, k)).expand(shape)).reduce(Ops.ADD, 1)


def gelu(x: UOp) -> UOp:
    e = ((x * 0.044715 * x * x + x) * 2.302208).alu(Ops.EXP2)
    return x * e / (e + 1.0)


def softmax(x: UOp) -> UOp:
    n: Any = x.shape[-1]
    e = (x - spread(x.reduce(Ops.MAX, 1), n)).alu(Ops.EXP2)
    return e / spread(e.reduce(Ops.ADD, 1), n)


def tangent(x: UOp) -> UOp:
    """As tensors have it: two sines, each of which is long."""
    sine, double = x.alu(Ops.SIN), (x + x).alu(Ops.SIN)
    zero = double.eq(0.0)
    return zero.where(x, sine * ((sine + sine) / zero.where(double.const_like(1.0), double)))


def windows(x: UOp, size: int, stride: int = 1) -> UOp:
    """Windows of the last axis, `stride` apart: the count of windows, then a window, as the last two axes."""
    lead: Shape = x.shape[:-1]
    n: Any = x.shape[-1]
    whole = tuple((0, d) for d in lead)
    repeat, count = -(-size * (n + 1) // n), (n - size) // stride + 1
    rows = x.reshape((*lead, 1, n)).expand((*lead, repeat, n)).reshape((*lead, repeat * n))
    rows = rows.shrink((*whole, (0, size * (n + 1)))).reshape((*lead, size, n + 1))
    rows = rows.shrink((*whole, (0, size), (0, count * stride))).reshape((*lead, size, count, stride))
    rows = rows.shrink((*whole, (0, size), (0, count), (0, 1))).reshape((*lead, size, count))
    return rows.permute((*range(len(lead)), len(lead) + 1, len(lead)))


def convolution(batch: int, channels: int, n: int, filters: int, size: int, stride: int = 1) -> UOp:
    pad = size // 2
    x = param(1, (batch, channels, n, n)).pad(((0, 0), (0, 0), (pad, pad), (pad, pad)))
    x = windows(windows(x, size, stride).permute((0, 1, 3, 4, 2)), size, stride)  # b, c, x, dx, y, dy
    x = x.permute((0, 4, 2, 1, 5, 3))
    shape: Shape = (batch, filters, *x.shape[1:])
    x = x.reshape((batch, 1, *x.shape[1:])).expand(shape)
    weight = param(2, (filters, channels, size, size)).reshape((1, filters, 1, 1, channels, size, size))
    return (x * weight.expand(shape)).reduce(Ops.ADD, 3)


def counter(n: int) -> UOp:
    return windows(UOp.const(dtypes.i32, 1).reshape((1,)).expand((n,)).pad(((n - 1, 0),)), n).reduce(
        Ops.ADD, 1
    )


def gather(n: int) -> UOp:
    shape = (5, 3, n)
    mask = (counter(n) - 1).reshape((1, 1, n)).expand(shape).eq(param(2, (5, 1, 1), dtypes.i32).expand(shape))
    return mask.where(param(1, (n, 3)).permute((1, 0)).reshape((1, 3, n)).expand(shape), 0.0).reduce(
        Ops.ADD, 1
    )


def long_sums(n: int, count: int) -> UOp:
    """So many sums of quotients of powers, each of which is long alone."""
    total = param(1, (64, n)).reduce(Ops.MAX, 1)
    for i in range(count):
        x = param(1, (64, n))
        total = total * ((x * float(i + 1)).alu(Ops.EXP2) / (x.alu(Ops.EXP2) + float(i))).reduce(Ops.ADD, 1)
    return total


def chain(n: int, count: int) -> UOp:
    """So many reductions, each of what the one before has made of the rows."""
    y = param(1, (64, n))
    for i in range(count):
        y = y - spread((y * float(i + 1)).alu(Ops.EXP2).reduce(Ops.MAX if i % 2 else Ops.ADD, 1), n)
    return y.reduce(Ops.ADD, 1)


def shifted(n: int, count: int) -> UOp:
    """A sum of so many copies that zeros move: each lane of each is loaded where its own mask holds."""
    total = param(1, (n,)).pad(((0, count),))
    for i in range(1, count):
        total = total + param(1, (n,)).pad(((i, count - i),))
    return total


CASES: dict[str, UOp] = {}
for n in EXTENTS:
    CASES |= {
        f"sum of {n}": param(1, (n,)).reduce(Ops.ADD, 1),
        f"softmax 7x{n}": softmax(param(1, (7, n))),
        f"columns {n}x7": param(1, (n, 7)).permute((1, 0)).reduce(Ops.MAX, 1),
        f"transpose {n}x1000": turned(param(1, (n, 1000))) * 2.0,
        f"sine of {n}": param(1, (3, n)).alu(Ops.SIN).reduce(Ops.ADD, 1),
        f"matmul {n}x1000x40": matmul(param(1, (n, 1000)), param(2, (1000, 40))),
        f"matmul 12x{n}x1000": matmul(param(1, (12, n)), param(2, (n, 1000))),
        f"transposed matmul 12x64x{n}": matmul(param(1, (12, 64)), turned(param(2, (n, 64)))),
        f"gelu of a matmul {n}": gelu(matmul(param(1, (n, 64)), param(2, (64, n)))),
        f"matmul of gelu {n}": matmul(gelu(param(1, (24, n))), gelu(param(2, (n, 200)))),
        f"pad {n}": param(1, (n, n)).pad(((1, 2), (3, 0))) + param(2, (n + 3, n + 3)),
        f"gather {n}": gather(n),
        f"cumulative sum of {n}": windows(param(1, (n,)).pad(((n - 1, 0),)), n).reduce(Ops.ADD, 1),
    }
for n in (*EXTENTS, 6, 13, 64):
    wide = param(1, (3, n), dtypes.f64)
    CASES |= {
        f"sines in f64 of {n}": wide.alu(Ops.SIN),
        f"sine in f64 of {n}": wide.alu(Ops.SIN).reduce(Ops.ADD, 1),
        f"sine in f64 of columns of {n}": turned(wide).alu(Ops.SIN).reduce(Ops.ADD, 1),
        f"sine in f64 of a sum of {n}": wide.reduce(Ops.ADD, 1).alu(Ops.SIN),
        f"powers in f64 of {n}": (wide.alu(Ops.LOG2) * wide).alu(Ops.EXP2) + wide.alu(Ops.LOG2),
    }
for n in (7, 1003):
    for dtype in (F32, dtypes.f64):
        rows, product = param(1, (3, n), dtype), matmul(param(1, (33, n), dtype), param(2, (n, 70), dtype))
        CASES |= {
            f"tangents in {dtype} of {n}": tangent(rows),
            f"tangents in {dtype} of columns of {n}": tangent(turned(rows)).reduce(Ops.ADD, 1),
            f"a sum of tangents in {dtype} of {n}": tangent(rows).reduce(Ops.ADD, 1),
            f"tangents in {dtype} of a matmul of {n}": tangent(product),
        }
for n in (7, 28, 1000):
    CASES |= {
        f"convolution {n}": convolution(4, 16, n, 24, 3),
        f"gelu of a convolution {n}": gelu(convolution(2, 3, n, 6, 5)),
        f"convolution with a stride {n}": convolution(4, 16, n, 24, 7, 2),
        f"pooling {n}": windows(windows(param(1, (4, n, n)), 3, 2), 2).reduce(Ops.MAX, 1),
    }
for count in (2, 3, 5, 9):
    CASES |= {f"{count} long sums of {n}": long_sums(n, count) for n in (1000, 1003)}
    CASES |= {f"{count} reductions in turn of {n}": chain(n, count) for n in (1000, 1003)}
CASES |= {f"{count} padded": shifted(1000, count) for count in (12, 40)}
for n in (
    31,
    63,
):  # the columns that are left have loops of their own, with all that depends on the rows again
    CASES |= {
        f"matmul of sines {n}": matmul(param(1, (27, 127)).alu(Ops.SIN), param(2, (127, n))),
        f"matmul of sines in f64 {n}": matmul(
            param(1, (27, 127), dtypes.f64).alu(Ops.SIN), param(2, (127, n), dtypes.f64)
        ),
        f"maxima of products of maxima {n}": (
            (param(1, (64, 1, 33)).expand((64, 64, 33)) * param(2, (1, 64, 33)).expand((64, 64, 33)))
            .reduce(Ops.MAX, 1)
            .reshape((64, 1, 64))
            .expand((64, n, 64))
            * param(3, (n, 64)).reshape((1, n, 64)).expand((64, n, 64))
        ).reduce(Ops.MAX, 1),
    }
for rank in range(4, 9):
    SHAPE = (3, 1, 7, 2, 5, 4, 2, 3)[:rank]
    CASES |= {
        f"turned {rank}": turned(param(1, SHAPE).flip((True,) * rank)) * 2.0,
        f"padded {rank}": turned(param(1, SHAPE).pad(((1, 1),) * rank)) * 2.0,
        f"reduced {rank}": (turned(param(1, SHAPE)).pad(((1, 1),) * rank).reduce(Ops.ADD, rank // 2)),
    }
for dtype in (dtypes.f16, dtypes.bf16, dtypes.f64):
    CASES[f"softmax in {dtype}"] = softmax(param(1, (7, 1000), dtype))


@pytest.mark.net
@pytest.mark.parametrize("freedoms", FREEDOMS)
@pytest.mark.parametrize("name", CASES)
def test_the_text_of_a_kernel_is_short(name: str, freedoms: str, monkeypatch: pytest.MonkeyPatch) -> None:
    free, machine = FREEDOMS[freedoms]
    monkeypatch.setattr(optimize, "this_machine", lambda: machine)
    value = CASES[name]
    source = generate(UOp.sink(param(0, value.shape, value.dtype).store(value)), free)
    assert len(source.preamble) + len(source.text) <= MOST


@pytest.mark.parametrize("freedoms", FREEDOMS)
def test_loop_nests_share_the_room(freedoms: str) -> None:
    """Four that would each be tiled to the limit, were they alone."""
    free, machine = FREEDOMS[freedoms]
    rows = [16 + 8 * i for i in range(4)]
    values = [gelu(matmul(param(4 + 2 * i, (n, 64)), param(5 + 2 * i, (64, n)))) for i, n in enumerate(rows)]
    body = UOp.sink(*(param(i, v.shape).store(v) for i, v in enumerate(values)))
    source = generate(body, free, machine)
    assert len(source.preamble) + len(source.text) <= MOST
