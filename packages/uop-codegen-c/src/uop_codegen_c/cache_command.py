"""The command `uopc cache`: how large the kernel cache is,
whether it is whole, and how to make it smaller. Week 2.
"""

from __future__ import annotations

import math
from argparse import ArgumentTypeError, Namespace

from uop_ir import CommandParser, UopError

from .cache import DAY_SECONDS, kernel_folder
from .upkeep import damaged, inventory, prune

MEGABYTE = 1_000_000


def cache_command(argv: list[str]) -> int:
    """The size of the cache of compiled kernels; verify or prune it."""
    options = _parser().parse_args(argv)
    return int(options.run(options))


def _size(options: Namespace) -> int:
    with kernel_folder() as folder:
        found = inventory(folder)
    print(folder)
    for name, kind in found.items():
        print(f"{name:<12}{kind.count:7}{kind.bytes / MEGABYTE:10.1f} MB")
    return 0


def _verify(options: Namespace) -> int:
    """1 where something was damaged, as a script may want to know."""
    with kernel_folder() as folder:
        count = inventory(folder)
        wrong = damaged(folder)
    for path, what in wrong:
        print(f"removed {path.name}: it {what}")
    print(
        f"{folder}: {count['objects'].count} objects and {count['texts'].count} texts, {len(wrong)} files damaged"
    )
    return 1 if wrong else 0


def _prune(options: Namespace) -> int:
    if options.days is None and options.megabytes is None:
        raise UopError("uopc cache prune: nothing to go by", remedy="give --days, --megabytes or both")
    seconds = None if options.days is None else options.days * DAY_SECONDS
    size = None if options.megabytes is None else int(options.megabytes * MEGABYTE)
    with kernel_folder() as folder:
        gone = prune(folder, seconds, size)
        left = inventory(folder)
    size = sum(kind.bytes for kind in left.values())
    print(
        f"{folder}: {gone.count} files removed, {gone.bytes / MEGABYTE:.1f} MB; {size / MEGABYTE:.1f} MB left"
    )
    return 0


def _parser() -> CommandParser:
    parser = CommandParser(prog="uopc cache", description=cache_command.__doc__, allow_abbrev=False)
    parser.set_defaults(run=_size)
    actions = parser.add_subparsers(metavar="ACTION", title="actions")
    size = actions.add_parser("size", help="files and bytes of each kind (without an action, too)")
    size.set_defaults(run=_size)
    verify = actions.add_parser(
        "verify", help="hold every file against its digest, and remove what is damaged"
    )
    verify.set_defaults(run=_verify)
    smaller = actions.add_parser(
        "prune", help="remove what was not used for long; it is compiled anew when needed"
    )
    smaller.add_argument("--days", type=_amount, metavar="N", help="remove what was not used for N days")
    smaller.add_argument(
        "--megabytes",
        type=_amount,
        metavar="N",
        help="then remove what was not used for longest, down to N MB",
    )
    smaller.set_defaults(run=_prune)
    return parser


def _amount(text: str) -> float:
    """A number that is not negative."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise ArgumentTypeError(f"{text!r} is no amount")
    return value
