"""The reference interpreter: what every program means, slowly and exactly. Week 1.

Everything else in this repository is held against it.
It runs all levels: tensors, loops over memory, linear programs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from .arguments import by_node, nodes
from .dtype import dtypes
from .errors import UopError, VerifyError
from .interp_blocks import Block, Loop, arrange
from .interp_linear import run_linear
from .interp_steps import STEPS, accumulator, array, fold_axes, reduced
from .ops import AddrSpace, Ops
from .uop import UOp

Array: TypeAlias = "npt.NDArray[Any]"


class Interpreter:
    """One run of a program: the values of its nodes, the memory and the scalars that it was given.

    It is the machine that the steps see, see `interp_steps`.
    """

    def __init__(self, memory: Mapping[UOp, Array], scalars: Mapping[UOp, Any]) -> None:
        self.memory = memory
        self.scalars = scalars
        self.values: dict[UOp, Any] = {}

    def step(self, node: UOp) -> None:
        """Run one node whose sources have run. An error names the node."""
        values = self.values
        try:
            values[node] = STEPS[node.op](node, [values.get(s) for s in node.src], self)
        except UopError as error:
            raise named(error, node) from None

    def call(self, body: UOp, memory: Mapping[UOp, Array], scalars: Mapping[UOp, Any]) -> None:
        """Run the body of a kernel."""
        Interpreter(memory, scalars).run(arranged(body))

    def run(self, block: Block) -> None:
        """Run what a block holds, in order."""
        for step in block.steps:
            if isinstance(step, Loop):
                self.loop(step)
            else:
                self.step(step)

    def loop(self, loop: Loop) -> None:
        """Run a loop and what closes it: an END for its effect, a REDUCE for the total of its operand."""
        closer = loop.closer
        if closer is None or closer.op is not Ops.REDUCE:
            self._iterate(loop, 0, None)
            if closer is not None:
                self.values[closer] = None
            return
        total = [accumulator(closer.arg[0], closer.dtype)]
        try:
            self._iterate(loop, 0, total)
        except UopError as error:  # the fold itself: an index that overflows
            raise named(error, closer) from None
        if closer.shape and not total[0].ndim:  # no iteration
            total[0] = np.broadcast_to(total[0], array_shape(closer))
        self.values[closer] = reduced(closer, total[0])

    def _iterate(self, loop: Loop, depth: int, total: list[Array] | None) -> None:
        """All values of the range at `depth`, outermost first."""
        r = loop.ranges[depth]
        for value in range(self.values[r.src[0]]):
            self.values[r] = value
            self.run(loop.levels[depth])
            if depth + 1 < len(loop.ranges):
                self._iterate(loop, depth + 1, total)
            elif loop.closer is not None:
                x = loop.closer.src[0]
                if total is None:
                    STEPS[Ops.END](loop.closer, [self.values.get(x)], self)
                else:
                    total[0] = fold_axes(loop.closer, total[0], array(x, self.values[x]))


def named(error: UopError, node: UOp) -> UopError:
    """The error, with the node at which it happened where it has none."""
    error.node = error.node or node
    return error


def array_shape(node: UOp) -> tuple[int, ...]:
    """The shape of a node where it is known without running. Raises VerifyError where it is symbolic."""
    if any(not isinstance(size, int) for size in node.shape):
        raise VerifyError(f"{node.op!r}: a symbolic shape in a loop that never runs")
    return tuple(size for size in node.shape if isinstance(size, int))


def evaluate(outputs: Sequence[UOp], inputs: Mapping[UOp, Any]) -> list[Array]:
    """The values of `outputs` as new arrays.

    `inputs` gives for each BUFFER and memory PARAM an array of its size and dtype (any shape), for each
    scalar PARAM a number. An effect in the graph (AFTER a STORE) writes into the arrays given. Raises
    VerifyError where an input is missing or does not fit,
    BoundsError for an access out of bounds or an index that overflows.
    """
    outputs = nodes("evaluate", outputs)
    for node in outputs:
        if node.dtype is dtypes.void:
            raise VerifyError(f"{node.op!r} is an effect: it has no value", remedy="run_program runs effects")
    machine = Interpreter(*_inputs(by_node("evaluate", inputs)))
    machine.run(arrange(tuple(outputs)))
    return [array(node, machine.values[node]).copy() for node in outputs]


def run_program(
    root: UOp | Sequence[UOp], memory: Mapping[UOp, Array], scalars: Mapping[UOp, Any] | None = None
) -> None:
    """Run a program for its effects on `memory`:
    contiguous arrays for its BUFFERs, PARAMs and, if wanted, ALLOCs.

    A graph runs in an order that its sources and AFTERs ask for (see `interp_blocks`). A tensor-level SINK,
    whose STOREs take views of memory and not INDEXes, computes all values from memory as it was before any of
    its STOREs, and then stores them in order. A sequence of nodes is a linear program: it runs as it stands,
    each RANGE opening a loop that lasts to the END that names it,
    each IF guarding what follows up to its ENDIF.

    Memory that no one wrote to holds NaN, or -1. Raises as `evaluate` does.
    """
    inputs = {**by_node("run_program", memory), **by_node("run_program", scalars or {})}
    given, numbers = _inputs(inputs, in_place=True)
    if isinstance(root, UOp):
        Interpreter(given, numbers).run(arranged(root))
    else:
        run_linear(nodes("run_program", root), Interpreter(given, numbers))


def arranged(body: UOp) -> Block:
    """The order of a program, kept with its root."""
    if "interp.block" not in body.memo:
        body.memo["interp.block"] = arrange((body,))
    block: Block = body.memo["interp.block"]
    return block


def _inputs(inputs: Mapping[UOp, Any], in_place: bool = False) -> tuple[dict[UOp, Array], dict[UOp, Any]]:
    """Memory as flat arrays, and scalars. Raises VerifyError where one does not fit its node."""
    memory: dict[UOp, Array] = {}
    scalars: dict[UOp, Any] = {}
    for node, given in inputs.items():
        if node.op is Ops.PARAM and node.arg.size is None:
            scalars[node] = given
            continue
        if node.op not in (Ops.BUFFER, Ops.PARAM, Ops.ALLOC) or node.addrspace is AddrSpace.ALU:
            raise VerifyError(f"{node.op!r} takes no input", remedy="give BUFFERs and PARAMs")
        data = np.asarray(given)
        if data.dtype != node.dtype.numpy or data.size != node.arg.size:
            raise VerifyError(
                f"{node.op.value} slot={node.arg.slot} holds {node.arg.size} of {node.dtype}, "
                f"{data.size} of {data.dtype} given"
            )
        if in_place and not (isinstance(given, np.ndarray) and data.flags.c_contiguous):
            raise VerifyError(f"memory for {node.op.value} slot={node.arg.slot} is no contiguous array")
        memory[node] = data.reshape(-1)
    return memory, scalars
