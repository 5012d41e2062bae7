"""The same graph gives the same bytes in every process,
whatever was built there before, and in whatever order.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from random import Random

from uop_codegen_c import Freedoms, generate
from uop_ir import Ops, UOp, dtypes

HERE = Path(__file__).parent
COUNT = 12


def kernels() -> list[UOp]:
    """A reduction beside a map, a matmul, a gather, masks, a symbolic size, and random graphs."""
    from test_golden import (  # found in a process of its own, whose path has this folder
        embedding,
        matmul,
        taste,
    )
    from test_net import Graphs

    n = UOp.variable("n", 1, 64)
    part = UOp.param(1, 64, dtypes.f32).shrink(((0, n),))
    image = UOp.param(1, 400, dtypes.f32).reshape((20, 20)).pad(((1, 1), (1, 1))).shrink(((0, 20), (2, 22)))
    total = image.reduce(Ops.ADD, 1).reshape((20, 1)).expand((20, 20))
    return [
        taste(),
        matmul(40),
        embedding(65, 16, 9),
        UOp.sink(UOp.param(0, 64, dtypes.f32).shrink(((0, n),)).store(part * 2.0 + part)),
        UOp.sink(UOp.param(0, 400, dtypes.f32).reshape((20, 20)).store(image - total)),
        *(Graphs(Random(seed)).body() for seed in range(COUNT)),  # noqa: S311
    ]


def digest(body: UOp) -> str:
    made = generate(body, Freedoms())
    return hashlib.sha256((made.preamble + made.text).encode()).hexdigest()


def unrelated() -> list[UOp]:
    """Nodes like those of the kernels, which stay alive and have been looked at."""
    x, r = UOp.param(1, 400, dtypes.f32), UOp.range(20, 0)
    nodes = [x.reshape((20, 20)).pad(((1, 1), (1, 1))), (r + 1 < 20) & (r < 7), x * 2.0 + 1.0, r * 20 + 3]
    generate(UOp.sink(UOp.param(0, 20, dtypes.f32).store(x.reshape((20, 20)).reduce(Ops.ADD, 1))))
    return nodes


def digests(seed: str, setup: str, order: str) -> list[str]:
    """Those of all kernels, made in an order in a process of its own."""
    script = (
        f"import sys; sys.path.insert(0, {str(HERE)!r}); import test_deterministic as t; kept = {setup};"
        f"ks = t.kernels(); found = {{i: t.digest(ks[i]) for i in {order}(range(len(ks)))}};"
        "print('\\n'.join(found[i] for i in range(len(ks))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_texts_are_the_same_in_another_process() -> None:
    first = digests("0", "None", "list")
    assert len(set(first)) == COUNT + 5
    assert digests("1", "t.unrelated()", "reversed") == first
    assert digests("4711", "t.unrelated(), t.kernels()[::2]", "list") == first
