"""What public functions are given: brought into one form,
or refused in words that name it and the remedy. Week 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeGuard

from .dtype import dtypes
from .errors import VerifyError
from .interning import Fields
from .ops import Ops

if TYPE_CHECKING:
    from .uop import UOp

#: Characters of a value that an error shows.
_SHOWN = 60
_CONST = "UOp.const makes one of a number"


def shown(value: object) -> str:
    """A value as an error shows it: one line, not all of it where it is long."""
    text = " ".join(repr(value).split())
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def is_node(value: object) -> TypeGuard[UOp]:
    return isinstance(value, Fields)


def node(call: str, value: object) -> UOp:
    """A UOp. Raises VerifyError for anything else."""
    if not is_node(value):
        raise VerifyError(f"{call}: {shown(value)} is no UOp", remedy=_CONST)
    return value


def operation(call: str, value: object) -> Ops:
    """An op. Raises VerifyError for anything else."""
    if not isinstance(value, Ops):
        raise VerifyError(f"{call}: {shown(value)} is no op", remedy="a member of Ops")
    return value


def items(call: str, value: object, what: str) -> tuple[Any, ...]:
    """A sequence as a tuple. Raises VerifyError for what is none, and for a text, which is one of letters."""
    if not isinstance(value, Iterable) or isinstance(value, str | bytes):
        raise VerifyError(f"{call}: {shown(value)} is no sequence of {what}", remedy=f"a tuple of {what}")
    return tuple(value)


def nodes(call: str, value: object) -> tuple[UOp, ...]:
    """A sequence of UOps as a tuple. Raises VerifyError for what is none."""
    return tuple([node(call, item) for item in items(call, value, "UOps")])


def dimensions(call: str, value: object, what: str = "sizes") -> tuple[int | UOp, ...]:
    """Sizes as a tuple, each an int or a UOp. Raises VerifyError for what is neither."""
    given = items(call, value, what)
    for size in given:
        if type(size) is not int and not is_node(size):
            raise VerifyError(
                f"{call}: size {shown(size)} is neither an int nor a UOp", remedy="int() makes an int of it"
            )
    return given


def pairs(call: str, value: object) -> tuple[tuple[int | UOp, int | UOp], ...]:
    """A pair of sizes an axis. Raises VerifyError for what is none."""
    out = []
    for pair in items(call, value, "pairs of sizes, one an axis"):
        sizes = dimensions(call, pair, "two sizes")
        if len(sizes) != 2:
            raise VerifyError(f"{call}: {shown(pair)} is no pair", remedy="two sizes an axis")
        out.append((sizes[0], sizes[1]))
    return tuple(out)


def split(sizes: Iterable[int | UOp]) -> tuple[tuple[int | None, ...], tuple[UOp, ...]]:
    """Sizes as an arg (None where symbolic) and the sources that stand for the Nones."""
    fixed: list[Any] = [
        s.value if is_node(s) and s.op is Ops.CONST and s.dtype is dtypes.index else s for s in sizes
    ]
    return tuple([None if is_node(s) else s for s in fixed]), tuple([s for s in fixed if is_node(s)])


def by_node(call: str, value: object) -> Mapping[UOp, Any]:
    """A mapping whose keys are UOps. Raises VerifyError for what is none."""
    if not isinstance(value, Mapping):
        raise VerifyError(f"{call}: {shown(value)} is no mapping", remedy="a dict whose keys are UOps")
    for key in value:
        node(call, key)
    return value


def unhashable(op: object, src: tuple[object, ...], arg: object) -> VerifyError:
    """What is wrong with a node that cannot stand in the table of nodes."""
    if not isinstance(op, Ops):
        return VerifyError(f"{shown(op)} is no op", remedy="a member of Ops")
    for source in src:
        if not is_node(source):
            return VerifyError(f"{op!r}: source {shown(source)} is no UOp", remedy=_CONST)
    return VerifyError(f"{op!r}: arg {shown(arg)} can change", remedy="args are hashable: a tuple, say")
