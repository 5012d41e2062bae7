"""A method of a tensor beside PyTorch's: for the tests that compare them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from uop_ir import override, settings
from uop_tensor import Tensor


def compare(
    torch: Any,
    ours: Callable[..., Any],
    theirs: Callable[..., Any],
    *arrays: Any,
    device: str = "INTERP",
    value: tuple[float, float],
    gradient: tuple[float, float],
) -> None:
    """Values, dtypes, and the gradient of every float operand
    for the same random gradient of the first result.

    `value` and `gradient` are how far they may be apart: relative, absolute.
    """
    with override(settings, dev=device):
        own = [Tensor(a) for a in arrays]
        other = [torch.tensor(a, requires_grad=a.dtype.kind == "f") for a in arrays]
        found, wanted = ours(*own), theirs(*other)
        mine = list(found) if isinstance(found, tuple) else [found]
        its = list(wanted) if isinstance(wanted, tuple | list) else [wanted]
        if its[0].requires_grad:
            seed = np.random.default_rng(1).standard_normal(mine[0].shape).astype(mine[0].dtype.numpy)
            its[0].backward(torch.tensor(seed))
            operands = [o for o in other if o.requires_grad]
            given = [t for t, o in zip(own, other, strict=True) if o.requires_grad]
            for grad, o in zip(mine[0].gradient(*given, seed=Tensor(seed)), operands, strict=True):
                np.testing.assert_allclose(grad.numpy(), o.grad.numpy(), *gradient)
        for result, expected in zip(mine, its, strict=True):
            array = expected.detach().numpy()
            assert result.shape == array.shape
            assert result.numpy().dtype == array.dtype
            np.testing.assert_allclose(result.numpy(), array, *value)
