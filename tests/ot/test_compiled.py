"""The compiled parts against exact arithmetic and plain NumPy."""

import mpmath
import numba
import numpy as np
import pytest
from scipy.special import logsumexp, softmax

from sinkhorn_em import _compiled
from sinkhorn_em.ot.kernel import evaluate, log_normalisers, responsibilities

EPS = np.finfo(float).eps
TINY = np.finfo(float).tiny


def mapped(function, fastmath):
    @numba.njit(fastmath=fastmath, error_model="numpy")
    def loop(x, out):
        for i in range(x.shape[0]):
            out[i] = function(x[i])

    def call(x):
        out = np.empty_like(x)
        loop(x, out)
        return out

    return call


@pytest.fixture(scope="module")
def exp():
    return mapped(_compiled.exp_nonpositive, _compiled.EXACT)


@pytest.fixture(scope="module")
def log():
    return mapped(_compiled.log_positive, _compiled.EXACT)


def test_the_exponential_is_within_two_roundings_over_its_whole_range(exp):
    edges = [-708.3, -700.0, -np.log(2), -np.log(2) / 2, -1e-300, -1e-16, -5e-324]
    x = np.concatenate([-np.geomspace(1e-20, 708.3, 1500), -np.linspace(0, 40, 1000), edges])
    with mpmath.workdps(40):
        exact = [mpmath.exp(mpmath.mpf(float(t))) for t in x]
        errors = [abs(mpmath.mpf(float(y)) / e - 1) for y, e in zip(exp(x), exact, strict=True)]
    assert max(errors) <= 4e-16


def test_the_exponential_agrees_with_numpy_on_a_million_points(exp):
    x = -708 * np.random.default_rng(0).uniform(size=1_000_000) ** 3
    assert np.abs(exp(x) / np.exp(x) - 1).max() <= 4e-16 + EPS  # NumPy's own is within one rounding


def test_the_exponential_is_exact_at_its_ends(exp):
    x = np.array([0.0, -0.0, -708.9, -709.0, -745.0, -1e5, -1e300, -np.inf])
    assert exp(x).tolist() == [1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]


def test_the_exponential_falls_to_zero_without_a_jump_up(exp):
    x = -np.linspace(708, 709, 10_001)
    y = exp(x)
    assert (np.diff(y) <= 0).all()
    assert np.abs(y - np.exp(x)).max() <= 2 * TINY  # flushed where the result is not a normal number


def test_the_logarithm_is_within_two_roundings_over_all_normal_numbers(log):
    near_one = 1 + np.linspace(-0.5, 1, 1000)
    x = np.concatenate(
        [np.exp2(np.linspace(-1022, 1023.9, 2000)), near_one, [TINY, 1.0, np.sqrt(0.5), np.finfo(float).max]]
    )
    with mpmath.workdps(40):
        exact = [mpmath.log(mpmath.mpf(float(t))) for t in x]
        errors = [abs(mpmath.mpf(float(y)) - e) / max(1, abs(e)) for y, e in zip(log(x), exact, strict=True)]
    assert max(errors) <= 3e-16
    assert log(np.array([1.0])) == 0


@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("P", [1, 2, 3, 4, 5, 7])
@pytest.mark.parametrize("m", [1, 7, 33])
def test_products_of_rows_are_added_for_every_shape(P, m, lower):
    rng = np.random.default_rng(P * m)
    A, start = rng.normal(size=(P, 40)), rng.normal(size=(P, P))
    B = rng.normal(size=(P, 40))
    out = start.copy()
    _compiled.add_products(A, B, m, out, lower)
    expected = start + A[:, :m] @ B[:, :m].T
    wanted = np.tril(np.ones((P, P), bool)) if lower else np.ones((P, P), bool)
    assert out[wanted] == pytest.approx(expected[wanted], abs=1e-13)
    _compiled.mirror(out)
    assert np.array_equal(out, out.T)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "K", "virtual"), [(1, 1, 0), (5, 2, 1), (700, 3, 0), (20_001, 5, 1), (300, 40, 0)])
