"""The whole stack under one name: tensors, the graph below them, and its types."""

from uop_ir import Ops, UOp, dtypes
from uop_tensor import Tensor, jit

__all__ = ["Ops", "Tensor", "UOp", "dtypes", "jit"]
