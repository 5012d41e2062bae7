"""The least and the greatest AND, OR and XOR of two unsigned intervals. Week 1.

From Warren, Hacker's Delight (2nd edition), section 4-3: a bound is improved from the highest bit down, by
raising one end of an interval to a number with a bit cleared or set, as long as it stays inside.
"""

from __future__ import annotations

Interval = tuple[int, int]


def _bits(*ends: int) -> int:
    """A single 1 above all bits of the ends, for a walk from the highest bit down."""
    return 1 << max(e.bit_length() for e in ends)


def _least_or(x: Interval, y: Interval) -> int:
    (a, b), (c, d) = x, y
    m = _bits(b, d)
    while m:
        if ~a & c & m:
            raised = (a | m) & -m
            if raised <= b:
                a = raised
                break
        elif a & ~c & m:
            raised = (c | m) & -m
            if raised <= d:
                c = raised
                break
        m >>= 1
    return a | c


def _greatest_or(x: Interval, y: Interval) -> int:
    (a, b), (c, d) = x, y
    m = _bits(b, d)
    while m:
        if b & d & m:
            lowered = (b - m) | (m - 1)
            if lowered >= a:
                b = lowered
                break
            lowered = (d - m) | (m - 1)
            if lowered >= c:
                d = lowered
                break
        m >>= 1
    return b | d


def _complement(x: Interval, mask: int) -> Interval:
    return mask - x[1], mask - x[0]


def or_bounds(x: Interval, y: Interval) -> Interval:
    return _least_or(x, y), _greatest_or(x, y)


def and_bounds(x: Interval, y: Interval) -> Interval:
    """x & y is not (not x | not y)."""
    mask = _bits(x[1], y[1]) - 1
    least, greatest = or_bounds(_complement(x, mask), _complement(y, mask))
    return mask - greatest, mask - least


def xor_bounds(x: Interval, y: Interval) -> Interval:
    """From the highest bit down: where both intervals have one value of a bit,
    so has the result; else they are cut.
    """
    mask = _bits(x[1], y[1]) - 1
    greatest = _greatest_xor(x, y, mask)
    return mask - _greatest_xor(_complement(x, mask), y, mask), greatest


def _greatest_xor(x: Interval, y: Interval, mask: int) -> int:
    """The greatest x ^ y: at each bit the pairs of halves that give a 1 are kept, where there are any."""
    pairs, found = {(x, y)}, 0
    m = (mask + 1) >> 1
    while m:
        kept: dict[int, set[tuple[Interval, Interval]]] = {0: set(), 1: set()}
        for p, q in pairs:
            for bit_p, half_p in _halves(p, m):
                for bit_q, half_q in _halves(q, m):
                    kept[bit_p ^ bit_q].add((half_p, half_q))
        bit = 1 if kept[1] else 0
        pairs, found = kept[bit], found | (m if bit else 0)
        m >>= 1
    return found


def _halves(x: Interval, m: int) -> list[tuple[int, Interval]]:
    """The parts of an interval of numbers below 2m whose bit m is 0 and 1, the bit taken away."""
    out = []
    if x[0] < m:
        out.append((0, (x[0], min(x[1], m - 1))))
    if x[1] >= m:
        out.append((1, (max(x[0], m) - m, x[1] - m)))
    return out
