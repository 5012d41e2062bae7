"""Settings of the rewriter and of its commands. Week 1."""

from __future__ import annotations

from dataclasses import dataclass

from uop_ir import read_settings


@dataclass
class RewriteSettings:
    """PRINT_AFTER: the passes after which the program is printed.
    NO_COLOR: no colour in what commands print.
    """

    print_after: str = ""
    no_color: str = ""


settings = read_settings(RewriteSettings)
