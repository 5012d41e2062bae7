"""uop-codegen-c: from tensors to loops to C, and the backend CPU that runs it. Weeks 2 to 4 and 6."""

from .actions import Action, Reorder, Retype, ScheduleError, Split, Stage, apply_schedule
from .cache import KernelSource
from .cpu import CpuBackend
from .freedoms import Freedoms
from .lower import PASSES, generate, stages
from .linearize import linearize

__all__ = [
    "PASSES",
    "Action",
    "CpuBackend",
    "Freedoms",
    "KernelSource",
    "Reorder",
    "Retype",
    "ScheduleError",
    "Split",
    "Stage",
    "apply_schedule",
    "generate",
    "linearize",
    "stages",
]
