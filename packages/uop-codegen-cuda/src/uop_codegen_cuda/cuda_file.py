"""Read a kernel from a file of CUDA text that says how it is launched. Week 8.

One line of the file is a comment with the launch, as CUDA would have it, and the sizes of memory in elements:

    // launch: scale<<<4, (16, 16)>>>(y[1024], x[1024], 0.5)

Blocks, threads, and, where the kernel has `extern __shared__` memory, its bytes.
"""

from __future__ import annotations

import re
from pathlib import Path

from uop_ir import DType, Ops, Param, UOp, UopError, dtypes, index

from .lower import CudaSource

SIZE = r"\d+|\(\s*\d+(?:\s*,\s*\d+){0,2}\s*\)"
LAUNCH = re.compile(
    rf"^//\s*launch:\s*(\w+)\s*<<<\s*({SIZE})\s*,\s*({SIZE})\s*(?:,\s*(\d+)\s*)?>>>\s*\((.*)\)\s*$",
    re.MULTILINE,
)
MEMORY = re.compile(r"\w+\s*\[\s*(\d+)\s*\]")
REMEDY = "a line such as // launch: kernel<<<4, 64>>>(y[256], x[256], 7)"
#: The types of arguments: the dtype, and how many of it one element has.
TYPES: dict[str, tuple[DType, int]] = {
    "float": (dtypes.f32, 1), "float2": (dtypes.f32, 2), "float4": (dtypes.f32, 4), "double": (dtypes.f64, 1),
    "int": (dtypes.i32, 1), "int2": (dtypes.i32, 2), "int4": (dtypes.i32, 4), "unsigned": (dtypes.u32, 1),
    "unsigned int": (dtypes.u32, 1), "long": (dtypes.i64, 1), "long long": (dtypes.i64, 1),
    "unsigned long": (dtypes.u64, 1), "short": (dtypes.i16, 1), "unsigned short": (dtypes.u16, 1),
    "char": (dtypes.i8, 1), "unsigned char": (dtypes.u8, 1), "bool": (dtypes.bool, 1),
}  # fmt: skip


def read_cuda(path: str) -> tuple[CudaSource, dict[UOp, float | int]]:
    """The kernel of a file and its launch, and the values of its scalars.

    Raises UopError where the file cannot be read, has no launch, or where the launch does not fit the kernel.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise UopError(f"cannot read {path!r}: {reason}") from None
    launch = LAUNCH.search(text)
    if launch is None:
        raise UopError(f"{path} does not say how its kernel is launched", remedy=REMEDY)
    name, blocks, threads, shared, given = launch.groups()
    declared, arguments = declared_parameters(text, name), _split(given)
    if declared is None:
        raise UopError(f"{path} has no __global__ function {name}", remedy=REMEDY)
    if len(declared) != len(arguments):
        raise UopError(
            f"{path}: {name} takes {len(declared)} arguments, its launch gives {len(arguments)}",
            remedy=f"an argument for each of ({', '.join(declared)})",
        )
    params: list[UOp] = []
    scalars: dict[UOp, float | int] = {}
    for parameter, argument in zip(declared, arguments, strict=True):
        slot = len(params) - len(scalars)
        param, value = _argument(f"{path}: {name}", parameter, argument, slot)
        params.append(param)
        if value is not None:
            scalars[param] = value
    grid = tuple(index(n) for n in _sizes(blocks))
    return CudaSource(name, text, tuple(params), grid, _sizes(threads), shared=int(shared or 0)), scalars


def declared_parameters(text: str, kernel: str) -> list[str] | None:
    """The parameters of a __global__ function as a text declares them;
    None where it has none of that name.
    """
    found = re.search(rf"__global__[^;{{}}]*?\b{kernel}\s*\(([^)]*)\)", text)
    return None if found is None else _split(found[1])


def _split(arguments: str) -> list[str]:
    return [a.strip() for a in arguments.split(",")] if arguments.strip() else []


def _sizes(text: str) -> tuple[int, ...]:
    """A size in x, y and z."""
    found = [int(n) for n in re.findall(r"\d+", text)]
    return (*found, *[1] * (3 - len(found)))


def _argument(place: str, parameter: str, argument: str, slot: int) -> tuple[UOp, float | int | None]:
    """A parameter as a PARAM, and the value of a scalar."""
    words = re.findall(r"\w+|\*", parameter)
    kind = " ".join(w for w in words[:-1] if w not in ("const", "__restrict__", "*"))
    if kind not in TYPES:
        raise UopError(
            f"{place} takes {parameter!r}", remedy=f"one of {', '.join(TYPES)}, or a pointer to it"
        )
    dtype, lanes = TYPES[kind]
    memory = MEMORY.fullmatch(argument)
    if ("*" in words) != (memory is not None):
        wanted = f"{words[-1]}[SIZE]" if "*" in words else "a number"
        raise UopError(f"{place} is given {argument!r} for {parameter!r}", remedy=wanted)
    if memory is not None:
        return UOp.param(slot, int(memory[1]) * lanes, dtype), None
    try:
        value = float(argument.rstrip("f")) if dtype.is_float else int(argument)
    except ValueError:
        raise UopError(f"{place} is given {argument!r} for {parameter!r}", remedy="a number") from None
    return UOp(Ops.PARAM, (), Param(dtype, name=words[-1])), value
