"""Cells that are left out: NaN, a mask and a masked array are one thing, and what is in such a cell does not matter."""

import numpy as np
import pytest
from block_matrices import FAMILIES, kind
from co_clusterings import blocks, fit, left_out
from scipy.sparse import csc_array, csr_array, csr_matrix

from sinkhorn_em import LatentBlockModel
from sinkhorn_em.metrics import coclustering_ari

every_family = pytest.mark.parametrize("name", FAMILIES)


def same_fit(one, other, rel=1e-12):
    np.testing.assert_array_equal(other.row_labels_, one.row_labels_)
    np.testing.assert_array_equal(other.column_labels_, one.column_labels_)
    assert other.bound_ == pytest.approx(one.bound_, rel=rel)
    for key, value in one.block_parameters_.items():
        np.testing.assert_allclose(other.block_parameters_[key], value, rtol=1e-6, atol=1e-9)


@every_family
def test_nan_a_mask_and_a_masked_array_are_one_thing(name):
    X, _, _ = blocks(name, gap=1.5)
    mask = left_out(X.shape)
    unknown = np.where(mask, np.nan, X)
    one = fit(name, X, mask=mask)
    half = left_out(X.shape, 0.5, seed=1)
    for given, hidden in [
        (unknown, None),
        (np.where(mask & half, np.nan, X), mask & ~half),
        (np.ma.masked_array(X, mask), None),
        (np.ma.masked_array(X, mask & half), mask & ~half),
        (X, csr_array(mask)),
        (X.astype(np.float32) if kind(name) != "gaussian" else X, csr_matrix(mask)),
    ]:
        same_fit(one, fit(name, given, mask=hidden))


@every_family
def test_sparse_matrices_with_missing_cells_are_the_dense_ones(name):
    X, z, w = blocks(name, gap=1.5)
    mask, labels = left_out(X.shape), (z, w)
    one = fit(name, X, mask=mask, labels=labels)
    stored = csr_array(X)
    unknown = csr_array(np.where(mask, np.nan, X))
    for given, hidden in [(unknown, None), (csc_array(unknown), None), (stored, mask), (stored, csr_array(mask))]:
        before = given.data.copy(), given.indices.copy(), given.indptr.copy()
        same_fit(one, fit(name, given, mask=hidden, labels=labels), rel=1e-10)
        for array, old in zip((given.data, given.indices, given.indptr), before, strict=True):
            np.testing.assert_array_equal(array, old)  # the caller's


def test_entries_stored_twice_are_summed_and_the_callers_matrix_stays():
    X, z, w = blocks("poisson-None")
    i, j = X.nonzero()
    twice = csr_array((np.r_[X[i, j] - 1, np.ones(len(i))], (np.r_[i, i], np.r_[j, j])), shape=X.shape)
    starts = csr_array(np.ones_like(X)).indptr
    unsorted = csr_array((X[:, ::-1].ravel(), np.tile(np.arange(20)[::-1], 30), starts), shape=X.shape)
    one = fit("poisson-None", X, labels=(z, w))
    for given in (twice, unsorted):
        before = given.data.copy(), given.indices.copy()
        same_fit(one, fit("poisson-None", given, labels=(z, w)))
        np.testing.assert_array_equal(given.data, before[0])
        np.testing.assert_array_equal(given.indices, before[1])


@every_family
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
def test_what_is_in_a_cell_that_is_left_out_does_not_matter(name, sparse):
    X, z, w = blocks(name, gap=1.0)
    mask = left_out(X.shape)
    form = csr_array if sparse else np.asarray
    one = fit(name, form(X), mask=mask, labels=(z, w))
    for value in (77.5, -1e9, 1e200, np.inf):
        other = fit(name, form(np.where(mask, value, X)), mask=mask, labels=(z, w))
        np.testing.assert_array_equal(other.bounds_, one.bounds_)
        np.testing.assert_array_equal(other.predict_rows(form(np.where(mask, value, X)), mask=mask), one.row_labels_)


@every_family
def test_structure_is_found_when_three_cells_in_ten_are_missing(name):
    X, z, w = blocks(name, (60, 40), gap=3.0, seed=2)
    model = fit(name, X, mask=left_out(X.shape, 0.3), n_init=5)
    if getattr(FAMILIES[name], "margins", None) is None:  # margins explain much of these blocks
        assert coclustering_ari(z, w, model.row_labels_, model.column_labels_) > 0.95
    np.testing.assert_array_equal(model.predict_rows(X, mask=left_out(X.shape, 0.3)), model.row_labels_)


@every_family
def test_a_row_and_a_column_without_cells_get_the_weights(name):
    X, z, w = blocks(name, gap=1.0)
    mask = np.zeros(X.shape, bool)
    mask[4], mask[:, 7] = True, True
    model = fit(name, X, mask=mask, labels=(z, w), tau=0, tol=1e-12, max_iter=500)
    np.testing.assert_allclose(model.row_responsibilities_[4], model.row_weights_, atol=1e-4)
    np.testing.assert_allclose(model.column_responsibilities_[7], model.column_weights_, atol=1e-4)
    assert model.row_labels_[4] == model.row_weights_.argmax()
    if kind(name) == "gaussian":  # measured on observed cells only, so the others are the fit without them
        labels = np.delete(z, 4), np.delete(w, 7)
        rest = fit(name, np.delete(np.delete(X, 4, 0), 7, 1), labels=labels, tau=0, tol=1e-12, max_iter=500)
        assert model.bound_ == pytest.approx(rest.bound_, rel=1e-6)
    held = fit(name, X, mask=mask, labels=(z, w), row_weights=[0.5, 0.3, 0.2], column_weights=[0.4, 0.6])
    assert held.row_labels_[4] == 0
    assert held.column_labels_[7] == 1


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
def test_a_matrix_without_any_cell_is_an_error(sparse):
    X = np.zeros((5, 4))
    given = csr_array(np.full_like(X, np.nan)) if sparse else np.full_like(X, np.nan)
    with pytest.raises(ValueError, match="every cell of X is missing"):
        LatentBlockModel(2, 2).fit(given)
    with pytest.raises(ValueError, match="every cell of X is missing"):
        LatentBlockModel(2, 2).fit(csr_array(X) if sparse else X, mask=np.ones((5, 4), bool))


@pytest.mark.parametrize("name", ["gaussian-block", "poisson-None", "poisson-both", "multinomial", "bernoulli"])
def test_one_cell_is_enough(name):
    mask = np.ones((4, 3), bool)
    mask[1, 2] = False
    model = fit(name, np.ones((4, 3)), 2, 2, mask=mask)
    assert np.isfinite(model.bounds_).all()
    assert np.isfinite(model.row_responsibilities_).all()


@pytest.mark.parametrize("name", ["gaussian-block", "poisson-both", "negative_binomial-row", "multinomial"])
def test_an_empty_mask_is_no_mask(name):
    X, z, w = blocks(name)
    one = fit(name, X, labels=(z, w))
    for mask in (np.zeros(X.shape, bool), csr_array(X.shape, dtype=bool), csr_array(np.zeros(X.shape, bool))):
        np.testing.assert_array_equal(fit(name, X, mask=mask, labels=(z, w)).bounds_, one.bounds_)
        sparse = fit(name, csr_array(X), mask=mask, labels=(z, w))
        assert sparse.bound_ == pytest.approx(one.bound_, rel=1e-11)
