"""A kernel as a C program that runs alone: `uopc compile FILE.uir --emit c --main`. Week 3.

Its inputs are those that `uopc run` generates for the same file and seed, written into the text, so that what
it prints can be held against the interpreter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from uop_ir import Ops, Parsed, UOp, UopError, dtypes, generated, name_of

from .cache import KernelSource
from .ctext import NARROW, SCALAR
from .kernel import buffers_of, memory_viewed
from .names import identifier
from .program_text import (
    COMMAND,
    QUIET,
    VALUE_OF,
    Helpers,
    c_string,
    comment,
    definitions,
    label_of,
    local,
    preambles,
    printer,
    range_of,
    reader,
    scalar_bits,
    scalar_type,
)

#: Elements that a program may carry as text: 20 MB of it.
LIMIT = 1 << 20
COLUMNS = 100
INCLUDES = "\n".join(
    f"#include <{name}.h>" for name in ("errno", "inttypes", "stdint", "stdio", "stdlib", "string")
)


@dataclass(frozen=True)
class Argument:
    """Memory of the kernel. `source`: the node that `uopc run` would fill,
    if any; `label`: how it is printed.
    """

    param: UOp
    source: UOp | None = None
    label: str = ""
    shape: tuple[int, ...] = ()


def standalone(program: Parsed, kernel: KernelSource, params: Sequence[UOp], seed: int, name: str) -> str:
    """The text of a program: the kernel, its memory, and a main that takes scalars as `NAME=VALUE`.

    `params` are the kernel's arguments, in a CALL's order; `name` is that of the file, for its first line.
    Raises UopError where there are more elements to be generated than a text should hold.
    """
    arguments = _arguments(program, [p for p in params if p.arg.size is not None])
    scalars = [p for p in params if p.arg.size is None]
    count = sum(a.param.arg.size for a in arguments if a.source is not None)
    if count > LIMIT:
        raise UopError(
            f"--main: {count} elements are to be generated, and a program holds {LIMIT} at most",
            remedy="make the buffers smaller, or compile without --main",
        )
    memory = [_memory(a, seed) for a in arguments if a.param.arg.size]
    given = {p: f"var{i}_{identifier(p.arg.name)}" for i, p in enumerate(scalars)}
    readers = [reader(p, "text", given[p]) for p in scalars]
    bits = [scalar_bits(p, given[p]) for p in scalars]
    helpers: list[Helpers] = [[VALUE_OF]] if scalars else []
    helpers += [found for found, _ in (*readers, *bits)]
    helpers += [printer(a.param.dtype) for a in arguments if a.label and a.param.arg.size]
    parts = [
        _head(name, seed, scalars),
        INCLUDES,
        QUIET.rstrip(),
        *preambles([kernel]),
        *(text for text in definitions(*helpers) if text not in kernel.preamble),
        local(kernel),
        *memory,
        _main(kernel, arguments, scalars, given, [read for _, read in readers], [text for _, text in bits]),
    ]
    return "\n\n".join(parts) + "\n"


def _head(name: str, seed: int, scalars: Sequence[UOp]) -> str:
    name = comment(name)
    usage = comment("".join(f" {p.arg.name}=..." for p in scalars))
    return (
        f"/* {name} as a program that runs alone, with the inputs of `uopc run {name} --seed {seed}`.\n\n"
        f"   {COMMAND} FILE.c -lm\n"
        f"   ./a.out{usage} */"
    )


# memory


def _arguments(program: Parsed, memory: Sequence[UOp]) -> list[Argument]:
    """What stands behind each argument: as `as_kernel` orders them where the program is one of values."""
    if all(o.dtype is dtypes.void for o in program.outputs):
        stored = {memory_viewed(n.src[0]) for n in program.nodes if n.op is Ops.STORE}
        places = {p.arg.slot: p for p in stored if p.op is Ops.PARAM}
        there = {n.arg.slot: n for n in program.nodes if n.op is Ops.PARAM and n.arg.size is not None}
        return [_stored(program, p, there.get(p.arg.slot), p.arg.slot in places) for p in memory]
    found: list[UOp | None] = [*([None] * len(program.outputs)), *buffers_of(program.root)]
    return [
        Argument(p, found[p.arg.slot])
        if p.arg.slot >= len(program.outputs)
        else _output(program, p, program.outputs[p.arg.slot])
        for p in memory
    ]


def _stored(program: Parsed, param: UOp, source: UOp | None, written: bool) -> Argument:
    label = ""
    if written and source is not None:
        label = label_of(name_of(program, source), (source.arg.size,), source.dtype)
    return Argument(param, source, label, (param.arg.size,))


def _output(program: Parsed, param: UOp, value: UOp) -> Argument:
    shape = tuple(d for d in value.shape if isinstance(d, int))
    return Argument(param, None, label_of(name_of(program, value), shape, value.dtype), shape)


def _memory(argument: Argument, seed: int) -> str:
    param = argument.param
    declared = f"static _Alignas(64) {SCALAR[param.dtype]} memory{param.arg.slot}[{param.arg.size}]"
    if argument.source is None:
        return f"{declared};"
    return "\n".join([f"{declared} = {{", *_lines(_literals(generated(argument.source, seed), param)), "};"])


def _literals(array: npt.NDArray[Any], param: UOp) -> list[str]:
    if param.dtype in NARROW:
        return [f"0x{bits:04x}" for bits in array.view(np.uint16).tolist()]
    if param.dtype.is_float:
        suffix = "f" if param.dtype is dtypes.f32 else ""
        return [re.sub(r"\.?0*p", "p", value.hex()) + suffix for value in array.tolist()]
    return [str(int(value)) for value in array.tolist()]


def _lines(words: list[str]) -> Iterator[str]:
    width = max(1, COLUMNS // (max(map(len, words)) + 2))
    for begin in range(0, len(words), width):
        yield f"    {', '.join(words[begin : begin + width])},"


# main


def _main(
    kernel: KernelSource,
    arguments: Sequence[Argument],
    scalars: Sequence[UOp],
    names: dict[UOp, str],
    readers: Sequence[str],
    bits: Sequence[str],
) -> str:
    lines = ["int main(int argc, char **argv) {"] if scalars else ["int main(void) {"]
    for param in scalars:
        lines += [f"    {scalar_type(param)} {names[param]} = 0;", f"    _Bool has_{names[param]} = 0;"]
    if scalars:
        lines += _read(scalars, names, readers)
        lines += [f"    const int64_t scalars[] = {{{', '.join(bits)}}};"]
    pointers = [f"memory{a.param.arg.slot}" if a.param.arg.size else "NULL" for a in arguments]
    lines += [f"    void *const buffers[] = {{{', '.join(pointers) or 'NULL'}}};"]
    lines += [f"    {kernel.name}(buffers, {'scalars' if scalars else 'NULL'});"]
    for a in arguments:
        if a.label and a.param.arg.size:
            width = a.shape[-1] if a.shape else 1
            where = f"memory{a.param.arg.slot}, {prod(a.shape)}, {width}"
            lines.append(f"    print_{a.param.dtype}({c_string(a.label)}, {where});")
        elif a.label:
            lines.append(f"    puts({c_string(a.label)});")
    return "\n".join([*lines, "    return fflush(stdout) == 0 ? 0 : 1;", "}"])


def _read(scalars: Sequence[UOp], names: dict[UOp, str], readers: Sequence[str]) -> Iterator[str]:
    """The statements that read the arguments: scalars, of two values for one the last, and nothing else."""
    yield "    for (int i = 1; i < argc; i++) {"
    yield "        const char *text;"
    for param, read in zip(scalars, readers, strict=True):
        yield f"        if ((text = value_of(argv[i], {c_string(param.arg.name)})) != NULL && {read}) {{"
        yield f"            has_{names[param]} = 1;"
        yield "            continue;"
        yield "        }"
    yield '        fprintf(stderr, "%s: %s is no argument with a value that it may have\\n", argv[0], argv[i]);'
    yield "        return 1;"
    yield "    }"
    for param in scalars:
        what = c_string(f"{param.arg.name} has no value: {param.arg.name}=..., {range_of(param)}\n")
        yield f"    if (!has_{names[param]}) {{"
        yield f"        fputs({what}, stderr);"
        yield "        return 1;"
        yield "    }"