def test_a_pass_gives_the_value_the_masses_and_the_overlaps(n, K, virtual, dtype):
    rng = np.random.default_rng(n)
    S = np.asfortranarray(3 * rng.normal(size=(n, K)).astype(dtype))
    S[rng.uniform(size=(n, K)) < 0.1] = -np.inf
    S[:, 0] = 0
    a, offset = rng.dirichlet(np.ones(n)), rng.normal(size=K + virtual)
    logits = np.column_stack([S.astype(float), np.zeros((n, virtual))]) + offset
    R = softmax(logits, axis=1)
    value, mass, gram = evaluate(S, a, offset)
    assert value == pytest.approx(a @ logsumexp(logits, axis=1), abs=1e-13)
    assert mass == pytest.approx(a @ R, abs=1e-14)
    overlaps = (R * a[:, None]).T @ R
    np.fill_diagonal(overlaps, 0)
    # single precision within a tile of at most 512 rows, then double: steers the step only
    assert gram == pytest.approx(overlaps, rel=1e-4, abs=1e-9)
    assert np.array_equal(gram, gram.T)
    assert responsibilities(S, offset) == pytest.approx(R, abs=1e-15)
    assert log_normalisers(S, offset) == pytest.approx(logsumexp(logits, axis=1), abs=1e-14)


def test_the_overlaps_of_many_columns_come_from_some_of_the_rows():
    rng = np.random.default_rng(0)
    n, K = 60_000, 70
    S = rng.normal(size=(n, K))
    a = np.full(n, 1 / n)
    R = softmax(S, axis=1)
    W = evaluate(S, a, np.zeros(K)).gram
    expected = R.T @ R / n
    np.fill_diagonal(expected, 0)
    # an entry is a mean over at least 20 000 rows of products whose spread is about twice their mean
    assert np.abs(W - expected).max() <= 6 * 2 / np.sqrt(20_000) * expected.max()


def test_passes_over_parts_of_the_rows_add_up():
    rng = np.random.default_rng(0)
    S, a, offset = rng.normal(size=(900, 4)), rng.dirichlet(np.ones(900)), rng.normal(size=4)
    whole = evaluate(S, a, offset)
    parts = [evaluate(S[i : i + 300], a[i : i + 300], offset) for i in (0, 300, 600)]
    assert sum(p.value for p in parts) == pytest.approx(whole.value, abs=1e-14)
    assert sum(p.mass for p in parts) == pytest.approx(whole.mass, abs=1e-15)
    assert sum(p.gram for p in parts) == pytest.approx(whole.gram, rel=1e-4)


@pytest.mark.parametrize("n_rows", [1, 999, 10**6, 5 * 10**9])
@pytest.mark.parametrize("n_threads", [1, 2])
def test_blocks_cover_all_rows_once_whatever_their_number(n_rows, n_threads):
    blocks = _compiled.n_blocks(n_rows, 12, 157)
    assert 1 <= blocks <= min(n_rows, _compiled.MAX_BLOCKS)
    seen = {}

    def task(block, start, stop):
        seen[block] = (start, stop)

    before = _compiled.get_num_threads()
    _compiled.set_num_threads(n_threads)
    try:
        _compiled.run_blocks(task, n_rows, blocks)
    finally:
        _compiled.set_num_threads(before)
    edges = [seen[block] for block in range(blocks)]
    assert [start for start, _ in edges] == [0] + [stop for _, stop in edges[:-1]]
    assert edges[-1][1] == n_rows
    assert all(isinstance(edge, int) and start < stop for start, stop in edges for edge in (start, stop))


@pytest.mark.parametrize("shape", [(10**9, 1, 1), (10**7, 1000, 10**6), (5 * 10**9, 12, 157)])
def test_partial_sums_never_need_more_memory_than_is_set_aside(shape):
    n_rows, n_columns, partial_size = shape
    blocks = _compiled.n_blocks(n_rows, n_columns, partial_size)
    assert blocks == 1 or blocks * partial_size * 8 <= _compiled.PARTIAL_BYTES


def test_an_error_in_any_block_is_raised():
    def task(block, start, stop):
        if block == 1:
            raise FloatingPointError("block 1")

    with pytest.raises(FloatingPointError, match="block 1"):
        _compiled.run_blocks(task, 100, 4)
