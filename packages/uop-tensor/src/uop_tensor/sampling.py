"""Samples of what there is: permutations, and positions by their weights. Week 5."""

from __future__ import annotations

from typing import Self

from uop_ir import DType, dtypes

from .creation import sizes
from .errors import TensorError
from .graph import detach, known_device
from .norms import Norms
from .variates import below, unit


class Sampling(Norms):
    """As all random numbers, samples are of the stream that `manual_seed` starts."""

    @classmethod
    def randperm(cls, n: int, dtype: DType = dtypes.i64, device: str | None = None) -> Self:
        """The numbers from 0 to n - 1 in random order: that of as many numbers of 64 bits.

        Raises TensorError for a dtype that does not hold them.
        """
        (count,) = sizes("randperm", (n,))
        if not dtype.is_int or count - 1 > dtype.max:
            raise TensorError(f"randperm: {count} as {dtype}", remedy="an integer dtype that holds n - 1")
        return cls._of(below(count, 1 << 64, device)).argsort().cast(dtype)

    def multinomial(self, num_samples: int = 1, replacement: bool = False) -> Self:
        """Positions along the last axis, as i64, each with a probability in proportion to its element.

        Elements are weights from 0, of a vector or of each row of a matrix; they need not add up to 1.
        Without `replacement` no position comes twice, and a row must have as many weights that are not 0.
        Elements are not read, so that other weights are no error.
        Raises TensorError for other shapes, and for more samples than elements.
        """
        if self.ndim not in (1, 2) or not self.dtype.is_float:
            raise TensorError(
                f"multinomial: weights {self.dtype}{self.shape}", remedy="a vector or a matrix of floats"
            )
        size = self.shape[-1]
        least = 1 if replacement else num_samples
        if num_samples < 1 or size < least:
            raise TensorError(
                f"multinomial: {num_samples} samples of {size} elements",
                remedy="at least one; with replacement=True more than there are",
            )
        weights = self._of(detach(self.uop)).double()
        device, rows = known_device(self.uop), self.shape[:-1]
        if replacement:
            ends = weights.cumsum(-1)
            total = ends.narrow(-1, size - 1, 1)
            shape = (*rows, num_samples)
            part = self._of(unit(ends[..., :1].numel() * num_samples, dtypes.f64, device).reshape(shape))
            # what rounding would bring to the end lies within the last weight that is not 0
            return ends.searchsorted((part * total).minimum(total * (1 - 2.0**-52)), right=True)
        # the order in which exponentials of these rates come to an end (Efraimidis and Spirakis, 2006)
        waits = self._of(unit(self.numel(), dtypes.f64, device).reshape(self.shape))
        return (-(1 - waits).log2() / weights).argsort(-1).narrow(-1, 0, num_samples)
