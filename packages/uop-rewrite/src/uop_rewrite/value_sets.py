"""Sets of integers as an interval and a residue class,
and what the operations of the IR make of them. Week 1.

The product of two abstract domains: intervals (Cousot and Cousot,
1977) and arithmetic congruences (Granger, 1989).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product
from math import gcd
from typing import NamedTuple

from .bit_bounds import and_bounds, or_bounds, xor_bounds

#: Operands that have so few values together are tried one by one.
FEW = 64
#: So many divisors are tried one by one: all of 8 bits.
DIVISORS = 256


class ValueSet(NamedTuple):
    """The integers from `least` to `greatest`, both included,
    that are `offset` modulo `step`; of one, step is 0.
    """

    least: int
    greatest: int
    step: int = 1
    offset: int = 0

    @property
    def size(self) -> int:
        """How many values there are."""
        return 1 if self.step == 0 else (self.greatest - self.least) // self.step + 1

    def values(self) -> range:
        """All of them."""
        return range(self.least, self.greatest + 1, self.step or 1)


def value_set(least: int, greatest: int, step: int = 1, offset: int = 0) -> ValueSet:
    """The set in its one form: its ends belong to it, and the offset is from 0 to the step."""
    if step > 1:
        least += (offset - least) % step
        greatest -= (greatest - offset) % step
    if least >= greatest:
        return ValueSet(least, least, 0, least)
    return ValueSet(least, greatest, step, offset % step) if step > 1 else ValueSet(least, greatest)


def constant(value: int) -> ValueSet:
    return ValueSet(value, value, 0, value)


def union(sets: Iterable[ValueSet]) -> ValueSet:
    """The least set that holds all of them."""
    first, *rest = sets
    least, greatest, step, offset = first
    for other in rest:
        least, greatest = min(least, other.least), max(greatest, other.greatest)
        step = gcd(step, other.step, offset - other.offset)
    return value_set(least, greatest, step, offset)


def enumerated(function: Callable[[int, int], int], x: ValueSet, y: ValueSet) -> ValueSet:
    """The least set that holds the results for all pairs."""
    found = {function(p, q) for p in x.values() for q in y.values()}
    least = min(found)
    step = gcd(*(v - least for v in found))
    return value_set(least, max(found), step, least)


def add(x: ValueSet, y: ValueSet) -> ValueSet:
    step = gcd(x.step, y.step)
    return value_set(x.least + y.least, x.greatest + y.greatest, step, x.offset + y.offset)


def negate(x: ValueSet) -> ValueSet:
    return value_set(-x.greatest, -x.least, x.step, -x.offset)


def subtract(x: ValueSet, y: ValueSet) -> ValueSet:
    return add(x, negate(y))


def multiply(x: ValueSet, y: ValueSet) -> ValueSet:
    corners = [p * q for p in x[:2] for q in y[:2]]
    step = gcd(x.step * y.step, x.step * y.offset, y.step * x.offset)
    return value_set(min(corners), max(corners), step, x.offset * y.offset)


def square(x: ValueSet) -> ValueSet:
    """x * x: never less than 0."""
    ends = (x.least * x.least, x.greatest * x.greatest)
    least = min(ends) if x.least > 0 or x.greatest < 0 else 0
    return value_set(least, max(ends), gcd(x.step * x.step, 2 * x.step * x.offset), x.offset * x.offset)


def maximum(x: ValueSet, y: ValueSet) -> ValueSet:
    _, _, step, offset = x if y.greatest <= x.least else y if x.greatest <= y.least else union((x, y))
    return value_set(max(x.least, y.least), max(x.greatest, y.greatest), step, offset)


def clip(x: ValueSet, least: int | None, greatest: int | None) -> ValueSet:
    """What of a set is not below `least` and not above `greatest`; where that is nothing, the nearest end."""
    if x.step == 0:
        return x
    low = x.least if least is None else min(max(x.least, least), x.greatest)
    high = x.greatest if greatest is None else max(min(x.greatest, greatest), x.least)
    return value_set(low, high, x.step, x.offset)


def floor_div(p: int, q: int) -> int:
    """Floor division with p // 0 == 0."""
    return p // q if q else 0


def floor_mod(p: int, q: int) -> int:
    """The remainder of floor_div: p % 0 == p."""
    return p % q if q else p


