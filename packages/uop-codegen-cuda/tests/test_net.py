"""The net: random kernels as CUDA text, run on the CPU,
equal the interpreter bit for bit, and do nothing wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from uop_codegen_c import Freedoms
from uop_codegen_cuda import CudaSource, check_kernel, generate
from uop_ir import DType, Ops, UOp, dtypes, generated

EXACT = Freedoms(contract=False, reassociate=False)
#: A kernel takes a third of a second to compile: a handful of each run, all of the profile at night.
EXAMPLES = max(8, settings().max_examples // 5)
SIZES = (1, 2, 3, 5, 30, 256, 257, 300)
TYPES = (dtypes.f32, dtypes.f64, dtypes.f16, dtypes.i8, dtypes.i32, dtypes.i64, dtypes.u32)
BINARY = (Ops.ADD, Ops.SUB, Ops.MUL, Ops.MAX, Ops.DIV, Ops.MOD)
FLOAT = (Ops.SQRT, Ops.TRUNC, Ops.RECIP, Ops.EXP2, Ops.NEG)
Shape = tuple[int, ...]


class Kernels:
    """Random, well-typed kernels: one to three outputs, of one input each and of all others."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.slots = 0

    def memory(self, dtype: DType, shape: Shape) -> UOp:
        self.slots += 1
        return UOp.param(self.slots - 1, prod(shape), dtype).reshape(shape)

    def body(self) -> UOp:
        stores = []
        for _ in range(self.random.randint(1, 2)):
            shape = self.shape()
            dtype = self.random.choice(TYPES)
            target = self.memory(dtype, shape)
            stores.append(target.store(self.value(dtype, shape, 3)))
        return UOp.sink(*stores)

    def shape(self) -> Shape:
        """At most 4 axes, of which one may be long."""
        shape = [self.random.choice(SIZES[:4]) for _ in range(self.random.randint(0, 3))]
        return (*shape, self.random.choice(SIZES)) if self.random.random() < 0.8 else tuple(shape)

    def value(self, dtype: DType, shape: Shape, depth: int) -> UOp:
        if depth == 0:
            return self.memory(dtype, shape)
        return self.random.choice((self.unary, self.binary, self.chosen, self.folded, self.moved))(
            dtype, shape, depth - 1
        )

    def unary(self, dtype: DType, shape: Shape, depth: int) -> UOp:
        if self.random.random() < 0.4:
            return self.value(self.random.choice(TYPES), shape, depth).cast(dtype)
        return self.value(dtype, shape, depth).alu(
            self.random.choice(FLOAT if dtype.is_float else (Ops.NEG,))
        )

    def binary(self, dtype: DType, shape: Shape, depth: int) -> UOp:
        left = self.value(dtype, shape, depth)
        narrow = tuple(1 if self.random.random() < 0.3 else d for d in shape)
        return left.alu(self.random.choice(BINARY), self.value(dtype, narrow, depth).expand(shape))

    def chosen(self, dtype: DType, shape: Shape, depth: int) -> UOp:
        left, right = self.value(dtype, shape, depth), self.value(dtype, shape, depth)
        return (left < right).where(left, 1)

    def folded(self, dtype: DType, shape: Shape, depth: int) -> UOp:
        axes = tuple(self.random.choice((1, 2, 7)) for _ in range(self.random.randint(1, 2)))
        op = self.random.choice((Ops.ADD, Ops.MAX, Ops.MUL))
        return self.value(dtype, (*shape, *axes), min(depth, 1)).reduce(op, len(axes))

    def moved(self, dtype: DType, shape: Shape, depth: int) -> UOp:
        if not shape:
            return self.value(dtype, (1,), depth).reshape(())
        kind = self.random.randint(0, 4)
        if kind == 0:
            axes = self.random.sample(range(len(shape)), len(shape))
            source = tuple(shape[axes.index(axis)] for axis in range(len(shape)))
            return self.value(dtype, source, depth).permute(axes)
        if kind == 1:
            return self.value(dtype, shape, depth).flip([self.random.random() < 0.5 for _ in shape])
        if kind == 2:
            widths = [(self.random.randint(0, d - 1), 0) for d in shape]
            inner = tuple(d - before for d, (before, _) in zip(shape, widths, strict=True))
            return self.value(dtype, inner, depth).pad(widths)
        if kind == 3:
            outer = tuple(d + 2 for d in shape)
            return self.value(dtype, outer, depth).shrink([(1, d + 1) for d in shape])
        return self.value(dtype, (prod(shape),), depth).reshape(shape)


@settings(max_examples=EXAMPLES)
@given(seed=st.integers(0, 2**32))
def test_random_kernels(check: Callable[..., CudaSource], seed: int) -> None:
    check(Kernels(Random(seed)).body(), freedoms=EXACT, seed=seed)  # noqa: S311  a test's numbers


@settings(max_examples=max(3, EXAMPLES // 4))
@given(seed=st.integers(0, 2**32))
def test_random_kernels_do_nothing_wrong(run_cuda: Callable[..., object], seed: int) -> None:
    source = generate(Kernels(Random(seed)).body(), EXACT)  # noqa: S311  a test's numbers
    report = check_kernel(source, [generated(p, seed) for p in source.params])
    assert not report.findings, f"{report}\n{source.text}"
