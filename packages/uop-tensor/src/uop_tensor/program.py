"""Programs: a graph in canonical form, its plan, and the cache of plans. Week 5.

In canonical form each BUFFER is a PARAM, numbered by first use. Two programs of the same shape then have the
same, interned root, and the root is the key of the cache: the second one is neither scheduled nor compiled.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from time import perf_counter
from typing import Any

from uop_ir import Backend, Executable, Ops, UOp, UopError, toposort
from uop_ir import settings as ir_settings

from .cost import is_leaf
from .graph import shape_of, stored
from .memory import HELD, base, handle, new_buffer
from .plan import Planned, Want, make_plan
from .settings import settings

#: A STACK of more operands than this becomes a STACK of STACKs, which can be cut into kernels. One of
#: constants is a table that the code generators know, and stays.
STACK_LIMIT = 16


@dataclass
class Counters:
    """What has been done since the process began; tests look at differences."""

    realizes: int = 0
    kernels: int = 0
    plans: int = 0
    cache_hits: int = 0


COUNTERS = Counters()
#: Called with each plan that is made, and the name of its backend.
WATCHERS: list[Callable[[Planned, str], None]] = []


@dataclass
class Program:
    """A linked plan, and the BUFFERs that it is to run on,
    by slot. `cached`: its plan has been run before.
    """

    planned: Planned
    executable: Executable
    buffers: tuple[UOp, ...]
    backend: Backend
    schedule_ms: float
    cached: bool

    def run(self, buffers: Sequence[UOp], scalars: Mapping[str, float | int]) -> list[UOp]:
        """Run on these BUFFERs instead, and return the BUFFER in which each value has ended.

        Raises UopError for a BUFFER without memory and for a scalar without a value.
        """
        plan = self.planned.plan
        memory = [
            buffers[p.arg.slot]
            if p.arg.slot < len(buffers)
            else new_buffer(self.backend, p.arg.size, p.dtype)
            for p in plan.inputs
        ]
        self.execute([handle(b) for b in memory], [_scalar(p, scalars) for p in plan.scalars])
        homes = [memory[home] for home in self.planned.homes]
        for home in homes:  # what was there before may have been cut off from `backward`
            home.memo.pop("tensor.cut", None)
        return homes

    def execute(self, handles: Sequence[Any], scalars: Sequence[float | int]) -> None:
        """Run on the memory of the plan's inputs, with the values of its scalars."""
        if ir_settings.debug >= 1:
            start = perf_counter()
            self.executable(handles, scalars)
            self._report(perf_counter() - start)
        else:
            self.executable(handles, scalars)
        COUNTERS.realizes += 1
        COUNTERS.kernels += len(self.planned.plan.calls)
        self.cached = True

    def _report(self, seconds: float) -> None:
        start = perf_counter()
        self.backend.synchronize()
        seconds += perf_counter() - start
        how = "cached" if self.cached else f"schedule and compile {self.schedule_ms:.1f} ms"
        count = len(self.planned.plan.calls)
        kernels = "1 kernel" if count == 1 else f"{count} kernels"
        print(
            f"realize on {self.backend.name}: {kernels}, {how}, run {seconds * 1e3:.2f} ms, "
            f"scratch {self.planned.plan.arena} of {self.planned.scratch} bytes, "
            f"values {HELD.now} bytes, most {HELD.most}"
        )


def _scalar(param: UOp, scalars: Mapping[str, float | int]) -> float | int:
    if param.arg.name not in scalars:
        raise UopError(
            f"the scalar {param.arg.name} has no value", remedy="it is an argument of a jitted function"
        )
    return scalars[param.arg.name]


_cache: OrderedDict[object, tuple[Planned, Executable]] = OrderedDict()


def clear_plans() -> None:
    """Forget all plans."""
    _cache.clear()


