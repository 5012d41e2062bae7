"""The differential net: random tensor graphs on the CPU and on the interpreter, bit for bit.

With the freedoms off, the kernel's result is that of the graph. With them, it is that of the linear program
that the optimizer made of the graph, run by the interpreter. A kernel that fails is kept as `.uir`; those in
the folder `kernels` failed once, and are run again.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from math import prod
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import event, given, note
from hypothesis import strategies as st

from uop_codegen_c import (
    Action,
    Freedoms,
    Hold,
    Pad,
    Reorder,
    Retype,
    Schedule,
    ScheduleError,
    Split,
    Stage,
    apply_schedule,
    linearize,
    settings,
    stages,
)
from uop_ir import (
    AddrSpace,
    AxisType,
    DType,
    Limits,
    Ops,
    UOp,
    call_params,
    dtypes,
    override,
    read_uir,
    run_program,
)

pytestmark = pytest.mark.net

Array = npt.NDArray[Any]
Shape = tuple[int, ...]
Runner = Callable[..., list[Array]]
Same = Callable[..., None]
KERNELS = Path(__file__).with_name("kernels")
DTYPES = (
    dtypes.f32, dtypes.f64, dtypes.f16, dtypes.bf16, dtypes.i8, dtypes.i32, dtypes.i64, dtypes.u8, dtypes.u32, dtypes.bool,
)  # fmt: skip
UNARY = (Ops.RECIP, Ops.SQRT, Ops.TRUNC, Ops.EXP2, Ops.LOG2, Ops.NEG)
FLOAT = (Ops.ADD, Ops.SUB, Ops.MUL, Ops.DIV, Ops.MOD, Ops.MAX)
INTEGER = (*FLOAT, Ops.AND, Ops.OR, Ops.XOR, Ops.SHL, Ops.SHR)
LOGIC, COMPARE = (Ops.AND, Ops.OR, Ops.XOR), (Ops.CMPLT, Ops.CMPNE, Ops.CMPEQ)
AXES = (AxisType.LOOP, AxisType.REDUCE, AxisType.THREAD, AxisType.UPCAST, AxisType.VECTOR, AxisType.UNROLL)
SIZES = (1, 2, 3, 4, 5, 8, 9, 16, 17)


class Graphs:
    """Builds one random, well-typed graph from the top down."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.slots = 1

    def body(self) -> UOp:
        shape = tuple(self.random.choice(SIZES) for _ in range(self.random.randint(0, 3)))
        dtype = self.random.choice(DTYPES)
        value = self.value(dtype, shape, self.random.randint(1, 5))
        body = UOp.sink(UOp.param(0, prod(shape), dtype).reshape(shape).store(value))
        memory = sorted((n for n in body.toposort() if n.op is Ops.PARAM), key=lambda n: n.arg.slot)
        return body.substitute({p: UOp.param(i, p.arg.size, p.dtype) for i, p in enumerate(memory)})

    def value(self, dtype: DType, shape: Shape, depth: int) -> UOp:
        makers = [
            self.binary,
            self.binary,
            self.unary,
            self.where,
            self.cast,
            self.reduce,
            self.move,
            self.move,
            self.stage,
        ]
        return self.random.choice(makers)(dtype, shape, depth - 1) if depth > 0 else self.leaf(dtype, shape)

    def leaf(self, dtype: DType, shape: Shape) -> UOp:
        if self.random.random() < 0.15:
            value = self.random.choice([0, 1, -1, 2, 3, 7] + ([0.5, -0.0] if dtype.is_float else []))
            return UOp.const(dtype, value).reshape((1,) * len(shape)).expand(shape)
        self.slots += 1
        return UOp.param(self.slots, prod(shape), dtype).reshape(shape)

    def binary(self, dtype: DType, shape: Shape, depth: int) -> UOp:
        source = dtype
        if dtype is dtypes.bool:
            op = self.random.choice(LOGIC + COMPARE)
            source = dtype if op in LOGIC else self.random.choice(DTYPES)
        else:
            op = self.random.choice(FLOAT if dtype.is_float else INTEGER)
        return UOp(op, (self.value(source, shape, depth), self.value(source, shape, depth)))

    def unary(self, dtype: DType, shape: Shape, depth: int) -> UOp:
        x = self.value(dtype, shape, depth)
        if dtype is dtypes.bool:
            return x.ne(True)
        return x.alu(self.random.choice(UNARY if dtype.is_float else (Ops.NEG,)))

    def where(self, dtype: DType, shape: Shape, depth: int) -> UOp:
        return self.value(dtypes.bool, shape, depth).where(
            self.value(dtype, shape, depth), self.value(dtype, shape, depth)
        )

    def cast(self, dtype: DType, shape: Shape, depth: int) -> UOp:
        bits = {
            dtypes.f32: dtypes.i32,
            dtypes.i32: dtypes.f32,
            dtypes.f64: dtypes.i64,
            dtypes.i64: dtypes.f64,
        }
        if dtype in bits and self.random.random() < 0.3:
            return self.value(bits[dtype], shape, depth).bitcast(dtype)
        return self.value(self.random.choice(DTYPES), shape, depth).cast(dtype)

    def reduce(self, dtype: DType, shape: Shape, depth: int) -> UOp:
        axes = self.random.randint(1, 2)
        if dtype is dtypes.bool or len(shape) + axes > 4:
            return self.leaf(dtype, shape)
        extents = tuple(self.random.choice([1, 2, 3, 5, 8, 16, 33]) for _ in range(axes))
        op = self.random.choice([Ops.ADD, Ops.MAX, Ops.MUL])
        return self.value(dtype, shape + extents, depth).reduce(op, axes)

    def stage(self, dtype: DType, shape: Shape, depth: int) -> UOp:
        """Scratch memory, read at one position or at two, where a kernel has room for it."""
        if prod(shape) * dtype.itemsize > Limits.local_memory:
            return self.leaf(dtype, shape)
        value = UOp(Ops.STAGE, (self.value(dtype, shape, depth),), AddrSpace.LOCAL)
        if not shape or dtype is dtypes.bool:
            return value
        return UOp(Ops.MAX, (value, value.flip([self.random.random() < 0.5 for _ in shape])))

    def move(self, dtype: DType, shape: Shape, depth: int) -> UOp:
        if not shape:
            return self.value(dtype, (1, 1), depth).reshape(())
        kind = self.random.randint(0, 5)
        if kind == 0:
            axes = self.random.sample(range(len(shape)), len(shape))
            source = [0] * len(shape)
            for size, axis in zip(shape, axes, strict=True):
                source[axis] = size
            return self.value(dtype, tuple(source), depth).permute(axes)
        if kind == 1:
            return self.value(dtype, shape, depth).flip([self.random.random() < 0.5 for _ in shape])
        if kind == 2:
            before = [self.random.randint(0, min(2, d - 1)) for d in shape]
            after = [self.random.randint(0, min(2, d - 1 - b)) for d, b in zip(shape, before, strict=True)]
            inner = tuple(d - a - b for d, a, b in zip(shape, after, before, strict=True))
            return self.value(dtype, inner, depth).pad(list(zip(before, after, strict=True)))
        if kind == 3:
            begins = [self.random.randint(0, 2) for _ in shape]
            outer = tuple(d + b + self.random.randint(0, 2) for d, b in zip(shape, begins, strict=True))
            return self.value(dtype, outer, depth).shrink(
                [(b, b + d) for b, d in zip(begins, shape, strict=True)]
            )
        if kind == 4:
            return self.value(dtype, self.factors(prod(shape)), depth).reshape(shape)
        narrow = tuple(1 if self.random.random() < 0.5 else d for d in shape)
        return self.value(dtype, narrow, depth).expand(shape)

    def factors(self, size: int) -> Shape:
        out: list[int] = []
        while size > 1 and len(out) < 3:
            out.append(self.random.choice([d for d in range(2, size + 1) if size % d == 0]))
            size //= out[-1]
        return (*out, size) if size > 1 else tuple(out)


