"""Products of dense and sparse matrices with responsibilities, against NumPy's and against themselves."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csc_array, csr_array
from threadpoolctl import threadpool_limits

from sinkhorn_em import set_num_threads
from sinkhorn_em.cells import Cells, Part
from sinkhorn_em.cells.kernels import COLUMNS, ROWS
from sinkhorn_em.cells.products import POWERS, times, transposed_times

KINDS = ("float64", "float32", "csr float64", "csr float32", "csr int64", "csr bool", "csr float64 int64 indices")


def of_kind(X, kind):
    """X, rounded to what the kind can hold, as that kind of matrix and as a float64 array."""
    dtype = kind.split()[1 if kind.startswith("csr") else 0]
    X = (4 * X).astype(dtype) if dtype in ("int64", "bool") else X.astype(dtype)
    if not kind.startswith("csr"):
        return X, X.astype(float)
    M = csr_array(X)
    if kind.endswith("indices"):
        M.indices, M.indptr = M.indices.astype(np.int64), M.indptr.astype(np.int64)
    return M, X.astype(float)


def problem(n, m, q, seed=0, zeros=0.5):
    """A matrix with zeros, and responsibilities of columns and of rows."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, m)) * (rng.random((n, m)) >= zeros)
    return X, rng.random((m, q)), rng.random((n, q))


def assert_sums_agree(ours, terms, R):
    """Two float64 sums of k terms, in any order: each is off by at most k eps times the sum of sizes."""
    bound = np.finfo(float).eps * 2 * (len(R) + 2) * (np.abs(terms) @ np.abs(R))
    assert ours.shape == bound.shape
    assert (np.abs(ours - terms @ R) <= bound).all()


def check(M, D, N, T):
    for powers in POWERS:
        for ours, theirs, power in zip(times(M, powers, N), transposed_times(M, powers, T), powers, strict=True):
            assert_sums_agree(ours, D**power, N)
            assert_sums_agree(theirs, (D**power).T, T)


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(1, 2 * ROWS + 3), m=st.integers(1, 20), q=st.integers(1, 18), seed=st.integers(0, 99),
    zeros=st.sampled_from([0.0, 0.5, 0.95, 1.0]), kind=st.sampled_from(KINDS),
)  # fmt: skip
def test_products_agree_with_numpy(n, m, q, seed, zeros, kind):
    X, N, T = problem(n, m, q, seed, zeros)
    check(*of_kind(X, kind), N, T)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(2 * ROWS + 5, 2 * COLUMNS + 5), (900, COLUMNS - 1), (1, 1), (1, 300), (300, 1)])
def test_products_over_several_tiles_and_blocks_agree_with_numpy(kind, shape):
    X, N, T = problem(*shape, 9)
    check(*of_kind(X, kind), N, T)


def test_responsibilities_of_any_layout_and_a_matrix_in_fortran_order_give_the_same():
    X, N, T = problem(70, 50, 5)
    expected = times(X, (1, 2), N), transposed_times(X, (1, 2), T)
    for M in (X, np.asfortranarray(X)):
        got = times(M, (1, 2), np.asfortranarray(N)), transposed_times(M, (1, 2), np.repeat(T, 2, axis=1)[:, ::2])
        for a, b in zip(expected, got, strict=True):
            np.testing.assert_array_equal(a, b)


def test_explicit_zeros_change_nothing():
    X, N, T = problem(40, 30, 3)
    everything = csr_array((X.ravel(), np.tile(np.arange(30), 40), np.arange(41) * 30), shape=X.shape)
    check(everything, X, N, T)


def unsorted(X, twice):
    """CSR whose rows run backwards; ``twice``: every cell as two halves."""
    M = csr_array(X[:, ::-1])
    data, indices, indptr = M.data, X.shape[1] - 1 - M.indices, M.indptr
    if twice:
        data, indices, indptr = np.repeat(data / 2, 2), np.repeat(indices, 2), 2 * indptr
    return csr_array((data, indices, indptr), shape=X.shape)


