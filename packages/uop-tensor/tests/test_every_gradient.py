"""Every method of Tensor is either held against central differences here,
in float64, or said to have no gradient.

Inputs stay away from corners, of which test_gradient.py speaks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from uop_tensor import Tensor

Array = npt.NDArray[Any]
RNG = np.random.default_rng(0)


def normal(*shape: int) -> Array:
    return RNG.normal(0, 1, shape)


def positive(*shape: int) -> Array:
    return RNG.uniform(0.5, 2, shape)


def inside(*shape: int) -> Array:
    """In (-1, 1), off 0."""
    signs: Array = RNG.choice([-1.0, 1.0], shape)
    return signs * RNG.uniform(0.1, 0.9, shape)


def unit(*shape: int) -> Array:
    return RNG.uniform(0.1, 0.9, shape)


def apart(*shape: int) -> Array:
    """Distinct values, none near another, near 0 or near a whole or half number."""
    n = math.prod(shape)
    spread: Array = RNG.permutation(np.arange(n) - n // 2) + 0.37
    return spread.reshape(shape) * 0.7


I = np.array([[0, 2, 1], [1, 0, 0]])  # positions along an axis of 3
MASK = np.array([[True, False, True], [False, True, True]])
SIGNS = np.array([1.0, -1.0, 1.0, -1.0])
CLASSES = np.array([2, 0, 1])

#: A method by name; what is differentiated where that is more than the method itself; its float operands.
Example = tuple[Callable[..., Any], list[Array]]


def of(name: str, *arrays: Array, **options: Any) -> Example:
    return (lambda x, *others: getattr(x, name)(*others, **options)), list(arrays)


EXAMPLES: dict[str, Example | list[Example]] = {
    # operators by name
    "maximum": of("maximum", apart(4), apart(4) + 0.1),
    "minimum": of("minimum", apart(4), apart(4) + 0.1),
    "clip": of("clip", apart(6), min=-1, max=1),
    "clamp": of("clamp", apart(6), min=-1, max=1),
    "where": (lambda x, y: (Tensor(MASK)).where(x, y), [normal(2, 3), normal(3)]),
    "add": of("add", normal(2, 3), normal(3), alpha=2),
    "multiply": of("multiply", normal(2, 3), normal(3)),
    "subtract": of("subtract", normal(3), normal(3)),
    "divide": of("divide", normal(3), positive(3)),
    "true_divide": of("true_divide", normal(3), positive(3)),
    "absolute": of("absolute", apart(4)),
    "negative": of("negative", normal(3)),
    "clamp_min": of("clamp_min", apart(4), min=0.1),
    "clamp_max": of("clamp_max", apart(4), max=0.1),
    "fmax": of("fmax", apart(4), apart(4) + 0.1),
    "fmin": of("fmin", apart(4), apart(4) + 0.1),
    "type_as": (lambda x: x.type_as(x), [normal(3)]),
    **{name: of(name, inside(4)) for name in ("arcsin", "arccos", "arctanh", "arctan", "arcsinh")},
    "arccosh": (lambda x: (x + 2).arccosh(), [positive(3)]),
    "arctan2": of("arctan2", apart(4), normal(4)),
    "t": of("t", normal(2, 3)),
    "ravel": of("ravel", normal(2, 3)),
    "concat": (lambda x, y: x.concat(y), [normal(2, 3), normal(1, 3)]),
    "select": of("select", normal(2, 3), axis=1, index=-1),
    "logdet": (lambda x: (x @ x.mT).logdet(), [normal(2, 2) + 2 * np.eye(2)]),
    "dist": of("dist", normal(3), normal(3)),
    "sub": of("sub", normal(2, 3), normal(2, 1), alpha=2),
    "mul": of("mul", normal(2, 3), normal(3)),
    "div": of("div", normal(2, 3), positive(3)),
    "pow": of("pow", positive(2, 3), normal(3)),
    "mod": of("mod", apart(4), positive(4) * 0 + 0.9),
    "remainder": (lambda x: x.remainder(0.9), [apart(4)]),
    "fmod": (lambda x: x.fmod(0.9), [apart(4)]),
    "positive": of("positive", normal(3)),
    "nan_to_num": of("nan_to_num", normal(3)),
    "copysign": (lambda x: x.copysign(-1.0), [apart(4)]),
    "frac": of("frac", apart(4)),
    "lerp": of("lerp", normal(4), normal(4), unit(4)),
    "addcmul": of("addcmul", normal(4), normal(4), normal(4), value=2),
    "addcdiv": of("addcdiv", normal(4), normal(4), positive(4), value=2),
    "rad2deg": of("rad2deg", normal(3)),
    "deg2rad": of("deg2rad", normal(3)),
    "neg": of("neg", normal(3)),
    # functions of one element
    **{name: of(name, normal(6)) for name in (
        "exp", "exp2", "sin", "cos", "tanh", "sigmoid", "silu", "square", "tan", "atan", "sinh", "cosh", "asinh", "erf",
        "erfc", "expm1", "gelu", "quick_gelu", "swish", "softplus", "logsigmoid", "mish", "tanhshrink", "selu", "celu",
    )},
    **{name: of(name, positive(6)) for name in ("log", "log2", "log10", "log1p", "sqrt", "rsqrt", "reciprocal")},
    **{name: of(name, positive(6)) for name in ("lgamma", "digamma")},
    "polygamma": of("polygamma", positive(6), n=2),
    **{name: of(name, apart(6)) for name in (
        "relu", "abs", "relu6", "hardtanh", "hardsigmoid", "hardswish", "leaky_relu", "elu", "softsign", "softshrink",
        "hardshrink",
    )},
    **{name: of(name, inside(6)) for name in ("asin", "acos", "atanh", "erfinv")},
    "acosh": of("acosh", positive(6) + 1),
    "logit": of("logit", unit(6)),
    "prelu": of("prelu", apart(2, 3), positive(1)),
    "threshold": (lambda x: x.threshold(0.5, 7), [apart(6)]),
    "glu": of("glu", normal(2, 4)),
    # functions of two
    "atan2": of("atan2", apart(4), normal(4)),
    "logaddexp": of("logaddexp", normal(4), normal(4)),
    "hypot": of("hypot", normal(4), normal(4)),
    "xlogy": of("xlogy", normal(4), positive(4)),
    # movement
    "reshape": (lambda x: x.reshape(3, -1), [normal(2, 3)]),
    "view": (lambda x: x.view(3, 2), [normal(2, 3)]),
    "view_as": (lambda x, y: x.view_as(y) * y, [normal(2, 3), normal(6)]),
    "reshape_as": (lambda x, y: x.reshape_as(y) * y, [normal(2, 3), normal(6)]),
    "flatten": of("flatten", normal(2, 3, 2), start=1),
    "unflatten": (lambda x: x.unflatten(1, (2, -1)), [normal(2, 4)]),
    "expand": (lambda x: x.expand(3, 2, 4), [normal(2, 1)]),
    "broadcast_to": (lambda x: x.broadcast_to(3, 2, 4), [normal(2, 1)]),
    "expand_as": (lambda x, y: x.expand_as(y) * y, [normal(1, 3), normal(2, 3)]),
    "broadcast_tensors": (lambda x, y: sum(x.broadcast_tensors(y)), [normal(1, 3), normal(2, 1)]),
    "permute": (lambda x: x.permute(2, 0, 1), [normal(2, 3, 4)]),
    "transpose": (lambda x: x.transpose(0, 1), [normal(2, 3)]),
    "movedim": (lambda x: x.movedim(0, -1), [normal(2, 3, 4)]),
    "moveaxis": (lambda x: x.moveaxis(0, -1), [normal(2, 3, 4)]),
    "swapaxes": (lambda x: x.swapaxes(0, 1), [normal(2, 3)]),
    "swapdims": (lambda x: x.swapdims(0, 1), [normal(2, 3)]),
    "squeeze": of("squeeze", normal(2, 1, 3)),
    "unsqueeze": (lambda x: x.unsqueeze(1), [normal(2, 3)]),
    "flip": (lambda x: x.flip(1), [normal(2, 3)]),
    "fliplr": of("fliplr", normal(2, 3)),
    "flipud": of("flipud", normal(2, 3)),
    "rot90": of("rot90", normal(2, 3)),
    "shrink": (lambda x: x.shrink([(0, 1), (1, 3)]), [normal(2, 3)]),
    "narrow": (lambda x: x.narrow(1, 1, 2), [normal(2, 3)]),
    "hstack": (lambda x, y: x.hstack(y), [normal(2, 3), normal(2, 1)]),
    "vstack": (lambda x, y: x.vstack(y), [normal(3), normal(2, 3)]),
    "dstack": (lambda x, y: x.dstack(y), [normal(3), normal(1, 3, 2)]),
    "max_unpool1d": (lambda x: x.max_unpool1d(Tensor([[[1, 2]]]), 2), [normal(1, 1, 2)]),
    "max_unpool2d": (lambda x: x.max_unpool2d(Tensor([[[5, 2]]]), 2), [normal(1, 1, 2)]),
    "max_unpool3d": (lambda x: x.max_unpool3d(Tensor([[[[5, 12]]]]), 2), [normal(1, 1, 1, 2)]),
    "im2col": of("im2col", normal(1, 2, 4, 3), kernel_size=2, stride=(2, 1), padding=1),
    "fold": (lambda x: x.fold((4, 3), 2, stride=(2, 1)), [normal(1, 8, 4)]),
    "lp_pool1d": of("lp_pool1d", positive(1, 2, 5), norm_type=3, kernel_size=2, ceil_mode=True),
    "lp_pool2d": of("lp_pool2d", normal(1, 2, 4, 4), norm_type=2, kernel_size=2),
    "lp_pool3d": of("lp_pool3d", normal(1, 1, 2, 3, 2), norm_type=2, kernel_size=2, stride=1),
    "cat": (lambda x, y: x.cat(y, axis=1), [normal(2, 3), normal(2, 1)]),
    "stack": (lambda x, y: x.stack(y, axis=1), [normal(2, 3), normal(2, 3)]),
    "pad": [
        (lambda x, mode=mode: x.pad([(1, 1), (2, 1)], mode), [normal(3, 3)])
        for mode in ("constant", "reflect", "replicate", "circular")
    ],
    "meshgrid": (lambda x, y: x.meshgrid(y)[0] * x.meshgrid(y)[1], [normal(2), normal(3)]),
    "roll": (lambda x: x.roll(1, 1), [normal(2, 3)]),
    "repeat": (lambda x: x.repeat(2, 2), [normal(2, 3)]),
    "tile": (lambda x: x.tile(2, 2), [normal(2, 3)]),
    "repeat_interleave": (lambda x: x.repeat_interleave(2, 1), [normal(2, 3)]),
    "split": (lambda x: x.split([1, 2], 1)[1], [normal(2, 3)]),
    "chunk": (lambda x: x.chunk(2, 1)[0], [normal(2, 3)]),
    "tensor_split": (lambda x: x.tensor_split(2, 1)[0], [normal(2, 3)]),
    "unbind": (lambda x: x.unbind(1)[1], [normal(2, 3)]),
    "unfold": (lambda x: x.unfold(1, 2, 1), [normal(2, 4)]),
    "tril": of("tril", normal(3, 3)),
    "triu": of("triu", normal(3, 3)),
    # folds
    **{name: [of(name, apart(3, 4)), of(name, apart(3, 4), axis=1, keepdim=True)] for name in (
        "sum", "prod", "max", "min", "mean", "var", "std", "logsumexp", "amax", "amin", "nansum", "nanmean",
    )},
    "aminmax": (lambda x: x.aminmax(axis=1)[0] * x.aminmax(axis=1)[1], [apart(3, 4)]),
    "std_mean": (lambda x: x.std_mean(axis=1)[0] * x.std_mean(axis=1)[1], [normal(3, 4)]),
    "var_mean": (lambda x: x.var_mean(axis=1)[0] * x.var_mean(axis=1)[1], [normal(3, 4)]),
    "softmax": of("softmax", normal(3, 4)),
    "softmin": of("softmin", normal(3, 4)),
    "log_softmax": of("log_softmax", normal(3, 4)),
    "norm": [(lambda x, p=p: x.norm(p, 1), [apart(3, 4)]) for p in (1, 2, 3, math.inf, -math.inf)],
    "cosine_similarity": of("cosine_similarity", normal(3, 4), normal(3, 4)),
    "pairwise_distance": of("pairwise_distance", normal(3, 4), normal(3, 4)),
    "cdist": of("cdist", normal(3, 4), normal(2, 4)),
    # running
    "cumsum": (lambda x: x.cumsum(1), [normal(2, 4)]),
    "cumprod": (lambda x: x.cumprod(1), [normal(2, 4)]),
    "cummax": (lambda x: x.cummax(1)[0], [apart(2, 4)]),
    "cummin": (lambda x: x.cummin(1)[0], [apart(2, 4)]),
    "logcumsumexp": (lambda x: x.logcumsumexp(1), [normal(2, 4)]),
    "diff": of("diff", normal(2, 4)),
    # picking and storing
    "masked_fill": (lambda x: x.masked_fill(MASK, 3.0), [normal(2, 3)]),
    "masked_select": (lambda x: x.masked_select(MASK), [normal(2, 3)]),
    "diagonal": of("diagonal", normal(3, 4), offset=1),
    "diag": [of("diag", normal(3)), of("diag", normal(3, 3))],
    "gather": (lambda x: x.gather(1, Tensor(I)), [normal(2, 3)]),
    "take": (lambda x: x.take(Tensor(I)), [normal(2, 3)]),
    "index_select": (lambda x: x.index_select(1, Tensor(CLASSES)), [normal(2, 3)]),
    "take_along_axis": (lambda x: x.take_along_axis(Tensor(I), 1), [normal(2, 3)]),
    "take_along_dim": (lambda x: x.take_along_dim(Tensor(I), 1), [normal(2, 3)]),
    "scatter": (lambda x, s: x.scatter(1, Tensor(CLASSES[None]), s), [normal(2, 3), normal(1, 3)]),
    "scatter_add": (lambda x, s: x.scatter_add(1, Tensor(I), s), [normal(2, 3), normal(2, 3)]),
    "scatter_reduce": [
        (lambda x, s, how=how: x.scatter_reduce(1, Tensor(I), s, how), [apart(2, 3), apart(2, 3) + 0.05])
        for how in ("sum", "prod", "mean", "amax", "amin")
    ],
    "index_add": (lambda x, s: x.index_add(1, Tensor(CLASSES), s), [normal(2, 3), normal(2, 3)]),
    "sort": (lambda x: x.sort(1)[0], [apart(2, 5)]),
    "topk": (lambda x: x.topk(2, 1)[0], [apart(2, 5)]),
    "kthvalue": (lambda x: x.kthvalue(2, 1)[0], [apart(2, 5)]),
    "median": (lambda x: x.median(), [apart(5)]),
    "quantile": (lambda x: x.quantile(0.3), [apart(5)]),
    # products
    "matmul": of("matmul", normal(2, 3), normal(3, 2)),
    "dot": of("dot", normal(3), normal(3)),
    "linear": of("linear", normal(2, 3), normal(4, 3), normal(4)),
    "layernorm": of("layernorm", normal(2, 3), normal(3), normal(3)),
    "scaled_dot_product_attention": of("scaled_dot_product_attention", normal(2, 3, 4), normal(2, 5, 4), normal(2, 5, 2)),
    "einsum": (lambda x, y: Tensor.einsum("ij,kj->ik", x, y), [normal(2, 3), normal(4, 3)]),
    "tensordot": of("tensordot", normal(2, 3), normal(3, 2), dims=1),
    "mm": of("mm", normal(2, 3), normal(3, 2)),
    "mv": of("mv", normal(2, 3), normal(3)),
    "bmm": of("bmm", normal(2, 2, 3), normal(2, 3, 1)),
    "addmm": of("addmm", normal(2, 2), normal(2, 3), normal(3, 2), beta=2, alpha=3),
    "addmv": of("addmv", normal(2), normal(2, 3), normal(3), beta=2, alpha=3),
    "addr": of("addr", normal(2, 3), normal(2), normal(3), beta=2, alpha=3),
    "baddbmm": of("baddbmm", normal(2, 2, 1), normal(2, 2, 3), normal(2, 3, 1), beta=2, alpha=3),
    "cross": of("cross", normal(2, 3), normal(2, 3)),
    "inner": of("inner", normal(2, 3), normal(4, 3)),
    "outer": of("outer", normal(2), normal(3)),
    "kron": of("kron", normal(2, 2), normal(1, 3)),
    "vdot": of("vdot", normal(3), normal(3)),
    "vecdot": of("vecdot", normal(2, 3), normal(2, 3)),
    "trace": of("trace", normal(3, 3)),
    "matrix_power": of("matrix_power", normal(3, 3), n=3),
    **{name: of(name, normal(3, 3) + 2 * np.eye(3)) for name in ("det", "inv", "inverse")},
    "slogdet": (lambda x: x.slogdet()[1], [normal(3, 3) + 2 * np.eye(3)]),
    "solve": of("solve", normal(3, 3) + 2 * np.eye(3), normal(3, 2)),
    "solve_triangular": of("solve_triangular", normal(3, 3) + 2 * np.eye(3), normal(3, 2), upper=False),
    "cholesky": (lambda x: (x @ x.T).cholesky(), [normal(3, 3) + 2 * np.eye(3)]),
    "qr": (lambda x: x.qr()[0] @ x.qr()[1] + x.qr()[1], [normal(3, 3)]),
    # windows
    "conv1d": of("conv1d", normal(2, 3, 7), normal(2, 3, 2), normal(2), stride=2, padding=1),
    "conv2d": of("conv2d", normal(1, 4, 5, 4), normal(2, 2, 2, 3), normal(2), padding=1, dilation=(2, 1), groups=2),
    "conv3d": of("conv3d", normal(1, 1, 3, 3, 3), normal(1, 1, 2, 2, 2)),
    "conv_transpose1d": of("conv_transpose1d", normal(1, 2, 3), normal(2, 1, 2), stride=2, output_padding=1),
    "conv_transpose2d": of("conv_transpose2d", normal(1, 2, 3, 2), normal(2, 1, 2, 2), padding=1, dilation=2),
    "conv_transpose3d": of("conv_transpose3d", normal(1, 1, 2, 2, 2), normal(1, 1, 2, 2, 2)),
    **{f"max_pool{n}d": of(f"max_pool{n}d", apart(1, 2, *[5] * n), kernel_size=2, padding=1) for n in (1, 2, 3)},
    **{f"avg_pool{n}d": of(f"avg_pool{n}d", normal(1, 2, *[5] * n), kernel_size=3, padding=1) for n in (1, 2, 3)},
    **{f"adaptive_max_pool{n}d": of(f"adaptive_max_pool{n}d", apart(1, 2, *[5] * n), output_size=2) for n in (1, 2, 3)},
    **{f"adaptive_avg_pool{n}d": of(f"adaptive_avg_pool{n}d", normal(1, 2, *[5] * n), output_size=2) for n in (1, 2, 3)},
    "interpolate": [
        of("interpolate", normal(1, 1, 3, 4), size=(5, 2), mode=mode) for mode in ("nearest", "bilinear", "bicubic")
    ],
    "pixel_shuffle": (lambda x: x.pixel_shuffle(2), [normal(1, 4, 2, 2)]),
    "pixel_unshuffle": (lambda x: x.pixel_unshuffle(2), [normal(1, 1, 4, 2)]),
    "grid_sample": (lambda x, g: x.grid_sample(g * 0.5), [normal(1, 2, 3, 4), inside(1, 2, 2, 2)]),
    "affine_grid": (lambda x: x.affine_grid((2, 1, 2, 3)), [normal(2, 2, 3)]),
    # what is written
    "index_fill": (lambda x, v: x.index_fill(1, [0, -1], v), [normal(2, 3), normal()]),
    "index_copy": (lambda x, y: x.index_copy(1, [2, 0], y), [normal(2, 3), normal(2, 2)]),
    "index_reduce": (lambda x, y: x.index_reduce(1, [2, 2], y, "amax"), [apart(2, 3), apart(2, 2) + 0.1]),
    "index_put": [
        (lambda x, y, a=a: x.index_put(([0, 1], [2, 1]), y, accumulate=a), [normal(2, 3), normal(2)])
        for a in (False, True)
    ],
    "put": (lambda x, y: x.put([4, 4, 0], y, accumulate=True), [normal(2, 3), normal(3)]),
    "masked_scatter": (lambda x, y: x.masked_scatter(MASK, y), [normal(2, 3), normal(5)]),
    "select_scatter": (lambda x, y: x.select_scatter(y, 1, -1), [normal(2, 3), normal(2)]),
    "slice_scatter": (lambda x, y: x.slice_scatter(y, 1, 0, None, 2), [normal(2, 3), normal(2, 2)]),
    "diagonal_scatter": (lambda x, y: x.diagonal_scatter(y, 1), [normal(2, 3), normal(2)]),
    "diag_embed": of("diag_embed", normal(2, 3), offset=1, axis1=0),
    # places of the order, and distributions
    "nanmedian": of("nanmedian", apart(5)),
    "nanquantile": of("nanquantile", apart(5), q=0.3),
    "mode": (lambda x: x.mode()[0], [apart(2, 3)]),
    "cov": (lambda x: x.cov(aweights=Tensor([1.0, 2.0, 1.0])), [normal(2, 3)]),
    "corrcoef": of("corrcoef", normal(2, 4)),
    "trapezoid": of("trapezoid", normal(2, 3), normal(3)),
    "trapz": of("trapz", normal(2, 3), normal(3)),
    "cumulative_trapezoid": of("cumulative_trapezoid", normal(2, 3), normal(3)),
    "ldexp": of("ldexp", normal(3), normal(3)),
    "sinc": of("sinc", inside(4)),
    # norms
    "local_response_norm": of("local_response_norm", normal(1, 4, 2), size=3, alpha=0.5),
    "layer_norm": (lambda x, w: x.layer_norm(3, w), [normal(2, 3), normal(3)]),
    "rms_norm": (lambda x, w: x.rms_norm(3, w), [normal(2, 3), normal(3)]),
    "group_norm": (lambda x, w: x.group_norm(2, w), [normal(2, 4, 3), normal(4)]),
    "instance_norm": of("instance_norm", normal(2, 3, 4)),
    "batch_norm": (lambda x, w: x.batch_norm(None, None, w, training=True), [normal(4, 3), normal(3)]),
    "batchnorm": of("batchnorm", normal(4, 3), normal(3), normal(3), normal(3), positive(3)),
    "normalize": of("normalize", normal(2, 3)),
    # losses
    "cross_entropy": (lambda x: x.cross_entropy(Tensor(CLASSES)), [normal(3, 4)]),
    "nll_loss": (lambda x: x.nll_loss(Tensor(CLASSES)), [normal(3, 4)]),
    "sparse_categorical_crossentropy": (
        lambda x: x.sparse_categorical_crossentropy(Tensor(CLASSES)), [normal(3, 4)],
    ),
    "mse_loss": of("mse_loss", normal(4), normal(4)),
    "l1_loss": of("l1_loss", apart(4), apart(4) + 0.1),
    "smooth_l1_loss": of("smooth_l1_loss", apart(4), apart(4) + 0.1),
    "huber_loss": of("huber_loss", apart(4), apart(4) + 0.1),
    "binary_cross_entropy": of("binary_cross_entropy", unit(4), unit(4)),
    "binary_cross_entropy_with_logits": of("binary_cross_entropy_with_logits", normal(4), unit(4)),
    "binary_crossentropy": of("binary_crossentropy", unit(4), unit(4)),
    "binary_crossentropy_logits": of("binary_crossentropy_logits", normal(4), unit(4)),
    "kl_div": of("kl_div", normal(4), unit(4)),
    "poisson_nll_loss": of("poisson_nll_loss", normal(4), positive(4)),
    "gaussian_nll_loss": of("gaussian_nll_loss", normal(4), normal(4), positive(4)),
    "soft_margin_loss": (lambda x: x.soft_margin_loss(Tensor(SIGNS)), [normal(4)]),
    "hinge_embedding_loss": (lambda x: x.hinge_embedding_loss(Tensor(SIGNS)), [apart(4)]),
    "margin_ranking_loss": (
        lambda x, y: x.margin_ranking_loss(y, Tensor(SIGNS)), [apart(4), apart(4) + 0.1],
    ),
    "cosine_embedding_loss": (
        lambda x, y: x.cosine_embedding_loss(y, Tensor(SIGNS)), [normal(4, 3), normal(4, 3)],
    ),
    "triplet_margin_loss": of("triplet_margin_loss", normal(4, 3), normal(4, 3), normal(4, 3)),
    "triplet_margin_with_distance_loss": (
        lambda x, y, z: x.triplet_margin_with_distance_loss(y, z, distance_function=lambda a, b: (a - b).square().sum(-1)),
        [normal(4, 3), normal(4, 3), normal(4, 3)],
    ),
    "multi_margin_loss": (lambda x: x.multi_margin_loss(Tensor(CLASSES), p=2), [apart(3, 4)]),
    "multilabel_margin_loss": (lambda x: x.multilabel_margin_loss(Tensor([[2, 0, -1], [-1, 1, 1]])), [apart(2, 3)]),
    "multilabel_soft_margin_loss": (lambda x: x.multilabel_soft_margin_loss(Tensor(MASK)), [normal(2, 3)]),
    # the same value
    "clone": of("clone", normal(3)),
    "contiguous": of("contiguous", normal(3)),
    "double": of("double", normal(3)),
    "cast": (lambda x: x.cast(x.dtype), [normal(3)]),
    "dropout": (lambda x: x.dropout(0.5, training=False), [normal(3)]),
}  # fmt: skip

#: What has no gradient, and why.
NONE = {
    "of other things than values": (
        "shape dtype ndim dim numel nelement size nbytes element_size is_floating_point device grad requires_grad item tolist numpy realize assign backward gradient "
        "detach to T mT"
    ),
    "new tensors": (
        "full zeros ones empty new_zeros new_ones new_full zeros_like empty_like ones_like full_like from_numpy as_tensor arange linspace logspace eye "
        "rand uniform randn normal randint rand_like randn_like randint_like bernoulli scaled_uniform glorot_uniform "
        "kaiming_uniform kaiming_normal from_dlpack manual_seed randperm multinomial exponential trunc_normal"
    ),
    "of bits, truths and positions": (
        "bitcast eq ne lt le gt ge not_equal less less_equal greater greater_equal "
        "bitwise_and bitwise_or bitwise_xor bitwise_not bitwise_left_shift bitwise_right_shift "
        "logical_and logical_or logical_xor logical_not isfinite isclose isnan isinf signbit any all argmax argmin "
        "equal allclose count_nonzero nonzero argwhere one_hot argsort searchsorted bucketize unique unique_consecutive bincount histc gcd lcm"
    ),
    "zero almost everywhere": "sign sgn floor ceil round trunc floor_divide heaviside nextafter",
    "narrower than what central differences need": "float half bfloat16 short int long bool",
}


def examples() -> list[Any]:
    return [
        pytest.param(*example, id=f"{name}-{i}" if isinstance(kept, list) else name)
        for name, kept in EXAMPLES.items()
        for i, example in enumerate(kept if isinstance(kept, list) else [kept])
    ]


@pytest.mark.parametrize(("function", "arrays"), examples())
def test_gradient(
    function: Callable[..., Tensor], arrays: list[Array], slopes_agree: Callable[..., None]
) -> None:
    slopes_agree(function, *arrays)


def test_no_method_is_left_out() -> None:
    public = {name for name in dir(Tensor) if not (name.startswith("_") or name.endswith("_"))}
    without = {name for names in NONE.values() for name in names.split()}
    assert not without & EXAMPLES.keys()
    assert public - without == EXAMPLES.keys()
