"""Settings of this package. Week 5."""

from __future__ import annotations

from dataclasses import dataclass

from uop_ir import read_settings


@dataclass
class TensorSettings:
    """PLAN_CACHE: how many plans are kept for programs of a shape seen before; 0 or less: none. JIT_CACHE:
    how many traces a jitted function keeps, at least 1.
    """

    plan_cache: int = 1024
    jit_cache: int = 64


settings = read_settings(TensorSettings)
