"""Render: a linear program as the text of one function, in C or a language like it. Weeks 2 and 3.

A value that is used once is written where it is used; one that is used again gets a name. Index arithmetic is written
in place, as a person would.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from uop_ir import AddrSpace, AxisType, BackendError, DType, Kind, Ops, UOp, dtypes
from uop_rewrite import bounds, build, linear

from . import ctext
from .dialect import Argument, C, Dialect
from .linearize import Nest
from .loops import length
from .rangeify import simplify

ATOM, UNARY, PRODUCT, SUM, COMPARE, EQUAL, BITS, CHOICE = 16, 14, 13, 12, 10, 9, 8, 3
#: A text longer than this gets a name although it is used once.
LONG = 60
I32 = (-(1 << 31), (1 << 31) - 1)
EFFECTS = frozenset({Ops.SINK, Ops.AFTER, Ops.ALLOC, Ops.PARAM, Ops.BARRIER})


@dataclass(frozen=True)
class Text:
    """C text of an expression, and how tightly its outermost operator binds."""

    text: str
    binding: int = ATOM

    def within(self, binding: int) -> str:
        """The text as an operand of an operator that binds so tightly."""
        return self.text if self.binding >= binding else f"({self.text})"


@dataclass
class Renderer:
    """The state of one function's text."""

    dialect: Dialect
    lines: list[str] = field(default_factory=list)
    texts: dict[UOp, Text] = field(default_factory=dict)
    helpers: dict[str, str] = field(default_factory=dict)
    depth: int = 1
    uses: Counter[UOp] = field(default_factory=Counter)
    hoisted: frozenset[UOp] = frozenset()
    stored: frozenset[UOp] = frozenset()
    stores: frozenset[UOp] = frozenset()
    declared: set[UOp] = field(default_factory=set)
    index_type: str = "int"
    values: int = 0

    # text

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def helper(self, *helpers: tuple[str, str]) -> str:
        """Ask for helpers, each after those that it needs; the name of the last."""
        for name, text in helpers:
            self.helpers.setdefault(name, text)
        return helpers[-1][0]

    def index_dtype(self) -> DType:
        return dtypes.i32 if self.index_type == "int" else dtypes.i64

    def real(self, dtype: DType) -> DType:
        """The type that stands for `index` in this kernel."""
        return self.index_dtype() if dtype is dtypes.index else dtype

    def text(self, node: UOp) -> Text:
        """The text of a node; that of index arithmetic is made when it is asked for."""
        if node not in self.texts:
            for n in node.toposort(gate=lambda n: n not in self.texts):
                if n not in self.texts:
                    self.texts[n] = _expression(self, n)
        return self.texts[node]

    def operand(self, node: UOp, lanes: int, binding: int = 0) -> str:
        """A source as the operand of an operation on so many lanes: a scalar is spread over them."""
        text = self.text(node)
        if lanes == 1 or node.shape:
            return text.within(binding)
        dtype = self.real(node.dtype)
        name = self.helper(ctext.broadcast_helper(dtype, lanes))
        return f"{name}({text.text})"


def render(
    name: str, order: Sequence[UOp], params: Sequence[UOp], dialect: Dialect = C
) -> tuple[list[str], str]:
    """The helpers and the function of a linear program; `params` in the order of a CALL's arguments.

    Raises BackendError where the program has a type or an op that the language has not.
    """
    r = Renderer(dialect)
    r.uses = _count_uses(order)
    r.hoisted = _hoisted(order)
    r.stores = frozenset(n.src[1] for n in order if n.op is Ops.STORE)
    r.stored = frozenset(_memory(n.src[0]) for n in order if n.op is Ops.STORE)
    r.index_type = "int" if all(map(_fits, _computed_indices(order))) else "int64_t"
    opening = dialect.opening(name, _arguments(r, params, set(order)), order)
    r.helpers.update(opening.helpers)
    for line in opening.lines:
        r.line(line)
    nest = Nest(order[-1])
    for node in order:
        STATEMENT.get(node.op, _value)(r, node, nest)
    body = "\n".join(r.lines)
    text = f"{opening.head}\n{body}\n}}"
    definitions = [*ctext.typedefs([*r.helpers.values(), text]), *r.helpers.values()]
    return [dialect.spell(d) for d in definitions], dialect.spell(text)


