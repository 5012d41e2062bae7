"""What differs from one C-like language to another:
how a kernel opens, and how some words are spelled. Weeks 2 and 7.

The renderer writes C. A dialect is data beside it,
so that the body of a kernel is one text in every language.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from uop_ir import DType, UOp

from . import ctext


@dataclass(frozen=True)
class Argument:
    """An argument of a kernel as text: the name that its body uses,
    and the C type of the scalar or of an element.
    """

    param: UOp
    name: str
    type: str
    written: bool
    used: bool

    @property
    def is_memory(self) -> bool:
        return self.param.arg.size is not None


class Opening(NamedTuple):
    """How a kernel opens: its head up to the brace,
    its first lines, and the helpers (name, text) that they need.
    """

    head: str
    lines: tuple[str, ...] = ()
    helpers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Dialect:
    """A C-like language.

    `opening(name, arguments, order)` opens the kernel of a linear program; the arguments are those of its
    CALL, in order. `words` gives C words their spelling here, `special` gives the text of each SPECIAL by its
    name. The threads of a block wait for each other at `barrier`, and share the scratch memory of the slots
    `shared`; C has no blocks. That of the slots `lanes` has an element in a register of each lane of a warp:
    `lane(register, position)` is the text of the element at a position,
    which is the register itself where it is the lane's own.

    `typedef(dtype, lanes)` defines a vector type, and `vector` is how one is written from its name and lanes.
    `matrix` gives the helper (name, text) that a WMMA calls, by its instruction; None where there is none.
    """

    language: str
    opening: Callable[[str, Sequence[Argument], Sequence[UOp]], Opening]
    words: Mapping[str, str] = field(default_factory=dict)
    special: Mapping[str, str] = field(default_factory=dict)
    barrier: str = ""
    shared: frozenset[int] = frozenset()
    lanes: frozenset[int] = frozenset()
    lane: Callable[[str, UOp], str] = lambda register, position: register
    typedef: Callable[[DType, int], str] = ctext.typedef
    vector: str = "({}){{{}}}"
    matrix: Callable[[str], tuple[str, str]] | None = None

    def spell(self, text: str) -> str:
        """A text of C in this language."""
        if not self.words:
            return text
        longest_first = sorted(self.words, key=len, reverse=True)
        pattern = "|".join(rf"\b{re.escape(w)}" + (r"\b" if w[-1].isalnum() else "") for w in longest_first)
        return re.sub(pattern, lambda found: self.words[found[0]], text)


def _open_c(name: str, arguments: Sequence[Argument], order: Sequence[UOp]) -> Opening:
    """The one signature of all C kernels; its first lines give the arguments their names and types."""
    used = [a for a in arguments if a.used]
    lines = [] if any(not a.is_memory for a in used) else ["(void)scalars;"]
    lines += [] if any(a.is_memory for a in used) else ["(void)buffers;"]
    helpers: list[tuple[str, str]] = []
    places = {a.param: place for place, a in enumerate(a for a in arguments if not a.is_memory)}
    for a in used:
        if a.is_memory:
            const = "" if a.written else "const "
            # not restrict: one memory may be given twice, and kernels were not faster with it
            lines.append(f"{const}{a.type} *{a.name} = buffers[{a.param.arg.slot}];")
            continue
        value = f"({a.type})scalars[{places[a.param]}]"
        if a.param.dtype in ctext.CARRIER:
            source = ctext.CARRIER[a.param.dtype][0]
            helpers.append(ctext.float_helper(source, a.param.dtype))
            value = f"{helpers[-1][0]}(({ctext.SCALAR[source]})scalars[{places[a.param]}])"
        lines.append(f"const {a.type} {a.name} = {value};")
    head = f"void {name}(void *const *buffers, const int64_t *scalars) {{"
    return Opening(head, tuple(lines), tuple(helpers))


C = Dialect("C", _open_c)
