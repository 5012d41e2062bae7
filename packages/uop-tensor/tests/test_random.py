"""Random numbers: known bits, distributions, and the stream within and outside of jit."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from uop_ir import DType, dtypes
from uop_tensor import JitError, Tensor, TensorError, get_rng_state, jit, manual_seed, set_rng_state

FLOATS = dtypes.floats
N = 20_000


@pytest.fixture(autouse=True)
def _seed() -> None:
    manual_seed(0)


def threefry(key: tuple[int, int], counter: tuple[int, int]) -> tuple[int, int]:
    """Threefry-2x32-20 in Python, after the paper."""
    keys = (*key, key[0] ^ key[1] ^ 0x1BD11BDA)
    x, y = ((c + k) % 2**32 for c, k in zip(counter, keys, strict=False))
    for number in range(20):
        bits = (13, 15, 26, 6, 17, 29, 16, 24)[number % 8]
        x = (x + y) % 2**32
        y = (y << bits | y >> 32 - bits) % 2**32 ^ x
        if number % 4 == 3:
            group = number // 4 + 1
            x, y = (x + keys[group % 3]) % 2**32, (y + keys[(group + 1) % 3] + group) % 2**32
    return x, y


def test_the_cipher_of_these_tests_has_the_published_vectors() -> None:
    """kat_vectors of Random123."""
    ones = (2**32 - 1, 2**32 - 1)
    assert threefry((0, 0), (0, 0)) == (0x6B200159, 0x99BA4EFE)
    assert threefry(ones, ones) == (0x1CB996FC, 0xBB002BE7)
    assert threefry((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3)) == (0xC4923A9C, 0x483DF7A0)


@pytest.mark.parametrize("seed", [0, 2**64 - 1, 0x0370734413198A2E])
@pytest.mark.parametrize("first", [0, 2**32 - 2, 0x85A308D3243F6A88, 2**64 - 2])
def test_bits_are_blocks_of_the_cipher(seed: int, first: int) -> None:
    """The seed is the key, the number of the block the counter, and both go on past 32 bits."""
    set_rng_state((seed, first))
    found = Tensor.randint(0, 2**64, 4, dtype=dtypes.u64).tolist()
    key = seed % 2**32, seed >> 32
    blocks = [(first + i) % 2**64 for i in range(4)]
    words = [threefry(key, (b % 2**32, b >> 32)) for b in blocks]
    assert found == [x << 32 | y for x, y in words]
    assert get_rng_state() == (seed, (first + 4) % 2**64)


def test_floats_are_the_upper_bits() -> None:
    words = [threefry((0, 0), (i, 0)) for i in range(3)]
    assert Tensor.rand(3).tolist() == [(x >> 8) / 2**24 for x, _ in words]
    manual_seed(0)
    assert Tensor.rand(3, dtype=dtypes.f64).tolist() == [((x << 32 | y) >> 11) / 2**53 for x, y in words]
    manual_seed(0)
    assert Tensor.rand(3, dtype=dtypes.f16).tolist() == [(x >> 21) / 2**11 for x, _ in words]


def test_integers_are_the_product_of_bits_and_limit() -> None:
    words = [threefry((0, 0), (i, 0)) for i in range(8)]
    wide = [x << 32 | y for x, y in words]
    assert Tensor.randint(-3, 4, 8).tolist() == [-3 + (7 * w >> 64) for w in wide]
    manual_seed(0)
    limit, pairs = 2**63 + 12345, list(zip(wide[::2], wide[1::2], strict=True))
    found = Tensor.randint(-12345, 2**63, 4).tolist()
    assert found == [-12345 + (limit * (a << 64 | b) >> 128) for a, b in pairs]


def normal_distribution(x: np.ndarray) -> np.ndarray:
    return np.array([(1 + math.erf(v / math.sqrt(2))) / 2 for v in x.tolist()])


def distance(x: np.ndarray, distribution: Callable[[np.ndarray], np.ndarray]) -> float:
    """The statistic of Kolmogorov and Smirnov, times sqrt(n): above 1.63 for one sample in a hundred."""
    x = np.sort(x.astype(np.float64))
    wanted = distribution(x)
    steps = np.arange(len(x) + 1) / len(x)
    return float(max((steps[1:] - wanted).max(), (wanted - steps[:-1]).max()) * math.sqrt(len(x)))


@pytest.mark.parametrize("dtype", [dtypes.f32, dtypes.f64], ids=str)
def test_distributions(dtype: DType) -> None:
    assert distance(Tensor.randn(N, dtype=dtype).numpy(), normal_distribution) < 1.63
    assert distance(Tensor.rand(N, dtype=dtype).numpy(), lambda x: x) < 1.63
    shifted = Tensor.normal(N, mean=-3.0, std=2.0, dtype=dtype).numpy()
    assert distance((shifted + 3) / 2, normal_distribution) < 1.63
    between = Tensor.uniform(N, low=-1.0, high=3.0, dtype=dtype).numpy()
    assert distance((between + 1) / 4, lambda x: x) < 1.63


@pytest.mark.parametrize("dtype", [dtypes.f16, dtypes.bf16], ids=str)
def test_narrow_floats(dtype: DType) -> None:
    x = Tensor.randn(N, dtype=dtype).numpy().astype(np.float64)
    assert (abs(x.mean()) < 0.03) & (abs(x.std() - 1) < 0.02)
    u = Tensor.rand(N, dtype=dtype).numpy().astype(np.float64)
    assert (u.min() >= 0) & (u.max() < 1) & (abs(u.mean() - 0.5) < 0.01)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_rounding_does_not_reach_the_upper_bound(dtype: DType) -> None:
    for low, high in ((-2.0, -1.0), (1000.0, 1001.0), (0.1, 0.3), (-5.0, 0.0)):
        x = Tensor.rand(2000, low=low, high=high, dtype=dtype).numpy()
        assert (x < high).all()
        assert (x >= np.asarray(low).astype(dtype.numpy)).all()
    assert (Tensor.rand(3, low=2.0, high=2.0, dtype=dtype).numpy() == 2).all()


def test_normal_numbers_are_finite_and_not_correlated() -> None:
    set_rng_state((0, 0x6B200159))
    x = Tensor.randn(2, N).numpy()
    assert np.isfinite(x).all()
    assert abs((x[0] * x[1]).mean()) < 0.03
    assert abs((x[0, 1:] * x[0, :-1]).mean()) < 0.03


def test_a_shorter_draw_is_the_beginning_of_a_longer_one() -> None:
    draws: list[Callable[[int], Tensor]] = [
        Tensor.rand,
        Tensor.randn,
        lambda n: Tensor.randn(n, dtype=dtypes.f64),
        lambda n: Tensor.randint(0, 2**63, n),
    ]
    for draw in draws:
        manual_seed(3)
        long = draw(9).numpy()
        manual_seed(3)
        np.testing.assert_array_equal(draw(4).numpy(), long[:4])


def test_the_stream_goes_on() -> None:
    first, second = Tensor.rand(4), Tensor.rand(4)
    state = get_rng_state()
    third = Tensor.rand(4).tolist()
    manual_seed(0)
    assert Tensor.rand(12).tolist() == first.tolist() + second.tolist() + third
    set_rng_state(state)
    assert Tensor.rand(2, 2).flatten().tolist() == third
    Tensor.manual_seed(-1)
    assert get_rng_state() == (2**64 - 1, 0)


def test_numbers_are_lazy_and_stay_what_they_are() -> None:
    x = Tensor.rand(5)
    y = x * 2
    Tensor.rand(3).realize()
    manual_seed(1)
    np.testing.assert_array_equal(y.numpy(), 2 * x.numpy())
    manual_seed(0)
    assert Tensor.rand(5).tolist() == x.tolist()


def test_shapes_and_dtypes() -> None:
    for made in (Tensor.rand(2, 3), Tensor.randn((2, 3)), Tensor.normal(2, 3), Tensor.randint(0, 5, (2, 3))):
        assert made.shape == (2, 3)
    assert Tensor.rand().shape == ()
    assert Tensor.randn(0, 3).numpy().shape == (0, 3)
    assert Tensor.randint(0, 2**16, 2, dtype=dtypes.u16).dtype is dtypes.u16
    x = Tensor(np.ones((2, 3), np.int8))
    assert (x.rand_like().dtype, x.rand_like().shape) == (dtypes.f32, (2, 3))
    assert x.randn_like(dtypes.f64).dtype is dtypes.f64
    assert x.half().randn_like().dtype is dtypes.f16
    assert x.randint_like(0, 5).dtype is dtypes.i8
    assert x.float().randint_like(0, 5).dtype is dtypes.i64
    assert Tensor.randint(5, 6, 100).tolist() == [5] * 100


def test_a_random_parameter_has_memory_of_its_own() -> None:
    w = Tensor.randn(3, requires_grad=True)
    assert w.requires_grad
    (w * w).sum().backward()
    assert w.grad is not None
    np.testing.assert_allclose(w.grad.numpy(), 2 * w.numpy())


def test_initial_weights() -> None:
    shape, inputs = (50, 20, 4), 80
    for made, bound in (
        (Tensor.scaled_uniform(shape), 4000**-0.5),
        (Tensor.glorot_uniform(shape), math.sqrt(6 / (inputs + 50))),
        (Tensor.kaiming_uniform(shape, a=0.2), math.sqrt(6 / (1.04 * inputs))),
    ):
        x = made.numpy()
        assert (abs(x) <= bound).all()
        assert distance((x.flatten() / bound + 1) / 2, lambda u: u) < 1.63
    x = Tensor.kaiming_normal(*shape, a=0.2).numpy()
    assert distance(x.flatten() / math.sqrt(2 / (1.04 * inputs)), normal_distribution) < 1.63
    assert Tensor.kaiming_uniform(0, 3).shape == (0, 3)
    assert Tensor.glorot_uniform(3, 4, dtype=dtypes.f64, requires_grad=True).requires_grad


def test_exponential_and_truncated_normal() -> None:
    x = Tensor.exponential(N, lambd=2.0).numpy()
    assert x.min() >= 0
    assert distance(x, lambda v: 1 - np.exp(-2 * v)) < 1.63
    mean, std, low, high = 1.0, 2.0, -1.5, 2.5
    ends = normal_distribution((np.array([low, high]) - mean) / std)
    for dtype in (dtypes.f32, dtypes.f16):
        x = Tensor.trunc_normal((N,), mean=mean, std=std, a=low, b=high, dtype=dtype).numpy()
        assert x.dtype == dtype.numpy
        assert ((x >= low) & (x <= high)).all()
    x = Tensor.trunc_normal(N, mean=mean, std=std, a=low, b=high, dtype=dtypes.f64).numpy()
    share = lambda v: (normal_distribution((v - mean) / std) - ends[0]) / (ends[1] - ends[0])
    assert distance(x, share) < 1.63
    assert Tensor.trunc_normal(2, 3, requires_grad=True).requires_grad
    assert Tensor.exponential(0, 2).shape == (0, 2)


def test_bernoulli() -> None:
    p = np.array([0.0, 0.25, 1.0, np.nan])
    found = Tensor(np.broadcast_to(p, (N, 4)).copy()).bernoulli()
    assert found.dtype is dtypes.f64
    x = found.numpy()
    assert set(np.unique(x)) == {0, 1}
    np.testing.assert_allclose(x.mean(0), [0, 0.25, 1, 0], atol=0.015)
    assert Tensor.full(3, 1.0, dtypes.f16).bernoulli().tolist() == [1, 1, 1]


def test_dropout() -> None:
    x = np.arange(1, N + 1, dtype=np.float32)
    t = Tensor(x, requires_grad=True)
    y = t.dropout(0.2)
    y.sum().backward()
    out = y.numpy()
    kept = out != 0
    assert abs(kept.mean() - 0.8) < 0.015
    np.testing.assert_allclose(out[kept], x[kept] * 1.25, rtol=1e-6)
    assert t.grad is not None
    np.testing.assert_allclose(t.grad.numpy(), np.where(kept, 1.25, 0))
    assert t.dropout(0.5, training=False) is t
    assert t.dropout(0.0) is t
    assert (Tensor([math.inf, math.nan, 1.0]).dropout(1.0).numpy() == 0).all()
    assert Tensor([1, 2]).dropout(0.5).dtype is dtypes.f32
    halves = Tensor(np.full(100, 3.0, np.float16)).dropout(0.4)
    assert set(halves.tolist()) == {0, 5}


def step(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return x.dropout(0.5), Tensor.randn(2, dtype=dtypes.f64), Tensor.randint(0, 1000, 3) + Tensor.rand(1)


def numbers(results: Any) -> list[Any]:
    return [[t.tolist() for t in each] for each in results]


def test_a_replay_draws_what_the_calls_would() -> None:
    x = Tensor([1, 2, 3, 4])
    plain = numbers([step(x) for _ in range(3)])
    rest = Tensor.rand(3).tolist()
    assert plain[0] != plain[1]
    manual_seed(0)
    jitted = jit(step)
    assert numbers([jitted(x) for _ in range(3)]) == plain
    assert jitted.traces == 1
    assert Tensor.rand(3).tolist() == rest
    manual_seed(0)
    assert numbers([jitted(x), step(x), jitted(x)]) == plain


def test_a_seed_within_jit_is_set_by_each_replay() -> None:
    @jit
    def seeded(x: Tensor) -> Tensor:
        before = Tensor.rand(2)
        manual_seed(7)
        return before + Tensor.rand(2) + Tensor.rand(2) + x * 0

    manual_seed(7)
    wanted = Tensor.rand(2).numpy() + Tensor.rand(2).numpy()
    rest = Tensor.rand(2).tolist()
    manual_seed(0)
    first = Tensor.rand(2).numpy()
    for before in (first, np.array(rest, np.float32)):
        if before is first:
            manual_seed(0)
        np.testing.assert_allclose(seeded(Tensor([0.0, 0.0])).numpy(), before + wanted, rtol=1e-6)
        assert get_rng_state() == (7, 4)


def test_a_trace_that_fails_draws_nothing() -> None:
    @jit
    def wrong(x: Tensor) -> float:
        return float((x + Tensor.rand(2)).sum())

    with pytest.raises(JitError, match="while wrong is traced"):
        wrong(Tensor([1.0, 2.0]))
    assert get_rng_state() == (0, 0)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: Tensor.rand(2, low=1.0, high=0.0), "rand: from 1.0 to 0.0"),
        (lambda: Tensor.rand(2, high=math.inf), "both finite"),
        (lambda: Tensor.rand(2, low=math.nan), "rand: from nan"),
        (lambda: Tensor.rand(-1), "rand: shape"),
        (lambda: Tensor.rand(2, dtype=dtypes.i32), "rand: dtype i32"),
        (lambda: Tensor.randn(2, dtype=dtypes.bool), "randn: dtype bool"),
        (lambda: Tensor.normal(2, std=-1.0), "normal: std=-1.0"),
        (lambda: Tensor.randint(5, 5, 3), "randint: 5 to 5"),
        (lambda: Tensor.randint(0, 300, 3, dtype=dtypes.u8), "randint: 0 to 300 as u8"),
        (lambda: Tensor.randint(0, 3, 3, dtype=dtypes.f32), "randint: 0 to 3 as f32"),
        (lambda: Tensor.rand(2**17, 2**17), "random blocks at once"),
        (lambda: Tensor([1]).bernoulli(), "bernoulli: dtype i64"),
        (lambda: Tensor([1.0]).dropout(1.5), "dropout: p=1.5"),
        (lambda: Tensor([1.0]).dropout(math.nan), "dropout: p=nan"),
        (lambda: Tensor.glorot_uniform(), r"glorot_uniform: shape \(\)"),
        (lambda: Tensor.exponential(2, lambd=0.0), "exponential: lambd=0.0"),
        (lambda: Tensor.trunc_normal(2, std=0.0), "trunc_normal: std=0.0"),
        (lambda: Tensor.trunc_normal(2, a=1.0, b=1.0), "trunc_normal: std=1.0, a=1.0, b=1.0"),
        (lambda: Tensor.kaiming_normal(), r"kaiming_normal: shape \(\)"),
        (lambda: manual_seed(2**64), "manual_seed: 18446744073709551616"),
        (lambda: manual_seed(1.5), "manual_seed: 1.5"),  # type: ignore[arg-type]  # the mistake
        (lambda: set_rng_state((1,)), "set_rng_state"),  # type: ignore[arg-type]  # the mistake
        (lambda: set_rng_state((1, -1)), "set_rng_state"),
    ],
)
def test_errors(wrong: Callable[[], object], message: str) -> None:
    with pytest.raises(TensorError, match=message):
        wrong()
    assert get_rng_state() == (0, 0)


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (lambda: Tensor.rand(2, requires_grad=True), "make parameters before the call"),
        (get_rng_state, "outside of the jitted function"),
        (lambda: set_rng_state((0, 0)), "outside of the jitted function"),
    ],
)
def test_what_jit_refuses(method: Callable[[], object], message: str) -> None:
    @jit
    def traced(x: Tensor) -> Tensor:
        method()
        return x

    with pytest.raises(JitError, match=message):
        traced(Tensor([1.0]))


@pytest.mark.parametrize("n", [0, 1, 2, 17, 300])
def test_permutations(n: int) -> None:
    found = Tensor.randperm(n)
    assert found.dtype is dtypes.i64
    assert sorted(found.tolist()) == list(range(n))
    if n > 2:
        assert found.tolist() != list(range(n))
        assert found.tolist() != Tensor.randperm(n).tolist()
    assert get_rng_state()[1] == (n if n <= 2 else 2 * n)


def test_each_permutation_is_as_likely() -> None:
    keys = Tensor.randint(0, 2**64, (2400, 3), dtype=dtypes.u64)
    counts = np.bincount(keys.argsort(-1).numpy() @ [9, 3, 1], minlength=27)
    assert (abs(counts[counts > 0] - 400) < 70).all()
    assert Tensor.randperm(5, dtypes.i8).dtype is dtypes.i8


WEIGHTS = np.array([[0.0, 3.0, 1.0, 0.0, 4.0, 0.0], [2.0, 0.0, 0.5, 1.5, 0.0, 0.0]], np.float32)


def test_multinomial_with_replacement() -> None:
    found = Tensor(WEIGHTS).multinomial(8000, replacement=True)
    assert (found.shape, found.dtype) == ((2, 8000), dtypes.i64)
    for row, weights in zip(found.numpy(), WEIGHTS, strict=True):
        share = np.bincount(row, minlength=6) / 8000
        np.testing.assert_allclose(share, weights / weights.sum(), atol=0.02)
        assert (share[weights == 0] == 0).all()
    assert Tensor([0.0, 1.0]).multinomial().tolist() == [1]
    assert Tensor([0.0, 1e-30], dtypes.bf16).multinomial(2, replacement=True).tolist() == [1, 1]


def test_multinomial_without_replacement() -> None:
    weights = np.tile(WEIGHTS[:1], (4000, 1))
    found = Tensor(weights).multinomial(3).numpy()
    assert np.sort(found, 1).tolist() == [[1, 2, 4]] * 4000
    first = np.bincount(found[:, 0], minlength=6) / 4000
    np.testing.assert_allclose(first, WEIGHTS[0] / 8, atol=0.03)
    last = np.bincount(found[:, 2], minlength=6) / 4000
    # by the orders in which the other two come first
    wanted = {
        2: 3 / 8 * 4 / 5 + 4 / 8 * 3 / 4,
        1: 4 / 8 * 1 / 4 + 1 / 8 * 4 / 7,
        4: 3 / 8 * 1 / 5 + 1 / 8 * 3 / 7,
    }
    np.testing.assert_allclose([last[n] for n in wanted], list(wanted.values()), atol=0.03)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: Tensor.randperm(-1), "randperm: shape"),
        (lambda: Tensor.randperm(200, dtypes.i8), "randperm: 200 as i8"),
        (lambda: Tensor.randperm(2, dtypes.f32), "randperm: 2 as f32"),
        (lambda: Tensor([1]).multinomial(), "multinomial: weights i64"),
        (lambda: Tensor(1.0).multinomial(), "a vector or a matrix of floats"),
        (lambda: Tensor([1.0]).multinomial(2), "2 samples of 1 elements"),
        (lambda: Tensor([1.0]).multinomial(0), "0 samples of 1 elements"),
        (lambda: Tensor([0.0])[:0].multinomial(1, True), "1 samples of 0 elements"),
    ],
)
def test_errors_of_samples(wrong: Callable[[], object], message: str) -> None:
    with pytest.raises(TensorError, match=message):
        wrong()
