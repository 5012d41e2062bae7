"""The command `uopc tune`: a faster schedule for a kernel in a `.uir` file, found by timing. Week 6."""

from __future__ import annotations

from uop_ir import CommandParser, UopError, read_uir

from .freedoms import current_freedoms
from .kernel import as_kernel
from .tune import tune


def tune_command(argv: list[str]) -> int:
    """Search for a faster schedule of a .uir program by timing, and print it for `uopc compile --schedule`."""
    parser = CommandParser(prog="uopc tune", description=tune_command.__doc__, allow_abbrev=False)
    parser.add_argument("file", metavar="FILE.uir")
    parser.add_argument(
        "--width", type=int, default=4, help="schedules that are extended at a time (default 4)"
    )
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="for about how long to search (default 60)"
    )
    options = parser.parse_args(argv)
    if options.width < 1 or not options.seconds > 0:
        raise UopError(
            f"--width {options.width} --seconds {options.seconds}", remedy="at least 1, more than 0"
        )
    found = tune(as_kernel(read_uir(options.file).root), current_freedoms(), options.width, options.seconds)
    print(f"{found.measured} schedules measured, {found.refused} of them failed or were wrong")
    print(f"chosen {found.chosen_seconds * 1e3:9.3f} ms  {found.chosen}")
    ratio = found.chosen_seconds / found.best_seconds
    print(f"best   {found.best_seconds * 1e3:9.3f} ms  {found.best}  ({ratio:.2f} times as fast)")
    return 0