def _computed_indices(order: Sequence[UOp]) -> list[UOp]:
    """The index arithmetic that may run: positions behind a validity run only where it holds, so within memory."""
    seen: set[UOp] = set()
    stack = [order[-1], *(n for n in order if n.op is Ops.IF)]
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            guarded = node.op is Ops.INDEX and len(node.src) == 3 and length(node.src[0]) <= I32[1]
            stack.extend((node.src[0], node.src[2]) if guarded else node.src)
    return [n for n in seen if n.dtype is dtypes.index]


def _fits(node: UOp) -> bool:
    lo, hi = bounds(node)
    return I32[0] <= lo and hi <= I32[1]


def _count_uses(order: Sequence[UOp]) -> Counter[UOp]:
    uses: Counter[UOp] = Counter()
    for node in order:
        uses.update(node.src)
    return uses


def _hoisted(order: Sequence[UOp]) -> frozenset[UOp]:
    """Values to be computed where they stand: a deeper loop uses them, or index arithmetic, whose text is repeated."""
    loops: list[UOp] = []
    place: dict[UOp, int] = {}
    out: set[UOp] = set()
    for node in order:
        if node.op is Ops.END:
            del loops[len(loops) - len(node.src) + 1 :]
        place[node] = len(loops)
        index = node.dtype is dtypes.index
        out.update(s for s in node.src if place[s] < len(loops) or (index and s.dtype is not dtypes.index))
        if node.op is Ops.RANGE:
            loops.append(node)
    return frozenset(out)


def _memory(node: UOp) -> UOp:
    while node.op in (Ops.INDEX, Ops.AFTER):
        node = node.src[0]
    return node


def _arguments(r: Renderer, params: Sequence[UOp], used: set[UOp]) -> list[Argument]:
    arguments = []
    for param in params:
        arg = param.arg
        if r.real(arg.dtype) not in ctext.SCALAR:
            raise BackendError(
                f"the {r.dialect.language} backend has no {arg.dtype}", remedy="CAST it to f32"
            )
        name = f"data{arg.slot}" if arg.size is not None else arg.name
        r.texts[param] = Text(name)
        arguments.append(Argument(param, name, _type(r, arg.dtype, 1), param in r.stored, param in used))
    return arguments


# statements


def _range(r: Renderer, node: UOp, nest: Nest) -> None:
    name = f"ridx{node.arg[0]}"
    if node.arg[1] is AxisType.THREAD:
        r.line("#pragma omp parallel for schedule(static)")
        r.lines[-1] = r.lines[-1].lstrip()
    end = r.text(node.src[0]).within(COMPARE)
    r.line(f"for ({r.index_type} {name} = 0; {name} < {end}; {name}++) {{")
    r.texts[node] = Text(name)
    r.depth += 1


def _end(r: Renderer, node: UOp, nest: Nest) -> None:
    for _ in node.src[1:]:
        r.depth -= 1
        r.line("}")


def _special(r: Renderer, node: UOp, nest: Nest) -> None:
    """An index of the grid, as a constant by its name."""
    if node.arg not in r.dialect.special:
        raise BackendError(f"the {r.dialect.language} backend has no {node.op!r} {node.arg}")
    r.line(f"const {r.index_type} {node.arg} = {r.dialect.special[node.arg]};")
    r.texts[node] = Text(node.arg)


def _if(r: Renderer, node: UOp, nest: Nest) -> None:
    r.line(f"if ({r.text(node.src[0]).text}) {{")
    r.depth += 1


