"""Bernoulli and multinomial blocks: values they take, and probabilities at their bounds."""

import numpy as np
import pytest
from block_matrices import as_cells, block_sums, left_out, matrix, responsibilities, value
from scipy.sparse import csr_array

from sinkhorn_em.block_families import Bernoulli, Multinomial
from sinkhorn_em.block_families.multinomial import SMALLEST_PROBABILITY, _probabilities

SHAPE, K, L = (30, 20), 3, 2
forms = pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])


def fit(family, X, mask=None, sparse=False):
    cells, scale = as_cells(family, X, mask, sparse)
    sums, exposure = block_sums(cells, responsibilities(SHAPE[0], K), responsibilities(SHAPE[1], L, 1))
    parameters = family.maximise(sums, exposure, cells, family.start(cells, K, L))
    return family.describe(parameters, scale), value(family, cells, parameters, sums, exposure)


@forms
def test_two_categories_are_bernoulli(sparse):
    X, mask = matrix("bernoulli", SHAPE), left_out(SHAPE)
    one, bound = fit(Bernoulli(), X, mask, sparse)
    two, other = fit(Multinomial(), X, mask, sparse)
    assert two["categories"].tolist() == [0, 1]
    assert two["probabilities"][:, :, 1] == pytest.approx(one["probabilities"], rel=1e-12)
    assert other == pytest.approx(bound, rel=1e-12)


@forms
@pytest.mark.parametrize("value", [0.5, -1.0, 2.0, np.nan])
def test_bernoulli_takes_zeros_and_ones(sparse, value):
    X = matrix("bernoulli", SHAPE)
    X[7, 3] = value
    with pytest.raises(ValueError, match=r"X\[7, 3\] is .*; Bernoulli blocks take zeros and ones: .*X > 0"):
        as_cells(Bernoulli(), X, sparse=sparse)
    with pytest.raises(ValueError, match=r"X\[7, 3\] is"):
        as_cells(Bernoulli(), X, sparse=sparse, scale=None, new="rows")


@forms
def test_zeros_of_a_sparse_matrix_are_the_baseline_and_cost_no_memory(sparse):
    X = matrix("multinomial", SHAPE, zeros=0.2)
    cells, scale = as_cells(Multinomial(), X, sparse=sparse)
    counts = {value: (value == X).sum() for value in np.unique(X)}
    assert scale.values[0] == (0 if sparse else max(counts, key=counts.get))
    assert [part.values.nnz for part in cells.parts] == [counts[value] for value in scale.values[1:]]


def test_the_most_probable_category_comes_first():
    told, _ = fit(Multinomial(), matrix("multinomial", SHAPE))
    assert list(told) == ["modes", "probabilities", "categories"]
    assert told["probabilities"].sum(axis=2) == pytest.approx(np.ones((K, L)), rel=1e-14)
    best = np.take_along_axis(told["probabilities"], np.searchsorted(told["categories"], told["modes"])[:, :, None], 2)
    assert (best[:, :, 0] == told["probabilities"].max(axis=2)).all()


@forms
@pytest.mark.parametrize("constant", [0.0, 3.0])
def test_one_category_is_certain(sparse, constant):
    told, bound = fit(Multinomial(), np.full(SHAPE, constant), None, sparse)
    assert told["categories"].tolist() == [constant]
    assert (told["probabilities"] == 1).all()
    assert (told["modes"] == constant).all()
    assert bound == 0


@forms
def test_a_zero_that_is_left_out_is_no_category(sparse):
    X = matrix("multinomial", SHAPE)
    told, _ = fit(Multinomial(), X, X == 0, sparse)
    assert told["categories"].tolist() == [-1.5, 2.0, 7.0]


@forms
def test_values_that_look_continuous_are_refused(sparse):
    with pytest.raises(ValueError, match=r"X has \d+ distinct values.*at most 50 categories: X looks continuous"):
        as_cells(Multinomial(), matrix("gaussian", SHAPE), sparse=sparse)
    cells, _ = as_cells(Multinomial(), np.arange(600.0).reshape(SHAPE) % 50)
    assert len(cells.parts) == 49


@forms
def test_a_new_category_is_named(sparse):
    X = matrix("multinomial", SHAPE)
    _, scale = as_cells(Multinomial(), X)
    X[4, 5] = 8.0
    with pytest.raises(
        ValueError, match=r"X\[4, 5\] is 8; .*categories of the fit only, \[-1.5, 0.0, 2.0, 7.0\]: leave"
    ):
        as_cells(Multinomial(), X, sparse=sparse, scale=scale, new="rows")


@forms
def test_a_zero_is_a_new_category_where_the_fit_had_none(sparse):
    X = matrix("multinomial", SHAPE, zeros=0)
    _, scale = as_cells(Multinomial(), X)
    new, mask = X[:5].copy(), np.zeros((5, SHAPE[1]), bool)
    new[3, 2] = 0
    mask[3, 2] = mask[1, 7] = True
    as_cells(Multinomial(), new, mask, sparse, scale, "rows")
    new[3, 4] = 0
    with pytest.raises(ValueError, match=r"X\[3, 4\] is 0; .*know the categories of the fit only"):
        as_cells(Multinomial(), new, mask, sparse, scale, "rows")


def test_a_new_sparse_matrix_fits_to_dense_data():
    X = matrix("multinomial", SHAPE, zeros=0.2)  # 0 is not the baseline
    cells, scale = as_cells(Multinomial(), X, left_out(SHAPE))
    again, _ = as_cells(Multinomial(), X, left_out(SHAPE), True, scale, "rows")
    N = responsibilities(SHAPE[1], L)
    assert again.over_columns(N) == pytest.approx(cells.over_columns(N), abs=1e-13)


def test_probabilities_above_their_bound_are_in_proportion():
    tiny = SMALLEST_PROBABILITY
    means = np.array([[0.2, 0.3, 0.5, 0.0], [1.0, 0.0, 0.0, 0.0], [1.0 - 1.1 * tiny, 1.1 * tiny, 0.0, 0.0]])
    p = _probabilities(means)
    assert (p >= tiny).all()
    assert p.sum(axis=1) == pytest.approx(1.0, abs=1e-15)
    assert p[0, :3] == pytest.approx(means[0, :3], rel=1e-11)
    # where the multiplier is the same for all that are above the bound
    assert p[0, 1] / p[0, 0] == pytest.approx(1.5, rel=1e-15)
    assert p[1, 1:].tolist() == [tiny] * 3


def test_the_matrix_is_not_made_dense():
    X = csr_array(matrix("bernoulli", (200, 300), zeros=0.95))
    for family in (Bernoulli(), Multinomial()):
        cells = family.cells(X, None, family.measure(X, None))
        assert sum(part.values.nnz for part in cells.parts) == X.nnz
