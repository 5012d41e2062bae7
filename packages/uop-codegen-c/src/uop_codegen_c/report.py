"""Report: by which schedule a kernel runs, what its actions are for,
and how near it comes to the roofline. Week 6.
"""

from __future__ import annotations

from collections.abc import Iterator

from uop_ir import UOp, call_params

from .beam import applied
from .freedoms import Freedoms, current_freedoms
from .lower import argument_bytes, at_loop_level
from .machine import this_machine
from .optimize import choose
from .reasons import reasons
from .roofline import distance
from .schedule import Schedule
from .tune_bench import Bench
from .tune_worker import MOST_BYTES
from .tuned import Find


def report(body: UOp) -> Iterator[str]:
    """Lines about a kernel: its schedule, what each action is for,
    and its time, measured now, beside the roofline.

    Without that time where the arguments are too large to be made again. Raises BackendError where there is
    no compiler, and UopError where the kernel cannot be run by itself.
    """
    free = current_freedoms()
    root = at_loop_level(body, free)
    found, source = applied(body)
    schedule, origin = _schedule(found, root, free)
    yield f"schedule ({origin}): {'none' if not schedule.actions else ''}".rstrip()
    for reason in reasons(root, schedule, free, this_machine()):
        yield f"  {reason}"
    if argument_bytes(call_params(body)) <= MOST_BYTES:
        bench = Bench(body, free)
        (program,) = bench.programs([schedule])
        if program is not None:
            yield distance(source, body, bench.seconds(program))


def _schedule(found: Find | None, root: UOp, free: Freedoms) -> tuple[Schedule, str]:
    """The schedule of a kernel, and where it comes from."""
    if not free.optimize:
        return Schedule(), "OPT=0"
    if found is not None and found.schedule is not None:
        return Schedule.parse(
            found.schedule
        ), f"found by timing, {found.ratio:.2f} times as fast as the chosen one"
    origin = "chosen" if found is None else f"chosen; timing found none faster of {found.measured}"
    return choose(root, free, this_machine())[0], origin
