"""What the lowering of a kernel may do beyond the exact order and rounding of its source. Week 3."""

from __future__ import annotations

from dataclasses import dataclass

from .settings import settings


@dataclass(frozen=True)
class Freedoms:
    """`optimize`: apply axis actions at all. `contract`: a product that feeds a sum becomes MULACC.

    `reassociate`: reorder or split a reduction.
    """

    optimize: bool = True
    contract: bool = True
    reassociate: bool = True


def current_freedoms() -> Freedoms:
    """The freedoms that the settings OPT and STRICT leave."""
    return Freedoms(bool(settings.opt), not settings.strict, not settings.strict)
