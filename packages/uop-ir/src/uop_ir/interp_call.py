"""How the interpreter runs a CALL: its body on the memory and the scalars that it was given. Week 5."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .infer_structure import call_params
from .inline import bind, resized
from .interp_movement import MOVEMENT
from .ops import Ops
from .uop import UOp, index
from .walks import base

if TYPE_CHECKING:
    from .interp_steps import Machine


def call(node: UOp, values: list[Any], machine: Machine) -> Any:
    body, *given = node.src
    params = call_params(body)
    scalars = {p: v for p, v in zip(params, values[1:], strict=True) if not p.shape}
    if not any(base(g).op in MOVEMENT for g in given):
        machine.call(body, {p: v for p, v in zip(params, values[1:], strict=True) if p.shape}, scalars)
        return
    # of views, the body runs on the memory under them: it may store to it
    memory: dict[UOp, UOp] = {}
    views = {p: _view(g, memory, machine) for p, g in zip(params, given, strict=True) if p.shape}
    machine.call(bind(body, views), {p: machine.values[m] for m, p in memory.items()}, scalars)


def _view(view: UOp, memory: dict[UOp, UOp], machine: Machine) -> UOp:
    """The same view, its sizes numbers, of a PARAM that `memory` has for the memory under it."""
    chain: list[UOp] = []
    while view.op in MOVEMENT or view.op is Ops.AFTER:
        chain.append(view)
        view = view.src[0]
    now = memory.setdefault(view, UOp.param(len(memory), view.arg.size, view.dtype))
    for node in reversed(chain):
        if node.op in MOVEMENT:
            now = resized(node, (now, *(index(machine.values[s]) for s in node.src[1:])))
    return now
