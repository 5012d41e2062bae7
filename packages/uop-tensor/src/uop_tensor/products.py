"""Products of vectors, matrices and more: einsum and what can be written with it. Week 5."""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any, Self

from uop_ir import UOp

from . import shapes
from .einsum import Labels, contract, diagonal, parse
from .errors import TensorError
from .functional import Functional
from .promotion import promote
from .value import Operand, Value, device_beside, strong


class Products(Functional):
    """Sums of f16 and bf16 are added up in f32 and rounded once; integers keep their dtype and wrap."""

    @classmethod
    def einsum(cls, equation: str | Operand, *operands: Any) -> Self:
        """The sum of products that an equation such as "bij,bjk->bik" names, as in NumPy and torch.

        A letter twice in one term takes a diagonal. "..." stands for axes that broadcast. Without "->", the
        result has the axes of "...", then in alphabetical order the letters that stand once. Operands are
        multiplied from left to right, two at a time. Operands may be given as one list, or each followed by a
        list of numbers in place of its term, and no equation.
        """
        if isinstance(equation, str):
            given = operands[0] if len(operands) == 1 and isinstance(operands[0], list | tuple) else operands
        else:
            equation, given = _numbered(equation, *operands)
        device = device_beside(*given)
        nodes = [_array("einsum", x, device) for x in given]
        labels, output = parse(equation, [n.ndim for n in nodes])
        dtype = promote("einsum", *(n.dtype for n in nodes))
        return cls._of(contract("einsum", labels, [n.cast(dtype) for n in nodes], output))

    def _contracted(self, method: str, other: Operand, labels: tuple[Labels, Labels], output: Labels) -> Self:
        nodes = self._two(method, other)
        return self._of(contract(method, labels, nodes, output))

    def _two(self, method: str, other: Operand) -> tuple[UOp, UOp]:
        y = _array(method, other, device_beside(self))
        dtype = promote(method, self.dtype, y.dtype)
        return self.uop.cast(dtype), y.cast(dtype)

    def tensordot(self, other: Self, dims: int | Sequence[int] | Sequence[Sequence[int]] = 2) -> Self:
        """The sum over the last `dims` axes of this tensor with the first of the other,
        or over two lists of axes.
        """
        if not isinstance(dims, Sequence):
            (dims,) = shapes.integers("tensordot", (dims,))
            if not 0 <= dims <= min(self.ndim, other.ndim):
                raise TensorError(
                    f"tensordot: dims={dims} of shapes {self.shape} and {other.shape}",
                    remedy="at most as many as each has axes",
                )
            pair: Sequence[int | Sequence[int]] = (
                tuple(range(self.ndim - dims, self.ndim)),
                tuple(range(dims)),
            )
        else:
            pair = dims
        if len(pair) != 2:
            raise TensorError(f"tensordot: dims={dims!r}", remedy="a number, or two lists of axes")
        left, right = (shapes.integers("tensordot", (d,)) for d in pair)
        ours = [shapes.one_axis("tensordot", self.ndim, a) for a in left]
        theirs = [shapes.one_axis("tensordot", other.ndim, a) for a in right]
        pairs = list(zip(ours, theirs, strict=False))
        if len(ours) != len(theirs) or any(self.shape[a] != other.shape[b] for a, b in pairs):
            raise TensorError(
                f"tensordot: axes {ours} of {self.shape} with {theirs} of {other.shape}",
                remedy="as many of each, with the same sizes",
            )
        x_labels = tuple(range(self.ndim))
        y_labels = tuple(ours[theirs.index(b)] if b in theirs else self.ndim + b for b in range(other.ndim))
        output = (*(a for a in x_labels if a not in ours), *(b for b in y_labels if b >= self.ndim))
        return self._contracted("tensordot", other, (x_labels, y_labels), output)

    def inner(self, other: Self) -> Self:
        """The sum of products over the last axis of both; a number multiplies."""
        if self.ndim == 0 or other.ndim == 0:
            return self * other
        if self.shape[-1] != other.shape[-1]:
            raise TensorError(
                f"inner: shapes {self.shape} and {other.shape}", remedy="the last axes must be equal"
            )
        return self.tensordot(other, ((-1,), (-1,)))

    def outer(self, other: Self) -> Self:
        """All products of the elements of two vectors, as a matrix."""
        self._need("outer", 1, other, 1)
        return self.unsqueeze(1) * other

    def kron(self, other: Self) -> Self:
        """Each element of this tensor times the other one, in its place (Kronecker)."""
        rank = max(self.ndim, other.ndim)
        x, y = ((1,) * (rank - t.ndim) + t.shape for t in (self, other))
        left = self.reshape([n for s in x for n in (s, 1)])
        right = other.reshape([n for s in y for n in (1, s)])
        return (left * right).reshape([a * b for a, b in zip(x, y, strict=True)])

    def vdot(self, other: Self) -> Self:
        """The sum of products of two vectors."""
        self._need("vdot", 1, other, 1)
        return self @ other

    def vecdot(self, other: Operand, axis: int = -1) -> Self:
        """The sum of products along an axis; the others broadcast."""
        x, y = self._two("vecdot", other)
        shape = shapes.broadcast("vecdot", x.shape, y.shape)
        at = shapes.one_axis("vecdot", len(shape), axis)
        labels: tuple[Labels, Labels] = (tuple(range(-x.ndim, 0)), tuple(range(-y.ndim, 0)))
        output = tuple(a for a in range(-len(shape), 0) if a != at - len(shape))
        return self._of(contract("vecdot", labels, (x, y), output))

    def mm(self, other: Self) -> Self:
        """The product of two matrices."""
        self._need("mm", 2, other, 2)
        return self @ other

    def mv(self, other: Self) -> Self:
        """The product of a matrix and a vector."""
        self._need("mv", 2, other, 1)
        return self @ other

    def bmm(self, other: Self) -> Self:
        """The products of two batches of matrices; nothing broadcasts."""
        self._need("bmm", 3, other, 3)
        if self.shape[0] != other.shape[0]:
            raise TensorError(f"bmm: shapes {self.shape} and {other.shape}", remedy="batches of equal size")
        return self @ other

    def addmm(self, first: Self, second: Self, beta: float = 1, alpha: float = 1) -> Self:
        """beta * self + alpha * first @ second, of matrices; with beta 0, self is not looked at."""
        return self._plus(first.mm(second), beta, alpha)

    def addmv(self, matrix: Self, vector: Self, beta: float = 1, alpha: float = 1) -> Self:
        """beta * self + alpha * matrix @ vector; see `addmm`."""
        return self._plus(matrix.mv(vector), beta, alpha)

    def addr(self, first: Self, second: Self, beta: float = 1, alpha: float = 1) -> Self:
        """beta * self + alpha * first.outer(second); see `addmm`."""
        return self._plus(first.outer(second), beta, alpha)

    def baddbmm(self, first: Self, second: Self, beta: float = 1, alpha: float = 1) -> Self:
        """beta * self + alpha * first @ second, of batches of matrices; see `addmm`."""
        return self._plus(first.bmm(second), beta, alpha)

    def _plus(self, product: Self, beta: float, alpha: float) -> Self:
        product = product if alpha == 1 else product * alpha
        shapes.broadcast("addmm", self.shape, product.shape)
        if beta == 0:
            return product
        return (self if beta == 1 else self * beta) + product

    def trace(self) -> Self:
        """The sum of the diagonal of a square matrix, in the dtype of `sum`."""
        if self.ndim != 2:
            raise TensorError(f"trace: a tensor of shape {self.shape}", remedy="it needs two axes")
        n = min(self.shape)
        return self._of(diagonal(self.uop.shrink([(0, n), (0, n)]))).sum()

    def cross(self, other: Self, axis: int = -1) -> Self:
        """The cross product of vectors of three elements along an axis."""
        shape = shapes.broadcast("cross", self.shape, other.shape)
        at = shapes.one_axis("cross", len(shape), axis)
        if any(t.ndim < len(shape) - at or t.shape[at - len(shape)] != 3 for t in (self, other)):
            raise TensorError(
                f"cross: shapes {self.shape} and {other.shape} along axis {axis}", remedy="3 elements in both"
            )
        (a, b, c), (d, e, f) = (t.split(1, at - len(shape)) for t in (self, other))
        return (b * f - c * e).cat(c * d - a * f, a * e - b * d, axis=at)

    def _need(self, method: str, rank: int, other: Value, other_rank: int) -> None:
        if self.ndim != rank or other.ndim != other_rank:
            raise TensorError(
                f"{method}: shapes {self.shape} and {other.shape}",
                remedy=f"{rank} and {other_rank} axes; @ takes others",
            )

    def _square(self, method: str) -> None:
        if self.ndim < 2 or self.shape[-1] != self.shape[-2]:
            raise TensorError(
                f"{method}: a tensor of shape {self.shape}", remedy="it needs square matrices (..., n, n)"
            )


def _array(method: str, given: Operand, device: str | None) -> UOp:
    node = strong(method, given, device)
    if not isinstance(node, UOp):
        raise TensorError(
            f"{method}: {type(given).__name__} is no tensor", remedy="make it one; * takes numbers"
        )
    return node


def _numbered(*given: Any) -> tuple[str, list[Any]]:
    """x, [0, 1], y, [1, 2], [0, 2] as an equation and its operands."""
    lists = [*given[1::2], *(given[-1:] if len(given) % 2 else ())]
    operands = list(given[: len(given) // 2 * 2 : 2])
    try:
        terms = ["".join("..." if n is Ellipsis else string.ascii_letters[n] for n in term) for term in lists]
    except (TypeError, IndexError):
        raise TensorError(
            "einsum: neither an equation nor operands each with a list of numbers",
            remedy="numbers are from 0 to 51",
        ) from None
    inputs = ",".join(terms[: len(operands)])
    return (f"{inputs}->{terms[-1]}" if len(given) % 2 else inputs), operands
