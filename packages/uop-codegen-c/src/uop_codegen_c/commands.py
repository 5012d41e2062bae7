"""The command `uopc compile`: a `.uir` program at any stage of its way to C. Weeks 2 to 4."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import cast

from uop_ir import CommandParser, Ops, UOp, UopError, VerifyError, call_params, dtypes, format_uir, read_uir

from .cache import KernelSource
from .freedoms import Freedoms, current_freedoms
from .kernel import as_kernel
from .linearize import linearize
from .lower import source, stages
from .passes import PASSES

#: What --emit knows, in the order of the way.
STAGES = ("kernel", *(step.name for step in PASSES), "linear", "c")


def compile_command(argv: list[str]) -> int:
    """Compile a .uir file as one kernel, and print it at a stage of its way to C."""
    options = _parser().parse_args(argv)
    given = read_uir(options.file)
    if options.first == "c" and any(n.op is Ops.RANGE for n in given.nodes):
        print(_c(source(given.nodes, _linear_params(given.nodes))))
        return 0
    loops = [n for n in given.nodes if n.op is Ops.RANGE]
    if options.first == "rangeify" and loops and options.emit != "kernel":
        raise VerifyError(
            "the program has loops already",
            span=given.spans[loops[0]],
            remedy="say with --from where it goes on: --from simplify, or --from c for a linear program",
        )
    body = as_kernel(given.root) if options.first == "rangeify" else given.root
    if options.emit not in STAGES:
        if options.first != "rangeify":
            raise UopError(f"--emit {options.emit} starts from tensors", remedy="leave out --from")
        print(_load(emitters()[options.emit])(body, current_freedoms()), end="")
        return 0
    print(emit(body, options.emit, options.first, current_freedoms()), end="")
    return 0


def emit(body: UOp, stage: str, first: str, freedoms: Freedoms) -> str:
    """The text of a kernel at a stage; `first` is the first pass that it has yet to go through."""
    if stage == "kernel":
        return format_uir(body)
    root = body
    for name, root in stages(body, freedoms, first) if first in [p.name for p in PASSES] else ():
        if name == stage:
            return format_uir(root)
    order = linearize(root)
    if stage == "linear":
        return format_uir(order)
    if stage != "c":
        raise UopError(f"--emit {stage} lies before --from {first}")
    return _c(source(order, _linear_params(order))) + "\n"


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


def _c(kernel: KernelSource) -> str:
    return f"{kernel.preamble}\n\n{kernel.text}"


def _linear_params(order: tuple[UOp, ...] | list[UOp]) -> tuple[UOp, ...]:
    """The arguments of a linear program in a CALL's order; slots that it no longer uses are kept free."""
    used = {n.arg.slot: n for n in order if n.op is Ops.PARAM and n.arg.size is not None}
    scalars = call_params(UOp.sink(*(n for n in order if n.op is Ops.PARAM and n.arg.size is None)))
    memory = [used.get(i, UOp.param(i, 0, dtypes.u8)) for i in range(max(used, default=-1) + 1)]
    return (*memory, *scalars)


def _parser() -> CommandParser:
    parser = CommandParser(prog="uopc compile", description=compile_command.__doc__, allow_abbrev=False)
    parser.add_argument("file", metavar="FILE.uir")
    parser.add_argument(
        "--emit", choices=(*STAGES, *emitters()), default="c", help="the stage to print (default c)"
    )
    parser.add_argument(
        "--from",
        dest="first",
        choices=(*(step.name for step in PASSES), "c"),
        default="rangeify",
        help="the first pass that the file has yet to go through (default rangeify); c: a linear program to be rendered",
    )
    return parser
