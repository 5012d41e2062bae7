"""Export hands a plan over with all that a run needs:
a stand-in for a code generator runs it on the interpreter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

from uop_ir import BackendError, DType, Plan, UOp, UopError, dtypes, evaluate, get_backend, override, settings
from uop_tensor import JitError, Tensor, export, jit

Array = npt.NDArray[Any]
RNG = np.random.default_rng(0)


class Written:
    """What an exporter was given; a call runs it, and gives the outputs by name."""

    def __init__(self, folder: Path, name: str, plan: Plan, **given: Any) -> None:
        self.folder, self.name, self.plan = folder, name, plan
        self.inputs: Mapping[str, UOp] = given["inputs"]
        self.outputs: Mapping[str, UOp] = given["outputs"]
        self.weights: Mapping[str, UOp] = given["weights"]
        self.scalars: Mapping[str, UOp] = given["scalars"]
        self.computed: Mapping[UOp, UOp] = given["computed"]
        self.data: Mapping[str, Array] = given["data"]
        self.backend = get_backend("INTERP")
        self.memory = {p: self.backend.allocate(p.arg.size * p.dtype.itemsize) for p in plan.inputs}
        for key, value in self.weights.items():
            self.backend.copy_in(self.memory[param(value)], self.data[key])

    def __call__(self, **given: Any) -> dict[str, Array]:
        for key, value in self.inputs.items():
            if param(value) in self.memory:
                array = np.ascontiguousarray(given[key], value.dtype.numpy)
                assert array.shape == value.shape
                self.backend.copy_in(self.memory[param(value)], array.reshape(-1))
        numbers = {s: given[key] for key, s in self.scalars.items()}
        scalars = [v.item() for v in evaluate([self.computed[p] for p in self.plan.scalars], numbers)]
        self.backend.link(self.plan)([self.memory[p] for p in self.plan.inputs], scalars)
        return {key: self.contents(value) for key, value in self.outputs.items()}

    def contents(self, value: UOp) -> Array:
        array = np.empty(param(value).arg.size, value.dtype.numpy)
        self.backend.copy_out(self.memory[param(value)], array)
        return array.reshape([d for d in value.shape if isinstance(d, int)])


def param(value: UOp) -> UOp:
    while value.src:
        value = value.src[0]
    return value


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Written]:
    """Export to a stand-in that is installed for the interpreter."""
    entry = SimpleNamespace(name="INTERP", load=lambda: Written)
    monkeypatch.setitem(export.__globals__, "entry_points", lambda group: [entry])

    def run(function: Callable[..., Any], inputs: list[Any], **options: Any) -> Written:
        with override(settings, dev="INTERP"):
            found: Any = export(function, inputs, tmp_path, "model", **options)
        assert isinstance(found, Written)
        return found

    return run


class Pair(NamedTuple):
    left: Tensor
    scale: float


@dataclass
class Batch:
    x: Tensor
    pair: Pair


def rows(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def test_a_function_with_weights_inputs_and_a_number(written: Callable[..., Written], tmp_path: Path) -> None:
    w, b = Tensor(rows(4, 3)), Tensor(rows(3))

    def layer(x: Tensor, scale: float, flag: bool) -> Tensor:
        return (x @ w + b) * scale if flag else x

    x = rows(2, 4)
    made = written(layer, [Tensor(x), 2.0, True], weights={"w": w, "b": b, "other": Tensor(x)})
    assert (made.folder, made.name) == (tmp_path, "model")
    assert {name: value.shape for name, value in made.inputs.items()} == {"x": (2, 4)}
    assert {name: value.shape for name, value in made.weights.items()} == {"w": (4, 3), "b": (3,)}
    assert list(made.scalars) == ["scale"]
    for _ in range(2):
        other, scale = rows(2, 4), float(rows(1)[0])
        want = jit(layer)(Tensor(other), scale, True).numpy()
        assert made(x=other, scale=scale)["output"].tobytes() == want.tobytes()


def test_names_come_from_the_places_of_tensors(written: Callable[..., Written]) -> None:
    def function(pair: list[Tensor], named: dict[str, Tensor], *more: Any) -> dict[str, Any]:
        total = pair[0] + pair[1] + named["c"] + more[0]
        return {"sum": total, "parts": (total * more[1], pair[0] - 1, total)}

    a, b, c, d = (rows(3) for _ in range(4))
    made = written(function, [[Tensor(a), Tensor(b)], {"c": Tensor(c)}, Tensor(d), 3])
    assert list(made.inputs) == ["pair.0", "pair.1", "named.c", "more.0"]
    assert list(made.scalars) == ["more.1"]
    got = made(**{"pair.0": a, "pair.1": b, "named.c": c, "more.0": d, "more.1": 3})
    assert list(got) == ["output.sum", "output.parts.0", "output.parts.1", "output.parts.2"]
    for name in ("output.sum", "output.parts.2"):  # one tensor in two places
        np.testing.assert_array_equal(got[name], a + b + c + d)
    np.testing.assert_array_equal(got["output.parts.0"], (a + b + c + d) * 3)


def test_results_that_nothing_computes_are_copied(written: Callable[..., Written]) -> None:
    w, offset = Tensor(rows(2, 2)), rows(2, 2)

    def function(x: Tensor, unused: Tensor) -> tuple[Tensor, ...]:
        return x, w, x.reshape(4), x + Tensor(offset)

    x, zeros = rows(2, 2), rows(5)
    made = written(function, [Tensor(x), Tensor(zeros)], outputs=["a", "b", "c", "d"])
    assert made.inputs["unused"].shape == (5,)
    got = made(x=x, unused=zeros)
    for name, want in (("a", x), ("b", w.numpy()), ("c", x.reshape(4)), ("d", x + offset)):
        np.testing.assert_array_equal(got[name], want)


def test_a_training_step_keeps_what_it_assigns(written: Callable[..., Written]) -> None:
    start = rows(3, 2)

    def trained() -> tuple[Tensor, Callable[..., Tensor]]:
        w = Tensor(start, requires_grad=True)

        def step(x: Tensor, y: Tensor, rate: float) -> Tensor:
            loss = ((x @ w - y) ** 2).mean()
            loss.backward()
            assert w.grad is not None
            w.assign(w - w.grad * rate)
            w.grad = None
            return loss

        return w, step

    x, y = rows(4, 3), rows(4, 2)
    w, step = trained()
    made = written(jit(step), [Tensor(x), Tensor(y), 0.1], weights={"w": w})
    assert w.numpy().tobytes() == start.tobytes()
    expected, run = trained()
    replay = jit(run)
    for rate in (0.1, 0.2, 0.3):
        loss = replay(Tensor(x), Tensor(y), rate).numpy()
        assert made(x=x, y=y, rate=rate)["output"].tobytes() == loss.tobytes()
        assert made.contents(made.weights["w"]).tobytes() == expected.numpy().tobytes()


def assigns(x: Tensor) -> Tensor:
    x.assign(x + 1)
    return x * 2


@pytest.mark.parametrize(
    ("function", "options", "message"),
    [
        (lambda x: None, {}, "model computes no tensor"),
        (lambda x: x.numpy(), {}, r"numpy\(\) asks for a value while model is traced"),
        (lambda x: x + 1, {"outputs": ["a", "b"]}, r"model gives 1 results, .* \['a', 'b'\]"),
        (lambda x: (x + 1, x + 2), {"outputs": ["a", "a"]}, r"\['a', 'a'\]"),
        (assigns, {}, "model assigns to its argument x"),
    ],
)
def test_what_cannot_be_exported_is_refused(
    function: Callable[..., Any], options: dict[str, Any], message: str, written: Callable[..., Written]
) -> None:
    with pytest.raises(UopError, match=message):
        written(function, [Tensor(rows(2), device="INTERP")], **options)


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("function", 5),
        ("inputs", Tensor([1.0])),
        ("inputs", "x"),
        ("folder", 5),
        ("name", None),
        ("weights", [Tensor([1.0])]),
        ("weights", {3: Tensor([1.0])}),
        ("weights", {"w": 3}),
        ("outputs", "o"),
        ("outputs", [1]),
    ],
)
def test_an_argument_of_another_type_is_named(argument: str, value: object, tmp_path: Path) -> None:
    given: Any = {"function": lambda x: x + 1, "inputs": [1], "folder": tmp_path / "out", "name": "model"}
    with pytest.raises(UopError, match=f"^export: {argument} must be"):
        export(**{**given, argument: value})
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "dtype",
    [dtypes.f16, dtypes.bf16, dtypes.f32, dtypes.f64, dtypes.i8, dtypes.u16, dtypes.i64],
    ids=str,
)
def test_a_number_takes_the_dtype_of_the_tensor_beside_it(
    dtype: DType, written: Callable[..., Written]
) -> None:
    def function(x: Tensor, n: int, rate: float) -> tuple[Tensor, ...]:
        return x * n + (n + 1), x * (rate / 3) if dtype.is_float else x * (n // 2), x.cast(dtypes.f32) * rate

    x = np.array([1, 3, 5], np.int8).astype(dtype.numpy)
    made = written(function, [Tensor(x, dtype=dtype), 1, 0.5])
    for n, rate in ((3, 0.1), (7, 1e-3)):
        found = made(x=x, n=n, rate=rate)
        for got, want in zip(found.values(), jit(function)(Tensor(x, dtype=dtype), n, rate), strict=True):
            assert (got.dtype, got.tobytes()) == (want.dtype.numpy, want.numpy().tobytes())


def test_numbers_are_computed_from_numbers_as_in_python(written: Callable[..., Written]) -> None:
    def function(x: Tensor, n: int, f: float) -> list[Tensor]:
        numbers: list[Any] = [
            n + 1, 2 - n, n * n, n / 3, 7 / n, n // 2, -7 // n, n % 3, -7 % n, -n, abs(n - 9), n**2, f + n, f - 0.1,
            1 - f, f * 3, f / 7, 1 / f, f // 0.3, f % 0.3, -f, abs(f), +f, round(f), math.floor(f), math.ceil(f),
            math.trunc(f), math.ceil(n), math.floor(n), n - f * n, (n + 1) / (n - 0.5),
        ]  # fmt: skip
        return [x * number for number in numbers]

    made = written(function, [Tensor([1.0], dtype=dtypes.f64), 1, 1.0])
    for n, f in ((3, 0.1), (5, 2.5), (1000, -1.7)):
        want = function(np.float64(1.0), n, f)  # type: ignore[arg-type]  # what Python computes
        found = made(x=np.ones(1), n=n, f=f)
        assert [float(value[0]) for value in found.values()] == [float(value) for value in want]


def test_an_int_to_a_negative_power_is_a_float(written: Callable[..., Written]) -> None:
    made = written(lambda x, n: [x * n**-1, x * n**-3], [Tensor([1.0], dtype=dtypes.f64), 1])
    for n in (3, -7):
        found = [value[0] for value in made(x=np.ones(1), n=n).values()]
        np.testing.assert_allclose(found, [n**-1, n**-3], rtol=1e-15)


def test_an_int_to_a_negative_power_in_place_of_an_int_is_refused(written: Callable[..., Written]) -> None:
    with pytest.raises(JitError, match=r"negative power, in place of an int \(give the base or the exponent"):
        written(lambda x, n: x * n**-1, [Tensor([1]), 1])


def test_a_number_of_the_result_is_an_output(written: Callable[..., Written]) -> None:
    made = written(lambda x, n, f: (x + 1, n * 2, f / 2, 5), [Tensor([1.0]), 1, 1.0])
    found = made(x=np.ones(1), n=1 << 40, f=0.1)
    assert [value.tolist() for value in found.values()] == [[2.0], 1 << 41, 0.05]


def test_a_number_that_is_no_i64_is_refused(written: Callable[..., Written]) -> None:
    with pytest.raises(JitError, match="does not fit an i64"):
        written(lambda x: x + 1, [1 << 63])


def test_a_number_that_is_rounded_to_digits_is_refused(written: Callable[..., Written]) -> None:
    with pytest.raises(JitError, match=r"round\(\) to digits"):
        written(lambda x, f: x + round(f, 2), [Tensor([1.0]), 1.0])


def test_a_device_whose_kernels_cannot_be_exported_is_named(tmp_path: Path) -> None:
    with pytest.raises(BackendError, match="kernels of INTERP cannot be exported"):
        export(lambda x: x + 1, [Tensor(rows(2), device="INTERP")], tmp_path, "model")


def test_fields_of_dataclasses_and_named_tuples_are_names(written: Callable[..., Written]) -> None:
    def model(batch: Batch) -> Batch:
        return Batch(batch.x * batch.pair.scale, Pair(batch.x + batch.pair.left, 1.0))

    x, left = rows(3), rows(3)
    run = written(model, [Batch(Tensor(x), Pair(Tensor(left), 2.0))])
    found = run(**{"batch.x": x, "batch.pair.left": left, "batch.pair.scale": 3.0})
    np.testing.assert_array_equal(found["output.x"], x * np.float32(3.0))
    np.testing.assert_array_equal(found["output.pair.left"], x + left)
