"""The passes as other packages find them: one by one,
with options from the settings, and all of them as `lower`.
"""

from __future__ import annotations

from uop_codegen_c import PASSES, Freedoms, settings, stages
from uop_codegen_c.kernel import as_kernel
from uop_codegen_c.passes import Accumulate, Optimize, lower
from uop_ir import UOp, dtypes, override
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
