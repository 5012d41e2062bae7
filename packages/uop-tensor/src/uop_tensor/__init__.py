"""uop-tensor: lazy tensors, reverse-mode differentiation, the scheduler and jit. Week 5."""

from .creation import manual_seed
from .errors import TensorError
from .gradient import gradient
from .tensor import Tensor
from .value import no_grad

__all__ = [
    "Tensor",
    "TensorError",
    "gradient",
    "manual_seed",
    "no_grad",
]
