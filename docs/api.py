"""The generated parts of the reference of tensors, in Markdown:
signatures and the first sentences of docstrings.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

import uop_tensor
from uop_ir import DType
from uop_tensor import Tensor

#: What the layers of Tensor are about, as headings.
TITLE = re.compile(r"^(.*?)[.:](?:\s|$)", re.DOTALL)


def methods() -> str:
    """Each public method and property of Tensor, layer by layer, with its first sentence."""
    parts = []
    for layer in reversed(Tensor.__mro__):
        rows = [row for name, member in vars(layer).items() for row in _row(layer, name, member)]
        if layer.__module__.startswith(f"{uop_tensor.__name__}.") and rows:
            about = TITLE.match(sys.modules[layer.__module__].__doc__ or "")
            assert about is not None
            parts.append(f"\n### {' '.join(about[1].split())}\n\n| method | |\n|---|---|\n{''.join(rows)}")
    return "".join(parts) + "\n"


def _row(layer: type, name: str, member: object) -> Iterator[str]:
    wrapped = getattr(member, "__wrapped__", member)
    function = member.fget if isinstance(member, property) else getattr(wrapped, "__func__", wrapped)
    function = inspect.unwrap(function) if callable(function) else function
    if (
        name.startswith("_")
        or not isinstance(function, FunctionType)
        or function.__module__ != layer.__module__
    ):
        return
    call = "" if isinstance(member, property) else signature(function)
    owner = "Tensor." if isinstance(member, classmethod | staticmethod) else ""
    yield f"| `{owner}{name}{call}` | {sentence(function)} |\n"


def signature(function: Callable[..., Any]) -> str:
    """The parameters without their types, `self` and `cls` left out."""
    parameters = [p for p in inspect.signature(function).parameters.values() if p.name not in ("self", "cls")]
    shown, starred = [], False
    for p in parameters:
        if p.kind is p.KEYWORD_ONLY and not starred:
            shown.append("*")
        starred |= p.kind in (p.VAR_POSITIONAL, p.KEYWORD_ONLY)
        star = "*" if p.kind is p.VAR_POSITIONAL else "**" if p.kind is p.VAR_KEYWORD else ""
        default = "" if p.default is p.empty else f"={_shown(p.default)}"
        shown.append(f"{star}{p.name}{default}")
    return f"({', '.join(shown)})"


def _shown(default: object) -> str:
    return str(default) if isinstance(default, DType) else repr(default)


def sentence(function: Callable[..., Any]) -> str:
    """The first paragraph of a docstring on one line."""
    text = inspect.getdoc(function) or ""
    return " ".join(text.split("\n\n")[0].split()).replace("|", "\\|")


def functions() -> str:
    """What else the package has in `__all__`."""
    rows = []
    for name in uop_tensor.__all__:
        member = getattr(uop_tensor, name)
        if member is not Tensor:
            call = signature(member) if inspect.isfunction(member) else ""
            rows.append(f"| `{name}{call}` | {sentence(member)} |\n")
    return f"\n| name | |\n|---|---|\n{''.join(rows)}\n"


GENERATED = {"tensor methods": methods, "tensor functions": functions}
