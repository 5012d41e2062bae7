"""Module: a part of a model that knows its parameters by name. Week 5."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from uop_ir import DType, UopError
from uop_tensor import Tensor

__all__ = ["Mismatch", "ModelError", "Module", "Sequential", "load_tensors", "positive", "tensor"]


#: What may hold the parts of a module.
CONTAINERS = (list, tuple, dict)


class ModelError(UopError):
    """A size that a layer cannot have, or values that do not fit the parameters of a model."""


class Mismatch(NamedTuple):
    """The names that a state dict has not, and those that the model has not."""

    missing: list[str]
    unknown: list[str]


class Module:
    """A part of a model: its attributes are parameters (tensors that require a gradient), modules, or lists
    and dicts of these.

    Names are as in PyTorch: the attributes on the way to a parameter, and the index in a list or the key in a
    dict, joined by dots. A layer also has `buffers`, names of its attributes that are kept with the
    parameters, but not trained.
    """

    buffers: ClassVar[tuple[str, ...]] = ()
    #: Whether layers behave as in training: Dropout drops, BatchNorm2d learns its averages. See `train` and
    #: `eval`.
    training = True

    def named_parameters(self, prefix: str = "") -> Iterator[tuple[str, Tensor]]:
        """Each parameter with its name, in the order in which attributes were set; a shared one once."""
        seen: set[int] = set()
        for at in _tensors(self, prefix):
            if at.value.requires_grad and not at.is_buffer and id(at.value) not in seen:
                seen.add(id(at.value))
                yield at.name, at.value

    def parameters(self) -> list[Tensor]:
        """The parameters, in the order of `named_parameters`."""
        return [tensor for _, tensor in self.named_parameters()]

    def parameter_count(self) -> int:
        """How many numbers the parameters hold."""
        return sum(tensor.numel() for tensor in self.parameters())

    def state_dict(self) -> dict[str, Tensor]:
        """The parameters, and the buffers of layers, by name: the tensors themselves, not copies. A shared
        one has all of its names, as in PyTorch.
        """
        return {at.name: at.value for at in _tensors(self) if at.value.requires_grad or at.is_buffer}

    def load_state_dict(self, state: Mapping[str, Tensor | NDArray[Any]], *, strict: bool = True) -> Mismatch:
        """Give every parameter and buffer the value that `state` has for its name.

        Raises ModelError, and changes nothing, if a shape or dtype differs or, unless `strict` is False, if a
        name is missing or unknown; of a shared one, one name is enough.
        The names that were left out are returned.
        """
        return load_tensors(self.state_dict(), state, strict=strict)

    def train(self, mode: bool = True) -> Self:
        """Let this module and all within it behave as in training, or not; returns this module.

        A jitted function is traced anew where the mode has changed since: to go to and fro, give each mode a
        function of its own.
        """
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Self:
        """`train(False)`."""
        return self.train(False)

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Within a with block, this module and all within it do not behave as in training; then as before."""
        before = [(module, module.training) for module in self.modules()]
        self.eval()
        try:
            yield
        finally:
            for module, training in before:
                module.training = training

    def modules(self) -> Iterator[Module]:
        """This module and all within it, each once."""
        return iter([at.value for at in _walk(self) if isinstance(at.value, Module)])

    @contextmanager
    def computing_in(self, dtype: DType) -> Iterator[None]:
        """Within a with block, the parameters are seen rounded to `dtype`, and gradients go to them as they
        are.

        For mixed precision: `with model.computing_in(dtypes.bf16): loss = model.loss(x, y)`. The weights that
        are trained stay f32, and so does what the optimizer remembers.
        """
        parameters = [at for at in _tensors(self) if at.value.requires_grad]
        if any(isinstance(at.holder, tuple) for at in parameters):
            raise ModelError("a parameter in a tuple cannot be replaced", remedy="keep it in a list")
        rounded: dict[int, Tensor] = {}
        try:
            for at in parameters:
                at.put(rounded.setdefault(id(at.value), at.value.cast(dtype).contiguous()))
            yield
        finally:
            for at in parameters:
                at.put(at.value)


