"""The replay of a plan on a GPU: all its kernels as one graph, which one call launches. Week 8.

The first run of a plan may be its only one: the kernels are launched one by one. The second run makes a graph
of them, and each later one gives new arguments to the nodes whose arguments have changed, if any.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from uop_ir import Ops, Plan, UOp, call_params
from uop_ir import settings as ir_settings

from .arguments import bits_of, check_run, grid_of
from .driver import call, driver
from .stream import GpuKernel, Launch, Stream

#: Bytes of an argument: an address, or the bits of a scalar, low ones first.
WORD = 8


@dataclass(eq=False)
class GpuMemory:
    """Memory of a GPU: an address there, and its size in bytes, -1 once it is freed."""

    address: int
    size: int


class GpuExecutable:
    """A linked plan.

    `scratch` gives the address of so many bytes, which nothing else in the stream uses during a run.
    """

    def __init__(
        self, stream: Stream, plan: Plan, kernels: Sequence[GpuKernel], scratch: Callable[[int], int]
    ) -> None:
        self._stream, self._plan, self._scratch = stream, plan, scratch
        bound = [list(zip(call_params(c.src[0]), plan.arguments(c), strict=True)) for c in plan.calls]
        self._scalars = [{p: a for p, a in pairs if p.arg.size is None} for pairs in bound]
        given = [argument for pairs in bound for _, argument in pairs]
        self._table = Table(plan, given)
        starts = np.cumsum([0, *map(len, bound)])
        self._pointers = [self._table.pointers.ctypes.data + WORD * int(start) for start in starts[:-1]]
        #: Which kernel each argument is of.
        self._kernel_of = np.repeat(np.arange(len(bound)), np.diff(starts))
        self._launches = [Launch(kernel, ()) for kernel in kernels]
        self._graph: Graph | None = None
        self._runs, self._seconds = 0, 0.0

    def __call__(self, memory: Sequence[GpuMemory], scalars: Sequence[float | int]) -> None:
        """Run with the memory of the plan's inputs and the values of its scalars, in their order.

        Raises BackendError where their numbers or sizes do not fit the plan, or the GPU fails,
        BoundsError for a variable outside of its bounds.
        """
        check_run(self._plan, [m.size for m in memory], scalars)
        bits = [bits_of(p, value) for p, value in zip(self._plan.scalars, scalars, strict=True)]
        with self._stream.using():
            arena = self._scratch(self._plan.arena) if self._plan.arena else 0
            if self._table.fill([m.address for m in memory], bits, arena) or not self._runs:
                self._set_grids(dict(zip(self._plan.scalars, scalars, strict=True)))
            if ir_settings.debug >= 2:
                self._run_timed()
            elif self._runs and len(self._launches) > 1:
                self._run_graph()
            else:
                for launch, pointers in zip(self._launches, self._pointers, strict=True):
                    self._stream.launch(launch, pointers)
            self._runs += 1

    def _set_grids(self, values: dict[UOp, float | int]) -> None:
        """The blocks of each kernel, for the values of the plan's scalars."""
        for number, (launch, scalars) in enumerate(zip(self._launches, self._scalars, strict=True)):
            if not launch.grid or any(n.op is not Ops.CONST for n in launch.kernel.source.grid):
                own = {p: a.value if a.op is Ops.CONST else values[a] for p, a in scalars.items()}
                grid = tuple(grid_of(launch.kernel.source, own))
                self._launches[number] = Launch(launch.kernel, grid)

    def _run_timed(self) -> None:
        """One kernel after the other, with a line for each."""
        for launch, pointers in zip(self._launches, self._pointers, strict=True):
            seconds = self._stream.timed(lambda: self._stream.launch(launch, pointers))  # noqa: B023  called at once
            self._seconds += seconds
            name = launch.kernel.source.name
            print(f"CUDA {name:<32} {seconds * 1e3:9.3f} ms {self._seconds * 1e3:9.1f} ms in all")

    def _run_graph(self) -> None:
        values, graph = self._table.values, self._graph
        self._graph = None  # until it has all that this run asks for
        if graph is None:
            graph = Graph(self._stream, self._launches, self._pointers, values)
        else:
            changed = {int(k) for k in self._kernel_of[values != graph.values]}
            graph.update(self._launches, self._pointers, values, changed)
        graph.launch()
        self._graph = graph


