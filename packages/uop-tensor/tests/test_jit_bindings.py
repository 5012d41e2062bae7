"""jit: a name, attribute or item that is bound to another tensor,
outside of the function or within it. Week 5.
"""

import copy
import gc
import pickle
import weakref
from collections.abc import Callable
from functools import partial, wraps
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from uop_tensor import JitError, Tensor, TensorError, jit

OFFSET = 1.0
SCALE: Tensor


def helper(x: Tensor) -> Tensor:
    return x * SCALE


def ask(f: Callable[..., Any], x: float = 1.0) -> Any:
    return f(Tensor([x])).item()


def flip(x: Tensor) -> Tensor:
    return -x


def square(x: Tensor) -> Tensor:
    return x * x


def test_names_around_the_function() -> None:
    global SCALE
    local, SCALE = Tensor([10.0]), Tensor([2.0])
    change = flip

    @jit
    def f(x: Tensor) -> Tensor:
        return change(helper(x) + local)

    assert [ask(f), ask(f), f.traces] == [-12, -12, 1]
    kept, local = local, Tensor([20.0])
    assert ask(f) == -22
    SCALE = Tensor([3.0])
    assert ask(f) == -23
    change = square
    assert [ask(f), ask(f), f.traces] == [23**2, 23**2, 4]
    assert kept.item() == 10


def test_attributes_and_items() -> None:
    model = SimpleNamespace(
        weight=Tensor([1.0]), layers=[SimpleNamespace(bias=Tensor([2.0])), (Tensor([3.0]),)]
    )
    named = {"gain": Tensor([4.0])}

    @jit
    def f(x: Tensor) -> Any:
        first, (last,) = model.layers
        return (x * model.weight + first.bias) * named["gain"] + last

    def wanted() -> float:
        first, (last,) = model.layers
        return float(((model.weight + first.bias) * named["gain"] + last).item())

    old = [model.weight, model.layers[0], named["gain"]]  # what is kept elsewhere is not found by its death
    assert ask(f) == wanted() == 15
    model.weight = Tensor([5.0])
    assert ask(f) == wanted() == 31
    model.layers[0].bias = Tensor([1.0])
    assert ask(f) == wanted() == 27
    model.layers[1] = (Tensor([0.0]),)
    assert ask(f) == wanted() == 24
    named["gain"] = Tensor([1.0])
    assert ask(f) == wanted() == 6
    model.layers[0] = SimpleNamespace(bias=Tensor([2.0]))
    assert ask(f) == wanted() == 7
    assert [ask(f), f.traces, len(old)] == [7, 6, 3]
    model.step = 3  # nothing that leads to a tensor
    assert [ask(f), f.traces] == [7, 6]


class Flagged:
    training = True

    def __init__(self) -> None:
        self.weight = Tensor([2.0])

    @jit
    def __call__(self, x: Tensor) -> Tensor:
        return x * self.weight * OFFSET if self.training else x


def test_what_is_true_or_false_of_an_object() -> None:
    model = Flagged()
    assert [ask(model), ask(model)] == [2, 2]
    model.training = False
    assert [ask(model), ask(model)] == [1, 1]
    model.training = True
    assert [ask(model), Flagged.__call__.__get__(model).traces] == [2, 3]