def divide(x: ValueSet, y: ValueSet) -> ValueSet:
    if (y.step or x.step > 1) and x.size * y.size <= FEW:  # else the ends say it all
        return enumerated(floor_div, x, y)
    divisors = {d for d in (y.least, y.greatest, -1, 1, 0) if y.least <= d <= y.greatest}
    results = [floor_div(p, q) for p in x[:2] for q in divisors]
    if y.step == 0 and y.offset and x.step % y.offset == 0:
        return value_set(min(results), max(results), abs(x.step // y.offset), x.offset // y.offset)
    return value_set(min(results), max(results))


def modulo(x: ValueSet, y: ValueSet) -> ValueSet:
    if y.step == 0 and x.step == 1:
        return _modulo(x, y.offset)
    if x.size * y.size <= FEW:
        return enumerated(floor_mod, x, y)
    if y.size <= DIVISORS:
        return union(_modulo(x, q) for q in y.values())
    step = gcd(x.step, y.step, y.offset)
    if y.least > 0:
        greatest = y.greatest - 1
        if x.least >= 0:
            greatest = min(x.greatest, greatest)
        return value_set(x.least if x.least >= 0 and x.greatest < y.least else 0, greatest, step, x.offset)
    least, greatest = min(y.least + 1, 0), max(y.greatest - 1, 0)
    if y.least <= 0 <= y.greatest:
        least, greatest = min(least, x.least), max(greatest, x.greatest)
    return value_set(least, greatest, step, x.offset)


def _modulo(x: ValueSet, divisor: int) -> ValueSet:
    if divisor == 0:
        return x
    step = gcd(x.step, divisor)
    if x.least // divisor == x.greatest // divisor:
        ends = x.least % divisor, x.greatest % divisor
        return value_set(min(ends), max(ends), x.step, x.least % divisor)
    return value_set(min(divisor + 1, 0), max(divisor - 1, 0), step, x.offset)


def shift_left(x: ValueSet, y: ValueSet, bits: int) -> ValueSet:
    """Before it wraps; counts of the width or more give 0,
    and so do negative ones, which are great as unsigned.
    """
    return union(multiply(x, constant(1 << q)) if 0 <= q < bits else constant(0) for q in _counts(y, bits))


def shift_right(x: ValueSet, y: ValueSet, bits: int) -> ValueSet:
    """Counts of the width or more give 0, or all sign bits."""
    return union(divide(x, constant(1 << (q if 0 <= q < bits else bits))) for q in _counts(y, bits))


def _counts(y: ValueSet, bits: int) -> list[int]:
    """The shift counts that differ in what they do."""
    inside = range(max(y.least, 0), min(y.greatest, bits - 1) + 1)
    return [*inside, *([bits] if len(inside) < y.greatest - y.least + 1 else [])]


def bitwise(
    function: Callable[[int, int], int],
    ends: Callable[[tuple[int, int], tuple[int, int]], tuple[int, int]],
    x: ValueSet,
    y: ValueSet,
    bits: int,
) -> ValueSet:
    """An operation on `bits` bits, split by sign: what is negative is greater by a power of 2 as unsigned."""
    bits += 1  # so that unsigned operands, too, have a sign bit: 0
    if x.size * y.size <= FEW:
        return enumerated(function, x, y)
    found = []
    for p, q in product(_by_sign(x, bits), _by_sign(y, bits)):
        least, greatest = ends(p, q)
        # the sign bit of the result is that of any of its values
        wrap = (
            1 << bits if function(-1 if p[0] >> (bits - 1) else 0, -1 if q[0] >> (bits - 1) else 0) < 0 else 0
        )
        found.append(value_set(least - wrap, greatest - wrap))
    least, greatest = min(f.least for f in found), max(f.greatest for f in found)
    low = min(_power(x.step, bits), _power(y.step, bits))
    return value_set(least, greatest, low, function(x.offset, y.offset))


def _by_sign(x: ValueSet, bits: int) -> list[tuple[int, int]]:
    """As unsigned intervals of `bits` bits; what is not negative keeps its value,
    and needs no more than bits - 1.
    """
    out = []
    if x.least < 0:
        out.append((x.least + (1 << bits), min(x.greatest, -1) + (1 << bits)))
    if x.greatest >= 0:
        out.append((max(x.least, 0), x.greatest))
    return out


def _power(step: int, bits: int) -> int:
    """The greatest power of 2 that divides a step: so many low bits are known."""
    return step & -step if step else 1 << bits


def bit_and(x: ValueSet, y: ValueSet, bits: int) -> ValueSet:
    found = bitwise(lambda p, q: p & q, and_bounds, x, y, bits)
    for mask in (x, y):
        if mask.step == 0 and mask.offset:  # the low zeros of a mask
            low = mask.offset & -mask.offset
            if low > found.step:
                found = value_set(found.least, found.greatest, low, 0)
    return found


def bit_or(x: ValueSet, y: ValueSet, bits: int) -> ValueSet:
    return bitwise(lambda p, q: p | q, or_bounds, x, y, bits)


def bit_xor(x: ValueSet, y: ValueSet, bits: int) -> ValueSet:
    return bitwise(lambda p, q: p ^ q, xor_bounds, x, y, bits)
