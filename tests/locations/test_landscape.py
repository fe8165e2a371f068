"""The loss as a function of the means: its value, and derivatives against differences."""

import numpy as np
import pytest

from sinkhorn_em.locations import fit_locations, gradient, hessian, objective
from sinkhorn_em.ot import solve_plan

C = np.array([[1.5, 0.4], [0.4, 0.8]])
W = np.array([0.2, 0.3, 0.5])


def points(seed=0, n=200, B=3, K=3, d=2):
    rng = np.random.default_rng(seed)
    X = 2 * rng.standard_normal((K, d))[rng.integers(0, K, n)] + rng.standard_normal((n, d)) + 10
    return X, 10 + 2 * rng.standard_normal((B, K, d)), rng.integers(1, 4, n)


def central_differences(function, M, step):
    """d function / d means, (B, K d, ...), by central differences of second order."""
    slopes = []
    for k, q in np.ndindex(M.shape[1:]):
        shift = np.zeros(M.shape[1:])
        shift[k, q] = step
        slopes.append((function(M + shift) - function(M - shift)) / (2 * step))
    return np.stack(slopes, axis=1)


def test_the_two_losses_are_the_likelihood_and_the_value_of_a_transport_plan():
    X, M, a = points()
    deviations = X[None, :, None] - M[:, None]
    log_f = -0.5 * np.einsum("bnkd,de,bnke->bnk", deviations, np.linalg.inv(C), deviations)
    log_f -= 0.5 * np.log(np.linalg.det(2 * np.pi * C))
    for tau in (0, 1):
        values = objective(X, M, W, tau=tau, covariance=C, row_mass=a)
        plans = [-solve_plan(np.asfortranarray(S), a / a.sum(), W, tau=tau).value for S in log_f]
        np.testing.assert_allclose(values, plans, rtol=0, atol=1e-12)


def test_the_transport_loss_is_never_smaller_than_the_likelihoods():
    X, M, _ = points(B=30)
    assert (objective(X, M, W, tau=1) >= objective(X, M, W, tau=0) - 1e-13).all()


def test_the_loss_is_minus_the_bound_of_a_fit():
    X, M, _ = points()
    for tau in (0, 1):
        fits = fit_locations(X, M, W, tau=tau, max_iter=5)
        np.testing.assert_allclose(objective(X, fits.means, W, tau=tau), -fits.bounds, rtol=0, atol=1e-12)


@pytest.mark.parametrize("tau", [0, 1])
def test_the_gradient_is_the_slope_of_the_loss(tau):
    X, M, a = points()
    options = {"tau": tau, "covariance": C, "row_mass": a}
    # step h: truncation h^2/6 times a third derivative of order 1, rounding 1e-15/h: both below 1e-9 at h = 1e-5
    slopes = central_differences(lambda M: objective(X, M, W, **options), M, 1e-5)
    np.testing.assert_allclose(gradient(X, M, W, **options).reshape(3, -1), slopes, rtol=0, atol=1e-7)


@pytest.mark.parametrize("tau", [0, 1])
def test_the_hessian_is_the_slope_of_the_gradient(tau):
    X, M, a = points(1)
    options = {"tau": tau, "covariance": C, "row_mass": a}
    slopes = central_differences(lambda M: gradient(X, M, W, **options).reshape(3, -1), M, 1e-5)
    H = hessian(X, M, W, **options)
    np.testing.assert_allclose(H, slopes, rtol=0, atol=1e-7)  # the gradient is good to 1e-11, over 2e-5
    np.testing.assert_allclose(H, H.transpose(0, 2, 1), rtol=0, atol=1e-12)


@pytest.mark.parametrize("tau", [0, 1])
def test_the_gradient_vanishes_where_a_fit_stops_and_the_hessian_is_positive_at_a_minimum(tau):
    X, M, _ = points(2)
    fits = fit_locations(X, M, W, tau=tau, max_iter=3000, tol=0.0)
    np.testing.assert_allclose(gradient(X, fits.means, W, tau=tau), 0, atol=1e-8)  # held masses are off by up to 1e-9
    best = fits.bounds.argmax()
    assert np.linalg.eigvalsh(hessian(X, fits.means[best : best + 1], W, tau=tau)[0]).min() > 0


def test_components_without_weight_do_not_count():
    X, M, _ = points()
    w = np.array([0.4, 0.6, 0.0])
    for tau in (0, 1):
        for function in (objective, gradient, hessian):
            whole, part = function(X, M, w, tau=tau), function(X, M[:, :2], w[:2], tau=tau)
            if function is gradient:
                assert (whole[:, 2] == 0).all()
                whole = whole[:, :2]
            if function is hessian:
                assert (whole[:, 4:] == 0).all()
                whole = whole[:, :4, :4]
            np.testing.assert_allclose(whole, part, rtol=0, atol=1e-9)


def test_many_points_are_worked_on_in_pieces(monkeypatch):
    X, M, _ = points(B=7)
    results = [f(X, M, W, tau=1) for f in (objective, gradient, hessian)]
    monkeypatch.setattr("sinkhorn_em.locations.landscape._CHUNK_BYTES", 2 * 8 * 3 * len(X))
    for f, result in zip((objective, gradient, hessian), results, strict=True):
        np.testing.assert_array_equal(f(X, M, W, tau=1), result)


@pytest.mark.parametrize("function", [objective, gradient, hessian])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"X": np.zeros((2, 3, 1))}, r"X has shape \(2, 3, 1\); it must be \(n, d\), not empty"),
        ({"means": np.zeros((2, 1))}, r"means has shape \(2, 1\)"),
        ({"weights": np.ones(3)}, r"weights has shape \(3,\); it must be \(2,\), or \(1, 2\)"),
        ({"tau": 2}, "tau is 2"),
        ({"means": np.full((1, 2, 1), 1e200)}, "means has entries of 1e.200 standard deviations"),
        ({"covariance": 0.0}, "covariance is 0.0"),
        ({"row_mass": [1.0, np.nan, 1.0]}, r"row_mass\[0, 1\] is nan"),
    ],
)
def test_mistakes_are_named(function, options, message):
    with pytest.raises(ValueError, match=message):
        function(**{"X": np.zeros((3, 1)), "means": np.zeros((1, 2, 1)), "tau": 1, **options})
