"""The inputs of `uopc run`: memory from .npy files or generated, and the values of scalar PARAMs. Week 1."""

from __future__ import annotations

import sys
import tokenize
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from .dtype import Const, Kind, dtypes
from .errors import BoundsError, UopError
from .ops import Ops
from .uir_parse import Parsed
from .uir_table import SPELLINGS
from .uir_values import Fault, Token
from .uop import UOp

Array: TypeAlias = "npt.NDArray[Any]"
#: Generated integers are below this, so that they can serve as positions too.
SMALL = 8
#: What NumPy raises for a file that is not, or not all of, an array.
_BROKEN = (ValueError, EOFError, SyntaxError, TypeError, tokenize.TokenError)
_GENERATE: dict[Kind, Callable[[np.random.Generator, int], Array]] = {
    Kind.BOOL: lambda rng, size: rng.integers(0, 2, size),
    Kind.SIGNED: lambda rng, size: rng.integers(0, SMALL, size),
    Kind.UNSIGNED: lambda rng, size: rng.integers(0, SMALL, size),
    Kind.FLOAT: lambda rng, size: rng.standard_normal(size),
}


def free_nodes(outputs: Sequence[UOp]) -> list[UOp]:
    """All nodes below the outputs, without those inside the bodies of CALLs, whose PARAMs the CALL binds."""
    seen: dict[UOp, None] = {}
    stack = list(reversed(outputs))
    while stack:
        node = stack.pop()
        if node not in seen:
            seen[node] = None
            stack.extend(reversed(node.src[1:] if node.op is Ops.CALL else node.src))
    return list(seen)


def is_memory(node: UOp) -> bool:
    """Whether a node is memory that a run is given."""
    return node.op is Ops.BUFFER or (node.op is Ops.PARAM and node.arg.size is not None)


def name_of(program: Parsed, node: UOp) -> str:
    """`%N`, as the text of a program names a node; for memory also what it is, and its slot."""
    spelled = program.spans[node].text.partition("=")[0].strip()
    return f"{spelled} ({node.op.value} slot={node.arg.slot})" if is_memory(node) else spelled


def read_memory(program: Parsed, inputs: Sequence[str], seed: int) -> dict[UOp, Array]:
    """The elements of each BUFFER and PARAM: from the file
    of `SLOT=FILE.npy` or `%N=FILE.npy`, else generated.

    Raises UopError for a name that no memory has, and for a file that cannot be read or does not fit.
    """
    given = _by_name(inputs, "--input")
    nodes = [n for n in program.nodes if is_memory(n) and n in set(free_nodes(program.outputs))]
    memory: dict[UOp, Array] = {}
    unused = set(given)
    for node in dict.fromkeys(nodes):
        keys = {name_of(program, node).split()[0], str(node.arg.slot)} & given.keys()
        if len(keys) > 1 or not keys <= unused:
            raise UopError(f"not one input for {name_of(program, node)}", remedy="give each as %N=FILE.npy")
        unused -= keys
        try:
            memory[node] = _load(program, node, given[keys.pop()]) if keys else _generate(program, node, seed)
        except (MemoryError, OverflowError, ValueError):
            what = f"no memory for the {node.arg.size} elements of {name_of(program, node)}"
            raise UopError(what, exit_code=5) from None
    if unused:
        there = ", ".join(name_of(program, n) for n in memory) or "none"
        raise UopError(f"no memory is named {min(unused)!r}", remedy=f"there is {there}")
    return memory


def _load(program: Parsed, node: UOp, path: str) -> Array:
    try:
        with Path(path).open("rb") as file:
            found: Array = np.lib.format.read_array(file, allow_pickle=False)
    except OSError as error:
        raise UopError(f"cannot read {path!r}: {error.strerror or error}") from None
    except _BROKEN as error:
        raise UopError(f"cannot read {path!r}: {error}", remedy="a file that numpy.save wrote") from None
    wanted = node.dtype.numpy
    if node.dtype is dtypes.bf16 and found.dtype == np.dtype("V2"):
        found = found.view(wanted)
    if found.dtype.newbyteorder("=") != wanted:
        raise UopError(
            f"{path!r} is of dtype {found.dtype}, {name_of(program, node)} of {node.dtype}",
            remedy=f"convert it with astype({wanted.name!r})",
        )
    if found.size != node.arg.size:
        raise UopError(f"{path!r} has {found.size} elements, {name_of(program, node)} has {node.arg.size}")
    return np.array(found, wanted, order="C").reshape(-1)


def generated(node: UOp, seed: int) -> Array:
    """What `uopc run` fills a BUFFER or PARAM with:
    standard normal floats, integers 0 to 7, bools; of shape (size,).

    It depends on the seed, the slot and the dtype only.
    """
    rng = np.random.default_rng([seed, node.op is Ops.PARAM, node.arg.slot])
    made: Array = _GENERATE[node.dtype.kind](rng, node.arg.size).astype(node.dtype.numpy)
    return made


def _generate(program: Parsed, node: UOp, seed: int) -> Array:
    made = generated(node, seed)
    print(
        f"generated {name_of(program, node)}: {node.arg.size} of {node.dtype}, seed {seed}", file=sys.stderr
    )
    return made


def read_scalars(program: Parsed, values: Sequence[str]) -> dict[UOp, bool | int | float]:
    """The value of each scalar PARAM, from `NAME=VALUE`; all must be given.

    Raises UopError where they are wrong or missing, BoundsError for a variable outside of its bounds.
    """
    given = _by_name(values, "--var")
    params = [n for n in free_nodes(program.outputs) if n.op is Ops.PARAM and n.arg.size is None]
    unknown = given.keys() - {n.arg.name for n in params}
    if unknown:
        there = ", ".join(n.arg.name for n in params) or "none"
        raise UopError(f"no scalar is named {min(unknown)!r}", remedy=f"there is {there}")
    return {node: _scalar(node, given) for node in params}


def _scalar(node: UOp, given: dict[str, str]) -> bool | int | float:
    param = node.arg
    bounds = f"{param.min} to {param.max}" if param.dtype is dtypes.index else str(param.dtype)
    if param.name not in given:
        raise UopError(f"{param.name} has no value", remedy=f"--var {param.name}=..., {bounds}")
    token = Token("word", given[param.name], 1)
    try:
        const: Const = SPELLINGS[Ops.CONST].join({"value": token, "dtype": param.dtype, "bits": None})
    except Fault as fault:
        raise UopError(f"--var {param.name}: {fault.what}", remedy=bounds) from None
    if param.dtype is dtypes.index and not param.min <= const.bits <= param.max:
        raise BoundsError(f"--var {param.name}={const.bits} is out of its bounds", remedy=bounds)
    return const.value


def _by_name(values: Sequence[str], option: str) -> dict[str, str]:
    given: dict[str, str] = {}
    for text in values:
        key, value = _split(text, option)
        if key in given:
            raise UopError(
                f"{option} {key} is given twice: {given[key]} and {value}", remedy="give one of them"
            )
        given[key] = value
    return given


def _split(text: str, option: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key or not value:
        form = "SLOT=FILE.npy" if option == "--input" else "NAME=VALUE"
        raise UopError(f"{option} {text!r} is not {form}")
    return key, value
