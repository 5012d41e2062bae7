"""The command `uopc tune`: faster schedules for kernels, of a program or a model, found by timing. Week 6."""

from __future__ import annotations

import sys
from argparse import REMAINDER, Namespace

from uop_ir import (
    CommandParser,
    Ops,
    UOp,
    UopError,
    installed_models,
    override,
    read_uir,
    run_python_or_model,
)

from .beam import WATCHERS, search
from .freedoms import current_freedoms
from .kernel import as_kernel
from .settings import settings
from .tuned import Find

HEAD = f"{'kernel':<14}{'stores':<34}{'before':>11}{'after':>11}{'ratio':>7}  schedule"


def tune_command(argv: list[str]) -> int:
    """Search for faster schedules by timing, of a .uir file or the kernels of a program or a model; kept."""
    options = _parser().parse_args(argv)
    if options.width < 1 or options.seconds < 1:
        raise UopError(f"--width {options.width} --seconds {options.seconds}", remedy="at least 1")
    if not current_freedoms().optimize:
        raise UopError("tune: OPT=0 forbids to optimize", remedy="unset OPT")
    (_tune_kernel if options.file.endswith(".uir") else _tune_program)(options)
    return 0


def _tune_kernel(options: Namespace) -> None:
    """Search anew for one kernel, and print the best so far, then what was found."""
    if options.arguments:
        raise UopError(
            f"{options.arguments[0]} behind {options.file}", remedy="options stand before the file"
        )
    body = as_kernel(read_uir(options.file).root)
    found = search(body, current_freedoms(), options.width, options.seconds, print, anew=True)
    print(f"{found.measured} schedules measured, {found.refused} of them failed or were wrong")
    print(f"chosen {found.chosen_seconds * 1e3:9.3f} ms  {found.chosen or 'none'}")
    if found.schedule is None:
        print("none is faster in turns with it")
    else:
        print(f"best   {found.seconds * 1e3:9.3f} ms  {found.text}  ({found.ratio:.2f} times as fast)")


def _tune_program(options: Namespace) -> None:
    """Run a program or a step of a model, each kernel of which is tuned as it is compiled; print a table."""
    known: dict[UOp, Find | Exception] = {}
    output = sys.stdout

    def watch(body: UOp, found: Find | Exception) -> None:
        if body not in known:
            if not known:
                print(HEAD, file=output)
            known[body] = found
            print(f"{body.key[:12]:<14}{_stores(body):<34}{_row(found)}", file=output, flush=True)

    WATCHERS.append(watch)
    try:
        with override(settings, beam=options.width, beam_seconds=options.seconds):
            run_python_or_model(options.file, options.arguments, "uopc tune")
    finally:
        WATCHERS.pop()
    tuned = [found for found in known.values() if isinstance(found, Find)]
    faster = sum(found.schedule is not None for found in tuned)
    before, after = sum(f.chosen_seconds for f in tuned) * 1e3, sum(f.seconds for f in tuned) * 1e3
    print(
        f"{len(known)} kernels, {faster} of them faster; each once: {before:.3f} ms before, {after:.3f} ms now"
    )


def _stores(body: UOp) -> str:
    """What a kernel stores: the operation of the last value, its dtype and shape, and how many there are."""
    values = [n.src[1] for n in body.toposort() if n.op is Ops.STORE]
    op = values[-1].op.value
    if values[-1].op is Ops.REDUCE:
        op += f" {values[-1].arg[0].value}"
    others = f" and {len(values) - 1}" if len(values) > 1 else ""
    return f"{op} {values[-1].dtype}{list(values[-1].shape)}{others}"


def _row(found: Find | Exception) -> str:
    if isinstance(found, Exception):
        return f"not tuned: {found}"
    before, after = found.chosen_seconds * 1e3, found.seconds * 1e3
    return f"{before:8.3f} ms{after:8.3f} ms{found.ratio:7.2f}  {found.text}"


def _parser() -> CommandParser:
    parser = CommandParser(prog="uopc tune", description=tune_command.__doc__, allow_abbrev=False)
    parser.add_argument(
        "--width", type=int, default=4, help="schedules that are looked around at a time (default 4)"
    )
    parser.add_argument(
        "--seconds", type=int, default=60, help="for about how long to search a kernel (default 60)"
    )
    models = installed_models()
    known = f", or a model, one step of whose training runs: {', '.join(models)}" if models else ""
    parser.add_argument(
        "file",
        help="a kernel in a .uir file, or a Python program, whose output goes to the error stream" + known,
    )
    # also those that begin with a dash; argparse would name them beside a file that is missing
    parser.add_argument(
        "arguments", nargs=REMAINDER, help="those of the program; of a model, options of `uopc train`"
    ).required = False
    return parser
