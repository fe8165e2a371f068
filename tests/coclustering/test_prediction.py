"""Labels of new rows and of new columns."""

import numpy as np
import pytest
from block_matrices import FAMILIES
from co_clusterings import blocks, fit, left_out
from scipy.sparse import csr_array
from sklearn.metrics import adjusted_rand_score

from sinkhorn_em import LatentBlockModel
from sinkhorn_em.block_families import Gaussian

every_family = pytest.mark.parametrize("name", FAMILIES)


@every_family
@pytest.mark.parametrize("tau", [0, 1], ids=["vem", "svem"])
@pytest.mark.parametrize("missing", [False, True], ids=["complete", "missing"])
def test_labels_of_the_fitted_matrix_are_those_of_the_fit(name, tau, missing):
    X, z, w = blocks(name, gap=1.0)
    mask = left_out(X.shape) if missing else None
    model = fit(name, X, mask=mask, tau=tau, labels=(z, w))  # where no two clusters are alike
    for given in (X, csr_array(X), X.astype(np.float32) if "gaussian" not in name else X):
        np.testing.assert_array_equal(model.predict_rows(given, mask=mask), model.row_labels_)
        np.testing.assert_array_equal(model.predict_columns(given, mask=mask), model.column_labels_)


@every_family
def test_a_label_does_not_depend_on_other_rows_or_columns(name):
    X, z, w = blocks(name, gap=1.0)
    model = fit(name, X, labels=(z, w))
    one_by_one = [model.predict_rows(X[i : i + 1])[0] for i in range(30)]
    np.testing.assert_array_equal(one_by_one, model.row_labels_)
    np.testing.assert_array_equal(model.predict_columns(X[:, 3:4]), model.column_labels_[3:4])
    np.testing.assert_array_equal(model.predict_rows(X[::-3]), model.row_labels_[::-3])
    before = model.bound_, model.row_labels_.copy(), model.n_features_in_
    model.predict_columns(X[:, :7])
    assert (model.bound_, model.n_features_in_) == (before[0], before[2])
    np.testing.assert_array_equal(model.row_labels_, before[1])


@pytest.mark.parametrize("name", [name for name in FAMILIES if not name.endswith(("both", "row", "column"))])
def test_new_rows_and_columns_of_the_same_law_are_classified_right(name):
    X, z, w = blocks(name, (60, 40), gap=3.0)
    old = fit(name, X[:40, :30], labels=(z[:40], w[:30]))
    np.testing.assert_array_equal(old.row_labels_, z[:40])
    assert adjusted_rand_score(old.predict_rows(X[40:, :30]), z[40:]) > 0.9
    assert adjusted_rand_score(old.predict_columns(X[:40, 30:]), w[30:]) > 0.9


def test_new_rows_use_weights_when_they_say_nothing():
    X, z, w = blocks("gaussian-block", gap=2.0)
    model = fit("gaussian-block", X, labels=(z, w), row_weights=[0.2, 0.5, 0.3])
    unknown = np.full((2, 20), np.nan)
    unknown[1] = X[0]
    np.testing.assert_array_equal(model.predict_rows(unknown), [1, model.row_labels_[0]])
    with pytest.raises(ValueError, match="every cell of X is missing"):
        model.predict_rows(unknown[:1])


def test_lists_are_matrices():
    X, _, _ = blocks("poisson-None")
    model = fit("poisson-None", X.tolist())
    np.testing.assert_array_equal(model.predict_rows(X.tolist()), model.row_labels_)
    np.testing.assert_array_equal(model.predict_columns(X.tolist()), model.column_labels_)


@pytest.mark.parametrize("method", ["predict_rows", "predict_columns"])
def test_wrong_shapes_and_values_are_clear_errors(method):
    X, _, _ = blocks("poisson-None")
    predict = getattr(fit("poisson-None", X), method)
    wrong = X[:, :-1] if method == "predict_rows" else X[:-1]
    with pytest.raises(
        ValueError, match="features" if method == "predict_rows" else "29 rows; the model was fitted to 30"
    ):
        predict(wrong)
    with pytest.raises(ValueError, match=r"dimension|2D array"):
        predict(X[0])
    with pytest.raises(ValueError, match="take counts"):
        predict(X - 100)
    with pytest.raises(ValueError, match="mask has shape"):
        predict(X, mask=np.zeros((2, 2), bool))
    with pytest.raises(ValueError, match="inf"):
        predict(np.where(X > 2, np.inf, X))


def test_labels_are_of_the_posterior_and_not_of_the_plan():
    """The plan holds the sizes; a row's most probable cluster does not know of them."""
    rng = np.random.default_rng(0)
    z, w = np.repeat([0, 1], [40, 20]), np.repeat([0, 1], [20, 20])
    X = np.array([[0, 3.0], [3, 0]])[np.ix_(z, w)] + rng.normal(size=(60, 40))
    model = LatentBlockModel(2, 2, family=Gaussian("common"), row_weights="uniform", column_weights="uniform")
    model.fit(X, row_labels=z, column_labels=w)
    np.testing.assert_allclose(model.row_responsibilities_.sum(axis=0), 30, rtol=1e-9)
    np.testing.assert_array_equal(np.bincount(model.row_labels_), [40, 20])
