"""The estimator is a drop-in for scikit-learn's: its checks pass, and tau = 0 is its EM."""

import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn.mixture
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import check_estimator

from sinkhorn_em import GaussianMixture, LocationScaleMixture
from sinkhorn_em.families import StudentT

NOT_FOR_NUMPY = {"check_array_api_input"}  # skipped by scikit-learn unless SCIPY_ARRAY_API is set
TYPES = ("full", "tied", "diag", "spherical")


@pytest.mark.parametrize("tau", [0, 0.5, 1])
@pytest.mark.parametrize("covariance_type", TYPES)
def test_every_check_of_scikit_learn_passes(tau, covariance_type):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the checks fit on degenerate data, which rightly warns
        results = check_estimator(GaussianMixture(tau=tau, covariance_type=covariance_type), on_fail=None)
    assert len(results) > 40
    failed = {r["check_name"]: r["exception"] for r in results if r["status"] != "passed"}
    assert set(failed) <= NOT_FOR_NUMPY, failed


OTHERS = [
    LocationScaleMixture(),
    LocationScaleMixture(family="laplace", covariance_type="diag", form="product"),
    LocationScaleMixture(family=StudentT(df=4), covariance_type="EEV"),
    LocationScaleMixture(family="gumbel"),
    GaussianMixture(covariance_type="VEV"),
]


@pytest.mark.parametrize("mixture", OTHERS, ids=str)
def test_every_check_passes_for_other_families_and_structures(mixture):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(mixture, on_fail=None)
    failed = {r["check_name"]: r["exception"] for r in results if r["status"] != "passed"}
    assert set(failed) <= NOT_FOR_NUMPY, failed


@pytest.mark.parametrize("covariance_type", TYPES)
def test_tau_0_gives_scikit_learns_bounds_from_the_same_parameters(covariance_type):
    X, K = load_iris().data, 3
    start = sklearn.mixture.GaussianMixture(K, covariance_type=covariance_type, random_state=0, max_iter=1, tol=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        start.fit(X)
    init = {"weights_init": start.weights_, "means_init": start.means_, "precisions_init": start.precisions_}
    options = {"covariance_type": covariance_type, "max_iter": 30, "tol": 0, "reg_covar": 1e-6}
    with pytest.warns(ConvergenceWarning):
        theirs = sklearn.mixture.GaussianMixture(K, **options, **init).fit(X)
    with pytest.warns(ConvergenceWarning):
        ours = GaussianMixture(K, tau=0, **options, **init).fit(X)
    # rounding: two implementations, in different coordinates, over 30 iterations
    np.testing.assert_allclose(ours.lower_bounds_[:30], theirs.lower_bounds_, rtol=1e-12)
    for name in ("weights_", "means_", "covariances_", "precisions_", "precisions_cholesky_"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-9)
    np.testing.assert_allclose(ours.score_samples(X), theirs.score_samples(X), rtol=1e-9)
    assert ours.bic(X) == pytest.approx(theirs.bic(X))
    assert ours.aic(X) == pytest.approx(theirs.aic(X))


def test_the_constructor_takes_scikit_learns_parameters():
    theirs = set(sklearn.mixture.GaussianMixture().get_params())
    assert theirs <= set(GaussianMixture().get_params())


def test_fit_changes_no_parameter_and_clone_gives_the_same_fit():
    X = load_iris().data
    model = GaussianMixture(3, weights=[0.2, 0.3, 0.5], random_state=3)
    before = dict(model.get_params())
    model.fit(X)
    assert model.get_params() == before
    again = clone(model).fit(X)
    np.testing.assert_array_equal(again.means_, model.means_)


def test_data_frames_keep_their_names():
    frame = load_iris(as_frame=True).data
    model = GaussianMixture(2, random_state=0).fit(frame)
    assert model.feature_names_in_.tolist() == frame.columns.tolist()
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame.rename(columns={frame.columns[0]: "other"}))
    assert isinstance(frame, pd.DataFrame)


def test_warm_start_goes_on_where_the_last_fit_stopped():
    X = load_iris().data
    model = GaussianMixture(3, tau=0, random_state=0, max_iter=3, tol=0, warm_start=True)
    straight = GaussianMixture(3, tau=0, random_state=0, max_iter=6, tol=0)
    with pytest.warns(ConvergenceWarning):
        model.fit(X).fit(X)
    with pytest.warns(ConvergenceWarning):
        straight.fit(X)
    assert model.lower_bound_ == pytest.approx(straight.lower_bound_, rel=1e-10)


def test_one_dimensional_input_says_what_to_do():
    with pytest.raises(ValueError, match=r"reshape\(-1, 1\)"):
        GaussianMixture(2).fit(np.arange(10.0))


def test_sampling_is_reproducible_shuffled_and_of_the_right_law():
    X = load_iris().data
    model = GaussianMixture(3, random_state=0).fit(X)
    rows, labels = model.sample(20_000)
    again, _ = model.sample(20_000)
    np.testing.assert_array_equal(rows, again)
    assert (np.diff(labels) != 0).mean() > 0.3
    share = np.bincount(labels, minlength=3) / len(labels)
    np.testing.assert_allclose(share, model.weights_, atol=5 * np.sqrt(0.25 / len(labels)))
    for k in range(3):
        error = np.abs(rows[labels == k].mean(axis=0) - model.means_[k])
        spread = np.sqrt(np.diagonal(model.covariances_[k]) / (labels == k).sum())
        assert (error < 5 * spread).all()
    with pytest.raises(ValueError, match="n_samples is 0"):
        model.sample(0)
