"""The generated parts of the reference of ops and of levels, in Markdown, from the tables of uop-ir."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from uop_ir import INDEX_MAPS, OPS, Ops, UOp, definition, dtypes, index_map
from uop_ir.levels import CONTENTS, Level
from uop_ir.signatures import SIGNATURES
from uop_ir.uir_table import SPELLINGS, Field
from uop_ir.verifier import RULES

GROUPS: dict[str, tuple[Ops, ...]] = {
    "Kernels and memory": (Ops.CALL, Ops.PARAM, Ops.BUFFER, Ops.ALLOC, Ops.INDEX, Ops.LOAD, Ops.STORE, Ops.AFTER,
                           Ops.COPY, Ops.STAGE, Ops.SINK),
    "Movement": (Ops.RESHAPE, Ops.EXPAND, Ops.PERMUTE, Ops.FLIP, Ops.PAD, Ops.SHRINK, Ops.STACK),
    "Loops": (Ops.REDUCE, Ops.RANGE, Ops.END),
    "Constants and types": (Ops.CONST, Ops.CAST, Ops.BITCAST),
    "Arithmetic": (Ops.NEG, Ops.ADD, Ops.SUB, Ops.MUL, Ops.DIV, Ops.MOD, Ops.MAX, Ops.MULACC, Ops.WHERE),
    "Functions of floats": (Ops.RECIP, Ops.SQRT, Ops.TRUNC, Ops.EXP2, Ops.LOG2, Ops.SIN),
    "Bits and comparisons": (Ops.AND, Ops.OR, Ops.XOR, Ops.SHL, Ops.SHR, Ops.CMPLT, Ops.CMPNE, Ops.CMPEQ),
    "Late": (Ops.SPECIAL, Ops.BARRIER, Ops.IF, Ops.ENDIF, Ops.WMMA),
}  # fmt: skip
AT = tuple(UOp.variable(name, 0, 9) for name in ("i", "j", "k"))
#: A view of each movement op, whose index map is shown.
VIEWS = (
    UOp.param(0, 24, dtypes.f32).reshape((6, 4)).reshape((2, 3, 4)),
    UOp.param(0, 4, dtypes.f32).reshape((1, 4)).expand((3, 4)),
    UOp.param(0, 12, dtypes.f32).reshape((3, 4)).permute((1, 0)),
    UOp.param(0, 12, dtypes.f32).reshape((3, 4)).flip((True, False)),
    UOp.param(0, 12, dtypes.f32).reshape((3, 4)).pad(((1, 2), (0, 0))),
    UOp.param(0, 12, dtypes.f32).reshape((3, 4)).shrink(((1, 3), (0, 2))),
)
SIGNS = {
    Ops.ADD: "+",
    Ops.SUB: "-",
    Ops.MUL: "*",
    Ops.DIV: "//",
    Ops.MOD: "%",
    Ops.CMPLT: "<",
    Ops.AND: "and",
}


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(cells)} |\n" for cells in (head, ["---"] * len(head), *rows)]
    return f"\n{''.join(lines)}\n"


def reference() -> str:
    """Each op, by group: operands, arg, types, shape and meaning."""
    head = ("op", "operands", "arg", "types", "shape", "meaning")
    return "".join(f"\n### {group}\n{table(head, map(cells, ops))}" for group, ops in GROUPS.items())


def cells(op: Ops) -> tuple[str, ...]:
    signature = SIGNATURES[op]
    types = signature.types.replace("->", "\N{RIGHTWARDS ARROW}")
    return f"`{op.value}`", signature.operands, _arg(op), types, signature.shape, OPS[op].meaning


def _arg(op: Ops) -> str:
    spelling = SPELLINGS[op]
    fields = ([] if spelling.literal is None else [spelling.literal]) + list(spelling.keys)
    return ", ".join(_field(f, key=f in spelling.keys) for f in fields) or "none"


def _field(field: Field, *, key: bool) -> str:
    name = f"`{field.name}=`" if key else f"`{field.name}`"
    return f"[{name}]" if field.optional else name


def summary() -> str:
    """Each op, in the order of the table: how many operands,
    with its literal, then its keys and its meaning.
    """
    rows = ((f"`{op.value}`", _count(op), _keys(op), OPS[op].meaning) for op in Ops)
    return table(("op", "operands", "keys", "meaning"), rows)


def _count(op: Ops) -> str:
    least, most, literal = OPS[op].least, OPS[op].most, SPELLINGS[op].literal
    if literal is not None:
        return (f"{least}, " if least else "") + (f"[{literal.name}]" if literal.optional else literal.name)
    if most is None:
        return f"{least} or more"
    return str(least) if most == least else f"{least} to {most}"


def _keys(op: Ops) -> str:
    return ", ".join(_field(key, key=False) for key in SPELLINGS[op].keys) or "-"


def index_maps() -> str:
    """For each movement op an example, and which element of x stands where in it."""
    rows = []
    for view in VIEWS:
        names = AT[: view.ndim]
        at, valid = index_map(view, names)
        here = ", ".join(str(n.arg.name) for n in names)
        there = f"`x[{', '.join(map(_infix, at))}]`"
        condition = "" if valid is None else f" where `{_infix(valid)}`, else 0"
        shapes = f"{view.src[0].shape} \N{RIGHTWARDS ARROW} {view.shape}"
        rows.append((f"`{view.op.value}`", shapes, f"`[{here}]`", there + condition))
    assert {view.op for view in VIEWS} == INDEX_MAPS.keys()
    return table(("op", "shapes", "the element", "is"), rows)


def _infix(node: UOp) -> str:
    if node.op is Ops.PARAM:
        return str(node.arg.name)
    if node.op is Ops.CONST:
        return str(node.value).lower()
    left, right = map(_infix, node.src)
    if node.op is Ops.CMPNE:
        return f"not {left}" if right == "true" else f"{left} != {right}"
    if node.op is Ops.SUB and left.isdigit() and right.isdigit():
        return str(int(left) - int(right))
    return f"{left} {SIGNS[node.op]} {right}"


def definitions() -> str:
    """How many nodes the definitions of EXP2, LOG2 and SIN have, for each float type."""
    rows = []
    for op in (Ops.EXP2, Ops.LOG2, Ops.SIN):
        counts = [len(definition(op, UOp.param(0, 1, dtype)).toposort()) - 1 for dtype in dtypes.floats]
        rows.append((f"`{op.value}`", *map(str, counts)))
    return table(("op", *(f"nodes for {dtype}" for dtype in dtypes.floats)), rows)


def contents() -> str:
    """Each op with the levels that may contain it."""
    return table(
        ("ops", *(level.value for level in Level)),
        (
            (f"{group}: {', '.join(f'`{op.value}`' for op in ops)}", *(_share(level, ops) for level in Level))
            for group, ops in GROUPS.items()
        ),
    )


def _share(level: Level, ops: tuple[Ops, ...]) -> str:
    there = [op for op in ops if op in CONTENTS[level]]
    missing = [op for op in ops if op not in CONTENTS[level]]
    if not there or not missing:
        return "no" if not there else "yes"
    short, word = (missing, "but ") if len(missing) < len(there) else (there, "only ")
    return word + ", ".join(f"`{op.value}`" for op in short)


def rules() -> str:
    """The rules of the verifier."""
    return table(
        ("rule", "levels", "what must hold"),
        ((r.name, ", ".join(level.value for level in Level if level in r.levels), r.states) for r in RULES),
    )


#: What stands between `<!-- NAME -->` and `<!-- end -->` in a page.
GENERATED = {
    "ops": summary,
    "reference": reference,
    "index maps": index_maps,
    "definitions": definitions,
    "contents": contents,
    "rules": rules,
}
