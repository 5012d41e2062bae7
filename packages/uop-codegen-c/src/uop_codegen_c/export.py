"""Export: a plan becomes a folder of C that builds with make,
without Python, and computes the same bits. Week 6.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy.typing as npt

from uop_ir import Plan, UOp, UopError

from .export_model import contents, make_model
from .export_program import makefile, program
from .export_text import header, source


def export_plan(
    folder: Path,
    name: str,
    plan: Plan,
    *,
    inputs: Mapping[str, UOp],
    outputs: Mapping[str, UOp],
    weights: Mapping[str, UOp],
    scalars: Mapping[str, UOp],
    data: Mapping[str, npt.NDArray[Any]],
    computed: Mapping[UOp, UOp] | None = None,
) -> list[Path]:
    """Write NAME.h, NAME.c, NAME.bin, main.c and Makefile to a folder, which is made; the paths written.

    All memory of the plan has a name: each value of `inputs`, `outputs` and `weights` is a PARAM of the plan,
    reshaped to the shape that it is to have; one that the plan does not use may be among them. Outputs may be
    memory that has a name already. `data` has the contents of each weight; what a run stores to weights is
    there in the next one. `scalars` are the numbers that a run is given: scalars of the
    plan, or what its other ones are computed from, each as `computed` says.

    The same plan gives the same bytes, on machines of one kind. Raises UopError for names that will not do in
    C and for a folder that cannot be written, BackendError where the plan cannot be C.
    """
    model = make_model(
        name, plan, inputs=inputs, outputs=outputs, weights=weights, scalars=scalars, computed=computed or {}
    )
    files: dict[str, bytes] = {
        f"{name}.h": header(model).encode(),
        f"{name}.c": source(model).encode(),
        f"{name}.bin": contents(model, data),
        "main.c": program(model).encode(),
        "Makefile": makefile(model).encode(),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in files.items():
            (folder / file).write_bytes(text)
    except OSError as error:
        raise UopError(f"cannot write to {folder}: {error.strerror}") from None
    return [folder / file for file in files]
