"""Floor division and remainder of index sums: by a constant, and by what divides them. Week 1.

Over the mathematical integers, and total: x // 0 == 0 and x % 0 == x.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice, permutations, product
from math import gcd

from uop_ir import Ops, UOp

from .bounds import bounds, not_zero
from .linear import Linear, compact, form, linear
from .sizes import smaller

#: How many ways to choose remainders of the coefficients are tried.
TRIES = 32
#: A dividend of more nodes is not held against another.
MOST_NODES = 64
#: In a sum of more terms no quotient is looked for that belongs to a remainder: each pair would be tried.
MOST_TERMS = 64
#: A remainder in a remainder is opened where the sum keeps to so many terms, or gets no longer.
SHORT = 8


def divide(x: UOp, size: int) -> UOp | None:
    """x // size for a constant size > 0 in fewer or simpler nodes; None where there are none."""
    sum_ = linear(x)
    exact = fold_period(sum_, size)
    if exact is not None:
        return compact(exact[0])
    if len(sum_.terms) == 1 and (sum_.terms[0][1] == 1):
        found = _divide_term(sum_.terms[0][0], sum_.constant, size)
        if found is not None:
            return found
    for factor, quotient, _ in _factors(sum_, size):
        return compact(quotient) // (size // factor)
    quotient, rest = _whole(sum_, size)
    for term, k in rest.terms:
        if k == 1 and constant_div(term):
            # (y // a + z) // size == (y + a * z) // (a * size), where like terms meet in that
            inner = divisor(term)
            others = rest.add(term, -1)
            whole = linear(term.src[0]).plus(others, inner)
            if len(whole.terms) < len(linear(term.src[0]).terms) + len(others.terms):
                new = compact(whole) // (inner * size)
                if not smaller(compact(rest) // size, new, MOST_NODES):
                    return compact(quotient) + new
    if quotient.terms or quotient.constant:
        return compact(quotient) + compact(rest) // size
    return None


def _whole(sum_: Linear, size: int) -> tuple[Linear, Linear]:
    """A sum as size * quotient + rest: of x * (size + 1),
    too, x goes out, as the remainder of the division has x.
    """
    quotient, rest = sum_.split(size)
    for term in [t for t, k in rest.terms if k == size + 1]:
        quotient, rest = quotient.add(term, 1), rest.add(term, -size)
    return quotient, rest


def remainder(x: UOp, size: int) -> UOp | None:
    """x % size for a constant size > 0 in fewer or simpler nodes; None where there are none."""
    sum_ = linear(x)
    exact = fold_period(sum_, size)
    if exact is not None:
        return compact(exact[1])
    opened = _congruent_sum(sum_, size)
    # other coefficients stay: the quotient of the same division has them too
    least = form({t: k % size if k % size < 2 else k for t, k in opened.terms}, opened.constant % size)
    if least != sum_:
        return compact(least) % size
    if len(sum_.terms) == 1 and sum_.terms[0][1] == 1 and constant_div(sum_.terms[0][0]):
        # (y // a) % size is that of y's remainder by a * size
        term = sum_.terms[0][0]
        inner = divisor(term)
        whole = linear(term.src[0]).plus(Linear((), sum_.constant), inner)
        exact = fold_period(whole, inner * size)
        if exact is not None:
            return compact(exact[1]) // inner
    for factor, quotient, rest in _factors(sum_, size):
        return (compact(quotient) % (size // factor)) * factor + compact(rest)
    return None


def _congruent_sum(sum_: Linear, size: int) -> Linear:
    """(y % m * k + z) % size == (y * k + z) % size where size divides m * k:
    a sum with such remainders opened.
    """
    opened = Linear((), sum_.constant)
    for term, k in sum_.terms:
        open_ = constant_mod(term) and divisor(term) * k % size == 0
        opened = opened.plus(linear(term.src[0]) if open_ else Linear(((term, 1),), 0), k)
    return opened if len(opened.terms) <= max(SHORT, len(sum_.terms)) else sum_


def constant_mod(node: UOp) -> bool:
    """Whether a node is a remainder by a positive constant."""
    return node.op is Ops.MOD and node.src[1].op is Ops.CONST and divisor(node) > 0


def constant_div(node: UOp) -> bool:
    """Whether a node is a quotient by a positive constant."""
    return node.op is Ops.DIV and node.src[1].op is Ops.CONST and divisor(node) > 0


def divisor(node: UOp) -> int:
    """The constant that a quotient or a remainder divides by."""
    return int(node.src[1].arg.bits)


def fold_period(sum_: Linear, size: int) -> tuple[Linear, Linear] | None:
    """Quotient and remainder of a sum where they are sums:
    sum == size * quotient + rest with 0 <= rest < size.

    Each coefficient gives up a multiple of the size; what is left must lie between two multiples of it.
    """
    rest = form({t: k % size for t, k in sum_.terms}, sum_.constant)
    if sum(min(k, size - k) * _width(t) for t, k in rest.terms) >= size:
        return None
    for chosen in _remainders(rest, size):
        span = chosen.values()
        turns = span.least // size
        if span.greatest // size == turns:
            kept = Linear(chosen.terms, chosen.constant - turns * size)
            gone = sum_.plus(kept, -1)
            return form({t: k // size for t, k in gone.terms}, gone.constant // size), kept
    return None


def _width(term: UOp) -> int:
    least, greatest = bounds(term)
    return greatest - least


def _remainders(rest: Linear, size: int) -> Iterator[Linear]:
    """The sum with each coefficient k as k or k - size: the smaller ones first."""
    choices = [((k, k - size) if 2 * k <= size else (k - size, k)) for _, k in rest.terms]
    names = [t for t, _ in rest.terms]
    for chosen in islice(product(*choices), TRIES):
        yield Linear(tuple(zip(names, chosen, strict=True)), rest.constant)


def _divide_term(term: UOp, constant: int, size: int) -> UOp | None:
    """(y // a + b) // size == (y + a * b) // (a * size),
    and (y % (m * size)) // size == (y // size) % m; a > 0.
    """
    if constant_div(term):
        inner = divisor(term)
        return (term.src[0] + inner * constant) // (inner * size)
    if constant_mod(term) and constant == 0 and divisor(term) % size == 0:
        return (term.src[0] // size) % (divisor(term) // size)
    return None


def _factors(sum_: Linear, size: int) -> Iterator[tuple[int, Linear, Linear]]:
    """Each g > 1 that divides the size, and the sum as g * quotient + rest with 0 <= rest < g;
    greatest g first.
    """
    for g in sorted({gcd(k, size) for _, k in sum_.terms} - {1, size}, reverse=True):
        exact = fold_period(sum_, g)
        if exact is not None:
            yield g, *exact


# by what is no constant


def divide_by_term(x: UOp, y: UOp) -> UOp | None:
    """(y * q + r) // y == q + r // y, which is q for 0 <= r < y; y is not 0."""
    if not not_zero(y):
        return None
    quotient, rest = _multiples(linear(x), y)
    if not quotient.terms and not quotient.constant:
        return x.const_like(0) if _within(rest, y) else None
    if _within(rest, y):
        return compact(quotient)
    return compact(quotient) + compact(rest) // y


def remainder_by_term(x: UOp, y: UOp) -> UOp | None:
    """(y * q + r) % y == r % y, which is r for 0 <= r < y."""
    quotient, rest = _multiples(linear(x), y)
    if _within(rest, y):
        return compact(rest)
    return compact(rest) % y if quotient.terms or quotient.constant else None


def _multiples(sum_: Linear, y: UOp) -> tuple[Linear, Linear]:
    """A sum as y * quotient + rest."""
    whole, rest = Linear((), 0), Linear((), sum_.constant)
    for term, k in sum_.terms:
        other = _cofactor(term, y)
        if other is None:
            rest = rest.add(term, k)
        else:
            whole = whole.plus(linear(other), k)
    return whole, rest


def _cofactor(term: UOp, y: UOp) -> UOp | None:
    """What y is multiplied with to give a term."""
    if term is y:
        return term.const_like(1)
    if term.op is Ops.MUL and y in term.src:
        return term.src[0] if term.src[1] is y else term.src[1]
    return None


def _within(rest: Linear, y: UOp) -> bool:
    """Whether 0 <= rest < y, by bounds or because it counts to y:
    a range up to y, or a remainder by y > 0.
    """
    least, greatest = rest.interval()
    if least >= 0 and greatest < bounds(y)[0]:
        return True
    if len(rest.terms) != 1 or rest.constant or rest.terms[0][1] != 1:
        return False
    term = rest.terms[0][0]
    return (term.op in (Ops.RANGE, Ops.SPECIAL) and term.src[0] is y) or (
        term.op is Ops.MOD and term.src[1] is y and bounds(y)[0] > 0
    )


# a quotient and its remainder in one sum


def recombine(sum_: Linear) -> Linear:
    """A quotient and the remainder of the same division as one term; c > 0.

    x // c * (c * k) + x % c * k == x * k
    x // c % b * (c * k) + x % c * k == x % (b * c) * k
    x * k - x // c * (c * k) == x % c * k
    """
    divided = any(t.op is Ops.DIV or t.op is Ops.MOD for t, _ in sum_.terms)
    better: Linear | None = sum_ if divided and len(sum_.terms) <= MOST_TERMS else None
    while better is not None:
        sum_ = better
        better = next(chain(_recombined(sum_), _shifted(sum_)), None)
    return sum_


def _recombined(sum_: Linear) -> Iterator[Linear]:
    """The sums with two terms less and one more."""
    if len(sum_.terms) < 2:
        return
    for term, k in sum_.terms:
        if constant_mod(term):
            size = divisor(term)
            for other, scale in sum_.terms:
                merged = _merged(term, size, other) if scale == k * size else None
                if merged is not None:
                    yield sum_.plus(Linear(((term, k), (other, scale)), 0), -1).plus(linear(merged), k)
            if any(scale % (k * size) == 0 for _, scale in sum_.terms):
                whole = _simplest_quotient(term.src[0], size)
                left = sum_.plus(whole, -k * size).add(term, -k)
                if len(left.terms) == len(sum_.terms) - len(whole.terms) - 1:
                    yield left.plus(linear(term.src[0]), k)
        elif constant_div(term) and k % divisor(term) == 0:
            size = divisor(term)
            source, factor = linear(term.src[0]), -k // size
            left = sum_.plus(source, -factor)
            if len(left.terms) == len(sum_.terms) - len(source.terms):
                rest = term.src[0] % size
                yield left.add(term, -k).add(rest, factor)


def _simplest_quotient(x: UOp, size: int) -> Linear:
    """x // size as the rules make it, for a sum in which it may stand."""
    quotient = x // size
    while constant_div(quotient):
        found = divide(quotient.src[0], divisor(quotient))
        if found is None:
            break
        quotient = found
    return linear(quotient)


def _merged(term: UOp, size: int, other: UOp) -> UOp | None:
    """The x of `x % size + other * size`, where other is x // size;
    for x // size % b it is x % (b * size).
    """
    if constant_mod(other):
        whole = _dividend(other.src[0], size, term.src[0])
        return None if whole is None else whole % (divisor(other) * size)
    return _dividend(other, size, term.src[0])


def _shifted(sum_: Linear) -> Iterator[Linear]:
    """(x // c + z) % b * (c * k) + x % c * k == (x + c * z) % (b * c) * k,
    where no two terms else are one.
    """
    mods = [(t, k) for t, k in sum_.terms if constant_mod(t)]
    for (term, k), (other, scale) in permutations(mods, 2):
        size = divisor(term)
        if scale != k * size:
            continue
        shifted = linear(other.src[0])
        for quotient, times in shifted.terms:
            x = _dividend(quotient, size, term.src[0]) if times == 1 else None
            if x is not None:
                whole = linear(x).plus(shifted.add(quotient, -1), size)
                merged = compact(whole) % (divisor(other) * size)
                yield sum_.plus(Linear(((term, k), (other, scale)), 0), -1).plus(linear(merged), k)


def _dividend(quotient: UOp, size: int, like: UOp) -> UOp | None:
    """The x with x // size == quotient and x congruent to `like` modulo size."""
    if not constant_div(quotient):
        return None
    by, x = divisor(quotient), linear(quotient.src[0])
    source = linear(like)
    if by == size:
        return quotient.src[0] if _congruent(x, source, size) else None
    for term, k in source.terms:
        if k == 1 and constant_div(term) and divisor(term) * size == by:
            # (y // a + z) // size == (y + a * z) // (a * size): x is (y + a * z) // a
            inner = divisor(term)
            whole = linear(term.src[0]).plus(source.add(term, -1), inner)
            difference = x.plus(whole, -1)
            if _multiple(difference, by):
                return compact(source.plus(_quotient(difference, inner)))
    return None


def _quotient(sum_: Linear, size: int) -> Linear:
    """A sum of multiples of a size, divided by it."""
    return form({t: k // size for t, k in sum_.terms}, sum_.constant // size)


def _congruent(x: Linear, y: Linear, size: int) -> bool:
    return _multiple(_congruent_sum(x, size).plus(_congruent_sum(y, size), -1), size)


def _multiple(sum_: Linear, size: int) -> bool:
    return sum_.constant % size == 0 and all(k % size == 0 for _, k in sum_.terms)