class Sequential(Module):
    """Layers, modules or functions, one after the other; their names are their numbers."""

    def __init__(self, *layers: Callable[[Tensor], Tensor]) -> None:
        self.layers = list(layers)

    def __call__(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def positive(**sizes: object) -> None:
    """Raise ModelError for a size that is not a positive int."""
    for name, size in sizes.items():
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise ModelError(f"{name} must be a positive integer, not {size!r}")


def tensor(layer: Module, x: Tensor) -> Tensor:
    """`x` itself. Raises ModelError for what is no Tensor, such as an array of NumPy."""
    if not isinstance(x, Tensor):
        raise ModelError(
            f"{type(layer).__name__} takes a Tensor, not {type(x).__name__}", remedy="give Tensor(x)"
        )
    return x


def load_tensors(
    targets: Mapping[str, Tensor], state: Mapping[str, Tensor | NDArray[Any]], *, strict: bool = True
) -> Mismatch:
    """Assign to each target the value of its name. Raises ModelError, and changes nothing, unless all of them
    fit.
    """
    if not isinstance(state, Mapping):
        raise ModelError(
            f"a state is values by name, not {type(state).__name__}", remedy="give a state_dict()"
        )
    given = {id(target) for name, target in targets.items() if name in state}
    missing = sorted(name for name, target in targets.items() if id(target) not in given)
    unknown = sorted(str(name) for name in state.keys() - targets.keys())
    if strict and (missing or unknown):
        wrong = [
            f"{len(names)} {what} ({_some(names)})"
            for what, names in (("missing", missing), ("unknown", unknown))
            if names
        ]
        raise ModelError(f"the names of the values are not those of the parameters: {', '.join(wrong)}")
    arrays = {name: _array(state[name]) for name in targets if name in state}
    for name, array in arrays.items():
        target = targets[name]
        if array.shape != target.shape or array.dtype != target.dtype.numpy:
            raise ModelError(
                f"{name} is {target.dtype.numpy} of shape {target.shape}, "
                f"but the value is {array.dtype} of shape {array.shape}",
                remedy="cast it first" if array.shape == target.shape else None,
            )
    for name, array in arrays.items():
        targets[name].assign(array)
    return Mismatch(missing, unknown)


class _Place(NamedTuple):
    """Where a tensor or module stands: its name, the module that has it, what holds it and by what key."""

    name: str
    owner: Module
    holder: Any
    key: Any
    value: Any

    @property
    def is_buffer(self) -> bool:
        return self.name.rpartition(".")[2] in self.owner.buffers

    def put(self, tensor: Tensor) -> None:
        """Let another tensor stand there."""
        if isinstance(self.holder, list | dict):
            self.holder[self.key] = tensor
        else:
            setattr(self.holder, self.key, tensor)


def _tensors(root: Module, prefix: str = "") -> Iterator[_Place]:
    return (at for at in _walk(root, prefix) if isinstance(at.value, Tensor))


def _walk(root: Module, prefix: str = "") -> Iterator[_Place]:
    """The module itself and all tensors and modules within it, each where it is found; of no module twice."""
    return _found(root, None, None, root, prefix, set())


def _found(
    owner: Module, holder: Any, key: Any, value: object, path: str, seen: set[int]
) -> Iterator[_Place]:
    if isinstance(value, Tensor | Module) and id(value) not in seen:
        yield _Place(path.removesuffix("."), owner, holder, key, value)
    if isinstance(value, Module) and id(value) not in seen:
        seen.add(id(value))
        for name, part in list(vars(value).items()):
            # the layers of a Sequential are named as those of PyTorch, by number
            short = isinstance(value, Sequential) and name == "layers"
            yield from _found(value, value, name, part, path if short else f"{path}{name}.", seen)
    elif isinstance(value, CONTAINERS):
        for item_key, item in _items(value):
            yield from _found(owner, value, item_key, item, f"{path}{item_key}.", seen)


def _items(value: Any) -> list[tuple[Any, Any]]:
    return list(value.items() if isinstance(value, dict) else enumerate(value))


def _array(value: Tensor | NDArray[Any]) -> NDArray[Any]:
    return value.numpy() if isinstance(value, Tensor) else np.asarray(value)


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
