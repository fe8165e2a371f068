"""Poisson and negative binomial blocks: exposures of margins, limits, dispersion, threads."""

import mpmath
import numpy as np
import pytest
from block_matrices import as_cells, block_sums, left_out, matrix, responsibilities, value
from scipy import stats
from scipy.optimize import minimize_scalar
from scipy.sparse import csr_array, issparse
from scipy.special import gammaln
from sklearn.exceptions import ConvergenceWarning

from sinkhorn_em._compiled import set_num_threads
from sinkhorn_em.block_families import NegativeBinomial, Poisson, negative_binomial
from sinkhorn_em.block_families.dispersion import LARGEST, SMALLEST, best_dispersion, profile
from sinkhorn_em.block_families.negative_binomial import Parameters
from sinkhorn_em.block_families.rising import Nonzeros, log_rising

SHAPE, K, L = (30, 20), 3, 2
COUNTS = [Poisson, NegativeBinomial]
every_count = pytest.mark.parametrize("family", COUNTS)


def sums_of(cells, seed=0):
    T, N = responsibilities(SHAPE[0], K, seed), responsibilities(SHAPE[1], L, seed + 1)
    return block_sums(cells, T, N)


# margins


def test_both_margins_are_the_fit_of_independence():
    X = matrix("poisson", SHAPE)
    _, scale = as_cells(Poisson("both"), X)
    assert np.outer(scale.row, scale.column) == pytest.approx(np.outer(X.sum(1), X.sum(0)) / X.sum(), rel=1e-14)
    assert scale.rate == pytest.approx(1.0, rel=1e-14)


def test_both_margins_solve_the_likelihood_equations_over_observed_cells():
    X, mask = matrix("poisson", SHAPE), left_out(SHAPE)
    cells, scale = as_cells(Poisson("both"), X, mask)
    e = np.where(mask, 0.0, np.outer(scale.row, scale.column))
    X[mask] = 0
    assert e.sum(axis=1) == pytest.approx(X.sum(axis=1), rel=1e-11)
    assert e.sum(axis=0) == pytest.approx(X.sum(axis=0), rel=1e-11)
    assert scale.row.sum() == pytest.approx(scale.column.sum(), rel=1e-13)
    assert cells.over_columns(np.eye(SHAPE[1]))[1] == pytest.approx(e, abs=1e-12)


@pytest.mark.parametrize("missing", [False, True], ids=["complete", "missing"])
@pytest.mark.parametrize("margins,axis", [("row", 1), ("column", 0)])
def test_one_margin_is_the_mean_of_a_row_over_that_of_all_cells(margins, axis, missing):
    X = matrix("poisson", SHAPE)
    mask = left_out(SHAPE) if missing else np.zeros(SHAPE, bool)
    _, scale = as_cells(Poisson(margins), X, mask if missing else None)
    seen = np.ma.array(X, mask=mask)
    ours, other = (scale.row, scale.column) if axis == 1 else (scale.column, scale.row)
    assert ours == pytest.approx((seen.mean(axis=axis) / seen.mean()).data, rel=1e-13)
    assert (other == 1).all()
    assert [scale.mean, scale.rate] == pytest.approx([seen.mean()] * 2, rel=1e-13)


@every_count
@pytest.mark.parametrize("margins", ["row", "column", "both"])
def test_rates_do_not_depend_on_the_depth_of_a_row(family, margins):
    """Rows that are multiples of each other have the same profile: under margins "row" and "both" they look alike."""
    X = np.outer([1, 2, 5, 1, 3], [4, 1, 0, 7, 2, 2]).astype(float)
    cells, scale = as_cells(family(margins), X)
    T, N = np.eye(2)[[0, 0, 1, 1, 1]], np.eye(2)[[0, 0, 0, 1, 1, 1]]
    told = family(margins).describe(
        family(margins).maximise(*block_sums(cells, T, N), cells, family(margins).start(cells, 2, 2)), scale
    )
    rates = told["rates"]
    if margins == "both":
        assert rates == pytest.approx(np.ones((2, 2)), rel=1e-12)
    along = rates if margins == "row" else rates.T
    assert along[0] == pytest.approx(along[1], rel=1e-12)


def test_exposures_of_a_new_row_are_its_counts_over_those_of_the_fit():
    X, mask = matrix("poisson", SHAPE), left_out(SHAPE)
    new, hidden = matrix("poisson", (4, SHAPE[1]), seed=5), left_out((4, SHAPE[1]), seed=5)
    new[3] = 0
    for margins in ("row", "column", "both"):
        family = Poisson(margins)
        _, scale = as_cells(family, X, mask)
        cells, _ = as_cells(family, new, hidden, scale=scale, new="rows")
        b = scale.column
        totals = np.where(hidden, 0, new).sum(axis=1)
        expected = np.ones(4) if margins == "column" else totals / (np.where(hidden, 0, b).sum(axis=1) * scale.mean)
        assert cells.row_exposure == pytest.approx(expected, rel=1e-12)
        assert cells.column_exposure is scale.column


