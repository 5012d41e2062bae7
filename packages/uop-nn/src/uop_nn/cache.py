"""The keys and values of a text so far: a language model need not see it again for each token. Week 10.

A cache has memory for the whole context from the start. What is computed at a position is stored at that
place, and a query looks at the places up to its own: so one jitted function, with the position as an
argument, serves all lengths.
"""

from __future__ import annotations

import numpy as np

from uop_ir import DType, dtypes
from uop_tensor import Tensor

from .module import ModelError, positive

__all__ = ["CachePosition", "KvCache", "LayerCache"]


class KvCache:
    """Memory for the keys and values of `layers` layers:
    (batch, heads, context, size) each, at first zeros.
    """

    def __init__(
        self, layers: int, batch: int, heads: int, context: int, size: int, dtype: DType = dtypes.f32
    ) -> None:
        def zeros() -> Tensor:
            return Tensor(np.zeros((batch, heads, context, size), dtype.numpy))

        self.context, self.batch = context, batch
        self.layers = [(zeros(), zeros()) for _ in range(layers)]

    def at(self, position: int | Tensor, time: int) -> CachePosition:
        """The cache for tokens at positions `position` to `position + time - 1`; what was there is replaced.

        In a jitted function `position` is an argument. A position beyond the context is left out. Raises
        ModelError for a position that is known and not in the context, and for no tokens.
        """
        positive(time=time)
        if isinstance(position, int) and not 0 <= position < self.context:
            raise ModelError(f"the position {position} is not in the context, from 0 to {self.context - 1}")
        return CachePosition(self, position, time)


class CachePosition:
    """A cache, and where the next tokens go. `positions` (time) are theirs, int32."""

    def __init__(self, cache: KvCache, position: int | Tensor, time: int) -> None:
        self.batch, self.time = cache.batch, time
        places = Tensor.arange(cache.context, dtype=dtypes.i32)
        self.positions = Tensor.arange(time, dtype=dtypes.i32) + position
        # where in the new ones stands what goes to each place, and whether it is there at all
        self.source = places - position
        self.new = (self.source >= 0) & (self.source < time)
        self.mask = places <= self.positions.reshape(time, 1)
        self.layers = [LayerCache(keys, values, self) for keys, values in cache.layers]


class LayerCache:
    """The keys and values of one layer, at a position."""

    def __init__(self, keys: Tensor, values: Tensor, where: CachePosition) -> None:
        self.keys, self.values, self.where = keys, values, where

    def extended(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Store new keys and values (B, heads, T, d); all keys and values, and the mask (T, context) for
        queries.
        """
        new = self.where.new.reshape(-1, 1)
        source = self.where.source.clip(0, k.shape[2] - 1)
        for memory, given in ((self.keys, k), (self.values, v)):
            memory.assign(new.where(given.take(source, axis=2), memory).detach())
        return self.keys, self.values, self.where.mask