class Table:
    """The arguments of all kernels of a plan, as `values`, and a pointer to each, as a launch takes them.

    Each is an address or the bits of a scalar. What is asked for several times is computed once: `_words`
    are those of the plan's inputs, its scalars, its scratch memories and constants.
    """

    def __init__(self, plan: Plan, given: Sequence[UOp]) -> None:
        """`given`: the arguments of all kernels, one kernel after the other."""
        scratch = list(dict.fromkeys(a for a in given if a.op is Ops.ALLOC))
        constants = list(dict.fromkeys(a for a in given if a.op is Ops.CONST))
        nodes = [*plan.inputs, *plan.scalars, *scratch, *constants]
        number = {node: i for i, node in enumerate(nodes)}
        ends = np.cumsum([len(plan.inputs), len(plan.scalars), len(scratch), len(constants)])
        self._inputs, self._scalars, self._scratch, fixed = (
            slice(int(a), int(b)) for a, b in zip([0, *ends[:-1]], ends, strict=True)
        )
        self._words = np.zeros(len(nodes), np.uint64)
        self._words[fixed] = [bits_of(node, node.value) for node in constants]
        self._offsets = np.array([plan.offsets[node.arg.slot] for node in scratch], np.uint64)
        self._numbers = np.array([number[a] for a in given], np.intp)
        self.values = np.zeros(len(given), np.uint64)
        self.pointers = self.values.ctypes.data + WORD * np.arange(len(given), dtype=np.uint64)

    def fill(self, addresses: Sequence[int], bits: Sequence[int], arena: int) -> bool:
        """Set the arguments of a run. Whether the bits of a scalar are others than before."""
        words, scalars = self._words, np.array(bits, np.uint64)
        changed = not np.array_equal(words[self._scalars], scalars)
        words[self._inputs] = addresses
        words[self._scalars] = scalars
        words[self._scratch] = self._offsets + np.uint64(arena)
        np.take(words, self._numbers, out=self.values)
        return changed


class Graph:
    """Launches, one after the other, as one launch. `values` are the arguments that it has."""

    def __init__(
        self,
        stream: Stream,
        launches: Sequence[Launch],
        pointers: Sequence[int],
        values: npt.NDArray[np.uint64],
    ) -> None:
        """`pointers`: where each launch has its pointers to `values`. Raises BackendError."""
        self._stream, self._launches, self.values = stream, list(launches), values.copy()
        graph = call("cuGraphCreate", 0)
        stream.at_end(self, "cuGraphDestroy", graph)
        self._nodes: list[Any] = []
        for launch, arguments in zip(launches, pointers, strict=True):
            before = self._nodes[-1:]
            added = graph, before, len(before), _node(launch, arguments)
            self._nodes.append(call("cuGraphAddKernelNode", *added, doing=launch))
        self._executable = call("cuGraphInstantiate", graph, 0, doing=self)
        stream.at_end(self, "cuGraphExecDestroy", self._executable)

    def update(
        self,
        launches: Sequence[Launch],
        pointers: Sequence[int],
        values: npt.NDArray[np.uint64],
        changed: set[int],
    ) -> None:
        """Give the kernels whose arguments have changed the new ones, and with them their grids, which are
        indices over scalars.

        A launch that is in the stream already keeps its own.
        """
        for number in sorted(changed):
            node = _node(launches[number], pointers[number])
            arguments = self._executable, self._nodes[number], node
            call("cuGraphExecKernelNodeSetParams", *arguments, doing=launches[number])
        self._launches, self.values = list(launches), values.copy()

    def launch(self) -> None:
        """Put the launch into the stream. Raises BackendError."""
        self._stream.begin(self._launches)
        call("cuGraphLaunch", self._executable, self._stream.handle, doing=self)

    def __str__(self) -> str:
        return f"a graph of {len(self._launches)} kernels, the first {self._launches[0]}"


def _node(launch: Launch, arguments: int) -> Any:
    """A kernel of a graph, with the arguments behind the pointers at an address."""
    source = launch.kernel.source
    node = driver().CUDA_KERNEL_NODE_PARAMS()
    node.func = launch.kernel.function
    node.gridDimX, node.gridDimY, node.gridDimZ = launch.grid
    node.blockDimX, node.blockDimY, node.blockDimZ = source.block
    node.sharedMemBytes = source.shared
    node.kernelParams = arguments
    return node
