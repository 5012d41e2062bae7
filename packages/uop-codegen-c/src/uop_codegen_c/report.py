"""Report: by which schedule a kernel runs, what its actions are for, and how near it comes to the roofline. Week 6."""

from __future__ import annotations

from collections.abc import Iterator

from uop_ir import UOp, call_params

from .beam import find
from .freedoms import Freedoms, current_freedoms
from .lower import stages
from .machine import this_machine
from .optimize import choose
from .reasons import reasons
from .roofline import distance
from .schedule import Schedule
from .tune_bench import Bench
from .tune_worker import MOST_BYTES


def report(body: UOp) -> Iterator[str]:
    """Lines about a kernel: its schedule, what each action is for, and its time, measured now, beside the roofline.

    Without that time where the arguments are too large to be made again. Raises BackendError where there is no compiler.
    """
    free = current_freedoms()
    root = next(root for name, root in stages(body, free) if name == "bounds")
    schedule, origin = _schedule(body, root, free)
    yield f"schedule ({origin}): {'none' if not schedule.actions else ''}".rstrip()
    for reason in reasons(root, schedule, free, this_machine()):
        yield f"  {reason}"
    if sum(p.arg.size * p.dtype.itemsize for p in call_params(body) if p.arg.size is not None) <= MOST_BYTES:
        bench = Bench(body, free)
        (text,), (program,) = [bench.text(schedule)], bench.programs([schedule])
        if text is not None and program is not None:
            yield distance(text, body, bench.seconds(program))


def _schedule(body: UOp, root: UOp, free: Freedoms) -> tuple[Schedule, str]:
    """The schedule of a kernel, and where it comes from."""
    if not free.optimize:
        return Schedule(), "OPT=0"
    found = find(body, free)
    if found is not None and found.schedule is not None:
        return Schedule.parse(
            found.schedule
        ), f"found by timing, {found.ratio:.2f} times as fast as the chosen one"
    origin = "chosen" if found is None else f"chosen; timing found none faster of {found.measured}"
    return choose(root, free, this_machine())[0], origin
