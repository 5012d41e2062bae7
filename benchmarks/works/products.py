"""Products of matrices: square, odd, skinny, batched, transposed, and those of the small models."""

from __future__ import annotations

from .work import Work, arrays, on_arrays

SQUARE = (256, 512, 1024, 2048)
#: Shapes of the left operand and the right one; `t` says that an operand lies transposed in memory.
SHAPES = (
    # forward and backward of the GPT's linear layers, 32 texts of 64 tokens
    ((2048, 64), (64, 192), ""),
    ((2048, 64), (64, 64), ""),
    ((2048, 64), (64, 256), ""),
    ((2048, 256), (256, 64), ""),
    ((2048, 64), (64, 65), ""),
    ((2048, 192), (192, 64), "right"),
    ((64, 2048), (2048, 192), "left"),
    ((64, 2048), (2048, 65), "left"),
    # its attention
    ((128, 64, 16), (128, 16, 64), "right"),
    ((128, 64, 64), (128, 64, 16), ""),
    # the MLP
    ((128, 784), (784, 128), ""),
    ((128, 128), (128, 10), ""),
    ((784, 128), (128, 128), "left"),
    # odd, skinny, batched
    ((1, 1), (1, 1), ""),
    ((7, 13), (13, 5), ""),
    ((100, 100), (100, 100), ""),
    ((255, 257), (257, 259), ""),
    ((333, 77), (77, 129), "both"),
    ((1000, 3), (3, 1000), ""),
    ((3, 1000), (1000, 3), ""),
    ((1, 4096), (4096, 4096), ""),
    ((4096, 4096), (4096, 1), ""),
    ((4096, 512), (512, 16), ""),
    ((32, 64, 64), (32, 64, 64), ""),
)


def product(left: tuple[int, ...], right: tuple[int, ...], transposed: str = "") -> Work:
    """The product of two matrices, or of two stacks of them."""

    def swapped(shape: tuple[int, ...]) -> tuple[int, ...]:
        return (*shape[:-2], shape[-1], shape[-2])

    sides = [transposed in (side, "both") for side in ("left", "right")]
    shapes = [swapped(s) if t else s for s, t in zip((left, right), sides, strict=True)]

    def multiply(a, b):  # type: ignore[no-untyped-def]  # of any of the libraries
        if sides[0]:
            a = a.mT
        if sides[1]:
            b = b.mT
        return a @ b

    *many, rows, depth = left
    columns = right[-1]
    count = many[0] if many else 1
    text = f"{'x'.join(map(str, left))} @ {'x'.join(map(str, right))}"
    return Work(
        f"matmul {text}" + (f", {transposed} transposed" if transposed else ""),
        on_arrays(lambda: arrays(*shapes), multiply, multiply, multiply),
        2.0 * count * rows * depth * columns,
        4.0 * count * (rows * depth + depth * columns + rows * columns),
    )


WORKS = tuple(product((n, n), (n, n)) for n in SQUARE) + tuple(product(*shapes) for shapes in SHAPES)