@pytest.mark.parametrize("twice", [False, True])
def test_cells_in_any_order_or_stored_twice_are_summed_and_their_squares_are_refused(twice):
    X, N, T = problem(40, 30, 3)
    M = unsorted(X, twice)
    assert_sums_agree(times(M, (1,), N)[0], X, N)
    assert_sums_agree(transposed_times(M, (1,), T)[0], X.T, T)
    for product, R in ((times, N), (transposed_times, T)):
        with pytest.raises(ValueError, match=r"canonical format; call X.sum_duplicates"):
            product(M, (1, 2), R)
    M.sum_duplicates()
    check(M, X, N, T)


def test_what_does_not_fit_is_refused():
    X, N, T = problem(6, 5, 2)
    with pytest.raises(ValueError, match=r"have 6 rows; a matrix \(6, 5\) needs 5"):
        times(X, (1,), T)
    with pytest.raises(ValueError, match=r"have 5 rows; a matrix \(6, 5\) needs 6"):
        transposed_times(X, (1,), N)
    with pytest.raises(ValueError, match="'csc' format"):
        times(csc_array(X), (1,), N)
    with pytest.raises(ValueError, match="powers is"):
        times(X, (3,), N)


@pytest.mark.parametrize("kind", ["float64", "float32", "csr float64"])
def test_the_bits_are_the_same_for_any_number_of_threads(kind):
    X, N, T = problem(1500, 300, 9, zeros=0.3)
    M, _ = of_kind(X, kind)
    results = []
    try:
        for threads in (1, 2, 4):
            set_num_threads(threads)
            with threadpool_limits(threads):
                results.append((times(M, (1, 2), N), transposed_times(M, (1, 2), T)))
    finally:
        set_num_threads(None)
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("form", [np.asarray, csr_array])
def test_sums_of_float32_are_those_of_the_same_numbers_in_float64(form):
    X, N, T = problem(700, 300, 4)
    single = (1.0 + 1e-7 * X).astype(np.float32)  # in float32 the sums would lose what differs from 1
    for product, R in ((times, N), (transposed_times, T)):
        np.testing.assert_array_equal(product(form(single), (1, 2), R), product(form(single.astype(float)), (1, 2), R))


@pytest.mark.parametrize("kind", ["float32", "csr float32"])
def test_no_copy_of_the_matrix_is_made(kind):
    X, N, T = problem(3000, 700, 3)
    M, _ = of_kind(X, kind)
    copy = 8 * (M.size if kind == "float32" else M.nnz)  # in float64; the partial sums of sparse blocks may take half
    for product, R in ((times, N), (transposed_times, T)):
        product(M, (1, 2), R)  # compiled and with its threads
        tracemalloc.start()
        product(M, (1, 2), R)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 0.6 * copy


@pytest.mark.parametrize("form", [np.asarray, csr_array])
def test_missing_cells_are_left_out_of_every_sum(form):
    X, N, T = problem(60, 40, 5)
    rng = np.random.default_rng(1)
    observed = rng.random(X.shape) < 0.8
    a, b = rng.random(60) + 0.5, rng.random(40) + 0.5
    exposure = np.outer(a, b)
    missing = csr_array(np.where(observed, 0.0, exposure))
    D = np.where(observed, X, 0.0)
    cells = Cells((Part(form(D), (1, 2)), Part(form(D != 0))), a, b, missing)
    channels = [D, D**2, (D != 0).astype(float), exposure * observed]
    assert cells.n_observed == observed.sum()
    # exposures are a difference: off by what rounding of the whole can be
    for ours, over, R in ((cells.over_columns(N), channels, N), (cells.over_rows(T), [c.T for c in channels], T)):
        np.testing.assert_allclose(ours, [c @ R for c in over], rtol=1e-13, atol=1e-13 * exposure.sum())
