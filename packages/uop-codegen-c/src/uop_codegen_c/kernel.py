"""Programs of values as kernels: what they compute is stored, their buffers become arguments. Week 2."""

from __future__ import annotations

from math import prod

from uop_ir import Ops, UOp, VerifyError, dtypes


def as_kernel(root: UOp) -> UOp:
    """A program at tensor level as the body of a kernel:
    its values are stored to new PARAMs, BUFFERs become PARAMs.

    The outputs take the first slots, the BUFFERs those behind them in order of appearance. A SINK of STOREs
    to PARAMs is a kernel already. Raises VerifyError for a mix of the two,
    and for a value that cannot be stored.
    """
    outputs = root.src if root.op is Ops.SINK else (root,)
    effects = [o for o in outputs if o.dtype is dtypes.void]
    if len(effects) == len(outputs):
        return root
    if effects:
        raise VerifyError("values and effects in one program", remedy="STORE every value")
    if any(o.dtype is dtypes.index for o in outputs):
        raise VerifyError("an output of dtype index cannot be stored", remedy="CAST it, or leave it out")
    buffers = buffers_of(root)
    if any(n.op is Ops.PARAM and n.arg.size is not None for n in root.toposort()):
        raise VerifyError("values of a program with PARAMs", remedy="STORE each to a PARAM")
    slots = {b: UOp.param(len(outputs) + i, b.arg.size, b.dtype) for i, b in enumerate(buffers)}
    stores = []
    for slot, value in enumerate(outputs):
        sizes = [d for d in value.shape if isinstance(d, int)]
        if len(sizes) < len(value.shape):
            raise VerifyError(
                "a value of symbolic shape has no size to store it", remedy="STORE it to a PARAM"
            )
        stores.append(
            UOp.param(slot, prod(sizes), value.dtype).reshape(value.shape).store(value.substitute(slots))
        )
    return UOp.sink(*stores)


def buffers_of(root: UOp) -> list[UOp]:
    """The BUFFERs of a program of values, in the order
    in which a kernel of it takes them behind its outputs.
    """
    return [n for n in root.toposort() if n.op is Ops.BUFFER]


def memory_viewed(view: UOp) -> UOp:
    """The memory that a target of a STORE at tensor level is a view of."""
    while view.src:
        view = view.src[0]
    return view
