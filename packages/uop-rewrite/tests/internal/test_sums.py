"""What collects the terms of a sum says of its result that it is collected:
it is, and so the engine need not ask.
"""

from __future__ import annotations

import random

from uop_ir import AxisType, UOp
from uop_rewrite.sums import collect


def test_a_collected_sum_is_its_own() -> None:
    """Collected again without what its memo says."""
    rng = random.Random(0)  # noqa: S311
    leaves = [
        *(UOp.range(size, number, AxisType.LOOP) for number, size in enumerate((4, 8, 64))),
        UOp.variable("n", 1, 9),
    ]
    for _ in range(200):
        node = rng.choice(leaves)
        for _ in range(rng.randint(2, 8)):
            k, other = rng.choice((2, 3, 4, 8, 64)), rng.choice(leaves)
            node = rng.choice(
                (
                    node + other * k,
                    node * k + other,
                    node - other,
                    node // k * k + node % k,
                    (node % k) * k + node // k,
                )
            )
        found = collect(node + rng.randint(-9, 9))
        assert found.memo.pop("collected")
        assert collect(found) is found
