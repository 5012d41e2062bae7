"""What a compiler warns of is an error under CHECK=1:
gcc and clang have nothing to say of what each alone looks for.
"""

from __future__ import annotations

import shutil
from math import prod
from pathlib import Path

import pytest

from uop_codegen_c import CpuBackend, Freedoms, Schedule, generate, settings
from uop_ir import Ops, UOp, dtypes, override, read_uir
from uop_ir import settings as ir_settings

KERNELS = Path(__file__).with_name("kernels")
COMPILERS = [
    name for name in ("gcc", "clang", *(f"clang-{n}" for n in range(22, 13, -1))) if shutil.which(name)
]


def stored(value: UOp) -> UOp:
    size = prod(d for d in value.shape if isinstance(d, int))
    return UOp.sink(UOp.param(0, size, value.dtype).reshape(value.shape).store(value))


def matmul(n: int) -> UOp:
    """Fused products in vectors, where no scalar one is left."""
    a, b = UOp.param(1, n * n, dtypes.f32).reshape((n, 1, n)), UOp.param(2, n * n, dtypes.f32).reshape((n, n))
    shape = (n, n, n)
    return stored((a.expand(shape) * b.permute((1, 0)).reshape((1, n, n)).expand(shape)).reduce(Ops.ADD, 1))


def masked() -> UOp:
    """A choice under two conditions: clang asks for parentheses."""
    return stored(UOp.param(1, 6, dtypes.f32).pad(((1, 2),)))


def both_called() -> UOp:
    """Two conditions that call functions, joined by `&`: clang asks if `&&` is meant."""
    x, y = (UOp.param(i, 3, dtypes.f32) for i in (1, 2))
    return stored(((x.maximum(y) < y.maximum(1.0)) & (y.maximum(x) < x.maximum(1.0))).where(x, y))


def folded_away() -> UOp:
    """A sum to which nothing is added, as x + -0.0 is x."""
    return stored(UOp.const(dtypes.f32, -0.0).reshape((1, 1)).expand((16, 8)).reduce(Ops.ADD, 1))


def masked_copies() -> UOp:
    """Of four elements one is a sum, and the others,
    copies of the same loop, are 0: nobody reads what these fold.
    """
    return stored(UOp.param(1, 8, dtypes.u32).reshape((1, 8)).reduce(Ops.ADD, 1).pad(((2, 1),)))


def long_constant() -> UOp:
    """A constant of 64 bits beside a cast: as `long long` it has another type than int64_t on Linux."""
    return stored(UOp.param(1, 6, dtypes.i16).cast(dtypes.u64) ^ (1 << 63))


def same_arms() -> UOp:
    """A choice between a cast and a bitcast, of which C makes the same, within another one."""
    x = UOp.param(1, 24, dtypes.i16).reshape((3, 8))
    truth = x.cast(dtypes.u32).cast(dtypes.bool)
    return stored(truth.where(x.bitcast(dtypes.u16), x.cast(dtypes.u16)).pad(((0, 0), (1, 2))))


def masked_lanes() -> list[UOp]:
    """Lanes that are left out would stand outside of an array,
    as gcc says where it does not see that they are.
    """
    return [read_uir(path).root for path in sorted(KERNELS.glob("masked_lanes*.uir"))]


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("opt", [0, 1])
def test_no_warnings(compiler: str, opt: int, tmp_path: Path) -> None:
    with (
        override(settings, cc=compiler, opt=opt, uop_cache=str(tmp_path)),
        override(ir_settings, check=1),
    ):
        bodies = [
            matmul(16),
            masked(),
            both_called(),
            folded_away(),
            long_constant(),
            same_arms(),
            *masked_lanes(),
        ]
        CpuBackend().compile(bodies)
        copies = Schedule.parse("retype 0 upcast")
        CpuBackend(lambda body: generate(body, Freedoms(), schedule=copies)).compile([masked_copies()])