def _endif(r: Renderer, node: UOp, nest: Nest) -> None:
    r.depth -= 1
    r.line("}")


def _nothing(r: Renderer, node: UOp, nest: Nest) -> None:
    if node.op is Ops.ALLOC and node.arg.addrspace is AddrSpace.LOCAL:
        t = ctext.SCALAR[node.arg.dtype]
        r.line(f"{t} buf{node.arg.slot}[{max(node.arg.size, 1)}] __attribute__((aligned(64)));")
        r.texts[node] = Text(f"buf{node.arg.slot}")
    elif node.op is Ops.AFTER and node.src[0] in r.texts:
        r.texts[node] = r.texts[node.src[0]]


def _store(r: Renderer, node: UOp, nest: Nest) -> None:
    place, value = node.src
    memory = _memory(place)
    lanes = max(length(place), length(value))
    text = r.operand(value, lanes)
    if memory.op is Ops.ALLOC and memory.arg.addrspace is AddrSpace.REG:
        name = f"acc{memory.arg.slot}"
        declare = "" if memory in r.declared else _type(r, memory.dtype, lanes) + " "
        r.declared.add(memory)
        r.line(f"{declare}{name} = {text};")
        return
    guard = place.src[2] if len(place.src) == 3 else None
    base = r.text(memory).text
    position = place.src[1]
    stride = None if lanes == 1 else _stride(position)
    if guard is not None and (guard.shape or stride is None) and lanes > 1:
        raise BackendError("a vector store with a validity for each lane", remedy="OPT=0")
    if guard is not None:
        r.line(f"if ({r.text(guard).text}) {{")
        r.depth += 1
    if lanes == 1:
        r.line(f"{base}[{r.text(position).text}] = {text};")
    elif stride is not None and stride[1] == 1:
        name = r.helper(ctext.store_helper(memory.dtype, lanes))
        r.line(f"{name}({base} + {r.text(stride[0]).within(SUM)}, {text});")
    else:
        name = _name(r, memory.dtype, lanes, text)
        for lane, at in enumerate(_lanes(position, lanes)):
            r.line(f"{base}[{r.text(at).text}] = {_lane(name, memory.dtype, lane)};")
    if guard is not None:
        r.depth -= 1
        r.line("}")


def _lane(name: str, dtype: DType, lane: int) -> str:
    return f"{name}[{lane}] != 0" if dtype is dtypes.bool else f"{name}[{lane}]"


def _type(r: Renderer, dtype: DType, lanes: int) -> str:
    if lanes == 1:
        return r.index_type if dtype is dtypes.index else ctext.SCALAR[dtype]
    return ctext.vector(r.real(dtype), lanes)


def _name(r: Renderer, dtype: DType, lanes: int, text: str) -> str:
    name = f"val{r.values}"
    r.values += 1
    r.line(f"{_type(r, dtype, lanes)} {name} = {text};")
    return name


# memory


def _stride(position: UOp) -> tuple[UOp, int] | None:
    """(first, step) where the lanes of a position are first + step * lane; else None."""
    form = linear(position)
    vectors = [(t, k) for t, k in form.terms if t.shape]
    if len(vectors) != 1 or not _is_iota(vectors[0][0]):
        return None
    rest = type(form)(tuple((t, k) for t, k in form.terms if not t.shape), form.constant)
    return build(rest), vectors[0][1]


def _is_iota(node: UOp) -> bool:
    return node.op is Ops.STACK and all(s.op is Ops.CONST and s.value == i for i, s in enumerate(node.src))


def _lanes(position: UOp, lanes: int) -> list[UOp]:
    """The position of each lane, as scalars."""
    iotas = [n for n in position.toposort() if n.op is Ops.STACK]
    return [simplify(position.substitute({n: n.src[lane] for n in iotas})) for lane in range(lanes)]