def inputs(body: UOp, seed: int) -> list[Array]:
    """Arrays for a kernel's arguments, with special values among them."""
    rng = np.random.default_rng(seed)
    special = np.array([0.0, -0.0, 1.0, np.inf, -np.inf, np.nan, 1e-40, 3e38])
    out: list[Array] = []
    for param in call_params(body):
        size, dtype = param.arg.size, param.dtype
        if dtype is dtypes.bool:
            out.append(rng.integers(0, 2, size).astype(np.bool_))
        elif dtype.is_float:
            plain = rng.standard_normal(size) * rng.choice([1.0, 10.0, 1e3], size)
            values = np.where(rng.random(size) < 0.15, rng.choice(special, size), plain)
            with np.errstate(over="ignore"):
                out.append(values.astype(dtype.numpy))
        else:
            low, high = (0, 5) if rng.random() < 0.5 else (int(dtype.min), int(dtype.max))
            out.append(rng.integers(low, high, size, dtype=dtype.numpy, endpoint=True))
    return out


def check_strict(
    run_cpu: Runner, run_interp: Runner, same_bits: Same, body: UOp, given_: list[Array], opt: int
) -> None:
    """With the freedoms off, the kernel has the bits of the graph."""
    with override(settings, opt=opt, strict=1):
        got = run_cpu(body, given_)
    same_bits(got[0], run_interp(body, given_)[0])


def check_free(run_cpu: Runner, same_bits: Same, body: UOp, given_: list[Array]) -> None:
    """With them, those of its linear program."""
    *_, (_, root) = stages(body, Freedoms())
    want = [a.copy() for a in given_]
    run_program(linearize(root), dict(zip(call_params(body), want, strict=True)))
    same_bits(run_cpu(body, given_)[0], want[0])


