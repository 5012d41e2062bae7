"""The passes as other packages find them: one by one,
with options from the settings, and all of them as `lower`.
"""

from __future__ import annotations

import pytest

from uop_codegen_c import PASSES, Freedoms, Schedule, settings, stages
from uop_codegen_c.kernel import as_kernel
from uop_codegen_c.passes import Accumulate, Optimize, Reguard, Resimplify, Spread, lower
from uop_ir import Ops, UOp, dtypes, override
from uop_rewrite import Trace


def test_options_are_those_of_the_settings_unless_given() -> None:
    with override(settings, opt=0, strict=1):
        assert Optimize().freedoms == Freedoms(optimize=False, contract=False, reassociate=False)
        assert not Accumulate().contract
    with override(settings, opt=1, strict=0):
        assert Optimize().freedoms == Freedoms()
        assert Accumulate().contract
        assert not Accumulate(contract=False).contract


def test_lower_takes_a_program_of_values_all_the_way() -> None:
    x = UOp.buffer(16, dtypes.f32).reshape((4, 4))
    trace = Trace()
    result = trace.run(x.permute((1, 0)) * 2.0, lower())
    *_, (_, wanted) = stages(as_kernel(x.permute((1, 0)) * 2.0))
    assert result is wanted
    assert [step.name for step in trace.passes] == ["kernel", *(step.name for step in PASSES)]
    assert all(
        after.before is before.after for before, after in zip(trace.passes, trace.passes[1:], strict=False)
    )


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("schedule", ["split 1 4 vector; retype 2 unroll", "retype 2 unroll"])
def test_nothing_is_left_to_do_for_values_of_an_unrolled_range(schedule: str, axis: int) -> None:
    """Sums of three neighbours along an axis of 16x16, of which some lie outside."""
    x = UOp.param(1, 256, dtypes.f32).reshape((16, 16)).permute((axis, 1 - axis)).pad(((1, 1), (0, 0)))
    thrice = x.reshape((1, 18, 16)).expand((3, 18, 16)).reshape((54, 16)).pad(((0, 3), (0, 0)))
    windows = thrice.reshape((3, 19, 16)).shrink(((0, 3), (0, 16), (0, 16)))
    out = UOp.param(0, 256, dtypes.f32).reshape((16, 16))
    body = UOp.sink(out.store(windows.permute((1 + axis, 2 - axis, 0)).reduce(Ops.ADD, 1)))
    loops = next(root for name, root in stages(body, Freedoms()) if name == "bounds")
    *_, (_, root) = stages(Schedule.parse(schedule).apply(loops), Freedoms(), "expand")
    assert Spread().run(Reguard().run(Resimplify().run(root))) is root