def _load(r: Renderer, node: UOp, nest: Nest) -> None:
    place = node.src[0]
    memory = _memory(place)
    lanes = length(node)
    if memory.op is Ops.ALLOC and memory.arg.addrspace is AddrSpace.REG:
        r.texts[node] = Text(f"acc{memory.arg.slot}")
        return
    if lanes == 1:
        element = f"{r.text(memory).text}[{r.text(place.src[1]).text}]"
        valid = place.src[2] if len(place.src) == 3 else None
        text = (
            Text(element) if valid is None else Text(f"{r.text(valid).within(BITS)} ? {element} : 0", CHOICE)
        )
    else:
        text = _load_vector(r, node, memory, lanes)
    # memory that the kernel stores to is read before the stores of the iteration
    if r.uses[node] == 1 and node not in r.hoisted and memory not in r.stored and lanes == 1:
        r.texts[node] = text
    else:
        r.texts[node] = Text(_name(r, node.dtype, lanes, text.text))


def _load_vector(r: Renderer, node: UOp, memory: UOp, lanes: int) -> Text:
    place = node.src[0]
    base = r.text(memory).text
    valid = place.src[2] if len(place.src) == 3 else None
    t = ctext.vector(node.dtype, lanes)
    stride = _stride(place.src[1])
    if stride is not None and stride[1] == 1 and (valid is None or not valid.shape):
        name = r.helper(ctext.load_helper(node.dtype, lanes))
        text = f"{name}({base} + {r.text(stride[0]).within(SUM)})"
        return (
            Text(text)
            if valid is None
            else Text(f"{r.text(valid).within(BITS)} ? {text} : ({t}){{0}}", CHOICE)
        )
    elements = [f"{base}[{r.text(at).text}]" for at in _lanes(place.src[1], lanes)]
    if node.dtype is dtypes.bool:
        elements = [f"-{e}" for e in elements]
    if valid is not None:
        mask = r.text(valid).text
        if valid.shape and valid.op is not Ops.LOAD:
            mask = _name(r, dtypes.bool, lanes, mask)
        tests = [f"{mask}[{i}]" if valid.shape else f"({mask})" for i in range(lanes)]
        elements = [f"{m} ? {e} : 0" for m, e in zip(tests, elements, strict=True)]
    return Text(f"({t}){{{', '.join(elements)}}}", UNARY)


# values


def _value(r: Renderer, node: UOp, nest: Nest) -> None:
    if node.dtype.kind is Kind.VOID:
        raise BackendError(f"the {r.dialect.language} backend has no {node.op!r}")
    if node.dtype is dtypes.index or (node.op is Ops.INDEX and node.addrspace is not AddrSpace.ALU):
        return
    text = _expression(r, node)
    wanted = r.uses[node] > 1 or node in r.hoisted or (len(text.text) > LONG and node not in r.stores)
    if wanted and node.op not in (Ops.CONST, Ops.STACK) and not text.text.isidentifier():
        text = Text(_name(r, node.dtype, length(node), text.text))
    r.texts[node] = text


def _expression(r: Renderer, node: UOp) -> Text:
    """The text of a value from the texts of its sources."""
    rule = EXPRESSION.get(node.op)
    if rule is None:
        raise BackendError(f"the {r.dialect.language} backend has no {node.op!r}")
    return rule(r, node)


def _const(r: Renderer, node: UOp) -> Text:
    text = str(node.value) if node.dtype is dtypes.index else ctext.literal(node.arg)
    return Text(text, UNARY if text.startswith("-") else ATOM)


def _stack(r: Renderer, node: UOp) -> Text:
    lanes = len(node.src)
    return Text(f"({_type(r, node.dtype, lanes)}){{{', '.join(_stack_lane(r, s) for s in node.src)}}}", UNARY)


def _stack_lane(r: Renderer, node: UOp) -> str:
    text = r.text(node).text
    return f"-({text})" if node.dtype is dtypes.bool else text


