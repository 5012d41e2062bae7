"""What C programs with a main have in common:
scalars read from arguments, memory printed with all its bits. Week 3.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from uop_ir import DType, Kind, UOp, dtypes

from .cache import KernelSource
from .compiler import FLAGS, OPENMP
from .ctext import NARROW, SCALAR, function, round_helper, widen_helper

#: The flags of our own compilations that decide bits and speed, without those that make a shared object.
PROGRAM_FLAGS = tuple(flag for flag in FLAGS if flag not in ("-fPIC", "-shared"))
COMMAND = f"cc {' '.join((*PROGRAM_FLAGS, OPENMP))} -march=native"
#: Plain `cc -Wall -Werror` takes the text too:
#: pragmas of OpenMP mean nothing where it is off, and no vector crosses the border of a file.
QUIET = """\
#ifndef _OPENMP
#pragma GCC diagnostic ignored "-Wunknown-pragmas"
#endif
#pragma GCC diagnostic ignored "-Wpsabi"
"""

Helpers = list[tuple[str, str]]


def scalar_type(param: UOp) -> str:
    """The C type of a scalar where a person gives it: variables are int64_t, f16 and bf16 their bits."""
    return "int64_t" if param.dtype is dtypes.index else SCALAR[param.dtype]


def scalar_bits(param: UOp, name: str) -> tuple[Helpers, str]:
    """A C variable with a scalar as the int64_t from which a kernel takes it."""
    if param.dtype.kind is Kind.FLOAT and param.dtype not in NARROW:
        carrier = "uint32_t" if param.dtype is dtypes.f32 else "int64_t"
        helper = function(
            f"bits_of_{param.dtype}", "int64_t", f"{SCALAR[param.dtype]} x",
            f"{carrier} bits;", "memcpy(&bits, &x, sizeof bits);", "return bits;",
        )  # fmt: skip
        return [helper], f"{helper[0]}({name})"
    if param.dtype is dtypes.u64:
        lines = ("int64_t bits;", "memcpy(&bits, &x, sizeof bits);", "return bits;")
        return [function("bits_of_u64", "int64_t", "uint64_t x", *lines)], f"bits_of_u64({name})"
    return [], name


def reader(param: UOp, text: str, name: str) -> tuple[Helpers, str]:
    """A C condition that reads a text into a variable of `scalar_type`;
    false where it is not one of its values.
    """
    dtype = param.dtype
    if dtype is dtypes.index:
        return [_READ_INT], f"read_int({text}, INT64_C({param.arg.min}), INT64_C({param.arg.max}), &{name})"
    helpers, lines = _reader(dtype)
    helper = function(f"read_{dtype}", "_Bool", f"const char *text, {SCALAR[dtype]} *value", *lines)
    return [*helpers, helper], f"{helper[0]}({text}, &{name})"


def _reader(dtype: DType) -> tuple[Helpers, Sequence[str]]:
    if dtype is dtypes.bool:
        return [], ('*value = strcmp(text, "true") == 0;', 'return *value || strcmp(text, "false") == 0;')
    if dtype is dtypes.u64:
        return [], (
            "char *end;",
            "errno = 0;",
            "*value = strtoull(text, &end, 10);",
            "return end != text && *end == 0 && errno == 0 && strchr(text, '-') == NULL;",
        )
    if dtype.is_float:
        read = "strtof" if dtype is dtypes.f32 else "strtod"
        value, helpers = f"{read}(text, &end)", []
        if dtype in NARROW:
            helpers = [round_helper(dtype)]
            value = f"{helpers[0][0]}({value})"
        return helpers, ("char *end;", f"*value = {value};", "return end != text && *end == 0;")
    low, high = f"INT64_C({dtype.min})", f"INT64_C({dtype.max})"
    low = "INT64_MIN" if dtype is dtypes.i64 else low
    return [_READ_INT], (
        "int64_t number;",
        f"if (!read_int(text, {low}, {high}, &number))",
        "    return 0;",
        f"*value = ({SCALAR[dtype]})number;",
        "return 1;",
    )


_READ_INT = function(
    "read_int", "_Bool", "const char *text, int64_t low, int64_t high, int64_t *value",
    "char *end;", "errno = 0;", "const long long number = strtoll(text, &end, 10);", "*value = number;",
    "return end != text && *end == 0 && errno == 0 && low <= number && number <= high;",
)  # fmt: skip
#: What stands behind `NAME=` in an argument of the program; NULL where it begins otherwise.
VALUE_OF = function(
    "value_of", "const char *", "const char *argument, const char *name",
    "const size_t length = strlen(name);",
    "return strncmp(argument, name, length) == 0 && argument[length] == '=' ? argument + length + 1 : NULL;",
)  # fmt: skip


def range_of(param: UOp) -> str:
    """What a scalar may be, in words."""
    arg = param.arg
    return f"{arg.min} to {arg.max}" if param.dtype is dtypes.index else str(param.dtype)


def printer(dtype: DType) -> Helpers:
    """The function `print_DTYPE(label, data, count, width)`:
    the label, then `width` elements a line, exactly.

    Floats are hexadecimal, as C's %a writes them; all NaNs are one.
    """
    helpers: Helpers = []
    if dtype.is_float:
        value = "data[i]"
        if dtype in NARROW:
            helpers.append(widen_helper(dtype))
            value = f"{helpers[0][0]}(data[i])"
        show = [
            f"const double x = {value};", "if (x == x)", '    printf("%a", x);', "else", '    printf("nan");'
        ]  # fmt: skip
    elif dtype.kind is Kind.UNSIGNED:
        show = ['printf("%" PRIu64, (uint64_t)data[i]);']
    else:
        show = ['printf("%" PRId64, (int64_t)data[i]);']
    arguments = f"const char *label, const {SCALAR[dtype]} *data, size_t count, size_t width"
    return [*helpers, function(
        f"print_{dtype}", "void", arguments,
        "puts(label);", "for (size_t i = 0; i < count; i++) {", *(f"    {line}" for line in show),
        "    putchar((i + 1) % width == 0 ? '\\n' : ' ');", "}",
    )]  # fmt: skip


def label_of(name: str, shape: Sequence[object], dtype: DType) -> str:
    """What stands above printed elements: the line of `uopc run`."""
    return f"{name}: shape {tuple(shape)}, dtype {dtype}"


def definitions(*groups: Iterable[tuple[str, str]]) -> list[str]:
    """The texts of helpers, each once, in the order in which they are first asked for."""
    return list({name: text for group in groups for name, text in group}.values())


def local(kernel: KernelSource) -> str:
    """The text of a kernel that only its own file can call."""
    head = f"void {kernel.name}("
    return kernel.text.strip("\n").replace(head, f"static {head}", 1)


def preambles(kernels: Iterable[KernelSource]) -> list[str]:
    """What stands before kernels, each definition once; the headers are left to the program."""
    parts = dict.fromkeys(part.strip("\n") for kernel in kernels for part in kernel.preamble.split("\n\n"))
    return [part for part in parts if part != "#include <stdint.h>"]


def c_string(text: str) -> str:
    """A text as a C string of its UTF-8 bytes."""
    return '"' + "".join(_character(c) for c in text.encode()) + '"'


def _character(code: int) -> str:
    if code == ord("\n"):
        return "\\n"
    return json.dumps(chr(code))[1:-1] if 32 <= code < 127 and chr(code) != "?" else f"\\{code:03o}"


def comment(text: str) -> str:
    """A text that may stand in a comment."""
    return text.replace("*/", "* /").replace("/*", "/ *")
