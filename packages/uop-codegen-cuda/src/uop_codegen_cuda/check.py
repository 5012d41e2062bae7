"""Check kernels: what each of their accesses does wrong, and what it costs, by line of their text. Week 8."""

from __future__ import annotations

import ctypes
import functools
import itertools
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from uop_codegen_c import KernelSource, build
from uop_ir import BackendError, UOp, override

from .arguments import grid_of
from .cuda_file import declared_parameters
from .emulate import ORDERS, as_cpp, launch, launcher, lock, runtime
from .gxx import cpp_compiler
from .lower import CudaSource
from .settings import settings

#: Each access calls a function, of ours and no library's;
#: a copy of a vector is one access; the object knows its lines.
FLAGS = (
    "-fsanitize=thread",
    "-nodefaultlibs",
    "-fno-tree-sra",
    "-fno-toplevel-reorder",
    "-fno-exceptions",
    "-gdwarf-4",
)
#: Between arrays in shared memory, so that none begins where another ends.
GAP = "__shared__ char emu_gap{}[256];"
DECLARATION = re.compile(r"\b__shared__\b[^;{}]*;")
#: A line of nm: place, size, kind, name.
SYMBOL = re.compile(r"^(\w+) (?:(\w+) )?\w (.+)$", re.MULTILINE)
ALIGNMENT = 256
UNITS = {"global": "sectors", "shared": "wavefronts"}
Rows: TypeAlias = list[list[str]]


@dataclass(frozen=True)
class Finding:
    """Something that a kernel does wrong: its kind,
    the line of the text, and what happens in which thread.
    """

    kind: str
    line: int
    what: str


@dataclass(frozen=True)
class Cost:
    """What the accesses of a line cost: of one space (`global`,
    `shared`) and one direction (`load`, `store`).

    `requests` of warps have `moved` sectors of 32 bytes of global memory, or taken as many wavefronts of
    shared memory; `ideal` is how few would do for the bytes that were asked for.
    """

    line: int
    space: str
    direction: str
    requests: int
    moved: int
    ideal: int


@dataclass(frozen=True)
class Report:
    """What was found in a kernel, and what it costs in one order of its threads."""

    source: CudaSource
    grid: tuple[int, ...]
    findings: tuple[Finding, ...]
    costs: tuple[Cost, ...]

    def after(self, earlier: Report) -> Report:
        """This report with what an earlier launch of the kernel did wrong too,
        of each kind and line the first.
        """
        found = {(f.line, f.kind): f for f in (*self.findings, *earlier.findings)}
        return replace(self, findings=tuple(found[key] for key in sorted(found)))

    def __str__(self) -> str:
        lines = self.source.text.splitlines()
        shape = [" x ".join(map(str, size)) for size in (self.grid, self.source.block)]
        out = [f"{self.source.name}: {shape[0]} blocks of {shape[1]} threads"]
        for f in self.findings:
            out += [f"line {f.line}: {f.kind}: {f.what}", f"    {_line(lines, f.line)}"]
        if self.costs:
            out.append(" line access        requests   moved              ideal  times")
        out += [
            f"{c.line:5} {c.space} {c.direction:6}{c.requests:9} {c.moved:7} {UNITS[c.space]:10}"
            f"{c.ideal:6} {c.moved / c.ideal:6.2f}  {_line(lines, c.line)}"
            for c in self.costs
        ]
        return "\n".join(out)


def _line(lines: Sequence[str], number: int) -> str:
    return lines[number - 1].strip() if 0 < number <= len(lines) else ""


@dataclass(frozen=True)
class CheckedKernel:
    """A kernel that is compiled so that each of its accesses is looked at."""

    source: CudaSource
    path: Path
    function: Any

    def run(
        self, addresses: Sequence[int], sizes: Sequence[int], scalars: Mapping[UOp, float | int]
    ) -> tuple[Rows, Rows]:
        """Run it on memory of these bytes, in the order of the settings:
        findings and costs, by place in the object.
        """
        with lock:
            return self._run(addresses, sizes, scalars)

    def _run(
        self, addresses: Sequence[int], sizes: Sequence[int], scalars: Mapping[UOp, float | int]
    ) -> tuple[Rows, Rows]:
        run = runtime()
        run.emu_check_findings.restype = run.emu_check_costs.restype = ctypes.c_char_p
        run.emu_check_begin(ctypes.cast(self.function, ctypes.c_void_p))
        try:
            for name, address, size in zip(_parameter_names(self.source), addresses, sizes, strict=True):
                run.emu_check_memory(name.encode(), ctypes.c_size_t(address), ctypes.c_size_t(size))
            for name, offset, size in _shared_arrays(self.path, self.source.name):
                run.emu_check_shared(name.encode(), ctypes.c_size_t(offset), ctypes.c_size_t(size))
            launch(self.source, self.function, addresses, scalars)
            return _rows(run.emu_check_findings()), _rows(run.emu_check_costs())
        finally:
            run.emu_check_end()

    def report(self, found: Rows, costs: Rows, scalars: Mapping[UOp, float | int]) -> Report:
        """What runs have found, by line of the text: of each kind and line the first."""
        lines = self._lines({row[1] for row in found} | {row[0] for row in costs})
        findings: dict[tuple[int, str], Finding] = {}
        for kind, place, line, what in found:
            finding = Finding(kind, lines.get(place) or int(line), what)
            findings.setdefault((finding.line, kind), finding)
        totals: dict[tuple[int, str, str], list[int]] = {}
        for place, space, direction, *numbers in costs:
            key = (lines[place], space, direction)
            totals[key] = [a + int(b) for a, b in zip(totals.get(key, [0] * 3), numbers, strict=True)]
        return Report(
            self.source,
            tuple(grid_of(self.source, scalars)),
            tuple(findings[key] for key in sorted(findings)),
            tuple(Cost(*key, *total) for key, total in sorted(totals.items())),
        )

    def _lines(self, places: set[str]) -> dict[str, int]:
        """The lines of the calls that end at places of the object."""
        asked = sorted(places - {"0"})
        calls = [f"{int(place, 16) - 1:x}" for place in asked]
        said = _tool("addr2line", "-a", "-i", "-e", str(self.path), *calls) if calls else ""
        each = re.split(r"^0x\w+\n", said, flags=re.MULTILINE)[1:]
        own = re.compile(rf"\b{self.source.name}\.cu:(\d+)")
        found = (own.search(frames) for frames in each)
        return {place: int(line[1]) if line else 0 for place, line in zip(asked, found, strict=True)}


