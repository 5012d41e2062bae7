"""jit: what a function may be given, and what decides that it is traced anew. Week 5."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
import pytest

from uop_ir import UopError, dtypes
from uop_tensor import JitError, Tensor, TensorError, jit, no_grad

TYPES = [np.int8, np.uint16, np.int64, np.float16, np.float32, np.float64]
OFFSET = 1.0


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("number", [3, 0.1])
def test_a_number_beside_a_tensor_is_what_it_is_without_jit(dtype: Any, number: float) -> None:
    def f(x: Tensor, n: Any) -> list[Tensor]:
        return [
            x + n,
            n - x,
            x * (n * 3 - 1),
            x / n,
            n // (x + 1),
            x**2 * (n - 1),
            x.maximum(n),
            (x > n).where(x, n),
        ]

    x = Tensor(np.array([1, 2, 5], dtype))
    jitted = jit(f)
    for n in (number, number * 2):
        for got, wanted in zip(jitted(x, n), f(x, n), strict=True):
            assert got.dtype is wanted.dtype
            assert got.numpy().tobytes() == wanted.numpy().tobytes()
    assert jitted.traces == 1


def test_numbers_alone_are_computed_by_python() -> None:
    """As in Python, without rounding to f32 on the way: 0.1 * 3 in f64, rounded once."""

    def f(x: Tensor, rate: float, n: int) -> dict[str, Any]:
        scale = abs(-rate) * 3 / (1 + n) ** 2 % 0.7
        return {"x": x * scale, "scale": scale, "next": n + 1, "same": n, "power": 2**n}

    jitted = jit(f)
    for rate, n in [(0.1, 1), (0.3, 70)]:
        got, wanted = jitted(Tensor([1.0]), rate, n), f(Tensor([1.0]), rate, n)
        assert got.pop("x").item() == wanted.pop("x").item()
        assert got == wanted
        assert [type(v) for v in got.values()] == [float, int, int, int]
    assert jitted.traces == 1


def test_a_number_that_the_dtype_does_not_hold() -> None:
    f = jit(lambda x, n: x + (n + 1))
    x = Tensor(np.array([1], np.int8))
    assert f(x, 126 - 1).tolist() == [127]
    with pytest.raises(TensorError, match="300 is not a value of i8"):
        f(x, 299)
    assert f(x, 4).tolist() == [6]
    with pytest.raises(ZeroDivisionError):
        jit(lambda x, n: x * (1 / n))(x, 0)


@pytest.mark.parametrize(
    "read",
    [
        range,
        lambda n: [0][n],
        lambda n: Tensor.zeros(n),
        float,
        int,
        bool,
        lambda n: 1 if n > 2 else 0,
        lambda n: {3: 1}.get(n),
        np.asarray,
    ],
)
def test_the_value_of_a_number_in_the_trace(read: Any) -> None:
    def f(x: Tensor, n: int) -> Tensor:
        read(n)
        return x

    with pytest.raises(JitError, match="while f is traced"):
        jit(f)(Tensor([1.0]), 3)
    assert jit(f, static=["n"])(Tensor([1.0]), 0).item() == 1


@pytest.mark.parametrize(
    ("read", "named"),
    [
        (lambda n: np.sqrt(n), "numpy.sqrt"),
        (lambda n: np.maximum(n, 1), "numpy.maximum"),
        (lambda n: np.add.reduce(n), "numpy.add"),
        (lambda n: n.bit_length(), ".bit_length"),
        (lambda n: n.numerator, ".numerator"),
    ],
)
def test_what_libraries_ask_of_a_number_is_named(read: Any, named: str) -> None:
    with pytest.raises(JitError, match=f"{named} asks for the value of a number"):
        jit(lambda x, n: x * read(n))(Tensor([1.0]), 2)


def test_a_number_beside_numbers_and_arrays_of_numpy() -> None:
    array = np.array([1.0, 4.0], np.float32)
    functions: list[Any] = [
        lambda x, n: x * (np.float32(2) * n),
        lambda x, n: x * (n - np.float32(2)),
        lambda x, n: x + array / n,
        lambda x, n: x + n**array,
        lambda x, n: x * (array < n),
        lambda x, n: (np.float32(3) == n) & (x > 0),
        lambda x, n: x * np.multiply(array, n),
    ]
    for function in functions:
        found = jit(function)(Tensor([2.0, 3.0]), 3)
        wanted = function(Tensor([2.0, 3.0]), 3)
        np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-6)
    with pytest.raises(AttributeError, match="no attribute 'shift'"):
        jit(lambda x, n: x * n.shift)(Tensor([1.0]), 3)


def test_static_parameters() -> None:
    @jit(static=["n", "how"])
    def f(x: Tensor, n: int, *, how: Any = None) -> Tensor:
        for _ in range(n):
            x = x * 2.0 if how is None else how(x)
        return x

    assert f(Tensor([1.0]), 3).item() == 8
    assert f(Tensor([1.0]), n=3).item() == 8
    assert f.traces == 1
    assert f(Tensor([1.0]), 1).item() == 2
    assert f(Tensor([2.0]), 2, how=Tensor.square).item() == 16
    assert f.traces == 3
    with pytest.raises(TensorError, match="'m' is no parameter"):
        jit(lambda n: n, static=["m"])
    with pytest.raises(TensorError, match=r"'m' of .* is as many arguments as are given"):
        jit(lambda *m: m, static=["m"])
    with pytest.raises(TensorError, match="'n' is both static and a size"):
        jit(lambda n: n, static=["n"], sizes={"n": (1, 2)})
    with pytest.raises(JitError, match="has no hash"):
        f(Tensor([1.0]), [1])  # type: ignore[arg-type]


def test_values_around_the_function(monkeypatch: pytest.MonkeyPatch) -> None:
    """A number around it that gets another value is a new trace; a tensor is looked up."""
    scale = 2.0

    @jit
    def f(x: Tensor) -> Tensor:
        return x * scale + OFFSET

    assert f(Tensor([1.0])).item() == 3
    scale = 3.0
    assert f(Tensor([1.0])).item() == 4
    monkeypatch.setitem(globals(), "OFFSET", 10.0)
    assert f(Tensor([1.0])).item() == 13
    monkeypatch.undo()
    assert f(Tensor([1.0])).item() == 4
    assert f.traces == 3


def test_a_counter_that_the_function_keeps_is_not_its_input() -> None:
    calls = 0

    @jit
    def f(x: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        return x + 1.0

    for _ in range(3):
        f(Tensor([1.0]))
    assert (calls, f.traces) == (1, 1)


@pytest.mark.parametrize(("one", "other"), [(0.0, -0.0), (1, True), ((1,), (1.0,)), ((0.0,), (-0.0,))])
def test_values_that_are_equal_and_are_not_the_same(one: Any, other: Any) -> None:
    def f(x: Tensor, n: Any, names: Any) -> Any:
        n = n[0] if isinstance(n, tuple) else n
        return x * n, [type(name).__name__ for name in names]

    jitted = jit(f, static=["n"])
    x = Tensor([2])
    for value in (one, other, one):
        got, wanted = jitted(x, value, {value: 1}), f(x, value, {value: 1})
        assert (got[0].dtype, got[0].numpy().tobytes()) == (wanted[0].dtype, wanted[0].numpy().tobytes())
        assert got[1] == wanted[1]
    assert jitted.traces == 2


def test_the_sign_of_a_zero_around_the_function() -> None:
    zero = 0.0
    f = jit(lambda x: x / zero)
    assert f(Tensor([1.0])).item() == np.inf
    zero = -0.0
    assert f(Tensor([1.0])).item() == -np.inf


def test_numbers_are_rounded_by_python() -> None:
    def f(x: Tensor, n: float) -> Any:
        return round(n), round(n, 1), math.floor(n), math.ceil(n), math.trunc(n), divmod(n, 2), divmod(7, n)

    jitted = jit(f)
    for n in (2.26, -3.5):
        assert jitted(Tensor([1.0]), n) == f(Tensor([1.0]), n)
    assert jitted.traces == 1


class Pair(NamedTuple):
    left: Tensor
    right: Any


@dataclass(frozen=True)
class Batch:
    x: Tensor
    rate: float
    name: str = "batch"


class Mode(Enum):
    ADD = 1
    TAKE = 2


def test_named_tuples_dataclasses_and_enums() -> None:
    @jit
    def f(pair: Pair, batch: Batch, mode: Mode) -> Any:
        new = pair.left + batch.x if mode is Mode.ADD else pair.left - batch.x
        return Pair(new, Batch(new * batch.rate, batch.rate * 2, batch.name))

    for mode, rate in [(Mode.ADD, 0.5), (Mode.ADD, 2.0), (Mode.TAKE, 2.0)]:
        out = f(Pair(Tensor([3.0]), None), Batch(Tensor([1.0]), rate), mode)
        wanted = 4.0 if mode is Mode.ADD else 2.0
        assert isinstance(out, Pair)
        assert isinstance(out.right, Batch)
        assert (out.left.item(), out.right.x.item(), out.right.rate) == (wanted, wanted * rate, rate * 2)
        assert out.right.name == "batch"
    assert f.traces == 2


def numbers() -> Iterator[int]:
    yield 1


@pytest.mark.parametrize(
    ("given", "remedy"),
    [
        (numbers(), "give a list"),
        (np.ones(2, np.float32), "give Tensor"),
        (np.float64(1.0), r"give float\(x\)"),
        ({1, 2}, "give a list"),
        (object(), "close over the rest"),
    ],
)
def test_what_cannot_be_given_or_returned(given: object, remedy: str) -> None:
    with pytest.raises(JitError, match=remedy):
        jit(lambda x: 1)(given)
    with pytest.raises(JitError, match=remedy):
        jit(lambda: given)()


def test_only_the_last_signatures_are_kept() -> None:
    f = jit(lambda x: x + 1.0)
    for size in range(1, 90):
        assert f(Tensor(np.zeros(size, np.float32))).numpy().sum() == size
    assert len(f.captures) == 64
    assert f.traces == 89
    f(Tensor(np.zeros(80, np.float32)))
    assert f.traces == 89
    f(Tensor(np.zeros(1, np.float32)))
    assert f.traces == 90


def test_methods_are_jitted_for_each_object() -> None:
    class Scale:
        def __init__(self, by: float) -> None:
            self.by = Tensor([by])

        @jit
        def __call__(self, x: Tensor) -> Tensor:
            return x * self.by

        @jit(static=["n"])
        def times(self, x: Tensor, n: int) -> Tensor:
            return sum([self(x) for _ in range(n)], start=Tensor([0.0]))

    two, three = Scale(2.0), Scale(3.0)
    assert [two(Tensor([1.0])).item(), three(Tensor([1.0])).item(), two(Tensor([4.0])).item()] == [2, 3, 8]
    assert [three.times(Tensor([1.0]), 2).item(), three.times(Tensor([1.0]), n=3).item()] == [6, 9]
    assert three.times == three.times != two.times


def test_whether_gradients_are_recorded_is_part_of_the_signature() -> None:
    w = Tensor([2.0], requires_grad=True)

    @jit
    def f(x: Tensor) -> Tensor:
        y = x * w
        return y.gradient(w)[0]

    assert f(Tensor([3.0])).item() == 3
    with no_grad(), pytest.raises(UopError):
        f(Tensor([3.0]))
    assert f(Tensor([4.0])).item() == 4


def test_views_of_one_memory_as_arguments() -> None:
    @jit
    def f(x: Tensor, y: Tensor) -> Tensor:
        x.assign(x + y.reshape(2, 2))
        return x * y.reshape(2, 2)

    for _ in range(2):
        a = Tensor(np.arange(4.0, dtype=np.float32).reshape(2, 2)).realize()
        b = a.reshape(4)
        out = f(a, b)
        assert a.tolist() == [[0, 2], [4, 6]]
        assert b.tolist() == [0, 1, 2, 3]
        assert out.tolist() == [[0, 2], [8, 18]]
    assert f.traces == 1


def test_dtypes_are_the_signature() -> None:
    f = jit(lambda x: x + 1)
    for dtype in (dtypes.f32, dtypes.i32, dtypes.f16, dtypes.f32):
        assert f(Tensor([1, 2], dtype=dtype)).dtype is dtype
    assert f.traces == 3


def test_an_integer_that_no_float_holds_beside_floats() -> None:
    f = jit(lambda x, n: x * n)
    x = Tensor([1.0, -1.0])
    for number in (10**400, -(10**400), 3):
        assert f(x, number).tolist() == (x * number).tolist()