def _lane_of(r: Renderer, node: UOp) -> Text:
    """INDEX of a vector by a constant lane. INDEX of memory is written where it is loaded or stored."""
    return Text(_lane(r.operand(node.src[0], 2, ATOM), node.dtype, int(node.src[1].value)), ATOM)


def _arithmetic(r: Renderer, node: UOp) -> Text:
    """ADD, SUB, MUL: signed integers wrap by way of unsigned ones."""
    lanes, dtype, sign = length(node), node.dtype, ctext.INFIX[node.op]
    binding = PRODUCT if node.op is Ops.MUL else SUM
    left_binding, right_binding = binding, binding + (node.op is not Ops.ADD)
    if dtype is dtypes.index and lanes == 1:
        left, right = (s.within(b) for s, b in zip(
            (r.text(node.src[0]), r.text(node.src[1])), (left_binding, right_binding), strict=True))  # fmt: skip
        return Text(f"{left}{sign}{right}", binding)
    left, right = r.operand(node.src[0], lanes, left_binding), r.operand(node.src[1], lanes, binding + 1)
    if dtype.kind is not Kind.SIGNED and not (dtype.kind is Kind.UNSIGNED and dtype.bits < 32 and lanes == 1):
        return Text(f"{left} {sign} {right}", binding)
    if lanes > 1:
        u, t = ctext.vector(ctext.UNSIGNED[dtype], lanes), ctext.vector(dtype, lanes)
    else:
        u, t = ("uint64_t" if dtype.bits == 64 else "uint32_t"), ctext.SCALAR[dtype]
    left, right = r.operand(node.src[0], lanes, UNARY), r.operand(node.src[1], lanes, UNARY)
    return Text(f"({t})(({u}){left} {sign} ({u}){right})", UNARY)


def _infix(binding: int) -> Callable[[Renderer, UOp], Text]:
    """An operator on any type; C computes on int what is narrower, and the cast says that it is narrow again."""

    def rule(r: Renderer, node: UOp) -> Text:
        lanes = length(node)
        left, right = (r.operand(s, lanes, UNARY) for s in node.src)
        text = Text(f"{left} {ctext.INFIX[node.op]} {right}", binding)
        narrow = lanes == 1 and node.dtype.is_int and node.dtype.bits < 32
        return Text(f"({ctext.SCALAR[node.dtype]}){text.within(ATOM)}", UNARY) if narrow else text

    return rule


def _exclusive_or(r: Renderer, node: UOp) -> Text:
    """gcc takes `x ^ 255` of a narrow type for a complement and warns where it is compared: a helper hides it."""
    if length(node) == 1 and node.dtype.is_int and node.dtype.bits < 32:
        return _helper(ctext.xor_helper)(r, node)
    return _infix(BITS)(r, node)


def _compare(r: Renderer, node: UOp) -> Text:
    lanes, source = length(node), r.real(node.src[0].dtype)
    tight = dtypes.index in (node.src[0].dtype,) and lanes == 1
    left, right = (r.operand(s, lanes, SUM if tight else UNARY) for s in node.src)
    binding = COMPARE if node.op is Ops.CMPLT else EQUAL
    if lanes == 1:
        return Text(f"{left} {ctext.INFIX[node.op]} {right}", binding)
    if source is dtypes.bool and node.op is Ops.CMPLT:
        return Text(f"~{left} & {right}", BITS)
    text = f"{left} {ctext.INFIX[node.op]} {right}"
    if ctext.mask_of(source) is dtypes.i32:
        return Text(text, binding)
    return Text(f"__builtin_convertvector({text}, {ctext.vector(dtypes.bool, lanes)})")


def _helper(make: Callable[[DType], tuple[str, str]]) -> Callable[[Renderer, UOp], Text]:
    """A call of a scalar helper, or of its vector form lane by lane."""

    def rule(r: Renderer, node: UOp) -> Text:
        lanes, dtype = length(node), r.real(node.dtype)
        scalar = make(dtype)
        return _call(r, node, scalar, dtype, (dtype,) * len(node.src), lanes)

    return rule


