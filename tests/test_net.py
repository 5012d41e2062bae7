"""The differential net: random programs of Tensor methods,
and their gradients, on the CPU and on EMU, bit for bit.

The oracle is the reference interpreter on the graph as the methods built it, which nothing has scheduled,
optimized or compiled. The backend INTERP runs beside it: where only the CPU differs the code generator is
wrong, where both differ the scheduler is. The kernels of a program that fails are kept as `.uir`: copied to
the folder `tests/kernels` of uop-codegen-c, its test_net.py runs them again. Freedoms of arithmetic are off
(STRICT=1); test_net_free.py has them on.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, note
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from uop_codegen_c import CpuBackend, settings
from uop_codegen_cuda import settings as emu_settings
from uop_ir import DType, Executable, Ops, Plan, dtypes, evaluate, format_uir, from_numpy, override, read_uir
from uop_tensor import Tensor, clear_plans

Array = npt.NDArray[Any]
EMU_ORDERS = ("ascending", "descending", "random")
DTYPES = (
    dtypes.f32, dtypes.f32, dtypes.f32, dtypes.f64, dtypes.f16, dtypes.bf16, dtypes.i32, dtypes.i32, dtypes.i64,
    dtypes.u8, dtypes.bool,
)  # fmt: skip
SIZES = (1, 2, 3, 4, 5, 8)
LARGEST = 512
SPECIAL = np.array([0.0, -0.0, 1.0, np.inf, -np.inf, np.nan, 1e-40, 3e38])

UNARY = (
    "exp", "exp2", "log", "log2", "sqrt", "rsqrt", "reciprocal", "sin", "cos", "tanh", "sigmoid", "silu", "gelu",
    "relu", "abs", "square", "neg", "sign", "floor", "ceil", "round", "trunc",
)  # fmt: skip
UNARY_OF_INTEGERS = ("relu", "abs", "square", "neg", "sign", "floor", "sqrt", "exp", "sigmoid")
NUMBERS: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: x * y,
    "/": lambda x, y: x / y,
    "//": lambda x, y: x // y,
    "%": lambda x, y: x % y,
    "maximum": lambda x, y: x.maximum(y),
    "minimum": lambda x, y: x.minimum(y),
}
BITS: dict[str, Callable[[Any, Any], Any]] = {
    "&": lambda x, y: x & y,
    "|": lambda x, y: x | y,
    "^": lambda x, y: x ^ y,
}
SHIFTS: dict[str, Callable[[Any, Any], Any]] = {"<<": lambda x, y: x << y, ">>": lambda x, y: x >> y}
COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "<": lambda x, y: x < y,
    "<=": lambda x, y: x <= y,
    ">": lambda x, y: x > y,
    ">=": lambda x, y: x >= y,
    "==": lambda x, y: x == y,
    "!=": lambda x, y: x != y,
}
FOLDS = ("sum", "max", "min", "prod", "mean", "var", "std", "any", "all", "logsumexp")
FOLDS_OF_BOOL = ("sum", "max", "min", "any", "all")


@dataclass
class Program:
    """A program that grows: its inputs, what is applied to which earlier values, and the values themselves.

    The values are lazy tensors on INTERP, so that each step sees shapes and dtypes.
    """

    random: Random
    rng: np.random.Generator
    inputs: list[Array] = field(default_factory=list)
    steps: list[tuple[str, Callable[..., Tensor], tuple[int, ...]]] = field(default_factory=list)
    values: list[Tensor] = field(default_factory=list)
    #: For each value the float inputs on which it depends.
    roots: list[frozenset[int]] = field(default_factory=list)

    def enter(self, array: Array) -> int:
        """A new input."""
        number = len(self.values)
        self.inputs.append(array)
        self.steps.append((f"input {array.dtype}{array.shape}", lambda: Tensor(array), ()))
        self.values.append(Tensor(array, device="INTERP"))
        self.roots.append(frozenset({number} if from_numpy(array.dtype).is_float else ()))
        return number

    def add(self, text: str, apply: Callable[..., Tensor], *operands: int) -> int:
        """A value made from earlier ones."""
        value = apply(*(self.values[i] for i in operands))
        if value.numel() > LARGEST:
            return operands[0]
        self.steps.append((text, apply, operands))
        self.values.append(value)
        self.roots.append(frozenset().union(*(self.roots[i] for i in operands)))
        return len(self.values) - 1

    def on(self, device: str) -> list[Tensor]:
        """All values, lazy, on a device."""
        values: list[Tensor] = []
        arrays = iter(self.inputs)
        for _, apply, operands in self.steps:
            made = apply(*(values[i] for i in operands)) if operands else Tensor(next(arrays), device=device)
            values.append(made)
        return values

    def __str__(self) -> str:
        lines = [f"%{n} = {text} {operands}" for n, (text, _, operands) in enumerate(self.steps)]
        return "\n".join([*lines, *(repr(a) for a in self.inputs)])

    # choices

    def pick(self, accept: Callable[[Tensor], bool] = lambda t: True) -> int:
        """The number of a value that will do, later ones more often; a new input where there is none."""
        fit = [n for n, t in enumerate(self.values) if accept(t)]
        if not fit:
            fit = [self.enter(data(self.rng, dtypes.f32, (2, 3)))]
        return max(self.random.choice(fit), self.random.choice(fit))

    def shape(self, most: int = 3) -> tuple[int, ...]:
        return tuple(self.random.choice(SIZES) for _ in range(self.random.randint(0, most)))

    def partner(self, number: int) -> int:
        """A value whose shape broadcasts with another's; else a new input."""
        shape = self.values[number].shape
        fit = [
            n for n, t in enumerate(self.values) if broadcasts(t.shape, shape) and t.dtype is not dtypes.u64
        ]
        if self.random.random() < 0.7:
            return self.random.choice(fit)
        narrow = tuple(s if self.random.random() < 0.7 else 1 for s in shape)[self.random.randint(0, 1) :]
        return self.enter(data(self.rng, self.random.choice(DTYPES), narrow))


