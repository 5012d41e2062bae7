"""Differentiation of functions: products with Jacobians, recomputation, gradients of one's own. Week 5."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import update_wrapper
from itertools import count
from typing import ParamSpec, TypeAlias, TypeVar, cast

from uop_ir import Ops, Param, UOp, dtypes

from .errors import TensorError
from .gradient import gradient
from .graph import OWN_RULE, stored, substituted, with_gradient_of
from .tensor import Tensor

#: From the gradient of a result to that of each argument:
#: a tensor where there is one argument; None for no gradient.
Rule: TypeAlias = "Callable[[Tensor], Tensor | Sequence[Tensor | None] | None]"

P = ParamSpec("P")
R = TypeVar("R")
_tokens = count()


def vjp(
    function: Callable[..., Tensor], *inputs: Tensor
) -> tuple[Tensor, Callable[[Tensor], tuple[Tensor, ...]]]:
    """`function(*inputs)`, and the function that multiplies a vector with its Jacobian: from a gradient of
    the result, of its shape and dtype, to the gradient of each input.

    Raises TensorError where the result or an input is no float,
    and where the result does not depend on an input.
    """
    given = _floats("vjp", inputs)
    out = _one("vjp", function(*given))

    def pull(seed: Tensor) -> tuple[Tensor, ...]:
        return out.gradient(*given, seed=seed)

    return out, pull


def jvp(
    function: Callable[..., Tensor], inputs: Sequence[Tensor], tangents: Sequence[Tensor]
) -> tuple[Tensor, Tensor]:
    """`function(*inputs)`, and the product of its Jacobian with `tangents`, which have the inputs' shapes and
    dtypes: the derivative of the result in their direction.

    Reverse mode twice: the gradient of `sum(u * function)` is linear in u, and its derivative in u is what is
    wanted. Raises TensorError as `vjp` does.
    """
    given = _floats("jvp", inputs)
    if len(tangents) != len(given):
        raise TensorError(
            f"jvp: {len(tangents)} tangents for {len(given)} inputs", remedy="give one for each input"
        )
    for x, t in zip(given, tangents, strict=True):
        if x.shape != t.shape or x.dtype is not t.dtype:
            raise TensorError(
                f"jvp: a tangent {t.dtype}{t.shape} for an input {x.dtype}{x.shape}",
                remedy="shape and dtype must be equal",
            )
    out = _one("jvp", function(*given))
    seed = out._of(with_gradient_of(out.zeros_like().uop, _token()))
    pulled = out.gradient(*given, seed=seed)
    (along,) = gradient([g.uop for g in pulled], [t.uop for t in tangents], [seed.uop])
    return out, out.zeros_like() if along is None else out._of(along)


def checkpoint(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """`function(*args, **kwargs)`, of which `backward` computes again what it needs, instead of what lies
    between arguments and results being kept: less memory for more work. Values and gradients are the same.

    What is kept is a copy of each float tensor among the arguments. The function is called once, and random
    numbers that it draws are the same in both computations. It returns a tensor, or a list or tuple of them;
    raises TensorError for anything else.
    """
    inputs = [x for x in (*args, *kwargs.values()) if isinstance(x, Tensor) and x.dtype.is_float]
    kept = {x.uop: stored(x.uop) for x in inputs}
    out = function(*args, **kwargs)
    if isinstance(out, Tensor):
        return cast(R, _recomputed(out, kept))
    if isinstance(out, list | tuple) and all(isinstance(t, Tensor) for t in out):
        return cast(R, type(out)([_recomputed(t, kept) for t in out]))
    raise TensorError(
        f"checkpoint: the function returns a {type(out).__name__}",
        remedy="a tensor, or a list or tuple of them",
    )


def _recomputed(value: Tensor, kept: dict[UOp, UOp]) -> Tensor:
    again = substituted(value.uop, kept) if value.uop not in kept else value.uop
    return value if again is value.uop else value._of(with_gradient_of(value.uop, again))


def custom_gradient(function: Callable[..., tuple[Tensor, Rule]]) -> Callable[..., Tensor]:
    """Make a function of tensors that returns `(result, rule)` one that returns the result,
    whose gradient `rule` tells.

    `rule(g)` takes the gradient of the result, of its shape and dtype, and gives that of each argument, of
    the argument's shape and dtype; None where it has none. What the rule computes has gradients itself.
    Raises TensorError where the rule gives anything else.
    """

    def called(*inputs: Tensor) -> Tensor:
        name = getattr(function, "__name__", "custom_gradient")
        result, rule = function(*inputs)
        kind = type(result)

        def back(node: UOp, g: UOp) -> tuple[UOp | None, ...]:
            found = rule(kind._of(g))
            gradients = [found] if isinstance(found, Tensor) or found is None else list(found)
            if len(gradients) != len(inputs):
                raise TensorError(
                    f"{name}: {len(gradients)} gradients for {len(inputs)} arguments",
                    remedy="the rule gives one for each argument, or None",
                )
            for number, (x, own) in enumerate(zip(inputs, gradients, strict=True)):
                if own is not None and (own.shape != x.shape or own.dtype is not x.dtype):
                    raise TensorError(
                        f"{name}: a gradient {own.dtype}{own.shape} for argument {number}, which is "
                        f"{x.dtype}{x.shape}",
                        remedy="shape and dtype must be equal",
                    )
            return (None, *(None if own is None else own.uop for own in gradients))

        node = with_gradient_of(result.uop, *(x.uop for x in inputs), _token())
        node.memo[OWN_RULE] = back
        return kind._of(node)

    return update_wrapper(called, function)


def _token() -> UOp:
    """A scalar like no other: what stands behind it is a node of its own."""
    return UOp(Ops.PARAM, (), Param(dtypes.i32, name=f"gradient{next(_tokens)}"))


def _floats(method: str, inputs: Sequence[object]) -> tuple[Tensor, ...]:
    """The inputs as they are; each an operand of its own, also where a tensor is given twice."""
    given = []
    for number, x in enumerate(inputs):
        if not isinstance(x, Tensor) or not x.dtype.is_float:
            what = f"of dtype {x.dtype}" if isinstance(x, Tensor) else f"a {type(x).__name__}"
            raise TensorError(f"{method}: input {number} is {what}", remedy="give tensors of a float dtype")
        given.append(x._of(with_gradient_of(x.uop, x.uop, _token())))
    return tuple(given)


def _one(method: str, out: object) -> Tensor:
    if not isinstance(out, Tensor):
        raise TensorError(
            f"{method}: the function returns a {type(out).__name__}", remedy="it must return one tensor"
        )
    return out
