"""uop-tensor: lazy tensors, reverse-mode differentiation, the scheduler and jit. Week 5."""

from .creation import manual_seed
from .errors import TensorError
from .export import export
from .gradient import gradient
from .jit import jit
from .live import JitError
from .program import clear_plans
from .tensor import Tensor
from .value import no_grad

__all__ = [
    "JitError",
    "Tensor",
    "TensorError",
    "clear_plans",
    "export",
    "gradient",
    "jit",
    "manual_seed",
    "no_grad",
]
