"""Elementwise methods against NumPy in float64, over dtypes and special values."""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from uop_ir import DType, dtypes
from uop_tensor import Tensor, TensorError

Array = npt.NDArray[Any]

SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan]
VALUES = np.array(
    [
        *SPECIAL,
        0.5,
        -0.5,
        1.5,
        2.5,
        -2.5,
        0.3,
        -0.7,
        1e-3,
        -1e-3,
        3.25,
        7.0,
        -7.75,
        30.0,
        -30.0,
        90.0,
        -90.0,
        1000.0,
        -1e4,
    ]
)
#: About 4 units in the last place, and what exp adds: the rounding of x log2(e), as much as x has units.
RTOL = {dtypes.f16: 2e-3, dtypes.bf16: 1.6e-2, dtypes.f32: 1e-6, dtypes.f64: 1e-14}
#: The smallest normal number.
TINY = {dtypes.f16: 2.0**-14, dtypes.bf16: 2.0**-126, dtypes.f32: 2.0**-126, dtypes.f64: 2.0**-1022}


def sigmoid(x: Array) -> Array:
    return np.asarray(np.where(x < 0, np.exp(np.minimum(x, 0)), 1) / (1 + np.exp(-np.abs(x))))


UNARY: dict[str, tuple[Callable[[Array], Array], float]] = {
    "exp": (np.exp, 10),
    "exp2": (np.exp2, 1),
    "log": (np.log, 2),
    "log2": (np.log2, 1),
    "sqrt": (np.sqrt, 1),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 1),
    "reciprocal": (lambda x: 1 / x, 1),
    "sin": (np.sin, 1),
    "tanh": (np.tanh, 4),
    "sigmoid": (sigmoid, 10),
    "silu": (lambda x: x * sigmoid(x), 10),
    "relu": (lambda x: np.maximum(x, 0), 0),
    "square": (np.square, 1),
    "neg": (np.negative, 0),
    "abs": (np.abs, 0),
    "sign": (np.sign, 0),
    "floor": (np.floor, 0),
    "ceil": (np.ceil, 0),
    "round": (np.rint, 0),
    "trunc": (np.trunc, 0),
    "isnan": (np.isnan, 0),
    "isinf": (np.isinf, 0),
}


def assert_close(found: Array, wanted: Array, dtype: DType, factor: float = 1.0, atol: float = 0.0) -> None:
    """Equal up to `factor` of the dtype's tolerance; `wanted` is in float64 and is rounded to the dtype
    first.
    """
    with np.errstate(all="ignore"):
        wanted = np.asarray(wanted).astype(dtype.numpy)
    assert found.dtype == wanted.dtype
    if not dtype.is_float:
        np.testing.assert_array_equal(found, wanted)
        return
    np.testing.assert_allclose(
        found.astype(np.float64),
        wanted.astype(np.float64),
        rtol=factor * RTOL[dtype],
        atol=max(atol, TINY[dtype]),
    )


def same_bits(found: Array, wanted: Array) -> None:
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", dtypes.floats, ids=str)
@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str, dtype: DType) -> None:
    function, factor = UNARY[name]
    x = VALUES.astype(dtype.numpy)
    wanted = function(x.astype(np.float64))
    found = getattr(Tensor(x), name)().numpy()
    if factor == 0 and wanted.dtype != bool:
        same_bits(
            np.where(np.isnan(found), np.nan, found.astype(np.float64)),
            np.where(np.isnan(wanted), np.nan, wanted),
        )
    else:
        assert_close(
            found,
            wanted,
            dtypes.bool if wanted.dtype == bool else dtype,
            max(factor, 1) if dtype.bits > 16 else 1,
        )


@pytest.mark.parametrize("dtype", dtypes.floats, ids=str)
def test_cos_to_a_few_units_of_one(dtype: DType) -> None:
    x = np.array([0.0, 1.0, -1.0, np.pi / 2, 3.0, 100.0, -1000.0, 12345.0]).astype(dtype.numpy)
    wanted = np.cos(x.astype(np.float64))
    np.testing.assert_allclose(
        Tensor(x).cos().numpy().astype(np.float64), wanted, rtol=0, atol=2 * RTOL[dtype]
    )


@pytest.mark.parametrize("dtype", [dtypes.f32, dtypes.f64], ids=str)
def test_tanh_keeps_small_arguments(dtype: DType) -> None:
    x = np.geomspace(1e-30, 20, 301).astype(dtype.numpy)
    x = np.concatenate([x, -x])
    np.testing.assert_allclose(Tensor(x).tanh().numpy(), np.tanh(x.astype(np.float64)), rtol=2 * RTOL[dtype])


