"""The one root of all errors that uopc raises for a user's mistake. Week 1.

Exit codes of the command: 0 done, 1 usage, 2 syntax, 3 ill-typed or ill-shaped, 4 an access or a variable out
of bounds, 5 compiler or device failure, 130 interrupted.
"""

from __future__ import annotations

from dataclasses import dataclass

#: Columns of a line that an error shows: of a longer one, the part around the fault.
SHOWN = 160


@dataclass(frozen=True)
class Span:
    """A place in a text: line and column count from 1; `text` is the whole line."""

    file: str
    line: int
    column: int
    text: str

    def show(self) -> str:
        """The line, with a caret below the column."""
        start = max(0, self.column - 1 - SHOWN // 2) if len(self.text) > SHOWN else 0
        line = self.text[start : start + SHOWN].replace("\t", " ")
        line = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in line)
        return f"  {line}\n  {' ' * (self.column - 1 - start)}^"


class UopError(Exception):
    """A mistake of the user, told in one line, with the remedy where one is known.

    `span` is the place in a text, `part` the part of a node that is wrong, as `.uir` names it (`sizes`,
    `pop`), `node` the UOp where a whole program is wrong,
    or a run of it: who has its spans can give the place.
    """

    exit_code = 1

    def __init__(
        self,
        message: str,
        *,
        exit_code: int | None = None,
        span: Span | None = None,
        remedy: str | None = None,
        part: str | None = None,
        node: object = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        if exit_code is not None:
            self.exit_code = exit_code
        self.span = span
        self.remedy = remedy
        self.part = part
        self.node = node

    def __str__(self) -> str:
        if self.span is None:
            return f"{self.message} ({self.remedy})" if self.remedy else self.message
        at, remedy = self.span, f" {self.remedy}" if self.remedy else ""
        return f"{at.file}:{at.line}:{at.column}: error: {self.message}\n{at.show()}{remedy}"


class ParseError(UopError):
    """A `.uir` text that the grammar does not know."""

    exit_code = 2


class VerifyError(UopError):
    """A node whose operands, types or shapes do not fit its op."""

    exit_code = 3


class BoundsError(UopError):
    """An access that is, or may be, outside of its buffer, or a variable that is outside of its bounds."""

    exit_code = 4


class BackendError(UopError):
    """A compiler or a device that is missing, or that failed."""

    exit_code = 5
