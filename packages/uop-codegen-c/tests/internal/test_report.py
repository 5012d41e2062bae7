"""What is said of a kernel: the purpose of each action, and its time beside what the machine can do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from uop_codegen_c import CpuBackend, Freedoms, KernelSource, Schedule, roofline, settings, stages, tuned
from uop_codegen_c.cache import active_compiler
from uop_codegen_c.freedoms import current_freedoms
from uop_codegen_c.machine import Machine
from uop_codegen_c.reasons import AXES, reasons
from uop_codegen_c.roofline import Roofline, distance
from uop_codegen_c.schedule_legal import REDUCED, STORED
from uop_codegen_c.tuned import Find, find_path, keep
from uop_codegen_c.upkeep import damaged, inventory, prune
from uop_ir import AxisType, Ops, Reporting, UOp, dtypes, override

ROOF = Roofline(((1_000, 1e9), (1_000_000, 1e8)), 1e10)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Iterator[Path]:
    with override(settings, uop_cache=str(tmp_path)):
        yield tmp_path / "c"


@pytest.fixture
def measurements(monkeypatch: pytest.MonkeyPatch) -> list[Roofline]:
    """Those that were made."""
    made: list[Roofline] = []

    def measured() -> Roofline:
        made.append(ROOF)
        return ROOF

    monkeypatch.setattr(roofline, "measured", measured)
    return made


def product(n: int) -> UOp:
    a = UOp.param(1, n * n, dtypes.f32).reshape((n, 1, n)).expand((n, n, n))
    b = UOp.param(2, n * n, dtypes.f32).reshape((n, n)).permute((1, 0)).reshape((1, n, n)).expand((n, n, n))
    return UOp.sink(UOp.param(0, n * n, dtypes.f32).reshape((n, n)).store((a * b).reduce(Ops.ADD, 1)))


def test_every_action_has_a_reason() -> None:
    """A program of 64 rows and columns; 0 and 1 are rows and columns, and 2 is reduced."""
    text = (
        "reorder (1, 0); split 1 16 loop; reorder (3, 0, 4); stage 2 (2, 4); pad 0 10; split 0 7 upcast; "
        "split 4 8 vector; retype 3 thread; split 2 4 unroll"
    )
    root = next(root for name, root in stages(product(64)) if name == "bounds")
    told = [
        line.partition(": ") for line in reasons(root, Schedule.parse(text), Freedoms(), Machine(32, 16, 2))
    ]
    assert [action for action, _, _ in told] == text.split("; ")
    said = {action: reason for action, _, reason in told}
    assert said["stage 2 (2, 4)"].startswith(f"{64 * 16 * 4:,} bytes of argument 2 are copied")
    assert said["split 0 7 upcast"] == (
        "7 accumulators of the tile in 16 vector registers: what is loaded serves several"
    )
    assert said["split 4 8 vector"] == "vectors of 8 elements, which lie side by side in memory"
    assert said["split 2 4 unroll"] == "4 steps without a branch, in their order"
    assert said["retype 3 thread"].startswith("2 threads share ")
    (rest,) = reasons(root, Schedule.parse("split 2 6 upcast"), Freedoms(), Machine(32, 16, 2))
    assert rest.endswith("for the one before; 4 of 64 are left for loops of their own")
    (held,) = reasons(root, Schedule.parse("hold 2 (0, 1)"), Freedoms(), Machine(32, 16, 2))
    assert held.startswith("hold 2 (0, 1): 4096 values go to memory")


def test_every_legal_axis_has_a_reason() -> None:
    stored, reduced = {(axis, False) for axis in STORED}, {(axis, True) for axis in REDUCED}
    assert set(AXES) == stored - {(AxisType.THREAD, False)} | reduced
    assert all(AXES.values())


def test_the_roofline_is_the_greater_of_two_times() -> None:
    assert ROOF.memory_seconds(1_000) == 1e-6
    assert ROOF.memory_seconds(1_001) == ROOF.memory_seconds(2_000_000) / (2_000_000 / 1_001)
    assert ROOF.arithmetic_seconds(10_000, 4) == ROOF.arithmetic_seconds(10_000, 2) == 1e-6
    assert ROOF.arithmetic_seconds(10_000, 8) == 2e-6


def test_it_is_measured_once_and_again_where_the_file_is_damaged(
    folder: Path, measurements: list[Roofline]
) -> None:
    assert roofline.roofline() == roofline.roofline() == ROOF
    assert len(measurements) == 1
    (path,) = folder.glob("roofline-*")
    path.write_text(path.read_text()[:-3])
    assert roofline.roofline() == ROOF
    assert len(measurements) == 2
    assert inventory(folder)["rooflines"].count == 1
    assert damaged(folder) == []
    path.write_text("?")
    assert damaged(folder) == [(path, "is not what its digest says")]
    roofline.roofline()
    assert prune(folder, size=0).count == 1


def test_it_is_for_this_cpu_and_compiler_but_any_code(
    folder: Path, measurements: list[Roofline], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("uop_codegen_c.generated.lowering_identity", lambda: "other code")
    roofline.roofline()
    for name, other in (
        ("cpu_model", "another"),
        ("this_machine", Machine(16, 16, 1)),
        ("active_compiler", replace(active_compiler(), identity="another compiler")),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(roofline, name, lambda other=other: other)
            roofline.roofline()
    roofline.roofline()
    assert len(measurements) == len(list(folder.glob("roofline-*"))) == 4


@pytest.mark.usefixtures("measurements")
def test_a_distance() -> None:
    source = KernelSource("k", "", "", flops=40_000, bytes=1_000)
    assert distance(source, product(4), 8e-6) == (
        "roofline: 1,000 bytes take 0.001 ms, 40,000 operations 0.004 ms; the kernel takes 0.008 ms, 0.50 of the least"
    )


@pytest.mark.slow
def test_it_is_measured_with_kernels_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of small sizes; the times are what they are."""
    monkeypatch.setattr(roofline, "SIZES", (2_000,))
    monkeypatch.setattr(roofline, "ELEMENTS", 1_024)
    monkeypatch.setattr(roofline, "STEPS", 4)
    found = roofline.measured()
    monkeypatch.setattr(roofline, "best_seconds", lambda body: 0.5 if body == roofline.summed(6_000) else 2.0)
    slower = roofline.measured()
    assert slower == Roofline(((24_000, 48_000.0),), 2 * 4 * 1_024 / 2.0)
    assert found.flops > slower.flops  # no machine takes seconds
    assert found.bandwidths[0][1] > slower.bandwidths[0][1]


