"""Structures: where the tensors and numbers of a value stand in lists,
tuples, dicts and dataclasses. Week 5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from functools import cache
from typing import Any, TypeAlias

#: Where a leaf or a container stands: (Leaf, its number, ...) or (Container, its keys, their identities,
#: *places of its parts). Hashable.
Place: TypeAlias = "tuple[Any, ...]"


class Leaf:
    """A kind of leaf. `rebuild` gives the one of a place from that place, the tensors and the numbers."""

    def __init__(self, rebuild: Callable[[Place, Sequence[Any], Sequence[Any]], Any]) -> None:
        self.rebuild = rebuild

    def unchanged(self, place: Place, value: object, tensors: Sequence[Any], numbers: Sequence[Any]) -> bool:
        return value is self.rebuild(place, tensors, numbers)

    def leaves(self, place: Place, name: str) -> Iterator[tuple[Leaf, str, int]]:
        """The kind, the name and the number of each leaf of a place that has this name."""
        yield self, name, place[1]


TENSOR = Leaf(lambda place, tensors, numbers: tensors[place[1]])
NUMBER = Leaf(lambda place, tensors, numbers: numbers[place[1]])
STATIC = Leaf(lambda place, tensors, numbers: place[2])


class Container:
    """A type of values with parts: how one is taken apart,
    into keys and parts, and how it is made of them.
    """

    def __init__(
        self,
        kind: type,
        parts: Callable[[Any], tuple[Sequence[Any], Sequence[Any]]],
        make: Callable[[Sequence[Any], list[Any]], Any],
    ) -> None:
        self.kind, self.parts, self.make = kind, parts, make

    def rebuild(self, place: Place, tensors: Sequence[Any], numbers: Sequence[Any]) -> Any:
        return self.make(place[1], [p[0].rebuild(p, tensors, numbers) for p in place[3:]])

    def unchanged(self, place: Place, value: object, tensors: Sequence[Any], numbers: Sequence[Any]) -> bool:
        if type(value) is not self.kind:
            return False
        keys, parts = self.parts(value)
        return (
            keys == place[1]
            and len(parts) == len(place) - 3
            and all(p[0].unchanged(p, v, tensors, numbers) for p, v in zip(place[3:], parts, strict=True))
        )

    def leaves(self, place: Place, name: str) -> Iterator[tuple[Leaf, str, int]]:
        for key, part in zip(place[1] or range(len(place)), place[3:], strict=False):
            yield from part[0].leaves(part, f"{name}.{key}")


SEQUENCES: dict[Any, Container] = {
    list: Container(list, lambda x: ((), x), lambda keys, parts: parts),
    tuple: Container(tuple, lambda x: ((), x), lambda keys, parts: tuple(parts)),
}
DICT = Container(
    dict, lambda x: (tuple(x), tuple(x.values())), lambda keys, parts: dict(zip(keys, parts, strict=True))
)
EMPTY_DICT: Place = DICT, (), ()


@cache
def named_tuple(kind: Any) -> Container:
    return Container(kind, lambda x: (kind._fields, x), lambda keys, parts: kind(*parts))


@cache
def data_class(kind: Any) -> Container:
    names = tuple(f.name for f in fields(kind))

    def make(keys: Sequence[Any], parts: list[Any]) -> Any:
        made = object.__new__(kind)
        for name, part in zip(names, parts, strict=True):
            object.__setattr__(made, name, part)
        return made

    return Container(kind, lambda x: (names, [getattr(x, name, None) for name in names]), make)


def identity(value: Any) -> object:
    """What tells values apart that are equal to Python, such as 1, 1.0 and True, or 0.0 and -0.0."""
    kind = type(value)
    if kind is float:
        return value.hex()
    if kind is tuple or kind is frozenset:
        return kind, *map(identity, value)
    return kind, value
