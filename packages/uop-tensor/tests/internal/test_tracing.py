"""What a tensor does while a function is traced."""

from collections.abc import Callable

import pytest

from uop_tensor import JitError, Tensor
from uop_tensor.live import tracing


@pytest.mark.parametrize(
    "method",
    [
        lambda t: t.numpy(),
        lambda t: t.item(),
        lambda t: t.tolist(),
        lambda t: bool(t),
    ],
)
def test_values_are_not_asked_for_in_a_trace(method: Callable[[Tensor], object]) -> None:
    t = Tensor([1.0])
    with tracing("step"):
        assert repr(t * 2) == "Tensor(shape=(1,), dtype=f32, traced)"
        assert t.realize() is t
        with pytest.raises(JitError, match="while step is traced"):
            method(t * 2)


def test_a_trace_is_told_of_assignments() -> None:
    t = Tensor([1.0])
    with tracing("step") as capture:
        t.assign(t + 1)
    assert list(capture.assignments.values()) == [t]
