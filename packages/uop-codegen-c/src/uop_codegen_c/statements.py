"""What each node of a linear program adds to the text of its function. Weeks 2 and 3."""

from __future__ import annotations

from collections.abc import Callable

from uop_ir import AddrSpace, AxisType, BackendError, DType, Kind, Ops, UOp, dtypes

from . import ctext
from .accesses import lanes_of, stride
from .expressions import expression
from .loops import length, memory_of
from .writer import CHOICE, COMPARE, CONDITION, SUM, UNARY, Renderer, Text, lane_of

#: A text longer than this gets a name although it is used once; index arithmetic if it is used again.
LONG = 60
#: Index arithmetic that is used once stays where it is used, up to this.
VERY_LONG = 300
EFFECTS = frozenset({Ops.SINK, Ops.AFTER, Ops.ALLOC, Ops.PARAM})


def statement(r: Renderer, node: UOp) -> None:
    """Write a node of a linear program."""
    STATEMENT.get(node.op, _value)(r, node)


def _range(r: Renderer, node: UOp) -> None:
    name = f"ridx{node.arg[0]}"
    if node.arg[1] is AxisType.THREAD:
        r.line("#pragma omp parallel for schedule(static)")
        r.lines[-1] = r.lines[-1].lstrip()
    end = r.text(node.src[0]).within(COMPARE)
    r.line(f"for ({r.index_type} {name} = 0; {name} < {end}; {name}++) {{")
    r.texts[node] = Text(name)
    r.depth += 1


def _end(r: Renderer, node: UOp) -> None:
    for _ in node.src[1:]:
        r.depth -= 1
        r.line("}")


def _special(r: Renderer, node: UOp) -> None:
    """An index of the grid, as a constant by its name."""
    if node.arg not in r.dialect.special:
        raise BackendError(f"the {r.dialect.language} backend has no {node.op!r} {node.arg}")
    r.line(f"const {r.index_type} {node.arg} = {r.dialect.special[node.arg]};")
    r.texts[node] = Text(node.arg)


def _if(r: Renderer, node: UOp) -> None:
    r.line(f"if ({r.text(node.src[0]).text}) {{")
    r.depth += 1


def _endif(r: Renderer, node: UOp) -> None:
    r.depth -= 1
    r.line("}")


def _nothing(r: Renderer, node: UOp) -> None:
    if node.op is Ops.ALLOC and node.arg.slot in r.dialect.lanes:
        r.texts[node] = Text(f"lane{node.arg.slot}")
    elif node.op is Ops.ALLOC and node.arg.addrspace is AddrSpace.LOCAL:
        shared = "__shared__ " if node.arg.slot in r.dialect.shared else ""
        t = shared + ctext.SCALAR[node.arg.dtype]
        r.line(f"{t} buf{node.arg.slot}[{max(node.arg.size, 1)}] __attribute__((aligned(64)));")
        r.texts[node] = Text(f"buf{node.arg.slot}")
    elif node.op is Ops.AFTER and node.src[0] in r.texts:
        r.texts[node] = r.texts[node.src[0]]


def _barrier(r: Renderer, node: UOp) -> None:
    if r.dialect.barrier:
        r.line(r.dialect.barrier)


def _store(r: Renderer, node: UOp) -> None:
    place, value = node.src
    memory = memory_of(place)
    lanes = max(length(place), length(value))
    text = r.operand(value, lanes)
    if memory.op is Ops.ALLOC and memory.arg.addrspace is AddrSpace.REG:
        held = _register(memory.dtype, lanes)
        declare = "" if memory in r.declared else r.type(held, lanes) + " "
        r.declared.add(memory)
        if text != _accumulator(r, memory, lanes).text:  # where nothing is folded in; clang would say so
            if held is not memory.dtype:
                rest = r.text(value).within(UNARY).removeprefix(f"({r.type(memory.dtype, lanes)})")
                text = f"({r.type(held, lanes)}){rest}"
            r.line(f"{declare}acc{memory.arg.slot} = {text};")
        return
    guard = place.src[2] if len(place.src) == 3 else None
    base = r.text(memory).text
    if _of_lanes(r, memory):
        r.line(f"{r.type(memory.dtype, 1)} {base} = {text};")
        return
    position = place.src[1]
    step = None if lanes == 1 else stride(position)
    if guard is not None and (guard.shape or step is None) and lanes > 1:
        raise BackendError("a vector store with a validity for each lane", remedy="OPT=0")
    if guard is not None:
        r.line(f"if ({r.text(guard).text}) {{")
        r.depth += 1
    if lanes == 1:
        r.line(f"{base}[{r.text(position).text}] = {text};")
    elif step is not None and step[1] == 1:
        name = r.helper(ctext.store_helper(memory.dtype, lanes))
        r.line(f"{name}({base} + {r.text(step[0]).within(SUM)}, {text});")
    else:
        name = r.name(memory.dtype, lanes, text)
        for lane, at in enumerate(_positions(r, position, lanes)):
            r.line(f"{base}[{at}] = {lane_of(name, memory.dtype, lane)};")
    if guard is not None:
        r.depth -= 1
        r.line("}")


def _of_lanes(r: Renderer, memory: UOp) -> bool:
    """Whether each lane of a warp has an element of some memory in a register."""
    return memory.op is Ops.ALLOC and memory.arg.slot in r.dialect.lanes


def _register(dtype: DType, lanes: int) -> DType:
    """The type of a register that accumulates so many lanes.

    Of a signed integer it is unsigned: gcc 12 makes vectors of the two sums of a loop, and where an
    accumulator is signed and added to as unsigned, as it must be, it adds wrong elements up.
    """
    return ctext.UNSIGNED.get(dtype, dtype) if lanes == 1 else dtype


