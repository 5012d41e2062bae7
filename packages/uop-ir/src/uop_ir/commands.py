"""The commands of this package: `uopc run` and `uopc show` of a `.uir` program, and `uopc doctor`. Week 1."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .cli import CommandParser
from .doctor import doctor
from .drawing import to_dot, to_svg
from .dtype import dtypes
from .errors import UopError
from .infer_structure import call_params
from .interp import evaluate, run_program
from .ops import Ops
from .run_inputs import Array, free_nodes, is_memory, name_of, read_memory, read_scalars
from .uir_parse import Parsed, read_uir
from .uop import UOp
from .verifier import verify
from .walks import toposort

__all__ = ["doctor", "run", "show"]

#: What `uopc show` can print, by the name of its option.
VIEWS: dict[str, Callable[[UOp], str]] = {
    "tree": lambda root: root.tree() + "\n",
    "dot": to_dot,
    "svg": to_svg,
}


def run(argv: list[str]) -> int:
    """Run a .uir file on the interpreter and print its outputs, or the memory that it stores to."""
    options = _parser().parse_args(argv)
    if options.seed < 0:
        raise UopError(f"--seed {options.seed} is less than 0")
    program = read_uir(options.file)
    verify(program.program, spans=program.spans)
    effects = [node for node in program.outputs if node.dtype is dtypes.void]
    scalars = read_scalars(program, options.var)
    memory = read_memory(program, options.input, options.seed)
    try:
        shown = _shown(program, effects, memory, scalars)
    except UopError as error:
        if isinstance(error.node, UOp):
            error.span = error.span or program.spans.get(error.node)
        raise
    for node, array in shown:
        _print(name_of(program, node), node, array)
    return 0


def show(argv: list[str]) -> int:
    """Print the graph of a .uir file as a tree, or as a picture: DOT or SVG."""
    parser = CommandParser(prog="uopc show", description=show.__doc__, allow_abbrev=False)
    parser.add_argument("file", metavar="FILE.uir")
    views = parser.add_mutually_exclusive_group()
    for view in VIEWS:
        views.add_argument(f"--{view}", dest="view", action="store_const", const=view, default="tree")
    options = parser.parse_args(argv)
    print(VIEWS[options.view](read_uir(options.file).root), end="")
    return 0


def _shown(
    program: Parsed, effects: Sequence[UOp], memory: dict[UOp, Array], scalars: dict[UOp, bool | int | float]
) -> list[tuple[UOp, Array]]:
    """The outputs of a run, or the memory that it stores to."""
    if not effects:
        return list(zip(program.outputs, evaluate(program.outputs, {**memory, **scalars}), strict=True))
    run_program(program.program, memory, scalars)
    stored = _stored(effects)
    return [(node, memory[node]) for node in memory if node in stored]


def _parser() -> CommandParser:
    parser = CommandParser(prog="uopc run", description=run.__doc__, allow_abbrev=False)
    parser.add_argument("file", metavar="FILE.uir")
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="SLOT=FILE.npy",
        help="the elements of the buffer or param of this slot, or of the one named %%N in the file; "
        "row-major, of its dtype and size, in any shape. Without it they are generated",
    )
    parser.add_argument(
        "--var", action="append", default=[], metavar="NAME=VALUE", help="the value of a scalar param"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the generated inputs (default 0)")
    return parser


def _print(label: str, node: UOp, array: Array) -> None:
    print(f"{label}: shape {array.shape}, dtype {node.dtype}")
    print(array)


def _stored(effects: Sequence[UOp]) -> set[UOp]:
    """The BUFFERs and PARAMs that the effects store to, through the bodies of CALLs too."""
    of_body: dict[UOp, set[UOp]] = {}
    for node in toposort(effects):
        if node.op is Ops.CALL and node.src[0] not in of_body:
            of_body[node.src[0]] = _targets(node.src[0].src, of_body)
    return _targets(effects, of_body)


def _targets(effects: Sequence[UOp], of_body: dict[UOp, set[UOp]]) -> set[UOp]:
    found: set[UOp] = set()
    for node in free_nodes(effects):
        if node.op is Ops.STORE:
            found.add(_base(node.src[0]))
        elif node.op is Ops.CALL:
            body, *given = node.src
            stored = of_body[body]
            found.update(_base(g) for p, g in zip(call_params(body), given, strict=True) if p in stored)
    return {node for node in found if is_memory(node)}


def _base(view: UOp) -> UOp:
    """The memory that a target of a STORE is a view of."""
    while view.src:
        view = view.src[0]
    return view