def compile_checked(sources: Sequence[CudaSource]) -> list[CheckedKernel]:
    """Kernels to be checked, compiled together:
    their names differ. Raises BackendError, as `emulate` does.
    """
    runtime()
    paths = build([_unit(source) for source in sources], cpp_compiler(*FLAGS))
    return [CheckedKernel(s, path, launcher(path, s.name)) for s, path in zip(sources, paths, strict=True)]


def _unit(source: CudaSource) -> KernelSource:
    """The whole text of a kernel as C++ of the same lines, with gaps between arrays in shared memory."""
    numbers = itertools.count(1)
    text = DECLARATION.sub(lambda found: f"{found[0]} {GAP.format(next(numbers))}", source.text)
    return as_cpp(source, [GAP.format(0)], f'#line 1 "{source.name}.cu"\n{text}')


@functools.cache
def checked_kernel(source: CudaSource) -> CheckedKernel:
    """A kernel to be checked, compiled once a process."""
    return compile_checked([source])[0]


def check_launch(
    source: CudaSource, addresses: Sequence[int], sizes: Sequence[int], scalars: Mapping[UOp, float | int]
) -> Report:
    """Check a kernel while it runs on memory of these bytes,
    in the order of the settings. Raises BackendError.
    """
    kernel = checked_kernel(source)
    return kernel.report(*kernel.run(addresses, sizes, scalars), scalars)


def check_kernel(
    source: CudaSource, memory: Sequence[npt.NDArray[Any]], scalars: Mapping[UOp, float | int] | None = None
) -> Report:
    """Check a kernel on copies of arrays, in each order of its threads;
    the costs are those in ascending order.

    Raises BackendError where it does not compile, or where g++ is not there.
    """
    return check_compiled(checked_kernel(source), memory, scalars or {})


def check_compiled(
    kernel: CheckedKernel, memory: Sequence[npt.NDArray[Any]], scalars: Mapping[UOp, float | int]
) -> Report:
    """What `check_kernel` does, of a kernel that is compiled."""
    found: Rows = []
    costs: dict[str, Rows] = {}
    for order in ORDERS:
        copies = [_aligned(array) for array in memory]
        with override(settings, emu_order=order):
            rows, costs[order] = kernel.run(
                [c.ctypes.data for c in copies], [c.nbytes for c in copies], scalars
            )
        found += rows
    return kernel.report(found, costs[ORDERS[0]], scalars)


def _aligned(array: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """A copy of the bytes of an array, where the memory of a GPU would begin."""
    block = np.empty(array.nbytes + ALIGNMENT, np.uint8)
    start = -block.ctypes.data % ALIGNMENT
    copy = block[start : start + array.nbytes]
    copy[:] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return copy


def _rows(text: bytes) -> Rows:
    return [line.split("\t") for line in text.decode(errors="replace").splitlines()]


def _shared_arrays(path: Path, kernel: str) -> list[tuple[str, int, int]]:
    """The arrays in shared memory of a kernel: name, place in the object, bytes."""
    return [
        (name.removeprefix(f"{kernel}::"), place, size)
        for name, place, size in _symbols(path)
        if size > 0 and name.startswith(f"{kernel}::") and "::emu_gap" not in name
    ]


@functools.cache
def _symbols(path: Path) -> list[tuple[str, int, int]]:
    """What is in the section of shared memory of an object: name, place, bytes."""
    found = [
        (words[2], int(words[0], 16), int(words[1] or "0", 16))
        for words in SYMBOL.findall(_tool("nm", "-C", "-S", str(path)))
    ]
    ends = {name: place for name, place, _ in found}
    return [s for s in found if ends["__start_gpu_shared"] <= s[1] < ends["__stop_gpu_shared"]]


def _tool(name: str, *arguments: str) -> str:
    try:
        return subprocess.run([name, *arguments], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise BackendError(f"{name} does not run: {error}", remedy="apt install binutils") from None


def _parameter_names(source: CudaSource) -> list[str]:
    """What the text calls the memory of its kernel."""
    declared = declared_parameters(source.text, source.name)
    assert declared is not None
    return [p.split()[-1].lstrip("*") for p in declared if "*" in p]
