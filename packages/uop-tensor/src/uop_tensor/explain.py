"""Explain: why each kernel of a plan ends where it ends, in words and numbers. Week 5.

The plan is arranged once more, and the decisions are read off: what was asked for, what the cost of `cost.py`
says of storing against computing again, and what is computed in several kernels.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from uop_ir import INDEX_MAPS, Backend, Ops, Reporting, UOp, get_backend

from .cost import LOAD, Costs, costs, is_leaf, is_memory, prices
from .cut import LENGTH, body_nodes, computed
from .errors import TensorError
from .fusion import evaluations
from .jit import Jitted
from .memory import nbytes, numel
from .one_hot import scatters
from .plan import Arranged, Planned, Task, Want, arrange, make_plan
from .prefixes import folds_prefix
from .program import canonical
from .realize import device_of
from .schedule import Kernel
from .tensor import Tensor

#: How many values that are computed again a kernel names, the dearest first.
SHOWN = 3


def explain(*given: Tensor | Jitted[Any, Any]) -> str:
    """Why the kernels that compute these tensors,
    or that a jitted function has captured, are those that they are.

    Nothing is computed. For each kernel: what it loads, stores and computes; for each value that it stores,
    why it is stored, with the cost of storing and of computing again; and what it computes that others
    compute too. Raises TensorError for what is neither a tensor nor a jitted function.
    """
    texts = []
    tensors: list[Tensor] = []
    for x in given:
        if isinstance(x, Jitted):
            programs = [r.program for r in x.captures.values() if r.program is not None]
            texts += [explain_plan(p.planned, f"{x.__name__} on {p.backend.name}") for p in programs]
        elif isinstance(x, Tensor):
            tensors.append(x)
        else:
            raise TensorError(f"explain: {type(x).__name__}", remedy="give tensors or jitted functions")
    if tensors:
        backend = get_backend(device_of([t.uop for t in tensors]))
        texts.append(explain_plan(_planned(tensors, backend), f"on {backend.name}"))
    return "\n\n".join(texts)


def _planned(tensors: Iterable[Tensor], backend: Backend) -> Planned:
    roots, buffers = canonical(dict.fromkeys(t.uop for t in tensors))
    return make_plan(UOp.sink(*roots), len(buffers), (Want(),) * len(roots), backend.limits)


def explain_plan(planned: Planned, head: str, backend: Reporting | None = None) -> str:
    """The text for one plan, with what a backend reports of each kernel if one is given."""
    plan = planned.plan
    arranged = arrange(planned.task)
    values = sum(map(nbytes, plan.inputs))
    kernels = "1 kernel" if len(plan.calls) == 1 else f"{len(plan.calls)} kernels"
    memory = f"memory: {values:,} bytes of values, {plan.arena:,} of scratch"
    bound = f"{planned.bound:,} live at one time, {planned.scratch:,} without sharing"
    lines = [f"{head}: {kernels}, {len(plan.bodies)} different", f"{memory}; {bound}"]
    explained = _Explained(planned.task, arranged)
    bodies = iter([call.src[0] for call in plan.calls])
    for number, k in enumerate(arranged.order):
        lines += explained.kernel(number, k)
        if backend is not None and any(numel(v.shape) for v in arranged.graph.kernels[k].values):
            lines += [f"  {line}" for line in backend.report(next(bodies))]
    lines += [
        f"then {_name(value)} is copied over input {donor.arg.slot}" for value, donor in arranged.copies
    ]
    return "\n".join(lines)


class _Explained:
    """What is known of the kernels of one arrangement."""

    def __init__(self, task: Task, arranged: Arranged) -> None:
        self.task = task
        self.graph, self.fusion = arranged.graph, arranged.fusion
        self.number = {k: n for n, k in enumerate(arranged.order)}
        self.outputs = set(task.root.src)
        order = list(task.root.toposort())[:-1]
        self.costs: Costs = costs(order, self.outputs)
        self.stored = {v for kernel in self.graph.kernels.values() for v in kernel.values}
        self.bodies = {k: self._body(kernel) for k, kernel in self.graph.kernels.items()}
        self.again: dict[UOp, list[int]] = {}
        for k in arranged.order:
            for node in self.bodies[k]:
                self.again.setdefault(node, []).append(self.number[k])

    def _body(self, kernel: Kernel) -> dict[UOp, None]:
        """The nodes that a kernel computes."""
        outside = self.stored.difference(kernel.values)
        nodes = (n for value in kernel.values for n in body_nodes(value, outside))
        return {n: None for n in nodes if n not in outside and not is_leaf(n) and n.op not in INDEX_MAPS}

    def kernel(self, number: int, k: int) -> list[str]:
        kernel = self.graph.kernels[k]
        loaded = ", ".join(self._source(m) for m in kernel.reads) or "nothing"
        inner = [n for n in self.bodies[k] if n.op is not Ops.STAGE]
        read, written = (sum(map(nbytes, values)) for values in (kernel.reads, kernel.values))
        reductions = sum(n.op is Ops.REDUCE for n in inner)
        work = f"{len(inner)} operations, {reductions} of them reductions"
        lines = [
            f"kernel {number} stores {', '.join(map(_name, kernel.values))}",
            f"  loads {loaded}: {read:,} bytes; stores {written:,} bytes; {work}",
        ]
        lines += [f"  {_name(value)}: {self._reason(value)}" for value in kernel.values]
        if len(kernel.values) > 1:
            lines.append("  one kernel stores them, so that what they have in common is loaded once")
        return lines + self._computed_again(number, k)

    def _source(self, memory: UOp) -> str:
        if is_memory(memory):
            return f"input {memory.arg.slot}"
        return f"{_name(memory)} of kernel {self.number[self.graph.writer[memory]]}"

    def _reason(self, value: UOp) -> str:
        """Why a value is stored."""
        if value in self.outputs:
            return "asked for"
        if value.op is Ops.STAGE:
            return "contiguous() says so"
        if scatters(value):
            return "adds each element where it belongs, which it can only where it is stored"
        if folds_prefix(value):
            return "a running fold, of one step an element only where it is stored"
        times, elements, cost = (
            evaluations(self.fusion.reads[value]),
            numel(value.shape),
            self.costs.cost[value],
        )
        stored, again = prices(elements, cost, times)
        if stored < again:
            return (
                f"{elements:,} elements of cost {cost:g}, asked for {times:,} times: to store and load "
                f"them costs {stored:,.0f}, to compute them again {again:,.0f}"
            )
        return f"cut here, since a kernel has at most {self.task.limits.arguments} arguments and {LENGTH} operations"

    def _computed_again(self, number: int, k: int) -> list[str]:
        shared = {n: self.again[n] for n in self.bodies[k] if len(self.again[n]) > 1 and self._counts(n)}
        inner = {s for n in shared for s in n.toposort() if s is not n}
        tops = sorted((n for n in shared if n not in inner), key=lambda n: -self.costs.cost[n])[:SHOWN]
        return [
            f"  computes {_name(n)} as kernel {', '.join(str(o) for o in shared[n] if o != number)} does: "
            f"cost {self.costs.cost[n]:g} an element, less than to store and load it"
            for n in tops
        ]

    def _counts(self, node: UOp) -> bool:
        return node not in self.costs.cheap and self.costs.cost[node] > LOAD


def _name(value: UOp) -> str:
    """A value in a text: its operation, dtype and shape."""
    value = computed(value)
    op = value.op.name.lower()
    op += f" {value.arg[0].name.lower()}" if value.op is Ops.REDUCE else ""
    return f"{op} {value.dtype}{list(value.shape)}"
