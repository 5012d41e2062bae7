"""The namespace of the array API standard, function by function, against array-api-strict."""

import inspect
import itertools
import math
import operator
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import array_api_strict
import numpy as np
import pytest

import uop_tensor.array_api as xp
from uop_ir import BackendError
from uop_tensor import Tensor, TensorError, jit

pytestmark = pytest.mark.net
#: The oracle. What is deliberately wrong goes to functions of no type.
strict: Any = array_api_strict
untyped: Any = xp
strict.set_array_api_strict_flags(api_version="2023.12")
BOOL = ["bool"]
SIGNED = ["int8", "int16", "int32", "int64"]
UNSIGNED = ["uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float32", "float64"]
INTEGERS = [*SIGNED, *UNSIGNED]
NUMBERS = [*INTEGERS, *FLOATS]
ALL = [*BOOL, *NUMBERS]
SHAPES: list[tuple[int, ...]] = [(), (0,), (1,), (5,), (2, 3), (2, 0, 3), (3, 1, 2)]
#: Numbers at which functions behave in their own ways.
SPECIAL = [0.0, -0.0, 1.0, -1.0, math.nan, math.inf, -math.inf, 0.5, -0.5, 2.0, 3.0, -2.5, 1e30, -1e-30]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # NumPy tells of empty means too
        yield