def _call(
    r: Renderer, node: UOp, scalar: tuple[str, str], result: DType, args: tuple[DType, ...], lanes: int
) -> Text:
    name = r.helper(scalar)
    if lanes > 1:
        name = r.helper(scalar, ctext.lanewise(scalar[0], result, args, lanes))
    return Text(f"{name}({', '.join(r.operand(s, lanes) for s in node.src)})")


def _divide(r: Renderer, node: UOp) -> Text:
    """DIV and MOD: floats by operator, index by operator where neither side is negative, the rest by helper."""
    lanes = length(node)
    if node.dtype.is_float and node.op is Ops.DIV:
        return _infix(PRODUCT)(r, node)
    if (
        node.dtype is dtypes.index
        and lanes == 1
        and bounds(node.src[0])[0] >= 0
        and bounds(node.src[1])[0] > 0
    ):
        left, right = r.text(node.src[0]).within(PRODUCT), r.text(node.src[1]).within(UNARY)
        return Text(f"{left}{'/' if node.op is Ops.DIV else '%'}{right}", PRODUCT)
    return _helper(ctext.floor_div_helper if node.op is Ops.DIV else ctext.floor_mod_helper)(r, node)


def _shift(r: Renderer, node: UOp) -> Text:
    """A shift by a constant below the width is an operator; any other is a helper."""
    lanes, dtype, count = length(node), node.dtype, node.src[1]
    if count.op is Ops.CONST and 0 <= int(count.value) < dtype.bits and dtype.bits >= 32:
        x, n = r.operand(node.src[0], lanes, UNARY), int(count.value)
        if node.op is Ops.SHR:
            return Text(f"{x} >> {n}", BITS)
        unsigned = ctext.UNSIGNED.get(dtype, dtype)
        u = ctext.SCALAR[unsigned] if lanes == 1 else ctext.vector(unsigned, lanes)
        return Text(f"({_type(r, dtype, lanes)})(({u}){x} << {n})", UNARY)
    return _helper(lambda t: ctext.shift_helper(node.op, t))(r, node)


def _negate(r: Renderer, node: UOp) -> Text:
    lanes, dtype = length(node), node.dtype
    x = r.operand(node.src[0], lanes, ATOM)
    if dtype.is_float or dtype is dtypes.index:
        return Text(f"-{x}" if not x.startswith("-") else f"-({x})", UNARY)
    unsigned = ctext.UNSIGNED.get(dtype, dtype)
    u = ctext.SCALAR[unsigned] if lanes == 1 else ctext.vector(unsigned, lanes)
    zero = "0u" if lanes == 1 else f"({u}){{0}}"
    return Text(f"({_type(r, dtype, lanes)})({zero} - ({u}){x})", UNARY)


def _reciprocal(r: Renderer, node: UOp) -> Text:
    lanes = length(node)
    one = UOp.const(node.dtype, 1.0)
    r.texts.setdefault(one, _const(r, one))
    return Text(f"{r.operand(one, lanes)} / {r.operand(node.src[0], lanes, UNARY)}", PRODUCT)


def _maximum(r: Renderer, node: UOp) -> Text:
    lanes, dtype = length(node), r.real(node.dtype)
    if lanes == 1:
        name = r.helper(ctext.max_helper(dtype))
    else:
        name = r.helper(ctext.max_vector_helper(dtype, lanes))
    return Text(f"{name}({', '.join(r.operand(s, lanes) for s in node.src)})")


def _mulacc(r: Renderer, node: UOp) -> Text:
    lanes, dtype = length(node), node.dtype
    if not dtype.is_float:
        product = UOp(Ops.MUL, node.src[:2])
        r.texts[product] = _arithmetic(r, product)
        return _arithmetic(r, product + node.src[2])
    vectors = (ctext.fma_vector_helper(dtype, lanes),) if lanes > 1 else ()
    name = r.helper(ctext.fma_helper(dtype), *vectors)
    return Text(f"{name}({', '.join(r.operand(s, lanes) for s in node.src)})")


