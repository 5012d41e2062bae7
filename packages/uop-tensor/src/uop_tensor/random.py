"""Random numbers: uniform, normal, integers, initial weights, dropout. Week 5."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self, TypedDict, Unpack

import numpy as np

from uop_ir import DType, UOp, dtypes

from . import compose
from .creation import Creation, sizes
from .error_function import erfinv
from .errors import TensorError
from .graph import known_device
from .live import capture
from .promotion import accumulator, as_float
from .realize import realize
from .threefry import manual_seed
from .variates import below, normal, unit


class Options(TypedDict, total=False):
    """What a new tensor of random numbers may be told: `dtype` is f32 where nothing says otherwise.

    `requires_grad=True` gives the tensor memory of its own at once.
    """

    dtype: DType
    device: str | None
    requires_grad: bool


class Random(Creation):
    """Numbers of the stream that `manual_seed` starts. They are lazy, and the same on every backend.

    Number i of a tensor, row-major, is a function of the seed, of how many were drawn before, and of i.
    """

    @staticmethod
    def manual_seed(seed: int) -> None:
        """Start the stream anew; the same as `uop_tensor.manual_seed`."""
        manual_seed(seed)

    @classmethod
    def rand(
        cls, *shape: int | Sequence[int], low: float = 0.0, high: float = 1.0, **options: Unpack[Options]
    ) -> Self:
        """Uniform on [low, high). Raises TensorError for bounds in another order, or infinitely far apart."""
        given, dtype = sizes("rand", shape), _float_type("rand", options)
        if not low <= high or not math.isfinite(high - low):
            raise TensorError(f"rand: from {low} to {high}", remedy="low <= high, both finite")
        x = unit(math.prod(given), dtype, options.get("device"))
        if (low, high) == (0, 1):
            return cls._drawn("rand", x.cast(dtype), given, options)
        x = (x * (high - low) + low).cast(dtype)
        if low < high:  # rounding may reach it
            x = compose.minimum(x, x.const_like(max(_below(high, dtype), low)))
        return cls._drawn("rand", x, given, options)

    @classmethod
    def uniform(
        cls, *shape: int | Sequence[int], low: float = 0.0, high: float = 1.0, **options: Unpack[Options]
    ) -> Self:
        """The same as `rand`."""
        return cls.rand(*shape, low=low, high=high, **options)

    @classmethod
    def randn(cls, *shape: int | Sequence[int], **options: Unpack[Options]) -> Self:
        """Normal with mean 0 and variance 1."""
        given, dtype = sizes("randn", shape), _float_type("randn", options)
        x = normal(math.prod(given), dtype, options.get("device"))
        return cls._drawn("randn", x.cast(dtype), given, options)

    @classmethod
    def normal(
        cls, *shape: int | Sequence[int], mean: float = 0.0, std: float = 1.0, **options: Unpack[Options]
    ) -> Self:
        """Normal with this mean and standard deviation. Raises TensorError for a negative one."""
        given, dtype = sizes("normal", shape), _float_type("normal", options)
        if not std >= 0:
            raise TensorError(f"normal: std={std}", remedy="at least 0")
        x = normal(math.prod(given), dtype, options.get("device")) * std + mean
        return cls._drawn("normal", x.cast(dtype), given, options)

    @classmethod
    def trunc_normal(
        cls,
        *shape: int | Sequence[int],
        mean: float = 0.0,
        std: float = 1.0,
        a: float = -2.0,
        b: float = 2.0,
        **options: Unpack[Options],
    ) -> Self:
        """Normal with this mean and standard deviation where that is within [a, b]: the inverse of the
        distribution function of uniform numbers. Raises TensorError for a deviation that is not above 0, and
        for bounds in another order.
        """
        given, dtype = sizes("trunc_normal", shape), _float_type("trunc_normal", options)
        if not (std > 0 and a < b):
            raise TensorError(f"trunc_normal: std={std}, a={a}, b={b}", remedy="std > 0 and a < b")
        low, high = (math.erf((end - mean) / (std * math.sqrt(2))) for end in (a, b))
        x = unit(math.prod(given), dtypes.f64, options.get("device")) * (high - low) + low
        x = (erfinv(x) * (std * math.sqrt(2)) + mean).cast(dtype)
        x = compose.minimum(x.maximum(a), x.const_like(b))
        return cls._drawn("trunc_normal", x, given, options)

    @classmethod
    def exponential(cls, *shape: int | Sequence[int], lambd: float = 1.0, **options: Unpack[Options]) -> Self:
        """Exponential with the rate `lambd`, above 0. Raises TensorError for a rate that is not."""
        given, dtype = sizes("exponential", shape), _float_type("exponential", options)
        if not 0 < lambd < math.inf:
            raise TensorError(f"exponential: lambd={lambd}", remedy="above 0 and finite")
        x = 1 - unit(math.prod(given), dtype, options.get("device"))
        x = compose.log(x) * (-1 / lambd)
        return cls._drawn("exponential", x.cast(dtype), given, options)

    @classmethod
    def randint(
        cls,
        low: int,
        high: int,
        shape: int | Sequence[int],
        dtype: DType = dtypes.i64,
        device: str | None = None,
    ) -> Self:
        """Uniform integers from low to high, excluded."""
        given = sizes("randint", (shape,))
        if not dtype.is_int or not dtype.min <= low < high <= dtype.max + 1:
            raise TensorError(
                f"randint: {low} to {high} as {dtype}", remedy="low < high, within an integer dtype"
            )
        x = below(math.prod(given), high - low, device) + low % (1 << 64)
        return cls._of(x.cast(dtype).reshape(given))

    @classmethod
    def _drawn(cls, method: str, x: UOp, shape: tuple[int, ...], options: Options) -> Self:
        wanted = options.get("requires_grad", False)
        if wanted:
            trace = capture()
            if trace is not None:
                trace.forbid(f"{method}(requires_grad=True)", "make parameters before the call")
            x = realize([x])[0]
        self = cls._of(x.reshape(shape))
        self._requires_grad = wanted
        return self

    def rand_like(self, dtype: DType | None = None) -> Self:
        """Uniform on [0, 1), in this shape, dtype and device; of integers, f32."""
        return self.rand(self.shape, **self._options(dtype))

    def randn_like(self, dtype: DType | None = None) -> Self:
        """Normal with mean 0 and variance 1, in this shape, dtype and device; of integers, f32."""
        return self.randn(self.shape, **self._options(dtype))

    def _options(self, dtype: DType | None) -> Options:
        return {"dtype": dtype or as_float(self.dtype), "device": known_device(self.uop)}

    def randint_like(self, low: int, high: int, dtype: DType | None = None) -> Self:
        """Uniform integers from low to high, excluded, in this shape, dtype and device; of floats, i64."""
        own = self.dtype if self.dtype.is_int else dtypes.i64
        return self.randint(low, high, self.shape, dtype or own, known_device(self.uop))

    def bernoulli(self) -> Self:
        """1 with the probability that an element is, else 0,
        in its dtype. Raises TensorError for integers.
        """
        x = self.uop.cast(accumulator(_float_type("bernoulli", {"dtype": self.dtype})))
        chosen = unit(self.numel(), x.dtype, known_device(x)).reshape(self.shape) < x
        return self._of(chosen.cast(self.dtype))

    def dropout(self, p: float = 0.5, training: bool = True) -> Self:
        """Each element 0 with probability p, else divided by 1 - p; where not `training`, this tensor itself.

        Raises TensorError for p outside of [0, 1].
        """
        if not 0 <= p <= 1:
            raise TensorError(f"dropout: p={p}", remedy="a probability, from 0 to 1")
        if not training or p == 0:
            return self
        x = self.uop.cast(as_float(self.dtype))
        kept = unit(self.numel(), dtypes.f32, known_device(x)).reshape(self.shape) < 1 - p
        scale = 1 / (1 - p) if p < 1 else 0.0
        return self._of(kept.where(compose.wide(lambda v: v * scale)(x), 0))

    @classmethod
    def scaled_uniform(cls, *shape: int | Sequence[int], **options: Unpack[Options]) -> Self:
        """Uniform within 1 / sqrt(number of elements) of 0."""
        given = sizes("scaled_uniform", shape)
        return cls._within(max(math.prod(given), 1) ** -0.5, given, options)

    @classmethod
    def glorot_uniform(cls, *shape: int | Sequence[int], **options: Unpack[Options]) -> Self:
        """Uniform within sqrt(6 / (inputs + outputs)) of 0 (Glorot and Bengio, 2010); the first axis counts
        outputs, the others inputs. Raises TensorError for a shape without axes.
        """
        given = sizes("glorot_uniform", shape)
        inputs = _inputs("glorot_uniform", given)
        return cls._within(math.sqrt(6 / max(inputs + given[0], 1)), given, options)

    @classmethod
    def kaiming_uniform(
        cls, *shape: int | Sequence[int], a: float = 0.01, **options: Unpack[Options]
    ) -> Self:
        """Uniform within sqrt(6 / ((1 + a*a) inputs)) of 0, for a leaky ReLU of slope `a` (He et al., 2015);
        the first axis counts outputs, the others inputs. Raises TensorError for a shape without axes.
        """
        given = sizes("kaiming_uniform", shape)
        inputs = _inputs("kaiming_uniform", given)
        return cls._within(math.sqrt(6 / ((1 + a * a) * inputs)), given, options)

    @classmethod
    def kaiming_normal(cls, *shape: int | Sequence[int], a: float = 0.01, **options: Unpack[Options]) -> Self:
        """Normal with the standard deviation sqrt(2 / ((1 + a*a) inputs)); see `kaiming_uniform`."""
        given = sizes("kaiming_normal", shape)
        inputs = _inputs("kaiming_normal", given)
        return cls.normal(given, std=math.sqrt(2 / ((1 + a * a) * inputs)), **options)

    @classmethod
    def _within(cls, bound: float, shape: tuple[int, ...], options: Options) -> Self:
        return cls.rand(shape, low=-bound, high=bound, **options)


def _float_type(method: str, options: Options) -> DType:
    dtype = options.get("dtype", dtypes.f32)
    if not dtype.is_float:
        raise TensorError(f"{method}: dtype {dtype}", remedy="a float dtype, or randint")
    return dtype


def _below(limit: float, dtype: DType) -> float:
    """The greatest number of a dtype that is less than a limit."""
    near: Any = np.asarray(limit).astype(dtype.numpy)
    return float(near if near < limit else np.nextafter(near, dtype.numpy.type(-math.inf)))


def _inputs(method: str, shape: tuple[int, ...]) -> int:
    if not shape:
        raise TensorError(f"{method}: shape ()", remedy="give outputs and inputs")
    return max(math.prod(shape[1:]), 1)
