"""Export: what a function of tensors computes, written as a program that needs no Python. Week 5.

The function is traced as jit does it, so that the plan is the one that a replay would run. A code generator
writes it: the entry point of the group `uop.export` that is named as the device.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np

from uop_ir import BackendError, Plan, UOp, UopError, dtypes, get_backend

from .captured import Captured
from .data import Array
from .exported import argument
from .jit import Jitted
from .jit_tree import Tree, flatten
from .live import JitError
from .replay import Replay
from .structure import NUMBER, TENSOR, Leaf
from .tensor import Tensor
from .trace import trace
from .weak import Weak

#: The Python ints that an i64 holds.
I64 = range(-(1 << 63), 1 << 63)


class Exporter(Protocol):
    """What an entry point of `uop.export` is: it writes a plan to a folder, and says which files that are.

    Each value of `inputs`, `outputs` and `weights` is a memory PARAM of the plan, reshaped; `scalars` are the
    numbers that a run is given, PARAMs of i64 or f64; `computed` is for each scalar of the plan what it is
    computed from these; `data` has the contents of each weight.
    """

    def __call__(
        self,
        folder: Path,
        name: str,
        plan: Plan,
        *,
        inputs: Mapping[str, UOp],
        outputs: Mapping[str, UOp],
        weights: Mapping[str, UOp],
        scalars: Mapping[str, UOp],
        computed: Mapping[UOp, UOp],
        data: Mapping[str, Array],
    ) -> list[Path]: ...


def export(
    function: Callable[..., Any],
    inputs: Sequence[object],
    folder: str | Path,
    name: str,
    *,
    weights: Mapping[str, Tensor] | None = None,
    outputs: Sequence[str] | None = None,
) -> list[Path]:
    """Write what `function(*inputs)` computes as a program of the device's language; the files written.

    `inputs` are examples: as with `jit`, tensors and numbers among them are given anew in each run, numbers
    as i64 or f64, and the rest is part of the program. Tensors that the function closes over are written as
    they are now; `weights` gives them names. Those that it assigns keep their new values from run to run.
    `outputs` names the results in order: tensors, and numbers that depend on the arguments.

    An input is called like the parameter of the function, a part of a list, tuple or dict `PARAMETER.KEY`; an
    output `output`, or `output.KEY`. Raises JitError for what cannot be traced, UopError for arguments of
    other types and names that do not fit, BackendError for a device whose kernels cannot be exported.
    """
    _check(function, inputs, folder, name, weights, outputs)
    function = function.function if isinstance(function, Jitted) else function
    parameters = _signature(function)
    if parameters is not None:
        _check_count(name, parameters, inputs)
    given = flatten(name, (tuple(inputs), {}))
    for n in given.numbers:
        if isinstance(n, int) and n not in I64:
            raise JitError(f"{name}: the argument {n} does not fit an i64", remedy="give a float")
    device = next((t.device for t in given.tensors), None) or get_backend().name
    write = _exporter(device)
    places: list[str] = []

    def traced(*args: Any) -> tuple[Tensor, ...]:
        """Each result as a tensor of its own: also what is an argument, was there before, stands in two
        places, or is a number that depends on the arguments.
        """
        result = flatten(name, function(*args))
        values = []
        for what, place, number in result.structure[0].leaves(result.structure, "output"):
            if what is TENSOR:
                values.append((place, result.tensors[number]))
            elif what is NUMBER and isinstance(weak := result.numbers[number], Weak):
                values.append((place, Tensor._of(weak.node(dtypes.i64 if weak.kind is int else dtypes.f64))))
        places[:] = [place for place, _ in values]
        return tuple(type(t)._of(t.uop) for _, t in values)

    replay = trace(name, traced, given, exported=True)
    if replay.program is None or not replay.results:
        raise UopError(f"{name} computes no tensor", remedy="return what is to be computed")
    if replay.drawn:
        raise UopError(f"{name} draws random numbers", remedy="take them as an input")
    parts = _parameters(parameters, len(inputs))
    leaves = [
        leaf
        for part, place in zip(parts, given.structure[3][3:], strict=True)
        for leaf in place[0].leaves(place, part)
    ]
    tensors, numbers = _first(leaves, TENSOR), _first(leaves, NUMBER)
    if replay.assigned:
        raise UopError(
            f"{name} assigns to its argument {tensors[replay.assigned[0]]}", remedy="return the new value"
        )
    results = places if outputs is None else list(outputs)
    if len(results) != len(replay.results) or len(set(results)) != len(results):
        raise UopError(
            f"{name} gives {len(replay.results)} results, and the names of outputs are {results}",
            remedy="a name for each, no two the same",
        )
    plan = replay.program.planned.plan
    scalars = [argument(i, n) for i, n in enumerate(given.numbers)]
    values: list[Any] = [expression for _, expression in scalars]
    return write(
        Path(folder),
        name,
        plan,
        inputs=_inputs(replay, given, tensors),
        outputs=_outputs(replay, results),
        scalars={numbers[i]: param for i, (param, _) in enumerate(scalars)},
        computed={p: replay.scalars[p.arg.name].weak.compute(values).scalar(p.dtype) for p in plan.scalars},
        **_weights(replay, weights or {}),
    )


def _check(
    function: object, inputs: object, folder: object, name: object, weights: object, outputs: object
) -> None:
    """Raises UopError for an argument that is of another type than it should be."""
    named = weights is None or (
        isinstance(weights, Mapping)
        and all(isinstance(key, str) and isinstance(value, Tensor) for key, value in weights.items())
    )
    listed = outputs is None or (
        isinstance(outputs, list | tuple) and all(isinstance(output, str) for output in outputs)
    )
    for right, what, wanted in (
        (callable(function), "function", "callable"),
        (isinstance(inputs, list | tuple), "inputs", "a list or tuple"),
        (isinstance(folder, str | Path), "folder", "a str or a Path"),
        (isinstance(name, str), "name", "a str"),
        (named, "weights", "a dict of tensors by name"),
        (listed, "outputs", "a list or tuple of names"),
    ):
        if not right:
            raise UopError(f"export: {what} must be {wanted}")


def _exporter(device: str) -> Exporter:
    known = {entry.name: entry for entry in entry_points(group="uop.export")}
    if device not in known:
        there = ", ".join(f"DEV={name}" for name in sorted(known)) or "installed is none"
        raise BackendError(f"kernels of {device} cannot be exported", remedy=f"for one that can: {there}")
    try:
        return cast(Exporter, known[device].load())
    except (ImportError, AttributeError) as error:
        raise BackendError(f"the exporter of {device} cannot be loaded: {error}") from None


# memory


def _params(replay: Replay) -> dict[int, UOp]:
    """The memory of the plan by slot. Slots up to the number of sources are what these say,
    the others outputs.
    """
    assert replay.program is not None
    return {p.arg.slot: p for p in replay.program.planned.plan.inputs}


def _inputs(replay: Replay, given: Tree, names: Mapping[int, str]) -> dict[str, UOp]:
    """The memory of each tensor among the arguments, one that is not read too."""
    params = _params(replay)
    slots = {source: slot for slot, source in enumerate(replay.sources) if isinstance(source, int)}
    free = max([len(replay.sources), *params]) + 1
    found = {}
    for number, tensor in enumerate(given.tensors):
        param = params.get(slots.get(number, -1))
        unused = UOp.param(free + number, tensor.numel(), tensor.dtype)
        found[names[number]] = (param or unused).reshape(tensor.shape)
    return found


def _outputs(replay: Replay, names: Sequence[str]) -> dict[str, UOp]:
    assert replay.program is not None
    planned = replay.program.planned
    shapes = [result[1] for result in replay.results if isinstance(result, tuple)]
    homes = planned.homes[: len(shapes)]
    return {n: planned.plan.inputs[h].reshape(s) for n, h, s in zip(names, homes, shapes, strict=True)}


def _weights(replay: Replay, names: Mapping[str, Tensor]) -> dict[str, Any]:
    """Memory and contents of what the function closes over,
    and of what the trace has made: the rest of the plan.
    """
    params = _params(replay)
    called = {id(tensor): name for name, tensor in names.items()}
    weights: dict[str, UOp] = {}
    data: dict[str, Array] = {}
    for slot, source in enumerate(replay.sources):
        if slot not in params or isinstance(source, int):
            continue
        name = f"constant{slot}"
        while name in names:
            name += "_"
        if isinstance(source, Captured):
            alive = [id(t) for ref in source.tensors if (t := ref()) is not None]
            name = next((called[t] for t in alive if t in called), name)
            weights[name] = params[slot].reshape(source.placeholder.shape)
            data[name] = _contents(source.memory())
        else:
            weights[name] = params[slot]
            data[name] = _contents(source)
    return {"weights": weights, "data": data}


def _contents(buffer: UOp) -> Array:
    memory = buffer.memo["memory"]
    array: Array = np.empty(buffer.arg.size, buffer.dtype.numpy)
    memory.backend.copy_out(memory.handle, array)
    return array


# names


def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    """None for what does not tell, as not every callable of C does."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def _check_count(name: str, signature: inspect.Signature, inputs: Sequence[object]) -> None:
    """Raises UopError unless a function takes so many arguments by position."""
    try:
        signature.bind(*inputs)
    except TypeError as error:
        raise UopError(
            f"{name} is called with {len(inputs)} inputs, and its signature is {signature}: {error}",
            remedy="give one input for each parameter",
        ) from None


def _parameters(signature: inspect.Signature | None, count: int) -> list[str]:
    """A name for each of so many positional arguments:
    that of the parameter; of those in *args with a number.
    """
    names: list[str] = []
    for p in signature.parameters.values() if signature is not None else ():
        if p.kind is p.VAR_POSITIONAL:
            names += [f"{p.name}.{i}" for i in range(count - len(names))]
        else:
            names.append(p.name)
    return [*names, *(f"input.{i}" for i in range(len(names), count))][:count]


def _first(leaves: Iterable[tuple[Leaf, str, int]], kind: Leaf) -> dict[int, str]:
    """The first name of each number of a kind."""
    found: dict[int, str] = {}
    for what, name, number in leaves:
        if what is kind:
            found.setdefault(number, name)
    return found