def _where(r: Renderer, node: UOp) -> Text:
    lanes, dtype = length(node), r.real(node.dtype)
    if not node.src[0].shape:
        condition = r.text(node.src[0]).within(BITS)
        yes, no = (r.operand(s, lanes, BITS) for s in node.src[1:])
        return Text(f"{condition} ? {yes} : {no}", CHOICE)
    name = r.helper(ctext.select_helper(dtype, lanes))
    return Text(f"{name}({', '.join(r.operand(s, lanes) for s in node.src)})")


def _cast(r: Renderer, node: UOp) -> Text:
    lanes, source, target = length(node), r.real(node.src[0].dtype), r.real(node.dtype)
    x = r.operand(node.src[0], lanes, UNARY)
    if source is target:
        return Text(x, UNARY)
    if target is dtypes.bool:
        if lanes == 1:
            return Text(f"{x} != 0", EQUAL)
        test = f"{x} != ({ctext.vector(source, lanes)}){{0}}"
        mask = ctext.vector(dtypes.bool, lanes)
        return (
            Text(test, EQUAL)
            if ctext.mask_of(source) is dtypes.i32
            else Text(f"__builtin_convertvector({test}, {mask})")
        )
    if source.is_float and not target.is_float:
        return _call(r, node, ctext.to_int_helper(source, target), target, (source,), lanes)
    if lanes == 1:
        return Text(f"({ctext.SCALAR[target]}){r.text(node.src[0]).within(UNARY)}", UNARY)
    x = f"-({x})" if source is dtypes.bool else x
    return Text(f"__builtin_convertvector({x}, {ctext.vector(target, lanes)})")


def _bitcast(r: Renderer, node: UOp) -> Text:
    lanes, source, target = length(node), node.src[0].dtype, node.dtype
    x = r.operand(node.src[0], lanes)
    if source.is_float and not target.is_float:
        return Text(f"{r.helper(ctext.bits_helper(source, target, lanes))}({x})")
    if target.is_float and not source.is_float and lanes == 1:
        return Text(f"{r.helper(ctext.float_helper(source, target))}({x})")
    return Text(f"({_type(r, target, lanes)}){r.operand(node.src[0], lanes, UNARY)}", UNARY)


STATEMENT: dict[Ops, Callable[[Renderer, UOp, Nest], None]] = {
    **dict.fromkeys(EFFECTS, _nothing),
    Ops.RANGE: _range,
    Ops.END: _end,
    Ops.SPECIAL: _special,
    Ops.IF: _if,
    Ops.ENDIF: _endif,
    Ops.STORE: _store,
    Ops.LOAD: _load,
}
EXPRESSION: dict[Ops, Callable[[Renderer, UOp], Text]] = {
    Ops.CONST: _const,
    Ops.STACK: _stack,
    Ops.INDEX: _lane_of,
    Ops.ADD: _arithmetic,
    Ops.SUB: _arithmetic,
    Ops.MUL: _arithmetic,
    Ops.DIV: _divide,
    Ops.MOD: _divide,
    Ops.AND: _infix(BITS),
    Ops.OR: _infix(BITS),
    Ops.XOR: _exclusive_or,
    Ops.SHL: _shift,
    Ops.SHR: _shift,
    Ops.CMPLT: _compare,
    Ops.CMPNE: _compare,
    Ops.CMPEQ: _compare,
    Ops.MAX: _maximum,
    Ops.NEG: _negate,
    Ops.RECIP: _reciprocal,
    Ops.SQRT: _helper(ctext.sqrt_helper),
    Ops.TRUNC: _helper(ctext.trunc_helper),
    Ops.MULACC: _mulacc,
    Ops.WHERE: _where,
    Ops.CAST: _cast,
    Ops.BITCAST: _bitcast,
}