@pytest.mark.parametrize("family", [Poisson("both"), Poisson("column"), NegativeBinomial("both")], ids=str)
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "CSR"])
def test_counts_of_a_new_row_where_the_fit_had_none_say_nothing(family, sparse):
    X = matrix("poisson", SHAPE)
    X[:, 2] = 0
    _, scale = as_cells(family, X)
    new = matrix("poisson", (4, SHAPE[1]), seed=5)
    new[:, 2] = 0
    more = new.copy()
    more[:, 2] = [200, 3, 0, 1]
    plain, surprised = (family.cells(csr_array(Y) if sparse else Y, None, scale, "rows") for Y in (new, more))
    N = responsibilities(SHAPE[1], 3, seed=1)
    np.testing.assert_allclose(surprised.over_columns(N), plain.over_columns(N), rtol=1e-12)


def test_rows_that_are_left_out_as_a_whole_have_exposure_0():
    X, mask = matrix("poisson", SHAPE), left_out(SHAPE)
    mask[3], mask[:, 7] = True, True
    cells, scale = as_cells(Poisson("both"), X, mask)
    assert scale.row[3] == 0
    assert scale.column[7] == 0
    assert np.isfinite(cells.over_columns(np.eye(SHAPE[1]))).all()


def test_margins_without_a_solution_are_reported():
    # a_1 b_1 is to be 0, and a_1 b_2 and a_2 b_1 are to be 1: approached only as a_2 b_2, which is left out, grows
    X, mask = np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([[False, False], [False, True]])
    with pytest.warns(ConvergenceWarning, match=r"margins .*1000 turns.*margins='row'"):
        cells, scale = as_cells(Poisson("both"), X, mask)
    assert np.isfinite(scale.row).all()
    assert np.isfinite(cells.over_columns(np.ones((2, 1)))).all()


def test_residuals_of_independence_are_the_points_less_their_centre():
    X, mask = matrix("poisson", SHAPE), left_out(SHAPE)
    family = Poisson("both")
    cells, scale = as_cells(family, X, mask)
    e = np.outer(scale.row, scale.column)
    expected = np.where(mask, 0.0, (X - e) / np.sqrt(e))
    assert family.points(cells)[0] - np.outer(*family.centre(cells)) == pytest.approx(expected, abs=1e-12)


# values


@every_count
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
def test_a_negative_count_is_named(family, sparse):
    X = matrix("poisson", (300, 1000))
    X[290, 17] = -2
    with pytest.raises(ValueError, match=r"X\[290, 17\] is -2; .* take counts 0, 1, 2.*: give the raw counts"):
        as_cells(family(), X, sparse=sparse)
    good = as_cells(family(), np.abs(X))[1]
    with pytest.raises(ValueError, match=r"X\[290, 17\] is -2"):
        as_cells(family(), X, sparse=sparse, scale=good, new="rows")


@every_count
@pytest.mark.parametrize("margins", [None, "both"])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
def test_broken_counts_are_fitted_by_quasi_likelihood_with_one_warning(family, margins, sparse):
    X = matrix("poisson", SHAPE)
    X[2, 5], X[9, 9] = 2.5, 40.25
    family = family(margins)
    with pytest.warns(UserWarning, match=r"X\[2, 5\] is 2.5, not a whole number.*quasi") as caught:
        cells, scale = as_cells(family, X, sparse=sparse)
    assert len(caught) == 1
    parameters = family.start(cells, 1, 1)
    sums, exposure = block_sums(cells, np.ones((SHAPE[0], 1)), np.ones((SHAPE[1], 1)))
    e = np.outer(scale.row, scale.column)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = e * parameters.rates[0, 0]
        if isinstance(family, Poisson):
            terms = X * np.log(mean) - mean - gammaln(X + 1)
        else:
            r = 1 / parameters.dispersion
            p = r / (r + parameters.rates[0, 0])
            terms = gammaln(X + e * r) - gammaln(e * r) - gammaln(X + 1) + X * np.log(1 - p) + e * r * np.log(p)
    expected = np.where(e > 0, terms, 0.0).sum()
    assert value(family, cells, parameters, sums, exposure) == pytest.approx(expected, rel=1e-10)


@every_count
@pytest.mark.parametrize("margins", ["rows", 1, True])
def test_unknown_margins_are_named(family, margins):
    with pytest.raises(ValueError, match=rf"margins of {family.__name__} is {margins!r}; it must be one of"):
        family(margins).check()