def broadcasts(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return all(x == y or 1 in (x, y) for x, y in zip(reversed(a), reversed(b), strict=False))


def data(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...]) -> Array:
    """Elements of a dtype, special values among them."""
    if dtype is dtypes.bool:
        return rng.integers(0, 2, shape).astype(np.bool_)
    if dtype.is_float:
        plain = rng.standard_normal(shape) * rng.choice([1.0, 1.0, 10.0, 1e3], shape)
        odd = rng.random(shape) < (0.1 if rng.random() < 0.3 else 0.0)
        with np.errstate(over="ignore"):
            return np.where(odd, rng.choice(SPECIAL, shape), plain).astype(dtype.numpy)
    low, high = (0, 5) if rng.random() < 0.6 else (int(dtype.min), int(dtype.max))
    return rng.integers(low, high, shape, dtype=dtype.numpy, endpoint=True)


def is_float(t: Tensor) -> bool:
    return t.dtype.is_float


def has_axes(t: Tensor) -> bool:
    return t.ndim > 0 and t.numel() > 0


# steps: each adds one value to a program


def unary(p: Program) -> None:
    n = p.pick(lambda t: t.dtype is not dtypes.bool)
    name = p.random.choice(UNARY if is_float(p.values[n]) else UNARY_OF_INTEGERS)
    p.add(name, lambda x: getattr(x, name)(), n)


def binary(p: Program) -> None:
    n = p.pick(lambda t: t.dtype is not dtypes.u64)
    other = p.partner(n)
    types = {p.values[n].dtype, p.values[other].dtype}
    rows = dict(COMPARISONS)
    if types != {dtypes.bool}:
        rows |= NUMBERS
    if not any(t.is_float for t in types):
        rows |= BITS if types == {dtypes.bool} else BITS | SHIFTS
    sign = p.random.choice(list(rows))
    p.add(sign, rows[sign], *p.random.sample((n, other), 2))


def number(p: Program) -> None:
    n = p.pick(lambda t: t.dtype is not dtypes.bool)
    value = p.random.choice([0, 1, 2, 3, 7])
    sign = p.random.choice([*NUMBERS, "**"])
    if sign == "**":
        p.add(f"** {value}", lambda x: x**value, n)
    elif p.random.random() < 0.5 or sign in ("maximum", "minimum"):
        p.add(f"{sign} {value}", lambda x: NUMBERS[sign](x, value), n)
    else:
        p.add(f"{value} {sign}", lambda x: NUMBERS[sign](value, x), n)


