"""The words of the reference against what the verifier accepts:
operands by number, types by trying each of them.
"""

import itertools

import pytest

from uop_ir import OPS, DType, Kind, Ops, Param, UOp, VerifyError, dtypes
from uop_ir.signatures import SIGNATURES

KINDS: dict[str, set[Kind]] = {
    "any": set(Kind) - {Kind.VOID},
    "number": {Kind.SIGNED, Kind.UNSIGNED, Kind.FLOAT, Kind.INDEX},
    "integer": {Kind.SIGNED, Kind.UNSIGNED},
    "integer or float": {Kind.SIGNED, Kind.UNSIGNED, Kind.FLOAT},
    "bool or integer": {Kind.BOOL, Kind.SIGNED, Kind.UNSIGNED},
    "float": {Kind.FLOAT},
    "bool": {Kind.BOOL},
    "index": {Kind.INDEX},
}
#: Ops of values without an arg, and those of loops that take scalars: all that scalars of each dtype can try.
TRIED = [op for op in Ops if SIGNATURES[op].shape == "broadcast" or SIGNATURES[op].types.startswith("float")]
TRIED += [Ops.NEG, Ops.IF]


def scalar(dtype: DType) -> UOp:
    return UOp(Ops.PARAM, (), Param(dtype, name="x", min=0, max=1))


@pytest.mark.parametrize("op", Ops)
def test_every_cell_is_there(op: Ops) -> None:
    assert all(SIGNATURES[op])
    assert OPS[op].meaning


@pytest.mark.parametrize("op", Ops)
def test_operands_are_as_many_as_the_table_takes(op: Ops) -> None:
    names = [] if SIGNATURES[op].operands == "none" else SIGNATURES[op].operands.split(", ")
    optional = [n for n in names if n.startswith("[") or n == "...]"]
    assert len(names) - len(optional) == OPS[op].least
    assert OPS[op].most == (None if "...]" in names else len(names))


@pytest.mark.parametrize("op", TRIED)
def test_types_are_those_that_are_accepted(op: Ops) -> None:
    said, _, result = SIGNATURES[op].types.partition(" -> ")
    words = said.split(", ")
    for given in itertools.product(dtypes.all, repeat=len(words)):
        fits = all(
            dtype is given[place - 1] if word == "same" else dtype.kind in KINDS[word]
            for place, (word, dtype) in enumerate(zip(words, given, strict=True))
        )
        try:
            node = UOp(op, [scalar(dtype) for dtype in given])
        except VerifyError:
            assert not fits, given
            continue
        assert fits, given
        wanted = {"same": given[0], "x's": given[-1], "bool": dtypes.bool, "void": dtypes.void}[result]
        assert node.dtype is wanted
