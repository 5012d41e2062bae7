"""The command `uopc compile`: a `.uir` program at any stage of its way to C. Weeks 2 to 4."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import cast

from uop_ir import (
    CommandParser,
    Level,
    Ops,
    Parsed,
    UOp,
    UopError,
    VerifyError,
    call_params,
    dtypes,
    format_uir,
    read_uir,
    verify,
)

from .cache import KernelSource
from .freedoms import Freedoms, current_freedoms
from .kernel import as_kernel
from .linearize import linearize
from .lower import source, stages
from .machine import this_machine
from .optimize import choose
from .passes import PASSES
from .schedule import Schedule
from .standalone import standalone

#: What --emit knows, in the order of the way.
STAGES = ("kernel", *(step.name for step in PASSES), "linear", "c")
OPTIMIZE, SCHEDULE = "optimize", "schedule"


def compile_command(argv: list[str]) -> int:
    """Compile a .uir file as one kernel, and print it at a stage of its way to C."""
    options = _parser().parse_args(argv)
    given = read_uir(options.file)
    loops = [n for n in given.nodes if n.op is Ops.RANGE]
    if options.first == "rangeify" and loops and options.emit != "kernel":
        raise VerifyError(
            "the program has loops already",
            span=given.spans[loops[0]],
            remedy="say with --from where it goes on: --from simplify, or --from c for a linear program",
        )
    if options.seed is not None and not options.main:
        raise UopError("--seed is for --main", remedy="leave out --seed")
    if options.main:
        print(_program(given, options), end="")
    elif options.emit in (*STAGES, SCHEDULE):
        print(emit(given, options.emit, options.first, current_freedoms(), options.schedule), end="")
    elif options.schedule is not None:
        raise UopError(f"--emit {options.emit} takes no schedule", remedy="leave out --schedule")
    elif options.first == "rangeify":
        print(_load(emitters()[options.emit])(as_kernel(given.root), current_freedoms()), end="")
    else:
        raise UopError(f"--emit {options.emit} starts from tensors", remedy="leave out --from")
    return 0


def emit(given: Parsed, stage: str, first: str, freedoms: Freedoms, schedule: Schedule | None = None) -> str:
    """The text of a program at a stage; `first` is what it has yet to go through first. Raises UopError.

    Where it is a pass, "linear" or "c" the stages before it cannot be printed.
    Without a schedule, one is chosen.
    """
    if stage == "kernel":
        return format_uir(as_kernel(given.root))
    acts = OPTIMIZE if stage == SCHEDULE else stage
    if STAGES.index(acts) < STAGES.index(first):
        raise UopError(f"--emit {stage} lies before --from {first}")
    if schedule is not None and STAGES.index(OPTIMIZE) < STAGES.index(first):
        raise UopError(f"--schedule lies before --from {first}")
    before = given.root
    for name, root in _passes(given, freedoms, first, schedule):
        if name == OPTIMIZE and stage == SCHEDULE:
            if schedule is None:
                schedule = choose(before, freedoms, this_machine())[0] if freedoms.optimize else Schedule()
            return "".join(f"{action}\n" for action in schedule)
        if name == stage:
            return format_uir(root)
        before = root
    order = _order(given, root, first)
    if stage == "linear":
        return format_uir(order)
    return _c(source(order, _linear_params(order))) + "\n"


def _program(given: Parsed, options: Namespace) -> str:
    """The C program that runs alone."""
    if options.emit != "c":
        raise UopError(f"--emit {options.emit} has no --main", remedy="leave out --emit")
    seed = options.seed or 0
    if seed < 0:
        raise UopError(f"--seed {seed} is less than 0")
    *_, (_, root) = _passes(given, current_freedoms(), options.first, options.schedule)
    order = _order(given, root, options.first)
    whole = options.first == "rangeify"
    params = call_params(as_kernel(given.root)) if whole else _linear_params(order)
    return standalone(given, source(order, params), params, seed, Path(options.file).name)


def _passes(
    given: Parsed, freedoms: Freedoms, first: str, schedule: Schedule | None = None
) -> Iterator[tuple[str, UOp]]:
    """The program as it is given, without a name, then after each pass from `first` on.

    Raises VerifyError where it is not at the level that `first` takes,
    has what an earlier pass eliminates, or ends a value.
    """
    if first == "c":
        verify(given.nodes, spans=given.spans)
    elif first != "rangeify":
        verify(given.root, Level.LOOP, given.spans)
    if first != "rangeify":
        _refuse_values(given)
        _refuse_left(given, first)
    root = as_kernel(given.root) if first == "rangeify" else given.root
    yield "", root
    if first in [step.name for step in PASSES]:
        yield from stages(root, freedoms, first, schedule=schedule)


def _refuse_values(given: Parsed) -> None:
    """Raise VerifyError for a value where a program of loops has effects: in END and SINK."""
    for node in given.nodes:
        done = node.src[:1] if node.op is Ops.END else node.src if node.op is Ops.SINK else ()
        for value in done:
            if value.dtype is not dtypes.void:
                message = f"{node.op!r} of the value {value!r}, which is no effect"
                raise VerifyError(message, remedy="STORE it", span=given.spans[node])


def _refuse_left(given: Parsed, first: str) -> None:
    """Raise VerifyError for an op that a pass before `first` eliminates."""
    for step in PASSES:
        if step.name == first:
            return
        left = next((n for n in given.nodes if n.op in step.eliminates), None)
        if left is not None:
            message = f"{left.op!r} is left before --from {first}"
            raise VerifyError(message, remedy=f"take --from {step.name}", span=given.spans[left])


def _order(given: Parsed, root: UOp, first: str) -> Sequence[UOp]:
    """The instructions in order: those of the file, where it is a linear program already."""
    return given.nodes if first == "c" else linearize(root)


def emitters() -> dict[str, EntryPoint]:
    """What other packages add to --emit, by name: the entry points of the group `uop.emit`.

    Each is a function of a kernel's body at tensor level and the freedoms, and gives the text to print.
    """
    return {e.name: e for e in sorted(entry_points(group="uop.emit"), key=lambda e: e.name)}


def _load(entry: EntryPoint) -> Callable[[UOp, Freedoms], str]:
    try:
        return cast(Callable[[UOp, Freedoms], str], entry.load())
    except (ImportError, AttributeError) as error:
        raise UopError(f"--emit {entry.name} cannot be loaded from {entry.value}: {error}") from None


def _schedule(text: str) -> Schedule:
    """The schedule of a text, or of a file behind @."""
    if not text.startswith("@"):
        return Schedule.parse(text)
    try:
        return Schedule.parse(Path(text[1:]).read_text(encoding="utf-8"), text[1:])
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise UopError(f"cannot read {text[1:]!r}: {reason}") from None


def _c(kernel: KernelSource) -> str:
    return f"{kernel.preamble}\n\n{kernel.text}"


def _linear_params(order: Sequence[UOp]) -> tuple[UOp, ...]:
    """The arguments of a linear program in a CALL's order; slots that it no longer uses are kept free."""
    used = {n.arg.slot: n for n in order if n.op is Ops.PARAM and n.arg.size is not None}
    scalars = call_params(UOp.sink(*(n for n in order if n.op is Ops.PARAM and n.arg.size is None)))
    memory = [used.get(i, UOp.param(i, 0, dtypes.u8)) for i in range(max(used, default=-1) + 1)]
    return (*memory, *scalars)


def _parser() -> CommandParser:
    parser = CommandParser(prog="uopc compile", description=compile_command.__doc__, allow_abbrev=False)
    parser.add_argument("file", metavar="FILE.uir")
    parser.add_argument(
        "--emit",
        choices=(*STAGES, SCHEDULE, *emitters()),
        default="c",
        help="the stage to print (default c); schedule: the actions of the optimizer, one a line",
    )
    parser.add_argument(
        "--schedule",
        type=_schedule,
        metavar="ACTIONS",
        help="the actions of the optimizer, as --emit schedule prints them, or with ; between them; "
        "@FILE: those in a file",
    )
    parser.add_argument(
        "--from",
        dest="first",
        choices=(*(step.name for step in PASSES), "linear", "c"),
        default="rangeify",
        help="the first stage that the file has yet to go through (default rangeify); "
        "linear: after all passes; c: a linear program to be rendered",
    )
    parser.add_argument(
        "--main",
        action="store_true",
        help="print a C program with a main that runs alone on the inputs of uopc run, and prints the outputs",
    )
    parser.add_argument("--seed", type=int, help="seed of the inputs of --main (default 0)")
    return parser