def where(p: Program) -> None:
    n = p.pick(lambda t: t.dtype is not dtypes.u64)
    condition, other = p.partner(n), p.partner(n)
    if broadcasts(p.values[condition].shape, p.values[other].shape):
        p.add("where", lambda c, x, y: c.bool().where(x, y), condition, n, other)


def cast(p: Program) -> None:
    dtype = p.random.choice(DTYPES)
    p.add(f"cast {dtype}", lambda x: x.cast(dtype), p.pick())


def reshape(p: Program) -> None:
    n = p.pick(lambda t: t.numel() > 0)
    left = p.values[n].numel()
    sizes: list[int] = []
    while left > 1 and len(sizes) < 3:
        sizes.append(p.random.choice([d for d in range(1, left + 1) if left % d == 0]))
        left //= sizes[-1]
    p.add(f"reshape {(*sizes, left)}", lambda x: x.reshape((*sizes, left)), n)


def permute(p: Program) -> None:
    n = p.pick(has_axes)
    order = p.random.sample(range(p.values[n].ndim), p.values[n].ndim)
    p.add(f"permute {order}", lambda x: x.permute(order), n)


def flip(p: Program) -> None:
    n = p.pick(has_axes)
    axes = [a for a in range(p.values[n].ndim) if p.random.random() < 0.5]
    p.add(f"flip {axes}", lambda x: x.flip(axes), n)


def pad(p: Program) -> None:
    n = p.pick(has_axes)
    x = p.values[n]
    widths = [(p.random.randint(-1, 2), p.random.randint(0, 2)) for _ in x.shape]
    value = p.random.choice([0, 0, 1] + ([0.5] if x.dtype.is_float else []))
    p.add(f"pad {widths} {value}", lambda x: x.pad(widths, value=value), n)


def grow(p: Program) -> None:
    n = p.pick()
    if p.random.random() < 0.5:
        times = [p.random.randint(1, 3) for _ in p.values[n].shape]
        p.add(f"repeat {times}", lambda x: x.repeat(times), n)
    else:
        axis, size = p.random.randint(0, p.values[n].ndim), p.random.choice(SIZES)
        p.add(
            f"expand axis {axis} to {size}",
            lambda x: x.unsqueeze(axis).expand((*x.shape[:axis], size, *x.shape[axis:])),
            n,
        )


def join(p: Program) -> None:
    n = p.pick(lambda t: has_axes(t) and t.dtype is not dtypes.u64)
    x = p.values[n]
    axis = p.random.randrange(x.ndim)
    rest = (*x.shape[:axis], *x.shape[axis + 1 :])
    fit = [
        i
        for i, t in enumerate(p.values)
        if t.ndim == x.ndim and (*t.shape[:axis], *t.shape[axis + 1 :]) == rest and t.dtype is not dtypes.u64
    ]
    others = [p.random.choice(fit) for _ in range(p.random.randint(1, 2))]
    p.add(f"cat axis {axis}", lambda x, *o: x.cat(*o, axis=axis), n, *others)


def index(p: Program) -> None:
    n = p.pick(has_axes)
    items: list[Any] = []
    at: list[int] = []
    for size in p.values[n].shape:
        kind = p.random.randint(0, 5)
        if kind == 0:
            items.append(p.random.randrange(-size, size))
        elif kind == 1 and not at:
            at.append(p.enter(p.rng.integers(-size - 1, size + 1, p.shape(2))))
            items.append(at)
        else:
            start, stop = (p.random.choice([None, p.random.randint(-size - 1, size + 1)]) for _ in range(2))
            items.append(slice(start, stop, p.random.choice([None, 1, 2, -1, -1, -2, 3])))
    if p.random.random() < 0.2:
        items.insert(p.random.randint(0, len(items)), None)
    p.add(f"[{items}]", lambda x, *i: x[tuple(i[0] if item is at else item for item in items)], n, *at)


def gather(p: Program) -> None:
    n = p.pick(lambda t: has_axes(t) and t.ndim < 3)
    at = p.pick(lambda t: t.dtype.is_int and t.dtype is not dtypes.u64 and t.ndim < 3)
    if p.values[at].dtype.is_int:
        axis = p.random.randrange(p.values[n].ndim)
        p.add(f"take axis {axis}", lambda x, i: x.take(i, axis), n, at)


