"""Units, offsets, order of rows, duplicates, threads: none of them may matter."""

import numpy as np
import pytest
from sklearn.datasets import load_iris

import sinkhorn_em
from sinkhorn_em import GaussianMixture
from sinkhorn_em.datasets import load_crabs

quiet = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
TYPES = ("full", "tied", "diag", "spherical")


def fit(X, covariance_type="full", **options):
    options = {"random_state": 0, "tol": 1e-9, **options}
    return GaussianMixture(3, covariance_type=covariance_type, **options).fit(X)


@pytest.mark.parametrize("tau", [0, 1])
@pytest.mark.parametrize("init", ["kmeans", "k-means++", "random_from_data", "random"])
@pytest.mark.parametrize("covariance_type", ["full", "tied"])
def test_an_affine_map_changes_nothing_but_the_units(tau, init, covariance_type):
    X = load_iris().data
    rng = np.random.default_rng(1)
    A = rng.normal(size=(4, 4)) @ np.diag([1e-3, 1.0, 50.0, 1e3])
    b = rng.normal(size=4) * 100
    plain, mapped = (fit(Y, covariance_type, tau=tau, init_params=init) for Y in (X, X @ A.T + b))
    np.testing.assert_array_equal(plain.predict(X), mapped.predict(X @ A.T + b))
    log_det = np.linalg.slogdet(A)[1]
    assert mapped.lower_bound_ + log_det == pytest.approx(plain.lower_bound_, abs=1e-8)
    np.testing.assert_allclose(mapped.means_, plain.means_ @ A.T + b, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("scale", [1e-8, 1e-4, 1e6])
@pytest.mark.parametrize("covariance_type", TYPES)
def test_units_do_not_matter(scale, covariance_type):
    X = load_iris().data
    plain, scaled = fit(X, covariance_type), fit(X * scale, covariance_type)
    np.testing.assert_array_equal(plain.predict(X), scaled.predict(X * scale))
    np.testing.assert_allclose(scaled.covariances_, plain.covariances_ * scale**2, rtol=1e-5)


@pytest.mark.parametrize("covariance_type", TYPES)
@pytest.mark.parametrize("offset,dtype,digits", [(1e8, np.float64, 1e-5), (1e4, np.float32, 0.02)])
def test_nothing_cancels_far_from_the_origin(covariance_type, offset, dtype, digits):
    """The data themselves are rounded: to 1.5e-8 at 1e8 in float64, to 1e-3 at 1e4 in float32, where iris moves by 0.1."""
    X = load_iris().data
    far = (X + offset).astype(dtype)
    here = (far.astype(np.float64) - offset).astype(np.float64)
    a, b = fit(here, covariance_type), fit(far, covariance_type)
    np.testing.assert_array_equal(a.predict(here), b.predict(far))
    np.testing.assert_allclose(b.covariances_, a.covariances_, rtol=digits, atol=1e-9)
    assert b.lower_bound_ == pytest.approx(a.lower_bound_, abs=1e-5)


def test_two_rows_far_from_the_origin_in_float32_have_the_variance_asked_for():
    """scikit-learn #30382: it finds 112.1."""
    X = np.array([[9999.0], [0.0]], np.float32)
    model = GaussianMixture(2, covariance_type="spherical", reg_covar=0.1, tau=0, random_state=0)
    model.fit(X)
    np.testing.assert_allclose(model.covariances_, 0.1, rtol=1e-6)


@quiet
@pytest.mark.parametrize("tau", [0, 1])
@pytest.mark.parametrize("init", ["kmeans", "k-means++", "random_from_data", "random"])
@pytest.mark.parametrize("covariance_type", TYPES)
def test_the_order_of_the_rows_does_not_matter(tau, init, covariance_type):
    X = load_crabs().data
    order = np.random.default_rng(0).permutation(len(X))
    a, b = (fit(Y, covariance_type, tau=tau, init_params=init) for Y in (X, X[order]))
    np.testing.assert_array_equal(a.predict(X), b.predict(X))
    assert a.lower_bound_ == pytest.approx(b.lower_bound_, abs=1e-9)


@quiet
@pytest.mark.parametrize("tau", [0, 0.5, 1])
@pytest.mark.parametrize("init", ["kmeans", "k-means++", "random_from_data", "random"])
def test_weight_2_is_the_row_twice_and_weight_0_is_no_row(tau, init):
    X = load_crabs().data
    frequency = np.random.default_rng(0).integers(0, 4, len(X))
    a = GaussianMixture(3, tau=tau, init_params=init, random_state=0, tol=1e-9).fit(X, sample_weight=frequency)
    b = fit(np.repeat(X, frequency, axis=0), tau=tau, init_params=init)
    np.testing.assert_array_equal(a.predict(X), b.predict(X))
    assert a.lower_bound_ == pytest.approx(b.lower_bound_, abs=1e-9)
    assert a.n_iter_ == b.n_iter_


@quiet
@pytest.mark.parametrize("tau", [0, 1])
@pytest.mark.parametrize("covariance_type", ["full", "diag"])
def test_threads_do_not_change_a_bit(tau, covariance_type):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60_000, 4)) + rng.integers(0, 3, size=(60_000, 1)) * 2.0
    results = []
    try:
        for threads in (1, 2, 4):
            sinkhorn_em.set_num_threads(threads)
            results.append(fit(X, covariance_type, tau=tau, max_iter=5, tol=1e-3))
    finally:
        sinkhorn_em.set_num_threads(None)
    for other in results[1:]:
        np.testing.assert_array_equal(results[0].means_, other.means_)
        np.testing.assert_array_equal(results[0].lower_bounds_, other.lower_bounds_)
        np.testing.assert_array_equal(results[0].predict(X), other.predict(X))


def test_features_may_come_in_any_order():
    X = load_iris().data
    a, b = fit(X), fit(X[:, ::-1])
    np.testing.assert_array_equal(a.predict(X), b.predict(X[:, ::-1]))


@pytest.mark.parametrize("tau", [0, 1])
def test_float32_rows_give_the_float64_fit_of_the_same_numbers(tau):
    X = load_iris().data.astype(np.float32)
    a, b = fit(X, tau=tau), fit(X.astype(np.float64), tau=tau)
    np.testing.assert_allclose(a.means_, b.means_, rtol=1e-12)
    np.testing.assert_array_equal(a.predict(X), b.predict(X.astype(np.float64)))