@pytest.mark.usefixtures("measurements")
def test_a_backend_reports(cpu: CpuBackend) -> None:
    assert isinstance(cpu, Reporting)
    body = product(4)
    lines = list(cpu.report(body))
    assert lines[0].startswith("schedule (chosen):")
    assert lines[-1].startswith(
        "roofline: 192 bytes take 0.000 ms, 128 operations 0.000 ms; the kernel takes"
    )
    found = Find("split 0 2 upcast", "", 3.0, 1.0, 9, 1, 2, 30.0)
    with tuned.alone():
        keep(find_path(body, current_freedoms()), found)
    lines = list(cpu.report(body))
    assert lines[0] == "schedule (found by timing, 3.00 times as fast as the chosen one):"
    assert lines[1].startswith("  split 0 2 upcast: 2 accumulators of the tile in ")
    assert len(lines) == 3
    keep(find_path(body, current_freedoms()), Find(None, "", 3.0, 3.0, 9, 1, 2, 30.0))
    assert next(iter(cpu.report(body))).startswith("schedule (chosen; timing found none faster of 9):")
    keep(find_path(body, current_freedoms()), Find("retype 9 thread", "", 3.0, 1.0, 9, 1, 2, 30.0))
    assert next(iter(cpu.report(body))).startswith("schedule (chosen):")
    with override(settings, opt=0):
        assert next(iter(cpu.report(body))) == "schedule (OPT=0): none"