def program(values: Sequence[UOp], donors: Sequence[UOp | None], must: bool, backend: Backend) -> Program:
    """The program that stores `values`; value i in the memory of the BUFFER `donors[i]` where that is right.

    With `must`, a donor gets its value in any case, by a copy if need be.
    """
    start = perf_counter()
    roots, buffers = canonical(values, [d for d in donors if d is not None])
    slots = {buffer: slot for slot, buffer in enumerate(buffers)}
    wants = tuple(Want() if d is None else Want(slots[d], must) for d in donors)
    key = (UOp.sink(*roots), len(buffers), wants, backend.name)
    found = _cache.get(key)
    if found is None:
        COUNTERS.plans += 1
        planned = make_plan(key[0], len(buffers), wants, backend.limits)
        for watch in WATCHERS:
            watch(planned, backend.name)
        executable = backend.link(planned.plan)
        _cache[key] = planned, executable
        while len(_cache) > max(settings.plan_cache, 0):
            _cache.popitem(last=False)
    else:
        COUNTERS.cache_hits += 1
        _cache.move_to_end(key)
        planned, executable = found
    elapsed = (perf_counter() - start) * 1e3
    return Program(planned, executable, tuple(buffers), backend, elapsed, found is not None)


def canonical(values: Iterable[UOp], donors: Iterable[UOp] = ()) -> tuple[list[UOp], list[UOp]]:
    """The values over PARAMs, and the BUFFERs that stand behind these by slot;
    donors that are not read come last.

    Each value is a node of its own that computes something: what is memory already, a constant, or asked for
    twice is wrapped in a STAGE, which means its operand.
    """
    values = list(values)
    nodes = toposort(values)
    if any(n.op is Ops.AFTER and len(n.src) > 1 for n in nodes):
        alone = _alone(nodes)
        values = [alone[v] for v in values]
        nodes = toposort(values)
    new: dict[UOp, UOp] = {}
    buffers: dict[UOp, None] = {}
    for node in nodes:
        if node.op is Ops.BUFFER:
            new[node] = UOp.param(len(buffers), node.arg.size, node.dtype)
            buffers[node] = None
        elif node.op is Ops.AFTER and len(node.src) == 1:
            new[node] = new[node.src[0]]
        else:
            src = tuple(new[s] for s in node.src)
            if node.op is Ops.STACK and len(src) > STACK_LIMIT and any(s.op is not Ops.CONST for s in src):
                new[node] = _stack(src)
            else:
                new[node] = node if src == node.src else node.replace(src=src)
    roots: dict[UOp, None] = {}
    for value in values:
        root = base(new[value])
        while is_leaf(root) or root in roots:
            root = stored(root)
        roots[root] = None
    buffers |= dict.fromkeys(donors)
    return list(roots), list(buffers)


def _alone(nodes: Iterable[UOp]) -> dict[UOp, UOp]:
    """What nodes in topological order become without that through which gradients are led,
    which is not computed.
    """
    new: dict[UOp, UOp] = {}
    for node in nodes:
        src = tuple(new[s] for s in node.src)
        led = node.op is Ops.AFTER and len(src) > 1
        new[node] = src[0] if led else node if src == node.src else node.replace(src=src)
    return new


def _stack(sources: tuple[UOp, ...]) -> UOp:
    """A STACK of STACKs of at most STACK_LIMIT operands each, with the same elements."""
    count, shape = len(sources), sources[0].shape
    while len(sources) > STACK_LIMIT:
        parts = [sources[i : i + STACK_LIMIT] for i in range(0, len(sources), STACK_LIMIT)]
        parts[-1] += parts[-1][-1:] * (STACK_LIMIT - len(parts[-1]))
        sources = tuple(UOp(Ops.STACK, part) for part in parts)
    whole = UOp(Ops.STACK, sources)
    total = prod(shape_of(whole)[: whole.ndim - len(shape)])
    return whole.reshape((total, *shape)).shrink(((0, count), *((0, s) for s in shape)))