def reduce(p: Program) -> None:
    n = p.pick(has_axes)
    x = p.values[n]
    axes = p.random.choice(
        [None, p.random.randrange(x.ndim), sorted({p.random.randrange(x.ndim) for _ in "ab"})]
    )
    name = p.random.choice(FOLDS_OF_BOOL if x.dtype is dtypes.bool else FOLDS)
    keep = p.random.random() < 0.4
    p.add(f"{name} {axes} {keep}", lambda x: signed(getattr(x, name)(axes, keep)), n)


def signed(t: Tensor) -> Tensor:
    """Sums of u8 are u64, which no signed integer goes with."""
    return t.cast(dtypes.i64) if t.dtype is dtypes.u64 else t


def position(p: Program) -> None:
    n = p.pick(has_axes)
    axis, name = p.random.randrange(p.values[n].ndim), p.random.choice(["argmax", "argmin"])
    p.add(f"{name} {axis}", lambda x: getattr(x, name)(axis), n)


def rows(p: Program) -> None:
    """What a model does with each row."""
    n = p.pick(has_axes)
    name = p.random.choice(["softmax", "log_softmax", "layernorm"])
    p.add(name, lambda x: getattr(x, name)(), n)


def matmul(p: Program) -> None:
    n = p.pick(lambda t: has_axes(t) and t.dtype not in (dtypes.bool, dtypes.u64))
    x = p.values[n]
    shape = (x.shape[-1], p.random.choice(SIZES))[: p.random.randint(1, 2)]
    kind = p.random.choice([dtypes.f32, dtypes.f64, dtypes.i32, x.dtype])
    p.add("@", lambda x, y: x @ y, n, p.enter(data(p.rng, kind, shape)))


def attention(p: Program) -> None:
    n = p.pick(lambda t: t.ndim > 1 and is_float(t) and has_axes(t))
    if p.values[n].ndim > 1:
        p.add("attention", lambda x: x.scaled_dot_product_attention(x.flip(-2), x, is_causal=True), n)


def loss(p: Program) -> None:
    n = p.pick(lambda t: is_float(t) and has_axes(t))
    x = p.values[n]
    target = p.enter(p.rng.integers(0, x.shape[-1], x.shape[:-1]).astype(np.int32))
    p.add("cross_entropy", lambda x, y: x.cross_entropy(y, axis=-1), n, target)


STEPS = (
    unary, unary, unary, binary, binary, binary, number, where, cast, reshape, permute, flip, pad, grow, join, index,
    index, gather, reduce, reduce, reduce, position, rows, matmul, attention, loss,
)  # fmt: skip


def random_program(random: Random, seed: int) -> Program:
    p = Program(random, np.random.default_rng(seed))
    for _ in range(random.randint(1, 2)):
        p.enter(data(p.rng, random.choice(DTYPES), p.shape()))
    for _ in range(random.randint(1, 9)):
        random.choice(STEPS)(p)
    return p


def outputs(p: Program, values: list[Tensor], which: list[int], derive: int | None) -> list[Tensor]:
    """The values asked for, and the gradients of one with respect to the float inputs on which it depends."""
    found = [values[n] for n in which]
    if derive is not None:
        inputs = [values[n] for n in sorted(p.roots[derive])]
        y = values[derive]
        found += y.gradient(*inputs, seed=y.ones_like())
    return found


def check(p: Program, which: list[int], derive: int | None, device: str = "CPU") -> None:
    """Hold a compiling backend and the INTERP backend against the graph that the methods built."""
    lazy = outputs(p, p.values, which, derive)
    buffers = [n for v in p.values for n in v.uop.toposort() if n.op is Ops.BUFFER]
    given_ = dict(zip(dict.fromkeys(buffers), p.inputs, strict=True))
    wanted = evaluate([t.uop for t in lazy], given_)
    with override(settings, strict=1):
        compiled = outputs(p, p.on(device), which, derive)
        compiled[0].realize(*compiled[1:])
        for got, want in zip(compiled, wanted, strict=True):
            same_bits(got.numpy(), want, device)
    lazy[0].realize(*lazy[1:])
    for got, want in zip(lazy, wanted, strict=True):
        same_bits(got.numpy(), want, "INTERP")


