"""Gaussian blocks: units."""

import numpy as np
import pytest
from block_matrices import as_cells, block_sums, left_out, matrix, responsibilities, value
from scipy import stats
from scipy.sparse import csr_array

from sinkhorn_em.block_families import Gaussian
from sinkhorn_em.block_families.gaussian import FLOOR

SHAPE, K, L = (30, 20), 3, 2
every_variance = pytest.mark.parametrize("variance", ["common", "column", "block"])
with_and_without_missing = pytest.mark.parametrize("missing", [False, True], ids=["complete", "missing"])


def fit(family, X, mask=None, sparse=False):
    """(described parameters, value) of random responsibilities."""
    cells, scale = as_cells(family, X, mask, sparse)
    sums, exposure = block_sums(cells, responsibilities(SHAPE[0], K), responsibilities(SHAPE[1], L, 1))
    parameters = family.maximise(sums, exposure, cells, family.start(cells, K, L))
    return family.describe(parameters, scale), value(family, cells, parameters, sums, exposure)


@every_variance
@with_and_without_missing
@pytest.mark.parametrize("c,d", [(1.0, 1e6), (1e-3, 1e3), (-2.5, 3.0), (1e140, 0.0), (1e-140, 0.0), (1e140, -3e141)])
def test_a_change_of_units_changes_units_only(variance, missing, c, d):
    family, X = Gaussian(variance), matrix("gaussian", SHAPE, zeros=0)
    mask = left_out(SHAPE) if missing else None
    told, bound = fit(family, X, mask)
    other, moved = fit(family, c * X + d, mask)
    lost = 1e-15 * max(1.0, abs(d / c))  # digits that the shift takes from the data
    assert (other["means"] - d) / c == pytest.approx(told["means"], rel=1e-12, abs=100 * lost)
    assert other["variances"] / c**2 == pytest.approx(told["variances"], rel=1e-11 + 100 * lost)
    n = X.size if mask is None else X.size - mask.sum()
    assert moved + n * np.log(abs(c)) == pytest.approx(bound, rel=1e-12, abs=n * (1e-12 + 100 * lost))


@with_and_without_missing
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
def test_the_unit_is_the_standard_deviation_of_observed_cells(missing, sparse):
    X = matrix("gaussian", SHAPE)
    mask = left_out(SHAPE) if missing else np.zeros(SHAPE, bool)
    _, scale = as_cells(Gaussian(), X, mask if missing else None, sparse)
    assert scale.unit == pytest.approx(X[~mask].std(), rel=1e-13)
    assert scale.shift == (0.0 if sparse else pytest.approx(X[~mask].mean(), rel=1e-13))


def test_cells_left_out_of_data_far_from_zero_take_no_digits():
    X, mask = 1e9 + matrix("gaussian", SHAPE, zeros=0), left_out(SHAPE, share=0.5)
    _, scale = as_cells(Gaussian(), X, mask)
    # the data themselves are rounded to 1e-7
    assert scale.unit == pytest.approx((X[~mask] - 1e9).std(), rel=1e-12)


def test_float32_data_are_summed_in_float64():
    X = (1000 + matrix("gaussian", (700, 600), zeros=0)).astype(np.float32)
    scale = Gaussian().measure(X, None)
    assert scale.shift == pytest.approx(X.astype(float).mean(), rel=1e-14)
    assert scale.unit == pytest.approx(X.astype(float).std(), rel=1e-11)
    assert Gaussian().cells(X, None, scale).parts[0].values.dtype == np.float64
    S = csr_array(X)
    assert Gaussian().cells(S, None, Gaussian().measure(S, None)).parts[0].values.dtype == np.float64


@every_variance
@with_and_without_missing
@pytest.mark.parametrize("constant", [0.1, 0.0, -1e100])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
def test_a_constant_matrix_has_its_mean_and_the_floor(variance, missing, constant, sparse):
    family, X = Gaussian(variance), np.full(SHAPE, constant)
    cells, scale = as_cells(family, X, left_out(SHAPE) if missing else None, sparse)
    unit = abs(constant) or 1.0
    assert scale.unit == unit
    sums, exposure = block_sums(cells, responsibilities(SHAPE[0], K), responsibilities(SHAPE[1], L, 1))
    parameters = family.maximise(sums, exposure, cells, family.start(cells, K, L))
    told = family.describe(parameters, scale)
    assert told["means"] == pytest.approx(np.full((K, L), constant), rel=1e-12)
    assert told["variances"] == pytest.approx(np.full((K, L), FLOOR * unit**2), rel=1e-12)
    assert family.collapsed(parameters).all()


@pytest.mark.parametrize("size", [1e160, 1e-160])
def test_units_whose_squares_are_no_numbers_are_named(size):
    with pytest.raises(ValueError, match=r"X has standard deviation .*e[+-]160; .*: give X in other units"):
        as_cells(Gaussian(), size * matrix("gaussian", SHAPE))


def test_variances_that_are_shared_are_shared():
    X = matrix("gaussian", SHAPE, zeros=0)
    one, column, block = (fit(Gaussian(v), X)[0]["variances"] for v in ("common", "column", "block"))
    assert (one == one[0, 0]).all()
    assert (column == column[0]).all()
    assert len(np.unique(block)) == K * L
    assert fit(Gaussian("block"), X)[1] > fit(Gaussian("column"), X)[1] > fit(Gaussian("common"), X)[1]


def test_one_block_has_the_likelihood_of_a_normal_sample():
    X = matrix("gaussian", SHAPE, zeros=0)
    family = Gaussian()
    cells, _ = as_cells(family, X)
    sums, exposure = block_sums(cells, np.ones((SHAPE[0], 1)), np.ones((SHAPE[1], 1)))
    expected = stats.norm.logpdf(X, X.mean(), X.std()).sum()
    assert value(family, cells, family.start(cells, 1, 1), sums, exposure) == pytest.approx(expected, rel=1e-13)


def test_an_unknown_variance_is_named():
    with pytest.raises(ValueError, match=r"variance of Gaussian is 'full'; it must be one of"):
        Gaussian("full").check()