def test_numbers_around_methods_and_decorated_functions() -> None:
    global OFFSET

    def decorated(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        @wraps(function)
        def wrapped(x: Tensor) -> Tensor:
            return function(x)

        return wrapped

    @jit
    @decorated
    def f(x: Tensor) -> Tensor:
        return x + OFFSET

    model, part = Flagged(), jit(partial(lambda y, x: x + y + OFFSET, 0.0))
    assert [ask(f), ask(model), ask(part)] == [2, 2, 2]
    OFFSET = 5.0
    try:
        assert [ask(f), ask(model), ask(part)] == [6, 10, 6]
    finally:
        OFFSET = 1.0


@pytest.mark.parametrize("how", ["name", "attribute", "item"])
def test_a_function_that_puts_another_tensor_in_the_place_of_one_that_it_uses(how: str) -> None:
    first = w = Tensor([2.0])
    state, items = SimpleNamespace(w=w), {"w": w}

    def f(x: Tensor) -> Tensor:
        nonlocal w
        if how == "name":
            w = w + x
        elif how == "attribute":
            state.w = state.w + x
        else:
            items["w"] += x
        return x

    with pytest.raises(JitError, match=r"f uses the tensor w .*with assign"):
        jit(f)(Tensor([1.0]))
    assert w is state.w is items["w"] is first
    assert first.item() == 2


def test_a_name_that_the_function_only_stores_to() -> None:
    seen = SimpleNamespace(last=None)

    @jit
    def f(x: Tensor) -> Tensor:
        seen.last = x.shape
        return x * 2.0

    assert [ask(f), ask(f), f.traces, seen.last] == [2, 2, 1, (1,)]


@pytest.mark.parametrize(
    "change", [lambda a: a.append(a[0]), lambda a: a.pop(), lambda a: a.__setitem__(0, a[0] + 1)]
)
def test_a_list_among_the_arguments_that_is_changed(change: Callable[[list[Tensor]], None]) -> None:
    @jit
    def f(given: list[Tensor]) -> Tensor:
        change(given)
        return given[0]

    with pytest.raises(JitError, match="changes a list, dict or dataclass among its arguments"):
        f([Tensor([1.0]), Tensor([2.0])])


def test_an_object_that_only_its_method_holds() -> None:
    class Shift:
        def __init__(self, by: float) -> None:
            self.by = Tensor([by])

        @jit
        def moved(self, x: Tensor) -> Tensor:
            return x + self.by

    assert [ask(Shift(by).moved) for by in (2.0, 3.0, 4.0)] == [3, 4, 5]
    shift = Shift(5.0)
    assert ask(shift.moved) == 6
    alive = weakref.ref(shift)
    del shift
    gc.collect()
    assert alive() is None


def test_an_object_that_nothing_can_refer_to_weakly() -> None:
    class Slots:
        __slots__ = ("by",)

        @jit
        def scale(self, x: Tensor) -> Tensor:
            return x

    with pytest.raises(TensorError, match='"__weakref__" to the __slots__ of Slots'):
        _ = Slots().scale


def test_attributes_that_are_computed_are_not_asked_for() -> None:
    class Proxy:
        @property
        def __dict__(self) -> Any:  # type: ignore[override]
            raise RuntimeError("outside of a request")

    class Model:
        def __init__(self) -> None:
            self.weight = Tensor([2.0])

        @property
        def ready(self) -> bool:
            raise RuntimeError("not yet")

    model, proxy = Model(), Proxy()
    f = jit(lambda x: (x * model.weight, str(type(proxy)))[0])
    assert [ask(f), ask(f), f.traces] == [2, 2, 1]


def test_what_stands_behind_a_property_is_looked_at_and_the_property_is_not() -> None:
    class Model:
        def __init__(self) -> None:
            self.__dict__["weight"] = Tensor([2.0])
            self.training = True

        @property
        def weight(self) -> Tensor:
            asked.append(1)
            found: Tensor = self.__dict__["weight"]
            return found

        @weight.setter
        def weight(self, new: Tensor) -> None:
            self.__dict__["weight"] = new

    asked: list[int] = []
    model = Model()
    f = jit(lambda x: x * model.weight)
    assert [ask(f), ask(f), f.traces] == [2, 2, 1]
    del asked[:]
    assert ask(f) == 2
    assert asked == []
    model.weight = Tensor([3.0])
    assert [ask(f), f.traces] == [3, 2]
    model.training = False
    assert [ask(f), f.traces] == [3, 3]


def test_a_tensor_in_the_place_and_at_the_address_of_one_that_is_gone() -> None:
    box = {"w": Tensor([2.0]).realize()}
    same = box["w"].reshape(1)  # has the value of the one that is gone
    f = jit(lambda x: x * box["w"])
    assert ask(f) == 2
    number, again = 2.0, 0
    for _ in range(20):
        address, number = id(box["w"]), number + 1
        for _ in range(10):  # the second one stands where the first one was, unless something else does
            box["w"] = Tensor([number]).realize()
            if id(box["w"]) == address:
                again += 1
                break
        assert ask(f) == number
        same = box["w"].reshape(1)
    assert same.item() == number
    assert again > 0


RATE = 1.0


def at_rate(x: Tensor) -> Tensor:
    return x * RATE


class Scaled:
    shift = 0.0

    def __init__(self) -> None:
        self.scale, self.mode, self.calls, self.parts = 2.0, "plus", 0, {"gain": 1.0}

    def __call__(self, x: Tensor) -> Tensor:
        self.calls += 1
        y: Tensor = at_rate(x) * self.doubled * self.parts["gain"] + getattr(self, "shift", 2.0)
        if self.mode == "plus":
            return y
        return -y

    @property
    def doubled(self) -> float:
        return 2 * self.scale


def test_numbers_and_strings_of_objects_that_the_function_reads() -> None:
    global RATE
    model = Scaled()
    f = jit(lambda x: model(x))
    assert [ask(f), ask(f), f.traces, model.calls] == [4, 4, 1, 1]
    model.scale = 0.5
    assert ask(f) == 1
    model.parts["gain"] = 8.0
    assert ask(f) == 8
    model.mode = "minus"
    assert ask(f) == -8
    try:
        Scaled.shift, RATE = 1.0, 0.5
        assert [ask(f), ask(f), f.traces] == [-5, -5, 5]
    finally:
        Scaled.shift, RATE = 0.0, 1.0
    assert ask(f) == -8
    traces, model.calls, model.scale = f.traces, 10, float("0.5")  # only counted; another object, but equal
    assert [ask(f), f.traces] == [-8, traces]
    for number in range(50):  # a number may come to stand where the one before it was
        model.scale = number + 0.25
        assert ask(f) == -16 * (number + 0.25)


class Stepped:
    def __init__(self) -> None:
        self.scale, self.calls = 2.0, 0

    @jit
    def run(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x * self.scale

    @jit
    def mean(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x / self.calls


def test_numbers_of_the_object_of_a_jitted_method() -> None:
    first, other = Stepped(), Stepped()
    assert [ask(first.run), ask(first.run), first.run.traces, first.calls] == [2, 2, 1, 1]
    first.scale = 3.0
    assert [ask(first.run), ask(other.run)] == [3, 2]
    with pytest.raises(JitError, match="mean reads the number calls and changes it"):
        ask(first.mean)


def test_a_table_that_grows() -> None:
    tables = SimpleNamespace(length=0, numbers=None)

    @jit
    def f(x: Tensor) -> Tensor:
        if x.shape[0] > tables.length:
            tables.length = x.shape[0]
            tables.numbers = Tensor.arange(tables.length)
        numbers: Tensor = tables.numbers
        return x * numbers[: x.shape[0]]

    for length in (2, 5, 3):
        assert f(Tensor.full(length, 2)).tolist() == [2 * n for n in range(length)]
    assert f.traces == 3


def scaled_by(model: Any, x: Tensor) -> Tensor:
    y: Tensor = x * model.RATE
    return y


def test_a_global_by_the_name_of_an_attribute_that_is_read() -> None:
    global RATE
    model = SimpleNamespace(RATE=2.0)
    f = jit(lambda x: scaled_by(model, x))
    try:
        for number in range(3):
            RATE = float(number)
            assert ask(f) == 2
    finally:
        RATE = 1.0
    assert f.traces == 1


PROGRAM = """\
RATE, OFFSET = 2.0, 0.0
def scaled(x): return x * RATE
class Config:
    class inner: lr = 1.0
    @staticmethod
    def shifted(x): return x + OFFSET
"""


def test_numbers_behind_the_modules_and_classes_of_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a function, an object and a class of theirs; what is installed is looked at no further."""
    (tmp_path / "layers_of_a_program.py").write_text(PROGRAM)
    monkeypatch.syspath_prepend(tmp_path)
    layers: Any = import_module("layers_of_a_program")
    f = jit(lambda x: layers.Config.shifted(layers.scaled(x)) * layers.Config.inner.lr)
    assert ask(f) == 2
    layers.RATE = 3.0
    assert ask(f) == 3
    layers.Config.inner.lr = 10.0
    assert ask(f) == 30
    layers.OFFSET = 1.0
    assert ask(f) == 40
    assert f.traces == 4


def test_lists_that_grow() -> None:
    tensors, numbers = list[Tensor](), [1.0]
    f = jit(lambda x: sum((t * x for t in tensors), start=x) * sum(numbers))
    assert ask(f) == 1
    tensors.append(Tensor([2.0]))
    assert ask(f) == 3
    numbers.append(1.0)
    assert [ask(f), ask(f), f.traces] == [6, 6, 3]


@pytest.mark.parametrize("how", ["name", "attribute"])
def test_a_number_that_the_function_changes_and_reads(how: str) -> None:
    steps, state = 0, SimpleNamespace(steps=0)

    def f(x: Tensor) -> Any:
        nonlocal steps
        if how == "name":
            steps += 1
            return x / steps
        state.steps += 1
        return x / state.steps

    with pytest.raises(JitError, match="f reads the number steps and changes it"):
        jit(f)(Tensor([1.0]))


class Weighted:
    def __init__(self) -> None:
        self.weight = Tensor([2.0])
        self.run = jit(self.times)

    def times(self, x: Tensor) -> Tensor:
        return x * self.weight


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])  # noqa: S301
def test_a_copy_of_an_object_computes_from_its_own_tensors(duplicate: Callable[[Weighted], Weighted]) -> None:
    first = Weighted()
    assert ask(first.run) == 2
    second = duplicate(first)
    second.weight = Tensor([3.0])
    assert [ask(first.run), ask(second.run), ask(first.run), first.run.traces] == [2, 3, 2, 1]