def _accumulator(r: Renderer, memory: UOp, lanes: int) -> Text:
    """What a register holds, as a value of its own type."""
    name = f"acc{memory.arg.slot}"
    same = _register(memory.dtype, lanes) is memory.dtype
    return Text(name) if same else Text(f"({r.type(memory.dtype, lanes)}){name}", UNARY)


def _load(r: Renderer, node: UOp) -> None:
    place = node.src[0]
    memory = memory_of(place)
    lanes = length(node)
    if memory.op is Ops.ALLOC and memory.arg.addrspace is AddrSpace.REG:
        r.texts[node] = _accumulator(r, memory, lanes)
        return
    if _of_lanes(r, memory):
        element = r.dialect.lane(r.text(memory).text, place.src[1])
        # lanes exchange values together: where a value that all get is used, some may have no part
        alone = place.src[1].op is not Ops.CONST and r.uses[node] == 1
        r.texts[node] = Text(element if alone else r.name(node.dtype, 1, element))
        return
    if lanes == 1:
        element = f"{r.text(memory).text}[{r.text(place.src[1]).text}]"
        valid = place.src[2] if len(place.src) == 3 else None
        text = (
            Text(element)
            if valid is None
            else Text(f"{r.text(valid).within(CONDITION)} ? {element} : 0", CHOICE)
        )
    else:
        text = _load_vector(r, node, memory, lanes)
    # memory that the kernel stores to is read before the stores of the iteration
    if r.uses[node] == 1 and node not in r.hoisted and memory not in r.stored and lanes == 1:
        r.texts[node] = text
    else:
        r.texts[node] = Text(r.name(node.dtype, lanes, text.text))


def _load_vector(r: Renderer, node: UOp, memory: UOp, lanes: int) -> Text:
    place = node.src[0]
    base = r.text(memory).text
    valid = place.src[2] if len(place.src) == 3 else None
    t = ctext.vector(node.dtype, lanes)
    step = stride(place.src[1])
    if step is not None and step[1] == 1 and (valid is None or not valid.shape):
        name = r.helper(ctext.load_helper(node.dtype, lanes))
        text = f"{name}({base} + {r.text(step[0]).within(SUM)})"
        return (
            Text(text)
            if valid is None
            else Text(f"{r.text(valid).within(CONDITION)} ? {text} : ({t}){{0}}", CHOICE)
        )
    if step is not None and step[1] == 1 and step[0] in r.anywhere and step[0].op is not Ops.CONST:
        first = r.name(dtypes.index, 1, r.text(step[0]).text)
        elements = [f"{base}[{first}+{lane}]" for lane in range(lanes)]
    else:
        elements = [f"{base}[{at}]" for at in _positions(r, place.src[1], lanes)]
    if node.dtype is dtypes.bool:
        elements = [f"-{e}" for e in elements]
    if valid is not None:
        elements = [_element(c, e) for c, e in zip(_lane_tests(r, valid, lanes), elements, strict=True)]
    return Text(f"({t}){{{', '.join(elements)}}}", UNARY)


def _positions(r: Renderer, position: UOp, lanes: int) -> list[str]:
    """The position of each lane; where memory names them, they are those of a vector."""
    if position.shape and any(n.op is Ops.LOAD for n in position.toposort()):
        name = r.name(dtypes.index, lanes, r.text(position).text)
        return [f"{name}[{lane}]" for lane in range(lanes)]
    return [r.text(at).text for at in lanes_of(position, lanes)]


def _lane_tests(r: Renderer, valid: UOp, lanes: int) -> list[str]:
    """Under which condition each lane is loaded."""
    if valid.op is Ops.STACK:
        return [r.text(lane).within(CONDITION) for lane in valid.src]
    mask = r.text(valid)
    if not valid.shape:
        return [mask.within(CONDITION)] * lanes
    name = mask.text if mask.text.isidentifier() else r.name(dtypes.bool, lanes, mask.text)
    return [f"{name}[{lane}]" for lane in range(lanes)]


def _element(condition: str, element: str) -> str:
    """What is loaded under a condition. gcc warns of an element outside of an array,
    even where that is `0`.
    """
    known = {"0": "0", "1": element}
    return known.get(condition, f"{condition} ? {element} : 0")


def _value(r: Renderer, node: UOp) -> None:
    if node.dtype.kind is Kind.VOID:
        raise BackendError(f"the {r.dialect.language} backend has no {node.op!r}")
    if node.op is Ops.INDEX and node.addrspace is not AddrSpace.ALU:
        return
    if node.dtype is dtypes.index:
        if node in r.anywhere and len(r.text(node).text) > (LONG if r.uses[node] > 1 else VERY_LONG):
            r.texts[node] = Text(r.name(node.dtype, length(node), r.text(node).text))
        return
    text = expression(r, node)
    wanted = r.uses[node] > 1 or node in r.hoisted or (len(text.text) > LONG and node not in r.stores)
    unnamed = node.op is Ops.CONST or (node.op is Ops.STACK and node not in r.tiles)
    if wanted and not unnamed and not text.text.isidentifier():
        text = Text(r.name(node.dtype, length(node), text.text))
    r.texts[node] = text


STATEMENT: dict[Ops, Callable[[Renderer, UOp], None]] = {
    **dict.fromkeys(EFFECTS, _nothing),
    Ops.RANGE: _range,
    Ops.END: _end,
    Ops.SPECIAL: _special,
    Ops.BARRIER: _barrier,
    Ops.IF: _if,
    Ops.ENDIF: _endif,
    Ops.STORE: _store,
    Ops.LOAD: _load,
}