@pytest.mark.parametrize("dispersion", ["block", 0, -1.0, 1e-9, 1e5, np.nan, True, None])
def test_dispersions_out_of_range_are_named(dispersion):
    with pytest.raises(
        ValueError, match=r"dispersion of NegativeBinomial is .*; it must be 'common', or a number .*Poisson"
    ):
        NegativeBinomial(dispersion=dispersion).check()


@every_count
def test_sparse_counts_stay_sparse_with_the_memory_of_their_nonzeros(family):
    X = csr_array(matrix("poisson", (200, 300), zeros=0.95))
    for margins in (None, "row", "both"):
        scale = family(margins).measure(X, None)
        cells = family(margins).cells(X, None, scale)
        assert cells.parts[0].values.indices is X.indices or np.shares_memory(cells.parts[0].values.indices, X.indices)
        assert np.shares_memory(cells.parts[0].values.data, X.data)
        assert all(issparse(points) and points.nnz == X.nnz for points in family(margins).points(cells))


# the negative binomial


@pytest.mark.parametrize("margins", [None, "row", "both"])
def test_without_dispersion_a_negative_binomial_is_poisson(margins):
    X = matrix("poisson", SHAPE)
    plain, negative = Poisson(margins), NegativeBinomial(margins, dispersion=SMALLEST)
    cells, _ = as_cells(plain, X)
    other, _ = as_cells(negative, X)
    sums, exposure = sums_of(cells)
    start = plain.maximise(sums, exposure, cells, plain.start(cells, K, L))
    best = negative.maximise(sums, exposure, other, negative.start(other, K, L))
    assert best.rates == pytest.approx(start.rates, rel=1e-13)
    # second order: alpha / 2 times the sum of x^2
    expected = value(plain, cells, start, sums, exposure)
    assert value(negative, other, best, sums, exposure) == pytest.approx(expected, abs=SMALLEST * (X**2).sum())


@pytest.mark.parametrize("e,alpha", [(1.0, 1e-8), (0.01, 1e-3), (3.7, 0.3), (1.0, 2.0), (1e-4, 50.0), (20.0, 1e4)])
@pytest.mark.parametrize("x", [1.0, 2.0, 5.0, 24.0, 25.0, 300.0, 1e6, 0.5, 7.25])
def test_rising_factorials_keep_their_digits(x, e, alpha):
    one = Nonzeros(np.array([x]), np.zeros(1, int), np.arange(2), np.array([e]), np.ones(1), np.ones(1))
    with mpmath.workdps(60):
        s, y = mpmath.mpf(e) / alpha, mpmath.mpf(x)
        first = mpmath.digamma(s + y) - mpmath.digamma(s)
        second = mpmath.polygamma(1, s + y) - mpmath.polygamma(1, s)
        exact = [
            y * mpmath.log(alpha) + mpmath.loggamma(s + y) - mpmath.loggamma(s),
            y - s * first,
            s * first + s * s * second,
        ]
        exact = [float(term) for term in exact]
    ours = log_rising(one, alpha)
    # Stirling's series is right to 1e-14 at 16, times s for the derivatives; x log cancels x for tiny alpha
    assert ours[0] == pytest.approx(exact[0], rel=1e-13, abs=1e-13 * max(1.0, x))
    assert ours[1:] == pytest.approx(exact[1:], rel=1e-11, abs=1e-11 * max(1.0, x))


@pytest.mark.parametrize("margins", [None, "both"])
def test_slope_and_curvature_of_the_profile_are_derivatives(margins):
    cells, _ = as_cells(NegativeBinomial(margins), matrix("negative_binomial", SHAPE))
    sums, exposure = sums_of(cells)
    at = profile(sums[0], exposure, 1.1 * sums[0] / exposure, cells.extra.rising)
    h = 1e-4
    for log_alpha in (-12.0, -3.0, 0.0, 2.0, 8.0):
        low, here, high = (at(np.exp(log_alpha + step)) for step in (-h, 0.0, h))
        size = np.abs(here).max()
        assert here[1] == pytest.approx((high[0] - low[0]) / (2 * h), rel=1e-6, abs=1e-10 * size)
        assert here[2] == pytest.approx((high[1] - low[1]) / (2 * h), rel=1e-6, abs=1e-10 * size)


