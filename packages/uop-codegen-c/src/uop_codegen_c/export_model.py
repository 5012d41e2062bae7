"""What is exported: a plan whose memory has names, and the errors for what has no place in C. Week 6."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy.typing as npt

from uop_ir import BackendError, Ops, Plan, UOp, UopError, call_params, dtypes

from .cache import KernelSource
from .ctext import SCALAR
from .generated import remembered
from .kernel import memory_viewed
from .names import KEYWORDS, identifier

#: No names of models: they are those of other files and rules of the folder, or of headers of C that a
#: program with -Iout would look for in it.
TAKEN = re.compile(
    "main|makefile|clean|assert|complex|ctype|errno|fenv|float|inttypes|iso646|limits|locale|math|setjmp|signal|stdalign|"
    "stdarg|stdatomic|stdbool|stddef|stdint|stdio|stdlib|stdnoreturn|string|tgmath|threads|time|uchar|wchar|wctype|omp",
    re.IGNORECASE,
)
#: What the function of a plan has beside its scalars: a model, types, and functions of ours.
CALLED = re.compile(r"model|\w+_t|bits_of_\w+|k_\w+|computed\d+")
#: The first bytes of a file of weights: a line of text, padded with zeros.
HEAD = 64
ALIGNMENT = 64


@dataclass(frozen=True)
class Tensor:
    """Memory of a model that has a name: `member` is its name in C, `param` is what the plan calls it.

    `place` is the member of the struct that has it:
    an output may lie where an input, a weight or an output before it does.
    """

    name: str
    member: str
    param: UOp
    shape: tuple[int, ...]
    changes: bool
    place: str

    @property
    def bytes(self) -> int:
        return int(self.param.arg.size) * self.param.dtype.itemsize

    @property
    def type(self) -> str:
        """The C type of an element, spelled so that C++ has it too."""
        return "bool" if self.param.dtype is dtypes.bool else SCALAR[self.param.dtype]

    @property
    def text(self) -> str:
        """Dtype and shape, as in `f32 (2, 3)`."""
        return f"{self.param.dtype} {self.shape}"


@dataclass(frozen=True)
class Scalar:
    """A number that each run is given, or computes first: `member` is what stands for it in C."""

    name: str
    member: str
    param: UOp


@dataclass(frozen=True)
class Model:
    """A plan, the kernel of each of its calls, and its memory and scalars by name.

    `computed` are scalars that are computed from the others, by the kernel of the body `numbers`.
    """

    name: str
    plan: Plan
    kernels: tuple[KernelSource, ...]
    weights: tuple[Tensor, ...]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    scalars: tuple[Scalar, ...]
    computed: tuple[Scalar, ...]
    numbers: UOp

    @property
    def weight_bytes(self) -> int:
        """The bytes of all weights, each from a multiple of 64 on."""
        return sum(-(-max(w.bytes, 1) // ALIGNMENT) * ALIGNMENT for w in self.weights)

    @property
    def head(self) -> bytes:
        """What a file of weights begins with: it differs where names, dtypes or shapes of weights do."""
        layout = "\n".join(f"{w.name} {w.text}" for w in self.weights)
        text = f"uopc weights {hashlib.sha256(layout.encode()).hexdigest()[:16]}\n"
        return text.encode().ljust(HEAD, b"\0")


def make_model(
    name: str,
    plan: Plan,
    *,
    inputs: Mapping[str, UOp],
    outputs: Mapping[str, UOp],
    weights: Mapping[str, UOp],
    scalars: Mapping[str, UOp],
    computed: Mapping[UOp, UOp],
) -> Model:
    """The model of a plan; each value is a PARAM of the plan reshaped to its shape, each scalar a PARAM, and
    what is `computed` from scalars is a scalar of the plan.

    Raises UopError for names that will not do,
    BackendError for a plan whose memory is not all named, and where a kernel cannot be C.
    """
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
        raise UopError(
            f"a model cannot be called {name!r} in C", remedy="a name of letters, digits and underscores"
        )
    if TAKEN.fullmatch(name):
        raise UopError(
            f"a model cannot be called {name!r}: a file of that name is another", remedy="another name"
        )
    free = [*inputs, *outputs, *scalars, "weights"]
    twice = sorted({n for n in free if free.count(n) > 1})
    if twice:
        raise UopError(f"two of inputs, outputs, scalars and the file of weights are called {twice[0]!r}")
    kernel = {body: remembered(body) for body in plan.bodies}
    changed = _changed(plan)
    first: dict[UOp, Tensor] = {}
    model = Model(
        name,
        plan,
        tuple(kernel[call.src[0]] for call in plan.calls),
        _tensors("w", weights, changed, first),
        _tensors("in", inputs, changed, first),
        _tensors("out", outputs, changed, first),
        tuple(Scalar(n, m, scalars[n]) for n, m in _members(scalars, _argument_name).items()),
        tuple(Scalar(p.arg.name, f"*computed{i}", p) for i, p in enumerate(computed)),
        UOp.sink(*(_number(slot, value) for slot, value in enumerate(computed.values()))),
    )
    named = {t.param for t in (*model.weights, *model.inputs, *model.outputs)}
    for param in plan.inputs:
        if param not in named:
            raise BackendError(f"memory {param!r} of the plan has no name")
    if missing := set(plan.scalars) - {s.param for s in (*model.scalars, *model.computed)}:
        raise BackendError(f"the scalar {min(p.arg.name for p in missing)} of the plan has no name")
    return model


def contents(model: Model, data: Mapping[str, npt.NDArray[Any]]) -> bytes:
    """The file of weights. Raises BackendError for an array that is not of its weight's size and dtype."""
    parts = [model.head]
    for weight in model.weights:
        array = data[weight.name]
        if array.dtype != weight.param.dtype.numpy or array.size != prod(weight.shape):
            raise BackendError(
                f"weight {weight.name} is {weight.text}, its data {array.dtype} of shape {array.shape}"
            )
        size = -(-max(weight.bytes, 1) // ALIGNMENT) * ALIGNMENT
        parts.append(array.tobytes().ljust(size, b"\0"))
    return b"".join(parts)


def arguments(model: Model, call: UOp) -> tuple[list[str], list[Scalar]]:
    """The memory of a call as C expressions, and its scalars.
    Raises BackendError for what a plan may not have.
    """
    members = {t.param: t.place for t in (*model.weights, *model.outputs, *model.inputs)}
    scalars = {s.param: s for s in (*model.scalars, *model.computed)}
    memory: list[str] = []
    numbers: list[Scalar] = []
    params = call_params(call.src[0])
    for param, given in zip(params, model.plan.arguments(call), strict=True):
        if given in scalars:
            numbers.append(scalars[given])
        elif param.arg.size is not None and given in members:
            memory.append(f"model->{members[given]}")
        elif given.op is Ops.ALLOC and given.arg.slot in model.plan.offsets:
            offset = model.plan.offsets[given.arg.slot]
            memory.append(f"model->scratch + {offset}" if offset else "model->scratch")
        else:
            raise BackendError(f"argument {given!r} of a kernel has no place in an export")
    return memory, numbers


def _number(slot: int, value: UOp) -> UOp:
    """What stores a scalar that is computed."""
    return UOp.param(slot, 1, value.dtype).store(value.reshape((1,)))


def _tensors(
    prefix: str, given: Mapping[str, UOp], changed: frozenset[UOp], first: dict[UOp, Tensor]
) -> tuple[Tensor, ...]:
    """Memory with its names; `first` is by PARAM the one that was named before others."""
    found = []
    for name, member in _members(given, lambda name: f"{prefix}_{identifier(name)}").items():
        value = given[name]
        param = value
        while param.op is Ops.RESHAPE:
            param = param.src[0]
        if param.op is not Ops.PARAM or param.arg.size is None or param.dtype not in SCALAR:
            raise BackendError(f"{name} is not memory that C has: {param!r}")
        shape = tuple(d for d in value.shape if isinstance(d, int))
        if len(shape) < len(value.shape):
            raise BackendError(f"{name} has a symbolic shape", remedy="give it its greatest size")
        if param in first and prefix != "out":
            raise UopError(f"{name} is the memory of {first[param].name} too", remedy="give it one name")
        place = first[param].place if param in first else member
        tensor = Tensor(name, member, param, shape, param in changed, place)
        first.setdefault(param, tensor)
        found.append(tensor)
    return tuple(found)


def _members(names: Iterable[str], spelled: Callable[[str], str]) -> dict[str, str]:
    """A C name for each name; two that would be one are told apart by a number."""
    found: dict[str, str] = {}
    for name in names:
        plain = member = spelled(name)
        number = 2
        while member in found.values():
            member, number = f"{plain}_{number}", number + 1
        found[name] = member
    return found


def _argument_name(name: str) -> str:
    """A name for an argument of a C function beside what that function calls;
    one of capitals could be a macro.
    """
    plain = identifier(name)
    if not plain[:1].isalpha():
        return f"n{plain}"
    return f"{plain}_" if plain.isupper() or KEYWORDS.fullmatch(plain) or CALLED.fullmatch(plain) else plain


def _changed(plan: Plan) -> frozenset[UOp]:
    """The memory that a run stores to."""
    found: set[UOp] = set()
    for call in plan.calls:
        body = call.src[0]
        stored = {memory_viewed(n.src[0]) for n in body.toposort() if n.op is Ops.STORE}
        given = zip(call_params(body), plan.arguments(call), strict=True)
        found.update(argument for param, argument in given if param in stored)
    return frozenset(found)


def c_type(scalar: Scalar) -> str:
    """The C type in which a run takes a scalar."""
    if scalar.param.dtype is dtypes.index:
        return "int64_t"
    return "bool" if scalar.param.dtype is dtypes.bool else SCALAR[scalar.param.dtype]
