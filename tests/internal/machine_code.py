"""Machine code of kernels, read with objdump: the loops of scalar floating-point operations. Week 6."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

OBJDUMP = shutil.which("objdump")
FUNCTION = re.compile(r"^[0-9a-f]+ <(.+)>:$")
INSTRUCTION = re.compile(r"^ +([0-9a-f]+):\s+(?:(?:bnd|lock|rep[nz]*|notrack|data16|cs) +)*(\S+) *(.*)$")
TARGET = re.compile(r"([0-9a-f]+) <([^>+]+)")
ARITHMETIC = r"v?(?:add|sub|mul|div|sqrt|min|max|round|fn?m(?:add|sub)(?:132|213|231))"
SCALAR, VECTOR = re.compile(ARITHMETIC + "s[sd]$"), re.compile(ARITHMETIC + "p[sd]$")
#: Calls that compute nothing: of OpenMP, and of memory.
NO_ARITHMETIC = re.compile(r"GOMP_|omp_|__kmpc_|mem(?:set|cpy|move)")


class Instruction(NamedTuple):
    """One line of objdump: the address, the operation, and its operands in Intel's order."""

    at: int
    op: str
    operands: str


Code = dict[str, list[Instruction]]


def code_of(text: str) -> Code:
    """The functions that objdump prints, by name."""
    functions: Code = {}
    for line in text.splitlines():
        if head := FUNCTION.match(line):
            now = functions.setdefault(head[1], [])
        elif found := INSTRUCTION.match(line):
            now.append(Instruction(int(found[1], 16), found[2], found[3]))
    return functions


def disassembled(path: Path) -> Code:
    assert OBJDUMP is not None
    command = [OBJDUMP, "-d", "--no-show-raw-insn", "-M", "intel", str(path)]
    return code_of(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def innermost_loops(function: list[Instruction]) -> list[list[Instruction]]:
    """The instructions of each loop within which there is no other."""
    place = {instruction.at: n for n, instruction in enumerate(function)}
    then: list[list[int]] = []
    before: list[list[int]] = [[] for _ in function]
    for n, (_, op, operands) in enumerate(function):
        target = TARGET.match(operands) if op.startswith("j") else None
        to = [place[int(target[1], 16)]] if target and int(target[1], 16) in place else []
        if op not in ("jmp", "ret", "ud2") and n + 1 < len(function):
            to.append(n + 1)
        then.append(to)
        for m in to:
            before[m].append(n)
    loops = {reached(n, head, before) for n, head in backward_jumps(then)}
    inner = [loop for loop in loops if not any(other < loop for other in loops)]
    return [[function[n] for n in sorted(loop)] for loop in inner]


def backward_jumps(then: list[list[int]]) -> Iterator[tuple[int, int]]:
    """From where to where the flow goes back to an instruction that it is still within, at any address.

    Compilers make loops of one entry, so that any order of the walk finds the same.
    """
    todo, seen, open_ = [(0, iter(then[0]))], {0}, {0}
    while todo:
        n, rest = todo[-1]
        for m in rest:
            if m in open_:
                yield n, m
            elif m not in seen:
                seen.add(m)
                open_.add(m)
                todo.append((m, iter(then[m])))
                break
        else:
            open_.remove(n)
            todo.pop()


def reached(last: int, head: int, before: list[list[int]]) -> frozenset[int]:
    """The loop that begins at `head` and goes back from `last`: what leads to `last` without `head`."""
    seen, todo = {head}, [last]
    while todo:
        n = todo.pop()
        if n not in seen:
            seen.add(n)
            todo += before[n]
    return frozenset(seen)


def with_calls(loop: list[Instruction], code: Code) -> Iterator[Instruction]:
    """The instructions of a loop and of the functions that it calls in the file; other calls as they are."""
    todo, seen = list(loop), set[str]()
    while todo:
        instruction = todo.pop()
        target = TARGET.match(instruction.operands) if instruction.op == "call" else None
        if target and target[2] in code and not target[2].endswith("@plt"):
            if target[2] not in seen:
                seen.add(target[2])
                todo += code[target[2]]
        else:
            yield instruction


def scalar_loops(code: Code, kernel: str) -> list[list[str]]:
    """The scalar operations of each innermost loop of a kernel that has some, and none of vectors."""
    found = []
    for name, function in code.items():
        # gcc names what it cuts off NAME.part, and what threads run NAME._omp_fn
        if name.partition(".")[0] != kernel:
            continue
        for loop in innermost_loops(function):
            whole = list(with_calls(loop, code))
            scalar = [
                f"{i.op} {i.operands}"
                for i in whole
                if SCALAR.match(i.op) or (i.op == "call" and not NO_ARITHMETIC.search(i.operands))
            ]
            if scalar and not any(VECTOR.match(i.op) for i in whole):
                found.append(scalar)
    return found