@pytest.mark.parametrize("opt", [0, 1])
@given(random=st.randoms(use_true_random=False), seed=st.integers(0, 1 << 16))
def test_strict_kernels_have_the_bits_of_the_graph(
    run_cpu: Runner,
    run_interp: Runner,
    same_bits: Same,
    kept: Callable[..., AbstractContextManager[None]],
    opt: int,
    random: Random,
    seed: int,
) -> None:
    body = Graphs(random).body()
    with kept(f"strict-opt{opt}", body, seed):
        check_strict(run_cpu, run_interp, same_bits, body, inputs(body, seed), opt)


@given(random=st.randoms(use_true_random=False), seed=st.integers(0, 1 << 16))
def test_free_kernels_have_the_bits_of_their_linear_program(
    run_cpu: Runner,
    same_bits: Same,
    kept: Callable[..., AbstractContextManager[None]],
    random: Random,
    seed: int,
) -> None:
    body = Graphs(random).body()
    with kept("free", body, seed):
        check_free(run_cpu, same_bits, body, inputs(body, seed))


def random_schedule(random: Random, root: UOp, free: Freedoms, most: int) -> Schedule:
    """Random actions that are legal one after another on a program at loop level;
    most that are tried are not.
    """
    actions: list[Action] = []
    for _ in range(8 * most):
        ranges = [n for n in root.toposort() if n.op is Ops.RANGE]
        if len(actions) == most or not ranges:
            break
        r = random.choice(ranges)
        number, size = int(r.arg[0]), int(r.src[0].value) if r.src[0].op is Ops.CONST else 1
        closed = [
            [int(q.arg[0]) for q in n.src[1:]] for n in root.toposort() if n.op in (Ops.END, Ops.REDUCE)
        ]
        slots = [n.arg.slot for n in root.toposort() if n.op is Ops.PARAM and n.arg.size is not None]
        numbers = [int(q.arg[0]) for q in random.sample(ranges, min(len(ranges), random.randint(1, 2)))]
        order = random.choice(closed)
        action: Action = random.choice(
            [
                Split(number, random.choice([2, 3, 4, 5, 8, size]), random.choice(AXES)),
                Split(number, random.choice([2, 4, 8]), AxisType.VECTOR),
                Retype(number, random.choice(AXES)),
                Reorder(tuple(random.sample(order, len(order)))),
                Stage(random.choice(slots), tuple(numbers)),
                Hold(number, tuple(numbers)),
                Pad(number, random.choice([2, 3, 4])),
            ]
        )
        try:
            root = apply_schedule(root, [action], free)
        except ScheduleError:
            continue
        actions.append(action)
    return Schedule(tuple(actions))


@given(random=st.randoms(use_true_random=False), seed=st.integers(0, 1 << 16))
def test_strict_kernels_have_the_bits_of_the_graph_under_any_schedule(
    run_interp: Runner,
    run_scheduled: Callable[..., list[Array]],
    same_bits: Same,
    kept: Callable[..., AbstractContextManager[None]],
    random: Random,
    seed: int,
) -> None:
    body = Graphs(random).body()
    free = Freedoms(contract=False, reassociate=False)
    loops = next(root for name, root in stages(body, free) if name == "bounds")
    schedule = random_schedule(random, loops, free, random.randint(1, 8))
    given_ = inputs(body, seed)
    event(f"{len(schedule.actions)} actions")
    note(f"schedule: {schedule}")
    with kept("scheduled", body, seed):
        same_bits(run_scheduled(body, free, schedule, given_)[0], run_interp(body, given_)[0])


@pytest.mark.parametrize("path", sorted(KERNELS.glob("*.uir")), ids=lambda path: path.stem)
def test_kernels_that_failed_once(run_cpu: Runner, run_interp: Runner, same_bits: Same, path: Path) -> None:
    """Each was kept when it failed; its first line has the seed of its inputs."""
    body = read_uir(path).root
    given_ = inputs(body, int(path.read_text().split(maxsplit=5)[4].rstrip(":")))
    for opt in (0, 1):
        check_strict(run_cpu, run_interp, same_bits, body, given_, opt)
    check_free(run_cpu, same_bits, body, given_)


def test_a_kernel_that_fails_is_kept(kept: Callable[..., AbstractContextManager[None]]) -> None:
    body = Graphs(Random(0)).body()  # noqa: S311  # no secret
    with pytest.raises(ValueError, match="wrong") as caught, kept("of-a-test", body, 17):
        raise ValueError("wrong")
    path = Path(caught.value.__notes__[0].removeprefix("the kernel is kept in ").partition(";")[0])
    assert path.read_text().startswith("# inputs of seed 17\n")
    assert read_uir(path).root is body
    path.unlink()


def test_narrow_integers_are_compared_as_narrow(run_cpu: Callable[..., Any]) -> None:
    x = UOp.param(1, 4, dtypes.u8)
    body = UOp.sink(UOp.param(0, 4, dtypes.bool).store((x ^ 255).eq(UOp.param(2, 4, dtypes.u8))))
    given_ = [np.zeros(4, np.bool_), np.array([0, 1, 254, 255], np.uint8), np.array([255, 1, 1, 0], np.uint8)]
    np.testing.assert_array_equal(run_cpu(body, given_)[0], [True, False, True, True])