def keep(p: Program, which: list[int], derive: int | None, folder: Path) -> str:
    """Write the kernels that the CPU has for a program to files, and say where."""
    for old in folder.glob("*.uir"):
        old.unlink()
    link = CpuBackend.link

    def keeping(backend: CpuBackend, plan: Plan) -> Executable:
        for number, body in enumerate(plan.bodies):
            (folder / f"{number}.uir").write_text(f"# inputs of seed 0\n{format_uir(body)}")
        return link(backend, plan)

    clear_plans()  # a plan that is known is not linked again
    with pytest.MonkeyPatch.context() as patch, override(settings, strict=1):
        patch.setattr(CpuBackend, "link", keeping)
        compiled = outputs(p, p.on("CPU"), which, derive)
        compiled[0].realize(*compiled[1:])
    return f"its kernels are kept in {folder}"


def same_bits(got: Array, want: Array, device: str) -> None:
    """Equal to the sign of zero; all NaNs are one."""
    assert (got.dtype, got.shape) == (want.dtype, want.shape), device
    if from_numpy(want.dtype).is_float:
        # exact for every float type, and NumPy knows what a NaN is in this one
        got, want = got.astype(np.float64), want.astype(np.float64)
        number = ~np.isnan(want)
        np.testing.assert_array_equal(np.signbit(got)[number], np.signbit(want)[number], err_msg=device)
    np.testing.assert_array_equal(got, want, err_msg=device)


def random_question(random: Random, seed: int) -> tuple[Program, list[int], int | None]:
    """A program, which of its values are asked for, and which one's gradient."""
    p = random_program(random, seed)
    note(str(p))
    last = len(p.values) - 1
    which = sorted({last, random.randint(0, last)})
    floats = [n for n, t in enumerate(p.values) if is_float(t) and p.roots[n]]
    return p, which, max(floats) if floats and random.random() < 0.6 else None


@hypothesis_settings(max_examples=max(120, hypothesis_settings().max_examples))
@given(random=st.randoms(use_true_random=False), seed=st.integers(0, 1 << 16))
def test_random_programs_have_the_bits_of_their_graph(
    pytestconfig: pytest.Config, random: Random, seed: int
) -> None:
    p, which, derive = random_question(random, seed)
    try:
        check(p, which, derive)
    except AssertionError as error:
        error.add_note(keep(p, which, derive, pytestconfig.cache.mkdir("program")))
        raise


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ for the emulator (apt install g++)")
@hypothesis_settings(max_examples=max(8, hypothesis_settings().max_examples // 10))
@given(
    random=st.randoms(use_true_random=False), seed=st.integers(0, 1 << 16), order=st.sampled_from(EMU_ORDERS)
)
def test_random_programs_on_the_emulator(random: Random, seed: int, order: str) -> None:
    """Fewer, since g++ takes a tenth of a second or more a kernel; the threads in any order."""
    with override(emu_settings, emu_order=order):
        check(*random_question(random, seed), "EMU")


def test_the_kernels_of_a_program_are_kept(tmp_path: Path) -> None:
    p = Program(Random(0), np.random.default_rng(0))  # noqa: S311  never asked
    total = p.add("sum", lambda x: x.sum(), p.enter(np.ones(5, np.float32)))
    (tmp_path / "old.uir").write_text("of another program")
    assert str(tmp_path) in keep(p, [p.add("exp", lambda x: x.exp(), total)], None, tmp_path)
    (kept,) = tmp_path.iterdir()
    assert [n.op for n in read_uir(kept).root.toposort()].count(Ops.REDUCE) == 1


#: Each was a bug once: an input, and what is done with it.
FOUND: dict[str, tuple[Array, Callable[[Tensor], Tensor]]] = {
    "integers compared with themselves": (np.arange(8, dtype=np.int32), lambda x: COMPARISONS[">"](x, x)),
    "the position in an axis of one element": (np.ones((1, 1), np.int32), lambda x: x.argmax(1)),
}


@pytest.mark.parametrize("name", FOUND)
def test_what_was_wrong_once(name: str) -> None:
    array, apply = FOUND[name]
    p = Program(Random(0), np.random.default_rng(0))  # noqa: S311  never asked
    check(p, [p.add(name, apply, p.enter(array))], None)
