"""A trace as JSON, by the schema in `trace.schema.json`. Week 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from uop_ir import UOp

from .numbering import Numbering
from .trace import PassTrace, Rewrite, Trace

VERSION = 1


def trace_json(trace: Trace, first: Sequence[UOp] = ()) -> dict[str, Any]:
    """A trace as an object that `json.dump` writes.
    Nodes are numbered; those in `first` take the first numbers.

    Rewrites in which no rule applied are left out.
    """
    number = Numbering(trace, first)
    return {
        "format": "uop-trace",
        "version": VERSION,
        "nodes": [
            {
                "op": node.op.value,
                "src": [number[s] for s in node.src],
                "dtype": str(node.dtype),
                "shape": [size if isinstance(size, int) else None for size in node.shape],
                "text": line.partition(" = ")[2],
            }
            for node, line in zip(number.numbers, number.lines, strict=True)
        ],
        "passes": [_pass(step, number) for step in trace.passes],
    }


def _pass(step: PassTrace, number: Numbering) -> dict[str, Any]:
    return {
        "name": step.name,
        "purpose": step.purpose,
        "before": number[step.before],
        "after": None if step.after is None else number[step.after],
        "rewrites": [_rewrite(rewrite, number) for rewrite in step.rewrites if rewrite.steps],
        "links": [[number[a], number[b]] for a, new in step.links().items() for b in new],
    }


def _rewrite(rewrite: Rewrite, number: Numbering) -> dict[str, Any]:
    return {
        "root": number[rewrite.root],
        "result": None if rewrite.result is None else number[rewrite.result],
        "order": rewrite.order,
        "depth": rewrite.depth,
        "steps": [
            {"rule": rule.name, "at": number[place], "before": number[before], "after": number[after]}
            for (rule, before, after), place in zip(rewrite.steps, rewrite.places, strict=True)
        ],
    }
