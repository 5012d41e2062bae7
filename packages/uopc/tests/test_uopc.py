"""The meta-package gives the names of the packages below it, not copies."""

import uop_ir
import uop_tensor
import uopc


def test_names_are_those_of_the_packages() -> None:
    assert uopc.Tensor is uop_tensor.Tensor
    assert (uopc.UOp, uopc.Ops, uopc.dtypes) == (uop_ir.UOp, uop_ir.Ops, uop_ir.dtypes)


def test_every_public_name_is_there() -> None:
    assert all(hasattr(uopc, name) for name in uopc.__all__)
