"""uop-codegen-c: from tensors to loops to C, and the backend CPU that runs it. Weeks 2 to 4 and 6."""

from .actions import Action, Checked, Reorder, Retype, Split
from .cache import KernelSource, build
from .compiler import Compiler
from .cpu import CpuBackend
from .dialect import Argument, Dialect, Opening
from .freedoms import Freedoms, current_freedoms
from .kernel import as_kernel
from .linearize import linearize
from .lower import generate, stages
from .machine import Machine
from .passes import ORDER, PASSES, lowering
from .render import render
from .schedule import ACTIONS, Schedule, apply_schedule
from .schedule_legal import ScheduleError
from .schedule_memory import Hold, Pad, Stage
from .settings import settings

__all__ = [
    "ACTIONS",
    "ORDER",
    "PASSES",
    "Action",
    "Argument",
    "Checked",
    "Compiler",
    "CpuBackend",
    "Dialect",
    "Freedoms",
    "Hold",
    "KernelSource",
    "Machine",
    "Opening",
    "Pad",
    "Reorder",
    "Retype",
    "Schedule",
    "ScheduleError",
    "Split",
    "Stage",
    "apply_schedule",
    "as_kernel",
    "build",
    "current_freedoms",
    "generate",
    "linearize",
    "lowering",
    "render",
    "settings",
    "stages",
]
