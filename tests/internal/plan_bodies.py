"""The kernels that some code makes, as the backend CPU gets them. Week 6."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from uop_ir import Limits, Plan, UOp, get_backend, override, settings
from uop_tensor import clear_plans


def plan_bodies(make: Callable[[], Any], limits: Limits | None = None) -> list[UOp]:
    """The bodies of the kernels that some code runs on the backend CPU, each once, as they first run.

    They are not run. The scheduler sees these limits, those of the machine that we run on if None is given.
    """
    bodies: dict[UOp, None] = {}

    def link(plan: Plan) -> Callable[..., None]:
        bodies.update(dict.fromkeys(plan.bodies))
        return lambda memory, scalars: None

    clear_plans()
    with pytest.MonkeyPatch.context() as patch, override(settings, dev="CPU", check=0):
        if limits is not None:
            patch.setattr(get_backend("CPU"), "limits", limits)
        patch.setattr(get_backend("CPU"), "link", link)
        make()
        clear_plans()  # none of those that run nothing is found again
    return list(bodies)