@pytest.mark.parametrize("name", ["exp", "log", "sqrt", "sin", "tanh", "sigmoid"])
def test_integers_are_taken_as_f32(name: str) -> None:
    found = getattr(Tensor([1, 2, 3]), name)()
    assert found.dtype is dtypes.f32
    wanted = UNARY[name][0](np.array([1.0, 2.0, 3.0]))
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-6)


@pytest.mark.parametrize("name", ["floor", "ceil", "round", "trunc", "abs", "sign", "square", "neg", "relu"])
@pytest.mark.parametrize("dtype", [dtypes.i8, dtypes.i64, dtypes.u8], ids=str)
def test_whole_numbers(name: str, dtype: DType) -> None:
    x = np.array([0, 1, 5, dtype.max, dtype.min]).astype(dtype.numpy)
    with np.errstate(over="ignore"):
        wanted = UNARY[name][0](x) if name not in ("floor", "ceil", "round", "trunc") else x
    np.testing.assert_array_equal(getattr(Tensor(x), name)().numpy(), wanted.astype(dtype.numpy))


PAIRS = np.array([(a, b) for a in [*SPECIAL, 2.0, -3.5, 7.25] for b in [*SPECIAL, 2.0, -0.5, 3.0]]).T
BINARY = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "truediv": operator.truediv,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "eq": operator.eq,
    "ne": operator.ne,
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", BINARY)
def test_binary_floats(name: str) -> None:
    x, y = PAIRS
    found = BINARY[name](Tensor(x), Tensor(y)).numpy()
    wanted = BINARY[name](x, y)
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)
    if name in ("add", "sub", "mul", "truediv", "floordiv"):
        real = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.signbit(found[real]), np.signbit(wanted[real]))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("dtype", [dtypes.i8, dtypes.u8, dtypes.i64], ids=str)
def test_binary_integers(name: str, dtype: DType) -> None:
    values = [dtype.min, dtype.max, 0, 1, 2, 5, 7, dtype.min // 2]
    x, y = np.array(
        [(a, b) for a in values for b in values if b or name not in ("floordiv", "mod", "truediv")]
    ).T
    x, y = x.astype(dtype.numpy), y.astype(dtype.numpy)
    found = BINARY[name](Tensor(x), Tensor(y))
    wanted = BINARY[name](x, y)
    if name == "truediv":
        assert found.dtype is dtypes.f32
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-6)
    else:
        np.testing.assert_array_equal(found.numpy(), wanted)


def test_division_of_integers_by_zero() -> None:
    x = np.array([5, 0, -3])
    assert (Tensor(x) // 0).tolist() == [0, 0, 0]
    assert (Tensor(x) % 0).tolist() == [5, 0, -3]


@pytest.mark.parametrize("op", [operator.and_, operator.or_, operator.xor])
def test_bits(op: Callable[[Any, Any], Any]) -> None:
    x, y = np.array([(a, b) for a in (0, 1, 5, -1, -128, 127) for b in (0, 3, -2, 127)], np.int8).T
    np.testing.assert_array_equal(op(Tensor(x), Tensor(y)).numpy(), op(x, y))
    np.testing.assert_array_equal(op(Tensor(x > 0), Tensor(y > 0)).numpy(), op(x > 0, y > 0))
    np.testing.assert_array_equal((~Tensor(x)).numpy(), ~x)
    np.testing.assert_array_equal((~Tensor(x > 0)).numpy(), ~(x > 0))


def test_shifts() -> None:
    x = np.array([1, -1, 100, -128], np.int8)
    np.testing.assert_array_equal((Tensor(x) << 3).numpy(), x << np.int8(3))
    np.testing.assert_array_equal((Tensor(x) >> 3).numpy(), x >> np.int8(3))
    assert (Tensor(x) << 8).tolist() == [0, 0, 0, 0]
    assert (Tensor(x) >> 100).tolist() == [0, -1, 0, -1]


def test_reflected_operators() -> None:
    x = np.array([1.0, 2.0, 4.0])
    t = Tensor(x)
    for op in (operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod):
        np.testing.assert_array_equal(op(7, t).numpy(), op(7, x))
        np.testing.assert_array_equal(op(x + 1, t).numpy(), op(x + 1, x))
    assert (1 << Tensor([1, 2])).tolist() == [2, 4]
    assert (64 >> Tensor([1, 2])).tolist() == [32, 16]
    assert (6 & Tensor([3])).tolist() == [2]
    assert (6 | Tensor([3])).tolist() == [7]
    assert (6 ^ Tensor([3])).tolist() == [5]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    ("dtype", "rtol"), [(dtypes.f32, 1e-6), (dtypes.f64, 1e-12), (dtypes.f16, 2e-3)], ids=str
)
def test_power_of_tensors(dtype: DType, rtol: float) -> None:
    bases = [*SPECIAL, 2.0, -2.0, 0.5, -0.5, 10.0, 1.0001, 3.7, -3.0]
    exponents = [*SPECIAL, 2.0, 3.0, -2.0, -3.0, 0.5, -0.5, 1.5, 20.0, 0.3]
    x, y = (v.astype(dtype.numpy) for v in np.array([(a, b) for a in bases for b in exponents]).T)
    wanted = (x.astype(np.float64) ** y.astype(np.float64)).astype(dtype.numpy)
    found = (Tensor(x) ** Tensor(y)).numpy()
    np.testing.assert_allclose(found, wanted, rtol=rtol)
    real = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(found[real]), np.signbit(wanted[real]))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("exponent", [0, 1, 2, 3, -1, -2, -3, 7, 0.5, -0.5, 2.0, 1.5, -1.5])