def sample(dtype: str, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Numbers of a dtype: special ones, and those at the ends of its range."""
    rng = np.random.default_rng([seed, *shape])
    if dtype == "bool":
        return np.asarray(rng.integers(0, 2, shape).astype(bool))
    if dtype in FLOATS:
        x = rng.normal(size=shape) * 3
        return np.where(rng.random(shape) < 0.4, rng.choice(SPECIAL, shape), x).astype(dtype)
    limits = np.iinfo(dtype)
    mild = rng.integers(max(limits.min, -5), 6, shape).astype(dtype)
    ends = rng.choice(np.array([limits.min, limits.max], dtype), shape)
    return np.where(rng.random(shape) < 0.2, ends, mild).astype(dtype)


def same(found: Any, wanted: Any, rtol: float = 0.0) -> None:
    """The same structure, dtype, shape and elements."""
    if isinstance(wanted, tuple | list):
        assert len(found) == len(wanted)
        for f, w in zip(found, wanted, strict=True):
            same(f, w, rtol)
        return
    assert isinstance(found, xp.Array)
    other = np.from_dlpack(wanted)
    assert found.dtype is getattr(xp, other.dtype.name)
    assert found.shape == other.shape
    if rtol:
        limit = rtol * (1 if other.dtype == np.float32 else 1e-7)
        np.testing.assert_allclose(found.numpy(), other, rtol=limit, atol=limit)
    else:
        np.testing.assert_array_equal(found.numpy(), other)


def both(function: str, arguments: Sequence[Any], rtol: float = 0.0, **options: Any) -> None:
    """A function on arrays of both namespaces; NumPy arrays among the arguments stand for them."""
    ours, theirs = (
        getattr(m, function)(
            *(converted(m, a) for a in arguments), **{k: converted(m, v) for k, v in options.items()}
        )
        for m in (xp, strict)
    )
    same(ours, theirs, rtol)


def converted(module: Any, x: Any) -> Any:
    if isinstance(x, list) and x and isinstance(x[0], np.ndarray):
        return [converted(module, part) for part in x]
    return module.asarray(x) if isinstance(x, np.ndarray) else x


UNARY = {
    **dict.fromkeys(["abs", "negative", "positive", "sign", "square"], (NUMBERS, 0.0)),
    **dict.fromkeys(["ceil", "floor", "round", "trunc", "isfinite", "isinf", "isnan"], (NUMBERS, 0.0)),
    **dict.fromkeys(["sqrt", "signbit"], (FLOATS, 0.0)),
    **dict.fromkeys(["bitwise_invert"], ([*BOOL, *INTEGERS], 0.0)),
    **dict.fromkeys(["logical_not"], (BOOL, 0.0)),
    **dict.fromkeys(
        ["acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "exp"], (FLOATS, 1e-5)
    ),
    **dict.fromkeys(["expm1", "log", "log10", "log1p", "log2", "sin", "sinh", "tan", "tanh"], (FLOATS, 1e-5)),
}


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_array(name: str) -> None:
    kinds, rtol = UNARY[name]
    for number, dtype in enumerate(kinds):
        both(name, [sample(dtype, SHAPES[number % len(SHAPES)])], rtol)
        both(name, [sample(dtype, (4, 9))], rtol)
    for dtype in set(kinds) & set(FLOATS):
        both(name, [np.array(SPECIAL, dtype)], rtol)


def pairs(kinds: list[str]) -> list[tuple[str, str]]:
    """The pairs of dtypes that have one together."""
    groups = [BOOL, FLOATS, SIGNED, UNSIGNED]
    found = [(a, b) for g in groups for a, b in itertools.product(g, g)]
    found += [(a, b) for s, u in itertools.product(SIGNED, UNSIGNED[:3]) for a, b in ((s, u), (u, s))]
    return [(a, b) for a, b in found if a in kinds and b in kinds]


BINARY = {
    **dict.fromkeys(["add", "multiply", "subtract", "maximum", "minimum"], (NUMBERS, 0.0)),
    **dict.fromkeys(["less", "less_equal", "greater", "greater_equal"], (NUMBERS, 0.0)),
    **dict.fromkeys(["equal", "not_equal"], (ALL, 0.0)),
    **dict.fromkeys(["divide", "copysign"], (FLOATS, 0.0)),
    **dict.fromkeys(["bitwise_and", "bitwise_or", "bitwise_xor"], ([*BOOL, *INTEGERS], 0.0)),
    **dict.fromkeys(["logical_and", "logical_or", "logical_xor"], (BOOL, 0.0)),
    **dict.fromkeys(["atan2", "hypot", "logaddexp"], (FLOATS, 1e-5)),
}


@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_arrays(name: str) -> None:
    kinds, rtol = BINARY[name]
    shapes = [((3,), (3,)), ((2, 1), (3,)), ((), (2, 2)), ((0,), (1,))]
    every = pairs(kinds) if name in ("add", "bitwise_and", "divide", "equal") else [(d, d) for d in kinds]
    for number, (one, two) in enumerate(every):
        left, right = shapes[number % len(shapes)]
        both(name, [sample(one, left), sample(two, right, 1)], rtol)
    for dtype in set(kinds) & set(FLOATS):
        x = np.array(SPECIAL, dtype)
        both(name, [x[:, None], x], rtol)


@pytest.mark.parametrize("dtype", NUMBERS)
def test_division_and_powers(dtype: str) -> None:
    """Of integers without zeros, where the standard says nothing."""
    x, y = sample(dtype, (40,)), sample(dtype, (40,), 1)
    if dtype in INTEGERS:
        y = np.where((y == 0) | ((y == -1) & (x == np.iinfo(dtype).min)), 1, y).astype(dtype)
        both("pow", [x, np.abs(y) % 5])
    else:
        x = y = np.array([v for v in SPECIAL if np.isfinite(v) and v], dtype)
        x = x[:, None]
        both("pow", [np.abs(x), y], 1e-5)
    both("floor_divide", [x, y])
    both("remainder", [x, y])


@pytest.mark.parametrize("dtype", INTEGERS)
def test_shifts(dtype: str) -> None:
    x = sample(dtype, (3, 4))
    y = np.array([0, 1, 3, 7], dtype)
    both("bitwise_left_shift", [x, y])
    both("bitwise_right_shift", [x, y])


@pytest.mark.parametrize("dtype", NUMBERS)
def test_clip(dtype: str) -> None:
    x = sample(dtype, (2, 3))
    low, high = np.array([[1], [2]], dtype), np.array([3, 2, 5], dtype)
    both("clip", [x, 1, 3])
    both("clip", [x], max=2)
    both("clip", [x, low])
    both("clip", [x], min=low, max=high)


@pytest.mark.parametrize("dtype", ALL)
def test_shapes_and_places(dtype: str) -> None:
    x, row, one = sample(dtype, (2, 3, 4)), sample(dtype, (4,), 1), sample(dtype, (1, 3, 1), 2)
    calls: list[tuple[str, list[Any], dict[str, Any]]] = [
        ("broadcast_to", [row, (2, 3, 4)], {}),
        ("broadcast_arrays", [x, row, one], {}),
        ("concat", [[x, x]], {}),
        ("concat", [[x, sample(dtype, (2, 1, 4))]], {"axis": -2}),
        ("concat", [[x, row, one]], {"axis": None}),
        ("expand_dims", [x], {"axis": 0}),
        ("expand_dims", [x], {"axis": -1}),
        ("flip", [x], {}),
        ("flip", [x], {"axis": (0, -1)}),
        ("moveaxis", [x, 0, -1], {}),
        ("moveaxis", [x, (0, 1), (2, 0)], {}),
        ("permute_dims", [x, (2, 0, 1)], {}),
        ("repeat", [x, 2], {}),
        ("repeat", [x, 3], {"axis": 1}),
        ("repeat", [x, np.array([0, 2, 1])], {"axis": 1}),
        ("repeat", [row, np.array([3, 0, 0, 1])], {}),
        ("reshape", [x, (4, -1)], {}),
        ("reshape", [row, (2, 2)], {"copy": True}),
        ("roll", [x, 5], {}),
        ("roll", [x, -1], {"axis": 2}),
        ("roll", [x, (1, 2)], {"axis": (0, 1)}),
        ("squeeze", [one, 0], {}),
        ("squeeze", [one, (0, -1)], {}),
        ("stack", [[x, x]], {}),
        ("stack", [[row, row, row]], {"axis": -1}),
        ("tile", [x, (2,)], {}),
        ("tile", [row, (2, 1, 2)], {}),
        ("unstack", [x], {}),
        ("unstack", [x], {"axis": -1}),
        ("matrix_transpose", [x], {}),
        ("tril", [x], {"k": 1}),
        ("triu", [x], {"k": -1}),
        ("take", [x, np.array([1, 0, -1, 1])], {"axis": 0}),
        ("take", [row, np.array([2, 2])], {}),
        ("meshgrid", [row, sample(dtype, (2,)), sample(dtype, (3,))], {}),
        ("meshgrid", [row, sample(dtype, (2,))], {"indexing": "ij"}),
        ("zeros_like", [x], {}),
        ("ones_like", [x], {}),
        ("full_like", [x, True if dtype == "bool" else 3], {}),
    ]
    for function, arguments, options in calls:
        both(function, arguments, **options)


def test_concatenation_promotes() -> None:
    for one, two in (("int8", "uint8"), ("float32", "float64"), ("int16", "uint32")):
        both("concat", [[sample(one, (2,)), sample(two, (3,))]])
        both("stack", [[sample(one, (3,)), sample(two, (3,))]])
        both("broadcast_arrays", [sample(one, (3,)), sample(two, (2, 1))])


@pytest.mark.parametrize("dtype", ALL)
def test_searching_and_sorting(dtype: str) -> None:
    x = sample(dtype, (3, 4))
    finite = np.nan_to_num(x) if dtype in FLOATS else x  # where NaN stands in order is not defined
    both("nonzero", [x])
    both("where", [x > 0, x, finite])
    if dtype != "bool":
        both("sort", [finite])
        both("sort", [finite], axis=0, descending=True)
        both("argsort", [finite], axis=0)
        both("argsort", [finite], descending=True)
        for options in ({}, {"axis": 1}, {"axis": 0, "keepdims": True}):
            both("argmax", [x], **options)
            both("argmin", [x], **options)
        vector, values = np.sort(finite[0]), finite[1:3]
        both("searchsorted", [vector, values])
        both("searchsorted", [vector, values], side="right")
        both("searchsorted", [finite[0], values], sorter=np.argsort(finite[0]))


@pytest.mark.parametrize("dtype", ALL)
def test_sets(dtype: str) -> None:
    x = sample(dtype, (3, 4))
    for function in ("unique_all", "unique_counts", "unique_inverse", "unique_values"):
        both(function, [x])
    assert xp.unique_all(xp.asarray(x))._fields == ("values", "indices", "inverse_indices", "counts")


FOLDS: list[dict[str, Any]] = [
    {},
    {"axis": 1},
    {"axis": (0, -1)},
    {"axis": -2, "keepdims": True},
    {"axis": ()},
]


@pytest.mark.parametrize("dtype", ALL)
def test_folds(dtype: str) -> None:
    x = sample(dtype, (2, 3, 4))
    mild = np.nan_to_num(x, posinf=3, neginf=-3).clip(-9, 9) if dtype in FLOATS else x
    for options in FOLDS:
        both("any", [x], **options)
        both("all", [x], **options)
        if dtype == "bool":
            continue
        both("max", [x], **options)
        both("min", [x], **options)
        both("sum", [mild], 1e-5 if dtype in FLOATS else 0.0, **options)
        both("prod", [mild], 1e-4 if dtype in FLOATS else 0.0, **options)
        if dtype in FLOATS:
            both("mean", [mild], 1e-5, **options)
            both("var", [mild], 1e-5, **options)
            both("std", [mild], 1e-5, correction=1.0, **({"axis": 1} | options))
    if dtype in NUMBERS:
        both("cumulative_sum", [mild], 1e-5, axis=1)
        both("cumulative_sum", [mild[0, 0]], 1e-5, include_initial=True)
        both("cumulative_sum", [mild], 1e-5, axis=-1, include_initial=True)


def test_folds_of_nothing() -> None:
    x = np.zeros((0, 3), np.float32)
    for function in ("sum", "prod", "any", "all"):
        both(function, [x], axis=0)
    both("mean", [x], axis=0)
    for fold in (xp.max, xp.min, xp.argmax):
        with pytest.raises(ValueError, match="no elements"):
            fold(xp.asarray(x), axis=0)


@pytest.mark.parametrize("dtype", NUMBERS)
def test_dtypes_of_folds(dtype: str) -> None:
    x = np.ones((2, 2), dtype)
    for wanted in ("int64", "uint64", "float64"):
        for function in (xp.sum, xp.prod, xp.cumulative_sum):
            options: dict[str, Any] = {"axis": 0} if function is xp.cumulative_sum else {}
            assert function(xp.asarray(x), dtype=getattr(xp, wanted), **options).dtype is getattr(xp, wanted)


@pytest.mark.parametrize("dtype", NUMBERS)
def test_products(dtype: str) -> None:
    x, y = (np.nan_to_num(sample(dtype, s), posinf=2, neginf=-2).clip(0, 9) for s in ((2, 3, 4), (2, 4, 3)))
    both("matmul", [x, y], 1e-5)
    both("matmul", [x, y[0, :, 0]], 1e-5)
    both("matmul", [y[0, 0], x[0]], 1e-5)
    both("matmul", [x[0, 0], y[0, :, 0]], 1e-5)
    both("vecdot", [x, x[1]], 1e-5)
    both("vecdot", [x, x], 1e-5, axis=-2)
    both("tensordot", [x, y], 1e-5, axes=((2, 0), (1, 0)))
    both("tensordot", [x, y[0]], 1e-5, axes=1)
    both("tensordot", [x[0], y[0]], 1e-5, axes=0)
    both("tensordot", [x, x], 1e-5, axes=3)


def test_gradients_and_jit() -> None:
    """What the functions return is a tensor like others."""
    weight = Tensor([[0.5, -1.0], [2.0, 0.25]], requires_grad=True)

    def loss(x: Tensor) -> xp.Array:
        return xp.sum(xp.square(xp.tanh(xp.matmul(x, weight))))

    x = np.array([[1.0, 2.0], [-0.5, 1.5]], np.float32)
    loss(xp.asarray(x)).backward()
    hidden = np.tanh(x @ weight.numpy())
    assert weight.grad is not None
    np.testing.assert_allclose(weight.grad.numpy(), x.T @ (2 * hidden * (1 - hidden**2)), rtol=1e-5)
    found = jit(loss)(xp.asarray(x))
    assert isinstance(found, xp.Array)
    np.testing.assert_allclose(found.numpy(), (hidden**2).sum(), rtol=1e-5)


def test_products_promote() -> None:
    for one, two in (("int8", "uint8"), ("float32", "float64")):
        x, y = np.ones((2, 2), one), np.ones((2, 2), two)
        for function in ("matmul", "vecdot", "tensordot"):
            both(function, [x, y])


DTYPED: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("arange", [5], {}),
    ("arange", [2, 11, 3], {}),
    ("arange", [7, 1, -2], {}),
    ("eye", [3], {}),
    ("eye", [3, 4], {"k": 1}),
    ("eye", [3, 2], {"k": -1}),
    ("eye", [2, 2], {"k": 5}),
    ("empty", [(2, 0)], {}),
    ("full", [(2, 3), 1], {}),
    ("full", [4, 2], {}),
    ("linspace", [0, 10, 6], {}),
    ("linspace", [9, 3, 4], {"endpoint": False}),
    ("ones", [(2, 3)], {}),
    ("zeros", [3], {}),
]


@pytest.mark.parametrize("dtype", NUMBERS)
def test_creation(dtype: str) -> None:
    for function, arguments, options in DTYPED:
        found, wanted = (
            getattr(m, function)(*arguments, dtype=getattr(m, dtype), **options) for m in (xp, strict)
        )
        same(found, wanted)


def test_default_dtypes() -> None:
    """Floats are float32, as the standard allows; all else is as in array-api-strict."""
    for function, arguments, wanted in (
        ("arange", [3], xp.int64),
        ("arange", [3.0], xp.float32),
        ("full", [2, True], xp.bool),
        ("full", [2, 1], xp.int64),
        ("full", [2, 1.0], xp.float32),
        ("zeros", [2], xp.float32),
        ("ones", [2], xp.float32),
        ("empty", [2], xp.float32),
        ("eye", [2], xp.float32),
        ("linspace", [0, 1, 2], xp.float32),
        ("asarray", [1], xp.int64),
        ("asarray", [[True, 2]], xp.int64),
        ("asarray", [[True, 2.5]], xp.float32),
        ("asarray", [[]], xp.float32),
    ):
        assert getattr(xp, function)(*arguments).dtype is wanted


def test_asarray() -> None:
    x = xp.asarray([[1, 2], [3, 4]], dtype=xp.int16)
    assert xp.asarray(x) is x
    assert xp.asarray(x, copy=False) is x
    copied = xp.asarray(x, copy=True)
    copied[0, 0] = 9
    assert (int(x[0, 0]), int(copied[0, 0])) == (1, 9)
    assert xp.asarray(x, dtype=xp.float64).dtype is xp.float64
    assert xp.asarray([x[0], x[1]]).tolist() == x.tolist()
    assert xp.asarray((x[0, 0], 5)).dtype is xp.int64
    assert xp.asarray([0.1], dtype=xp.float64)[0] == 0.1
    assert xp.asarray(2**64 - 1, dtype=xp.uint64) == 2**64 - 1
    data = np.arange(3.0)
    assert np.shares_memory(np.asarray(xp.asarray(data, copy=False)), data)
    assert not np.shares_memory(np.asarray(xp.asarray(data)), data)
    assert xp.asarray(memoryview(b"ab")).dtype is xp.uint8
    assert xp.asarray(strict.asarray([1, 2])).tolist() == [1, 2]
    assert type(xp.asarray(Tensor([1]))) is xp.Array
    with pytest.raises(ValueError, match="list without a copy"):
        xp.asarray([1], copy=False)
    with pytest.raises(ValueError, match="without a copy"):
        xp.asarray(x, dtype=xp.int8, copy=False)
    with pytest.raises(TypeError, match="no complex"):
        xp.asarray(1j)


def test_dlpack() -> None:
    x = xp.asarray([1.0, 2.0])
    assert xp.from_dlpack(x) is x
    assert strict.from_dlpack(x)[1] == 2
    assert isinstance(xp.from_dlpack(np.arange(3)), xp.Array)


OPERATORS = [operator.add, operator.sub, operator.mul, operator.lt, operator.ge, operator.eq, operator.ne]
BITS = [operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift]


@pytest.mark.parametrize("dtype", ALL)
def test_operators(dtype: str) -> None:
    x, y = sample(dtype, (3, 2)), sample(dtype, (2,), 1)
    applied = [] if dtype == "bool" else list(OPERATORS)
    applied += [operator.truediv] if dtype in FLOATS else BITS[: 3 if dtype == "bool" else 5]
    number: Any = True if dtype == "bool" else 2.5 if dtype in FLOATS else 3
    for op in applied:
        if op in BITS[3:]:
            y = np.abs(y) % 8
        same(op(xp.asarray(x), xp.asarray(y)), op(strict.asarray(x), strict.asarray(y)))
        same(op(xp.asarray(x), number), op(strict.asarray(x), number))
        same(op(number, xp.asarray(x)), op(number, strict.asarray(x)))
    if dtype != "bool":
        same(abs(xp.asarray(x)), abs(strict.asarray(x)))
        same(-xp.asarray(x), -strict.asarray(x))
        same(+xp.asarray(x), +strict.asarray(x))
    if dtype not in FLOATS:
        same(~xp.asarray(x), ~strict.asarray(x))


@pytest.mark.parametrize("op", [operator.iadd, operator.isub, operator.imul])
def test_operators_in_place(op: Callable[[Any, Any], Any]) -> None:
    before = x = xp.asarray([1, 2], dtype=xp.int8)
    x = op(x, xp.asarray([5, 6], dtype=xp.int8))
    assert x.dtype is xp.int8
    assert before.tolist() == [1, 2]


INDICES: list[Any] = [
    0,
    -1,
    slice(None),
    slice(2, 0, -1),
    slice(None, None, 2),
    ...,
    None,
    (1, 2),
    (slice(1, 3), None, 0),
    (..., 0),
    (0, ..., slice(None, None, -1)),
]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_indices(index: Any) -> None:
    x = np.arange(24).reshape(3, 4, 2)
    assert xp.asarray(x)[index].tolist() == x[index].tolist()
    ours = xp.asarray(x)
    ours[index] = 7
    x[index] = 7
    assert ours.tolist() == x.tolist()


def test_masks() -> None:
    x = np.arange(12).reshape(3, 4)
    for mask in (x > 5, (x > 5)[:, 0], np.zeros((3, 4), bool)):
        ours = xp.asarray(x)
        assert ours[xp.asarray(mask)].tolist() == x[mask].tolist()
        ours[xp.asarray(mask)] = 0
        assert ours.tolist() == np.where(mask.reshape(3, -1), 0, x).tolist()
    assert xp.asarray(x)[xp.asarray(True)].shape == (1, 3, 4)
    with pytest.raises(IndexError):
        xp.asarray(x)[xp.asarray([True, False])]


def test_attributes() -> None:
    x = xp.zeros((2, 3, 0), dtype=xp.int8)
    assert (x.size, x.ndim, x.shape, x.dtype) == (0, 3, (2, 3, 0), xp.int8)
    assert xp.ones((2, 3)).size == 6
    assert xp.ones(()).size == 1
    assert xp.ones((2, 3)).T.shape == (3, 2)
    assert xp.ones((5, 2, 3)).mT.shape == (5, 3, 2)
    assert x.__array_namespace__() is xp
    assert x.__array_namespace__(api_version="2023.12") is xp
    with pytest.raises(ValueError, match="2019"):
        x.__array_namespace__(api_version="2019.1")
    assert x.to_device(x.device).shape == x.shape
    assert isinstance(x + 1, xp.Array)
    assert isinstance(x.sum(), xp.Array)


def test_python_numbers() -> None:
    assert operator.index(xp.asarray(3, dtype=xp.uint8)) == 3
    assert [10, 20, 30][xp.asarray(1)] == 20
    assert complex(xp.asarray(2.5)) == 2.5
    assert (bool(xp.asarray(0.0)), int(xp.asarray(2.9)), float(xp.asarray(True))) == (False, 2, 1.0)
    for wrong in (xp.asarray(1.0), xp.asarray([1]), xp.asarray(True)):
        with pytest.raises(TypeError, match="index: an array"):
            operator.index(wrong)


def test_dtype_functions() -> None:
    for one, two in itertools.product(ALL, ALL):
        found, wanted = (m.can_cast(getattr(m, one), getattr(m, two)) for m in (xp, strict))
        assert found == wanted
    for one, two in pairs(ALL):
        wanted = strict.result_type(getattr(strict, one), getattr(strict, two))
        names = np.zeros(1, one), getattr(xp, two)
        assert xp.result_type(xp.asarray(names[0]), names[1]) is getattr(xp, str(wanted).split(".")[-1])
    kinds = [
        "bool",
        "signed integer",
        "unsigned integer",
        "integral",
        "real floating",
        "complex floating",
        "numeric",
    ]
    for dtype, kind in itertools.product(ALL, kinds):
        assert xp.isdtype(getattr(xp, dtype), kind) == strict.isdtype(getattr(strict, dtype), kind)
    assert xp.isdtype(xp.int8, ("bool", xp.int8))
    assert not xp.isdtype(xp.int8, xp.int16)
    for dtype in FLOATS:
        limits = xp.finfo(getattr(xp, dtype))
        for field in ("bits", "eps", "max", "min", "smallest_normal"):
            assert getattr(limits, field) == getattr(np.finfo(dtype), field)
            assert type(getattr(limits, field)) is (int if field == "bits" else float)
        assert limits.dtype is getattr(xp, dtype)
    for dtype in INTEGERS:
        held, known = xp.iinfo(xp.zeros(1, dtype=getattr(xp, dtype))), np.iinfo(dtype)
        assert (held.bits, held.max, held.min) == (known.bits, known.max, known.min)
    x = xp.asarray([1.7, -1.7])
    assert xp.astype(x, xp.int8).tolist() == [1, -1]
    assert xp.astype(x, x.dtype, copy=False) is x
    assert xp.astype(x, x.dtype) is not x


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (lambda x: untyped.sin([1.0]), TypeError),
        (lambda x: xp.isdtype(xp.int8, "number"), TypeError),
        (lambda x: xp.finfo(xp.int8), TypeError),
        (lambda x: untyped.iinfo("int8"), TypeError),
        (lambda x: xp.result_type(), TypeError),
        (lambda x: xp.result_type(xp.int8, xp.uint64), ValueError),
        (lambda x: xp.expand_dims(x, axis=3), IndexError),
        (lambda x: xp.squeeze(x, 0), ValueError),
        (lambda x: xp.concat([]), ValueError),
        (lambda x: xp.take(x, xp.asarray([0])), ValueError),
        (lambda x: xp.take(x, xp.asarray(0), axis=0), ValueError),
        (lambda x: xp.nonzero(xp.asarray(1)), ValueError),
        (lambda x: xp.searchsorted(x, x), ValueError),
        (lambda x: xp.cumulative_sum(x), ValueError),
        (lambda x: xp.vecdot(x, xp.ones(3)), ValueError),
        (lambda x: xp.tensordot(x, xp.ones((3, 2))), ValueError),
        (lambda x: xp.repeat(x, xp.asarray([1, 2, 3]), axis=0), ValueError),
        (lambda x: xp.repeat(x, xp.asarray([1, -2]), axis=0), ValueError),
        (lambda x: xp.repeat(x, xp.asarray([1, 2]), axis=2), IndexError),
        (lambda x: xp.meshgrid(xp.ones(2), xp.asarray([1])), ValueError),
        (lambda x: xp.meshgrid(xp.ones(2), indexing="yx"), ValueError),
        (lambda x: x.to_device(x.device, stream=1), ValueError),
    ],
)
def test_errors(wrong: Callable[[Any], object], error: type[Exception]) -> None:
    """They are ours, and those of Python that the standard's own tests expect."""
    with pytest.raises(error) as raised:
        wrong(xp.ones((2, 2)))
    assert isinstance(raised.value, TensorError)


def test_a_device_that_is_not_there() -> None:
    with pytest.raises(BackendError, match="nowhere"):
        xp.ones(1).to_device("nowhere")


def test_what_the_namespace_says_of_itself() -> None:
    assert xp.__array_api_version__ == "2023.12"
    info = xp.__array_namespace_info__()
    theirs = strict.__array_namespace_info__()
    for kind in (None, "bool", "integral", ("signed integer", "real floating"), "numeric"):
        wanted = {name for name in theirs.dtypes(kind=kind) if "complex" not in name}
        assert set(info.dtypes(kind=kind)) == wanted
    assert info.dtypes(kind="complex floating") == {}
    assert info.default_device() == info.devices()[0] == xp.ones(1).device
    assert info.default_dtypes() == {
        "real floating": xp.float32,
        "integral": xp.int64,
        "indexing": xp.int64,
    }
    assert info.capabilities()["boolean indexing"] is True
    assert (xp.pi, xp.e, xp.inf, xp.newaxis) == (math.pi, math.e, math.inf, None)
    assert math.isnan(xp.nan)


#: Names of array-api-strict that are not of version 2023.12, of its own, or of complex numbers.
OTHERS = {"complex64", "complex128", "linalg", "fft", "Device", "__version__", "ArrayAPIStrictFlags"}
LATER = {"broadcast_shapes", "count_nonzero", "cumulative_prod", "diff", "isin", "nextafter", "reciprocal"}
LATER |= {"take_along_axis"}


def test_names_and_signatures() -> None:
    names = {n for n in strict.__all__ if "flags" not in n} - OTHERS - LATER
    assert names <= set(xp.__all__)
    assert set(xp.__all__) - names <= {"Array", "__array_api_version__"}
    for name in names:
        function = getattr(strict, name)
        if inspect.isfunction(function):
            theirs = inspect.signature(function).parameters.values()
            ours = {p.name: p for p in inspect.signature(getattr(xp, name)).parameters.values()}
            assert list(ours) == [p.name for p in theirs], name
            for p in theirs:
                both_ways = ours[p.name].kind is p.POSITIONAL_OR_KEYWORD
                assert both_ways or ours[p.name].kind is p.kind, name
                assert (ours[p.name].default is p.empty) <= (p.default is p.empty), name
            assert getattr(xp, name).__doc__
            assert getattr(xp, name).__name__ == name
