"""Scikit-learn's contract of estimators and of biclusterings."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from block_matrices import FAMILIES
from co_clusterings import blocks, fit
from sklearn.base import BiclusterMixin, clone
from sklearn.cluster import SpectralBiclustering
from sklearn.datasets import make_checkerboard
from sklearn.exceptions import NotFittedError
from sklearn.metrics import consensus_score
from sklearn.utils.estimator_checks import check_estimator

from sinkhorn_em import LatentBlockModel
from sinkhorn_em.block_families import Gaussian

NOT_FOR_NUMPY = {"check_array_api_input"}  # skipped by scikit-learn unless SCIPY_ARRAY_API is set
#: the checks fit matrices of two columns, which hold at most two column clusters
CHECKED = [
    LatentBlockModel(),
    LatentBlockModel(
        2, 1, family=Gaussian("common"), row_weights=[0.3, 0.7], tau=(1, 0.5), init="k-means", max_iter=10
    ),
    LatentBlockModel(2, 2, family="poisson", tau=0, column_weights="uniform", init="spectral", max_iter=20),
    LatentBlockModel(1, 2, family="negative_binomial", init="random", max_iter=20),
]


@pytest.mark.parametrize("model", CHECKED, ids=str)
def test_every_check_of_scikit_learn_passes(model):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the checks fit on degenerate data, which rightly warns
        results = check_estimator(model, on_fail=None)
    assert len(results) >= 39
    failed = {r["check_name"]: r["exception"] for r in results if r["status"] != "passed"}
    assert set(failed) <= NOT_FOR_NUMPY, failed


def test_with_more_clusters_the_checks_fail_by_matrices_of_two_columns_only():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(LatentBlockModel(3, 3, max_iter=5), on_fail=None)
    failed = [r for r in results if r["status"] != "passed" and r["check_name"] not in NOT_FOR_NUMPY]
    assert all("there must be at least as many" in str(r["exception"]) for r in failed)


def data():
    return blocks("gaussian-block", gap=2.0)


def test_fit_returns_the_model_and_changes_no_parameter():
    X, _, _ = data()
    weights = np.array([0.2, 0.3, 0.5])
    model = LatentBlockModel(3, 2, row_weights=weights, temperatures=[4, 2], random_state=0)
    before = dict(model.get_params())
    assert model.fit(X) is model
    assert all(model.get_params()[key] is value for key, value in before.items())
    again = clone(model).set_params(tau=1.0).fit(X)
    np.testing.assert_array_equal(again.bounds_, model.bounds_)
    assert repr(LatentBlockModel(tau=0)) == "LatentBlockModel(tau=0)"


@pytest.mark.parametrize("name", FAMILIES)
def test_a_pickled_model_is_the_same_model(name):
    X, _, _ = blocks(name)
    model = fit(name, X)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_rows(X), model.predict_rows(X))
    np.testing.assert_array_equal(again.predict_columns(X), model.predict_columns(X))
    assert again.icl() == model.icl()
    for key, value in model.block_parameters_.items():
        np.testing.assert_array_equal(again.block_parameters_[key], value)


def test_data_frames_keep_their_names():
    X, _, _ = data()
    frame = pd.DataFrame(X, columns=[f"gene{j}" for j in range(20)], index=[f"spot{i}" for i in range(30)])
    model = LatentBlockModel(3, 2, random_state=0).fit(frame)
    assert model.feature_names_in_.tolist() == frame.columns.tolist()
    np.testing.assert_array_equal(model.predict_rows(frame), model.row_labels_)
    np.testing.assert_array_equal(model.predict_columns(frame.iloc[:, :7]), model.column_labels_[:7])
    assert model.feature_names_in_.tolist() == frame.columns.tolist()
    with pytest.raises(ValueError, match="feature names"):
        model.predict_rows(frame.rename(columns={"gene0": "other"}))


def test_biclusters_are_in_the_order_of_spectral_biclustering():
    X, rows, columns = make_checkerboard((60, 40), (4, 3), noise=0.5, random_state=0, minval=1, maxval=60)
    theirs = SpectralBiclustering((4, 3), random_state=0).fit(X)
    ours = LatentBlockModel(4, 3, random_state=0).fit(
        X, row_labels=theirs.row_labels_.astype(int), column_labels=theirs.column_labels_.astype(int)
    )
    np.testing.assert_array_equal(ours.row_labels_, theirs.row_labels_)
    np.testing.assert_array_equal(ours.rows_, theirs.rows_)
    np.testing.assert_array_equal(ours.columns_, theirs.columns_)
    assert ours.rows_.dtype == bool
    assert isinstance(ours, BiclusterMixin)
    assert consensus_score(ours.biclusters_, (rows, columns)) == pytest.approx(1)


def test_methods_of_biclusterings():
    X, z, w = data()
    model = LatentBlockModel(3, 2, random_state=0).fit(X, row_labels=z, column_labels=w)
    assert len(model.biclusters_[0]) == 6
    for k in range(3):
        for l in range(2):
            rows, columns = model.get_indices(2 * k + l)
            np.testing.assert_array_equal(rows, np.flatnonzero(z == k))
            np.testing.assert_array_equal(columns, np.flatnonzero(w == l))
            assert model.get_shape(2 * k + l) == (len(rows), len(columns))
            np.testing.assert_array_equal(model.get_submatrix(2 * k + l, X), X[np.ix_(rows, columns)])


def test_consensus_scores_of_unequal_numbers_of_biclusters():
    X, z, w = data()
    truth = LatentBlockModel(3, 2, random_state=0).fit(X, row_labels=z, column_labels=w).biclusters_
    assert consensus_score(LatentBlockModel(3, 2, random_state=1).fit(X).biclusters_, truth) == pytest.approx(1)
    fewer = LatentBlockModel(2, 2, random_state=0).fit(X).biclusters_
    # two of the four biclusters at most are among the six of the truth
    assert 0 < consensus_score(fewer, truth) <= 2 / 3
    assert consensus_score(truth, fewer) == pytest.approx(consensus_score(fewer, truth))


def test_what_needs_a_fit_says_so():
    for call in ("predict_rows", "predict_columns"):
        with pytest.raises(NotFittedError):
            getattr(LatentBlockModel(), call)(np.zeros((5, 5)))
    with pytest.raises(NotFittedError):
        LatentBlockModel().icl()


def test_a_second_fit_forgets_the_first():
    X, _, _ = data()
    model = LatentBlockModel(3, 2, random_state=0).fit(X)
    model.set_params(family="bernoulli", n_row_clusters=2).fit((X > 3).astype(int))
    fresh = LatentBlockModel(2, 2, family="bernoulli", random_state=0).fit((X > 3).astype(int))
    np.testing.assert_array_equal(model.bounds_, fresh.bounds_)
    assert set(vars(model)) == set(vars(fresh))