@pytest.mark.parametrize("margins", [None, "row", "column", "both"])
@pytest.mark.parametrize("seed", range(3))
def test_the_dispersion_is_that_of_a_search_by_scipy(margins, seed):
    family = NegativeBinomial(margins)
    cells, _ = as_cells(family, matrix("negative_binomial", SHAPE, seed))
    sums, exposure = sums_of(cells)
    best = family.maximise(sums, exposure, cells, family.start(cells, K, L))

    def loss(log_alpha):
        return -value(family, cells, Parameters(best.rates, np.exp(log_alpha)), sums, exposure)

    found = minimize_scalar(loss, bounds=(-10, 5), method="bounded", options={"xatol": 1e-9})
    # a minimum by values alone is known to the root of their rounding
    assert np.log(best.dispersion) == pytest.approx(found.x, abs=1e-6)


@pytest.mark.parametrize("start", [SMALLEST, 1e-4, 1.0, 1e3, LARGEST])
def test_the_dispersion_does_not_depend_on_its_start(start):
    cells, _ = as_cells(NegativeBinomial(), matrix("negative_binomial", SHAPE))
    sums, exposure = sums_of(cells)
    at = profile(sums[0], exposure, sums[0] / exposure, cells.extra.rising)
    assert best_dispersion(at, start) == pytest.approx(best_dispersion(at, 1.0), rel=1e-6)


def test_a_step_that_begins_where_the_last_one_ended_sums_over_the_counts_once_or_twice(monkeypatch):
    calls = []
    monkeypatch.setattr(negative_binomial, "log_rising", lambda *given: calls.append(given) or log_rising(*given))
    family = NegativeBinomial("both")
    cells, _ = as_cells(family, matrix("negative_binomial", SHAPE))
    sums, exposure = sums_of(cells)
    parameters = family.maximise(sums, exposure, cells, family.start(cells, K, L))
    family.constant(cells, parameters)
    calls.clear()
    parameters = family.maximise(1.001 * sums, exposure, cells, parameters)
    family.constant(cells, parameters)
    assert 1 <= len(calls) <= 2


def test_counts_less_dispersed_than_poisson_get_the_smallest_dispersion():
    family = NegativeBinomial()
    cells, _ = as_cells(family, np.full(SHAPE, 3.0))
    assert family.start(cells, K, L).dispersion == SMALLEST
    sums, exposure = sums_of(cells)
    again = family.maximise(sums, exposure, cells, family.start(cells, K, L))
    assert again.dispersion == SMALLEST


def test_a_held_dispersion_is_held():
    family = NegativeBinomial("row", dispersion=0.25)
    cells, scale = as_cells(family, matrix("negative_binomial", SHAPE))
    for parameters in (family.start(cells, K, L), family.maximise(*sums_of(cells), cells, family.start(cells, K, L))):
        assert family.describe(parameters, scale)["dispersion"] == 0.25


@pytest.mark.parametrize("margins", [None, "row"])
def test_rates_and_dispersion_are_recovered_from_a_sample(margins):
    rng = np.random.default_rng(0)
    shape, alpha = (400, 300), 0.4
    z, w = np.arange(shape[0]) % K, np.arange(shape[1]) % L
    rates = np.array([[1.0, 4.0], [2.0, 0.5], [6.0, 3.0]])
    mean = rates[z][:, w]
    X = stats.nbinom.rvs(1 / alpha, 1 / (1 + alpha * mean), random_state=rng).astype(float)
    family = NegativeBinomial(margins)
    cells, _ = as_cells(family, X)
    best = family.maximise(*block_sums(cells, np.eye(K)[z], np.eye(L)[w]), cells, family.start(cells, K, L))
    if margins is None:
        error = np.sqrt((rates + alpha * rates**2) / (shape[0] * shape[1] / 6))
        assert (np.abs(best.rates - rates) <= 5 * error).all()
        assert best.dispersion == pytest.approx(alpha, rel=0.03)  # about 5 standard errors of log alpha, 0.006 each
    # margins of a row have noise of their own, a few per cent
    assert best.dispersion == pytest.approx(alpha, rel=0.3)


def test_the_sum_over_cells_has_the_same_bits_for_any_number_of_threads():
    X = csr_array(matrix("negative_binomial", (900, 700)))
    family = NegativeBinomial("both")
    scale = family.measure(X, None)
    try:
        found = []
        for n_threads in (1, 2, 3):
            set_num_threads(n_threads)
            found.append(family.cells(X, None, scale).extra.rising(0.3).tolist())
    finally:
        set_num_threads(None)
    assert found[0] == found[1] == found[2]


def test_a_histogram_gives_the_sum_over_cells():
    X = matrix("negative_binomial", SHAPE)
    plain, _ = as_cells(NegativeBinomial(), X)
    M = csr_array(X)
    cells = Nonzeros(M.data, M.indices, M.indptr, np.ones(SHAPE[0]), np.ones(SHAPE[1]), np.ones(SHAPE[0]))
    assert plain.extra.rising(0.3) == pytest.approx(log_rising(cells, 0.3), rel=1e-13)
