"""The command `uopc explain`: the plans of a Python program or a model,
each with the reasons of its kernels. Week 5.
"""

from __future__ import annotations

from argparse import REMAINDER

from uop_ir import CommandParser, Reporting, get_backend, installed_models, run_python_or_model

from .explain import explain_plan
from .plan import Planned
from .program import WATCHERS


def explain_command(argv: list[str]) -> int:
    """Run a Python program, or a step of training of a model,
    and say why each kernel of its plans ends where it ends.
    """
    parser = CommandParser(prog="uopc explain", description=explain_command.__doc__)
    parser.add_argument(
        "--schedules",
        action="store_true",
        help="say also by which schedule each kernel runs, why, and how near that is to what the machine can do; "
        "kernels are run again for it",
    )
    models = installed_models()
    known = f", or a model: {', '.join(models)}" if models else ""
    parser.add_argument("file", help=f"a Python program, whose output goes to the error stream{known}")
    # also those that begin with a dash; argparse would name them beside a file that is missing
    parser.add_argument(
        "arguments", nargs=REMAINDER, help="its arguments; of a model, options of `uopc train`"
    ).required = False
    options = parser.parse_args(argv)
    plans: list[tuple[Planned, str]] = []
    WATCHERS.append(lambda planned, name: plans.append((planned, name)))
    try:
        run_python_or_model(options.file, options.arguments, parser.prog)
    finally:
        WATCHERS.pop()
    for n, (planned, name) in enumerate(plans):
        backend = get_backend(name)
        reporting = backend if options.schedules and isinstance(backend, Reporting) else None
        text = explain_plan(planned, f"plan {n} on {name}", reporting)
        print(text, end="\n\n" if n + 1 < len(plans) else "\n")
    return 0
