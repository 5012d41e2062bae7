"""The state of a function's text while it is written, and the texts of its expressions. Week 2."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from uop_ir import DType, UOp, dtypes

from . import ctext
from .dialect import Dialect

ATOM, UNARY, PRODUCT, SUM, COMPARE, EQUAL, BITS, CHOICE = 16, 14, 13, 12, 10, 9, 8, 3
#: What stands before a question mark: clang asks for parentheses around `a & b`.
CONDITION = EQUAL


@dataclass(frozen=True)
class Text:
    """C text of an expression, and how tightly its outermost operator binds."""

    text: str
    binding: int = ATOM

    def within(self, binding: int) -> str:
        """The text as an operand of an operator that binds so tightly."""
        return self.text if self.binding >= binding else f"({self.text})"


@dataclass
class Renderer:
    """The state of one function's text."""

    dialect: Dialect
    expression: Callable[[Renderer, UOp], Text]
    lines: list[str] = field(default_factory=list)
    texts: dict[UOp, Text] = field(default_factory=dict)
    helpers: dict[str, str] = field(default_factory=dict)
    depth: int = 1
    uses: Counter[UOp] = field(default_factory=Counter)
    hoisted: frozenset[UOp] = frozenset()
    stored: frozenset[UOp] = frozenset()
    stores: frozenset[UOp] = frozenset()
    #: what a WMMA takes
    tiles: frozenset[UOp] = frozenset()
    #: index arithmetic that is in range of its type wherever it is computed
    anywhere: frozenset[UOp] = frozenset()
    declared: set[UOp] = field(default_factory=set)
    index_type: str = "int"
    values: int = 0

    # text

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def helper(self, *helpers: tuple[str, str]) -> str:
        """Ask for helpers, each after those that it needs; the name of the last."""
        for name, text in helpers:
            self.helpers.setdefault(name, text)
        return helpers[-1][0]

    def index_dtype(self) -> DType:
        return dtypes.i32 if self.index_type == "int" else dtypes.i64

    def real(self, dtype: DType) -> DType:
        """The type that stands for `index` in this kernel."""
        return self.index_dtype() if dtype is dtypes.index else dtype

    def text(self, node: UOp) -> Text:
        """The text of a node; that of index arithmetic is made when it is asked for."""
        if node not in self.texts:
            for n in node.toposort(gate=lambda n: n not in self.texts):
                if n not in self.texts:
                    self.texts[n] = self.expression(self, n)
        return self.texts[node]

    def operand(self, node: UOp, lanes: int, binding: int = 0) -> str:
        """A source as the operand of an operation on so many lanes: a scalar is spread over them."""
        text = self.text(node)
        if lanes == 1 or node.shape:
            return text.within(binding)
        dtype = self.real(node.dtype)
        name = self.helper(ctext.broadcast_helper(dtype, lanes))
        return f"{name}({text.text})"

    def type(self, dtype: DType, lanes: int) -> str:
        """The C type of a value in this kernel."""
        if lanes == 1:
            return self.index_type if dtype is dtypes.index else ctext.SCALAR[dtype]
        return ctext.vector(self.real(dtype), lanes)

    def name(self, dtype: DType, lanes: int, text: str) -> str:
        """A new variable with the value of a text."""
        name = f"val{self.values}"
        self.values += 1
        self.line(f"{self.type(dtype, lanes)} {name} = {text};")
        return name


def lane_of(name: str, dtype: DType, lane: int) -> str:
    """The text of one lane of a vector."""
    return f"{name}[{lane}] != 0" if dtype is dtypes.bool else f"{name}[{lane}]"