def test_power_of_a_number(exponent: float) -> None:
    x = np.array([*SPECIAL, 2.0, -3.0, 0.7, 12.5])
    found = (Tensor(x) ** exponent).numpy()
    wanted = np.float_power(x, exponent)
    if exponent == 0.5:
        wanted = np.sqrt(x)
    if abs(exponent) in (0.5,):
        found, wanted = found[np.isfinite(x) & (x != 0)], wanted[np.isfinite(x) & (x != 0)]
    np.testing.assert_allclose(found, wanted, rtol=1e-13)


def test_power_of_integers() -> None:
    x = np.array([0, 1, -1, 2, -3, 7], np.int32)
    for n in (0, 1, 2, 5, 40):
        np.testing.assert_array_equal((Tensor(x) ** n).numpy(), x ** np.int32(n))
    y = np.array([3, 0, 5, 31, 7, 11], np.int32)
    np.testing.assert_array_equal((Tensor(x) ** Tensor(y)).numpy(), x**y)
    assert (Tensor([1, -1, -1, 2, 0]) ** Tensor([-3, -3, -2, -1, -1])).tolist() == [1, -1, 1, 0, 0]
    np.testing.assert_array_equal((2 ** Tensor([0, 1, 10])).numpy(), [1, 2, 1024])
    with pytest.raises(TensorError, match="to the power -1"):
        Tensor([1]) ** -1


def test_minimum_maximum_clip() -> None:
    x, y = PAIRS
    np.testing.assert_array_equal(Tensor(x).maximum(Tensor(y)).numpy(), np.maximum(x, y))
    np.testing.assert_array_equal(Tensor(x).minimum(Tensor(y)).numpy(), np.minimum(x, y))
    least = np.iinfo(np.int8).min
    assert Tensor(np.array([least, 5], np.int8)).minimum(Tensor(np.array([3, 7], np.int8))).tolist() == [
        least,
        5,
    ]
    assert Tensor(np.array([200, 5], np.uint8)).minimum(7).tolist() == [7, 5]
    assert Tensor([True, False]).minimum(True).tolist() == [True, False]
    np.testing.assert_array_equal(Tensor(x).clip(-1, 2).numpy(), np.clip(x, -1, 2))
    np.testing.assert_array_equal(Tensor(x).clip(max=2).numpy(), np.minimum(x, 2))
    assert Tensor([1.0, 5.0]).clip(4, 2).tolist() == [2, 2]
    assert np.isnan(
        Tensor([1.0, np.nan, 3.0]).clip(Tensor([np.nan, 0.0, 0.0]), Tensor([2.0, 2.0, np.nan])).numpy()
    ).all()
    assert Tensor([True, False]).clip(True).tolist() == [True, True]
    assert Tensor([[]]).clip(0, 1).shape == (1, 0)
    least, greatest = np.iinfo(np.int32).min, np.iinfo(np.int32).max
    ends = Tensor(np.array([least, greatest], np.int32))
    assert ends.clip(least, greatest).tolist() == [least, greatest]
    assert ends.clip(0, greatest - 1).tolist() == [0, greatest - 1]


def test_where() -> None:
    c = np.array([[True], [False]])
    x, y = np.array([1.0, 2.0, 3.0]), np.float64(np.nan)
    np.testing.assert_array_equal(Tensor(c).where(Tensor(x), Tensor(y)).numpy(), np.where(c, x, y))
    assert Tensor(c).where(1, 0.5).tolist() == [[1.0], [0.5]]
    with pytest.raises(TensorError, match="the condition has dtype f32"):
        Tensor([1.0]).where(1, 2)
    with pytest.raises(TensorError, match="do not broadcast"):
        Tensor([True, False]).where(Tensor([1, 2, 3]), 0)


