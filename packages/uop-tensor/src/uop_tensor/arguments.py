"""Arguments of a wrong type: an error that names the method, the parameter and what to give. Week 5."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from numbers import Real
from typing import Any

import numpy as np

from uop_ir import DType

#: What may be given where an annotation has this name,
#: and how it is called. Names that are not here take anything.
_KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "None": ("None", lambda x: x is None),
    "bool": ("a bool", lambda x: isinstance(x, int | np.bool_)),
    "int": ("an int", lambda x: _is_number(x, "__index__")),
    "float": ("a number", lambda x: _is_number(x, "__float__")),
    "str": ("a str", lambda x: isinstance(x, str)),
    "DType": ("a dtype, such as uop_ir.dtypes.f32", lambda x: isinstance(x, DType)),
    "Tensor": ("a Tensor", lambda x: hasattr(x, "uop")),
    "Array": ("an array", lambda x: isinstance(x, np.ndarray)),
    "Sequence": ("a sequence", lambda x: _is_sequence(x)),
    "ints": ("a sequence of ints", lambda x: _is_sequence(x) and all(_is_number(n, "__index__") for n in x)),
    "numbers": (
        "a sequence of numbers",
        lambda x: _is_sequence(x) and all(_is_number(n, "__float__") for n in x),
    ),
    "pairs": (
        "a sequence of pairs of ints, or None",
        lambda x: _is_sequence(x) and all(p is None or _is_sequence(p) for p in x),
    ),
}
#: Sequences whose elements are looked at; what others hold is left to the method.
_SEQUENCES = {
    "Sequence[int]": "ints",
    "tuple[int, ...]": "ints",
    "Sequence[float]": "numbers",
    "Sequence[tuple[int, int] | None]": "pairs",
}
#: Annotations by other names.
_MEANINGS = {
    "Self": "Tensor",
    "Value": "Tensor",
    "Number": "float",
    "npt.NDArray": "Array",
    "Operand": "Tensor | Array | float",
    "Axis": "int | ints | None",
    "Each": "int | ints",
    "Positions": "Tensor | Array | int | Sequence",
    "Widths": "Sequence",
}
#: Parameters that stand in `**options`.
_OPTIONS = {"dtype": "DType", "device": "str | None", "requires_grad": "bool"}


def misfit(
    function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[str, str] | None:
    """The first argument that its parameter does not take,
    in words, and what to give instead; None where all fit.
    """
    try:
        given = inspect.signature(function).bind(*args, **kwargs)
    except TypeError:
        return None  # too many, too few, or of an unknown name: Python's own error says it
    for name, value, annotation in _each(given):
        kinds = [_KINDS.get(n) for n in _names(annotation)]
        if not any(kind is None or kind[1](value) for kind in kinds):
            return f"{name}{_shown(value)}", "give " + " or ".join(kind[0] for kind in kinds if kind)
    return None


def _each(given: inspect.BoundArguments) -> Iterator[tuple[str, Any, str]]:
    """Name, value and annotation of each argument."""
    for name, value in given.arguments.items():
        parameter = given.signature.parameters[name]
        if parameter.kind is parameter.VAR_KEYWORD:
            yield from ((n, v, _OPTIONS[n]) for n, v in value.items() if n in _OPTIONS)
        elif parameter.kind is parameter.VAR_POSITIONAL:
            yield from ((name, v, str(parameter.annotation)) for v in value)
        elif parameter.annotation is not parameter.empty:
            yield name, value, str(parameter.annotation)


def _names(annotation: str) -> list[str]:
    """The kinds that an annotation joins by `|`."""
    for known, name in _SEQUENCES.items():
        annotation = annotation.replace(known, name)
    while "[" in annotation:
        annotation = re.sub(r"\[[^\[\]]*\]", "", annotation)
    parts = annotation.split(" | ")
    return [name for part in parts for name in _MEANINGS.get(part, part).split(" | ")]


def _is_number(x: object, method: str) -> bool:
    """Whether `x` is a number, or what stands for one while jit traces."""
    weak = getattr(x, "_weak", None) is not None or getattr(x, "_size", None) is not None
    return weak or (isinstance(x, Real | np.bool_) and hasattr(x, method))


def _is_sequence(x: object) -> bool:
    return isinstance(x, Sequence) and not isinstance(x, str | bytes)


def _shown(value: object) -> str:
    plain = isinstance(value, str | bytes | Real | complex | tuple | list | None)
    return f"={value!r}" if plain and len(repr(value)) <= 40 else f" of type {type(value).__name__}"
