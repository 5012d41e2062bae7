"""One kernel with symbolic sizes serves every size in their ranges, compiled once."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from uop_codegen_c import generate, settings
from uop_ir import AddrSpace, Ops, UOp, call_params, dtypes, index, override

F32 = dtypes.f32
N, M, K = UOp.variable("n", 0, 40), UOp.variable("m", 0, 24), UOp.variable("k", 0, 17)
ROWS = UOp.variable("rows", 0, 5_000)


def part(slot: int, size: int, n: int | UOp) -> UOp:
    """The first elements of a vector."""
    return UOp.param(slot, size, F32).shrink(((0, n),))


def matrix(slot: int, size: tuple[int, int], n: int | UOp, m: int | UOp) -> UOp:
    """The upper left of a matrix."""
    return UOp.param(slot, size[0] * size[1], F32).reshape(size).shrink(((0, n), (0, m)))


def stored(value: UOp, size: int, slot: int = 0) -> UOp:
    """A STORE of all elements of a value, whatever its shape, to the start of memory."""
    count = index(1)
    for d in value.shape:
        count = count * d
    return UOp.param(slot, size, F32).shrink(((0, count),)).store(value.reshape((count,)))


def kernel() -> UOp:
    n = UOp.variable("n", 1, 64)
    x = part(2, 64, n)
    total = UOp.param(1, 1, F32).reshape(()).store((x * x).reduce(Ops.ADD, 1))
    return UOp.sink(part(0, 64, n).store(x * 2.0 + 1.0), total)


def maps() -> UOp:
    return UOp.sink(matrix(0, (40, 24), N, M).store(matrix(1, (40, 24), N, M) * 2.0))


def reductions() -> UOp:
    x = matrix(3, (40, 24), N, M)
    rows, columns = x.reduce(Ops.ADD, 1), x.permute((1, 0)).reduce(Ops.MAX, 1)
    total = UOp.param(2, 1, F32).reshape(()).store(x.reduce(Ops.ADD, 2))
    return UOp.sink(part(0, 40, N).store(rows), part(1, 24, M).store(columns), total)


def products() -> UOp:
    a, b = matrix(1, (40, 17), N, K), matrix(2, (17, 24), K, M)
    shape = (N, M, K)
    both = a.reshape((N, 1, K)).expand(shape) * b.permute((1, 0)).reshape((1, M, K)).expand(shape)
    return UOp.sink(matrix(0, (40, 24), N, M).store(both.reduce(Ops.ADD, 1)))


def softmax() -> UOp:
    x = matrix(1, (40, 24), N, M)

    def spread(rows: UOp) -> UOp:
        return rows.reshape((N, 1)).expand((N, M))

    e = (x - spread(x.reduce(Ops.MAX, 1))).alu(Ops.EXP2)
    return UOp.sink(matrix(0, (40, 24), N, M).store(e / spread(e.reduce(Ops.ADD, 1))))


def turned() -> UOp:
    """Both axes of all rows but the last, from behind:
    the sizes cancel where the position is least and greatest.
    """
    rows = matrix(1, (41, 80), N + 1, N * 2).shrink(((0, N), (0, N * 2)))
    return UOp.sink(matrix(0, (80, 40), N * 2, N).store(rows.flip((True, True)).permute((1, 0))))


def movement(move: Callable[[UOp], UOp]) -> UOp:
    value = move(part(1, 40 * 24, N * M))
    return UOp.sink(stored(value * 2.0, 64 * 24 * 4))


MOVES: dict[str, Callable[[UOp], UOp]] = {
    "flip": lambda x: x.flip((True,)),
    "pad": lambda x: x.pad(((2, 3),)),
    "pad by a size": lambda x: x.pad(((N, 1),)),
    "pad to a size": lambda x: x.reshape((N, M)).pad(((0, index(40) - N), (0, 0))),
    "split": lambda x: x.reshape((N, M)),
    "transpose": lambda x: x.reshape((N, M)).permute((1, 0)),
    "axes of size 1": lambda x: x.reshape((1, N, 1, M)).permute((3, 0, 1, 2)).reshape((M, N)),
    "repeat": lambda x: x.reshape((N * M, 1)).expand((N * M, 3)),
    "sum of columns": lambda x: x.reshape((N, M)).permute((1, 0)).reduce(Ops.ADD, 1),
    "sizes written in two ways": lambda x: x + x.pad(((1, 0),)).shrink(((1, N * M + 1),)),
    "elements written in two ways": lambda x: x.pad(((N, 0),)).reshape((M + 1, N)),
    "stage": lambda x: UOp(Ops.STAGE, (x + 1.0,), AddrSpace.LOCAL).flip((True,)),
}

KERNELS: dict[str, UOp] = {
    "maps": maps(),
    "reductions": reductions(),
    "products": products(),
    "softmax": softmax(),
    "turned": turned(),
    **{f"movement: {name}": movement(move) for name, move in MOVES.items()},
    "a window": UOp.sink(UOp.param(0, 16, F32).store(UOp.param(1, 56, F32).shrink(((N, N + 16),)).reshape((16,)))),
}  # fmt: skip


def arrays(body: UOp) -> list[np.ndarray[Any, Any]]:
    """Small integers, whose sums are exact in any order."""
    rng = np.random.default_rng(0)
    memory = [p for p in call_params(body) if p.arg.size is not None]
    return [rng.integers(-8, 8, p.arg.size).astype(np.float32) for p in memory]


def test_every_size_from_1_to_64(run_cpu: Callable[..., Any], run_interp: Callable[..., Any]) -> None:
    body = kernel()
    rng = np.random.default_rng(0)
    x = rng.integers(-8, 8, 64).astype(np.float32)  # sums of small integers are exact in any order
    for n in range(1, 65):
        given = [np.full(64, -1, np.float32), np.zeros(1, np.float32), x]
        out, total, _ = run_cpu(body, given, n)
        np.testing.assert_array_equal(out, np.where(np.arange(64) < n, x * 2 + 1, -1))
        assert total[0] == np.sum(x[:n] ** 2)
        for got, want in zip(run_cpu(body, given, n), run_interp(body, given, n), strict=True):
            np.testing.assert_array_equal(got, want)


@pytest.mark.net
@pytest.mark.parametrize("opt", [0, 1])
@pytest.mark.parametrize("name", KERNELS)
def test_sizes_from_none_to_the_most(
    run_cpu: Callable[..., Any],
    run_interp: Callable[..., Any],
    same_bits: Callable[..., None],
    name: str,
    opt: int,
) -> None:
    """Each size at its ends and between, with the others."""
    body = KERNELS[name]
    names = [p.arg.name for p in call_params(body) if p.arg.size is None]
    choices = {"n": (0, 1, 7, 16, 40), "m": (0, 1, 8, 24), "k": (0, 1, 17)}
    given = arrays(body)
    with override(settings, opt=opt, strict=1):
        for sizes in product(*(choices[n] for n in names)):
            for got, want in zip(run_cpu(body, given, *sizes), run_interp(body, given, *sizes), strict=True):
                same_bits(got, want)


def test_a_product_of_symbolic_sizes_is_that_of_numpy(run_cpu: Callable[..., Any]) -> None:
    given = arrays(products())
    a, b = given[1].reshape(40, 17), given[2].reshape(17, 24)
    for k, m, n in ((17, 24, 40), (5, 9, 33), (0, 3, 2)):
        out = run_cpu(products(), [np.zeros(960, np.float32), *given[1:]], k, m, n)[0].reshape(40, 24)
        np.testing.assert_array_equal(out[:n, :m], a[:n, :k] @ b[:k, :m])
        assert not out[n:].any()
        assert not out[:, m:].any()


@pytest.mark.parametrize("rows", [0, 1, 2, 4_999, 5_000])
def test_threads_share_any_number_of_rows_and_vectors_have_a_rest(
    run_cpu: Callable[..., Any], rows: int
) -> None:
    """37 columns are vectors and a rest, on each machine; whole rows go to threads."""
    x = matrix(2, (5_000, 37), ROWS, 37)
    body = UOp.sink(
        matrix(0, (5_000, 37), ROWS, 37).store(x * 2.0 + 1.0),
        part(1, 5_000, ROWS).store(x.reduce(Ops.ADD, 1)),
    )
    given = arrays(body)[2]
    out, sums, _ = run_cpu(body, [np.zeros(185_000, np.float32), np.zeros(5_000, np.float32), given], rows)
    want = given.reshape(5_000, 37)[:rows]
    np.testing.assert_array_equal(out[: rows * 37], want.reshape(-1) * 2 + 1)
    np.testing.assert_array_equal(sums[:rows], want.sum(1))
    assert not out[rows * 37 :].any()
    assert not sums[rows:].any()


def test_the_size_is_an_argument_of_one_text() -> None:
    text = generate(kernel()).text
    assert "const int n = (int)scalars[0];" in text
    assert "ridx0 < n" in text
