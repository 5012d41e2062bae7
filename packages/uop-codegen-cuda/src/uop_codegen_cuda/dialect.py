"""CUDA as a dialect of C: typed arguments, the indices of the grid,
and a prelude in place of headers. Week 7.

NVRTC brings no headers, and the text needs none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod

from uop_codegen_c import Argument, Dialect, Opening
from uop_ir import Ops, UOp
from uop_rewrite import bounds, linear

from .instructions import helper, typedef

#: C words as CUDA has them. The functions are the exact or correctly rounded ones (--prec-sqrt=true).
WORDS = {
    "static inline": "static __device__ inline",
    "_Bool": "bool",
    "__builtin_memcpy": "memcpy",
    '__builtin_nanf("")': "NAN",
    '__builtin_nan("")': "(double)NAN",
    "__builtin_inff()": "INFINITY",
    "__builtin_inf()": "(double)INFINITY",
    **{
        f"__builtin_{function}{suffix}": f"{function}{suffix}"
        for function in ("sqrt", "trunc", "fma", "fmod", "copysign")
        for suffix in ("f", "")
    },
}
#: Words that NVRTC lacks without headers, each with the line that defines it.
DEFINED = {
    "int8_t": "typedef signed char int8_t;",
    "uint8_t": "typedef unsigned char uint8_t;",
    "int16_t": "typedef short int16_t;",
    "uint16_t": "typedef unsigned short uint16_t;",
    "int32_t": "typedef int int32_t;",
    "uint32_t": "typedef unsigned int uint32_t;",
    "int64_t": "typedef long int64_t;",
    "uint64_t": "typedef unsigned long uint64_t;",
    "INT32_MIN": "#define INT32_MIN (-2147483647 - 1)",
    "INT64_MIN": "#define INT64_MIN (-9223372036854775807L - 1)",
    "INT64_C": "#define INT64_C(number) number##L",
    "UINT64_C": "#define UINT64_C(number) number##UL",
    "INFINITY": "#define INFINITY __int_as_float(0x7f800000)",
    "NAN": "#define NAN __int_as_float(0x7fc00000)",
}


def _open(name: str, arguments: Sequence[Argument], order: Sequence[UOp]) -> Opening:
    threads = prod(bounds(n.src[0])[1] for n in order if n.op is Ops.SPECIAL and n.arg.startswith("lidx"))
    taken = ", ".join(map(_argument, arguments))
    return Opening(f'extern "C" __global__ void __launch_bounds__({threads}) {name}({taken}) {{')


def _argument(argument: Argument) -> str:
    if not argument.is_memory:
        return f"{argument.type} {argument.name}"
    return f"{'' if argument.written else 'const '}{argument.type} *__restrict__ {argument.name}"


def _lane(register: str, position: UOp) -> str:
    """What a lane at a position has in a register: this one, one so many behind it, or one by its number."""
    form = linear(position)
    if not form.terms:
        return f"__shfl_sync(0xffffffffu, {register}, {form.constant})"
    return f"__shfl_down_sync(0xffffffffu, {register}, {form.constant})" if form.constant else register


CUDA = Dialect(
    "CUDA",
    _open,
    words=WORDS,
    special={
        f"{index}{number}": f"{variable}.{axis}"
        for index, variable in (("gidx", "blockIdx"), ("lidx", "threadIdx"))
        for number, axis in enumerate("xyz")
    },
    barrier="__syncthreads();",
    lane=_lane,
    typedef=typedef,
    vector="{}({})",
    matrix=helper,
)


def prelude(text: str) -> str:
    """The definitions of the words of a text that no header brings; empty without any."""
    return "\n".join(line for word, line in DEFINED.items() if re.search(rf"\b{word}\b", text))
