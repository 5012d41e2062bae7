"""uop-tensor: lazy tensors, reverse-mode differentiation, the scheduler and jit. Week 5."""

from .autodiff import checkpoint, custom_gradient, jvp, vjp
from .errors import ShareError, TensorError
from .explain import explain
from .export import export
from .gradient import gradient
from .jit import jit
from .live import JitError
from .program import clear_plans
from .tensor import Tensor
from .threefry import get_rng_state, manual_seed, set_rng_state
from .value import no_grad

__all__ = [
    "JitError",
    "ShareError",
    "Tensor",
    "TensorError",
    "checkpoint",
    "clear_plans",
    "custom_gradient",
    "explain",
    "export",
    "get_rng_state",
    "gradient",
    "jit",
    "jvp",
    "manual_seed",
    "no_grad",
    "set_rng_state",
    "vjp",
]