def test_bool_arithmetic() -> None:
    x, y = np.array([True, True, False, False]), np.array([True, False, True, False])
    np.testing.assert_array_equal((Tensor(x) + Tensor(y)).numpy(), x + y)
    np.testing.assert_array_equal((Tensor(x) * Tensor(y)).numpy(), x * y)
    assert (Tensor(x) + 1).dtype is dtypes.i64
    refused: tuple[Callable[[Tensor], Tensor], ...] = (
        lambda t: t - t,
        lambda t: -t,
        lambda t: t // t,
        lambda t: t % t,
        lambda t: t**t,
        lambda t: t << t,
    )
    for f in refused:
        with pytest.raises(TensorError, match="bool"):
            f(Tensor(x))


def test_equality_with_what_is_no_operand_is_false() -> None:
    equal: object = Tensor([1]) == None
    unequal: object = Tensor([1]) != "1"
    assert equal is False
    assert unequal is True


@pytest.mark.parametrize("source", [d for d in dtypes.all if d is not dtypes.index], ids=str)
@pytest.mark.parametrize("target", [d for d in dtypes.all if d is not dtypes.index], ids=str)
def test_casts_of_small_numbers(source: DType, target: DType) -> None:
    x = np.array([0, 1, 2, 5, 100]).astype(source.numpy)
    found = Tensor(x).cast(target)
    assert found.dtype is target
    np.testing.assert_array_equal(found.numpy(), x.astype(target.numpy))


def test_casts_of_what_does_not_fit() -> None:
    x = Tensor([np.nan, np.inf, -np.inf, 1e10, -1.9, 1.9], dtypes.f64)
    assert x.int().tolist() == [0, 2**31 - 1, -(2**31), 2**31 - 1, -1, 1]
    assert x.cast(dtypes.u8).tolist() == [0, 255, 0, 255, 0, 1]
    assert x.bool().tolist() == [True] * 6
    assert Tensor([300, -1]).cast(dtypes.u8).tolist() == [44, 255]
    assert [t.dtype for t in (x.float(), x.half(), x.bfloat16(), x.double(), x.long())] == [
        dtypes.f32,
        dtypes.f16,
        dtypes.bf16,
        dtypes.f64,
        dtypes.i64,
    ]
    assert Tensor([1.0]).bitcast(dtypes.u32).tolist() == [0x3F800000]
    with pytest.raises(TensorError, match="same width"):
        Tensor([1.0]).bitcast(dtypes.u8)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            lambda: Tensor([1.0, 2.0]) + Tensor([1.0, 2.0, 3.0]),
            r"\+: shapes \(2,\) and \(3,\) do not broadcast",
        ),
        (lambda: operator.add(Tensor([1.0]), "x"), r"\+: str is no operand"),
        (lambda: Tensor([1.0]).eq("x"), "==: str is no operand"),  # type: ignore[arg-type]
        (lambda: Tensor([1.0]).ne_([1.0]), "!=: list is no operand"),  # type: ignore[arg-type]
        (lambda: Tensor([1.0]) & 1, "&: operands of dtype f32"),
        (lambda: ~Tensor([1.0]), "~: an operand of dtype f32"),
        (lambda: Tensor(np.ones(1, np.uint64)) + Tensor([1]), "no dtype holds both u64 and i64"),
        (lambda: Tensor([True]).sign(), "sign: an operand of dtype bool"),
    ],
)
def test_errors_name_the_method(wrong: Callable[[], object], message: str) -> None:
    with pytest.raises(TensorError, match=message):
        wrong()


@pytest.mark.parametrize("dtype", [dtypes.f16, dtypes.bf16])
def test_short_floats_round_once_in_divisions_and_powers(dtype: DType) -> None:
    rng = np.random.default_rng(0)
    x = Tensor(rng.normal(0, 300, 200).astype(np.float32)).cast(dtype)
    y = Tensor(rng.choice([0.1, 0.3, 3, 7, -0.7, -5], 200).astype(np.float32)).cast(dtype)
    a, b = x.float().numpy(), y.float().numpy()
    for found, wanted in ((x // y, a // b), (x**-2, 1 / (a * a)), (x**3, a * a * a)):
        assert found.dtype is dtype
        np.testing.assert_array_equal(found.float().numpy(), Tensor(wanted).cast(dtype).float().numpy())
