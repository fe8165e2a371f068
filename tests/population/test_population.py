"""Expectations under a mixture, and the stationary points of EM and Sinkhorn-EM with an infinite sample."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import fixed_quad
from scipy.special import expit, log_expit, logit
from scipy.stats import norm

from sinkhorn_em import solve_plan
from sinkhorn_em.locations import hessian
from sinkhorn_em.population import (
    asymptotic_factor,
    fixed_points,
    population_map,
    population_rows,
    spurious_threshold,
    tilted_weight,
)

ROUNDING = 1e-13  # sums of a thousand terms of order 1


def log_densities(rows, *means):
    return -((rows - np.array(means)) ** 2) / 2 - np.log(2 * np.pi) / 2


def symmetric_rows(alpha, theta_star, **options):
    return population_rows([alpha, 1 - alpha], [[theta_star], [-theta_star]], **options)


def exact_mean(f, alpha, theta_star):
    """E f(Y) by Gauss-Legendre on pieces of half a unit, where 24 nodes see a sharp posterior as smooth."""

    def integrand(y):
        return f(y) * (alpha * norm.pdf(y, theta_star) + (1 - alpha) * norm.pdf(y, -theta_star))

    pieces = pairwise(np.linspace(-theta_star - 9, theta_star + 9, 40))  # beyond them 1e-19 of the mass
    return sum(fixed_quad(integrand, *piece, n=24)[0] for piece in pieces)


def log_mixture(y, theta, alpha):
    return np.logaddexp(np.log(alpha) + norm.logpdf(y, theta), np.log1p(-alpha) + norm.logpdf(y, -theta))


# rows


def test_moments_are_those_of_the_mixture():
    w, m = np.array([0.2, 0.5, 0.3]), np.array([[0.0, 1.0], [4.0, -2.0], [9.0, 9.0]])
    covariance = np.array([[2.0, 0.6], [0.6, 0.5]])
    rows, masses = population_rows(w, m, covariance=covariance)
    centred = rows - w @ m
    between = (m - w @ m).T @ np.diag(w) @ (m - w @ m)
    assert masses.sum() == pytest.approx(1, abs=ROUNDING)
    np.testing.assert_allclose(masses @ rows, w @ m, rtol=ROUNDING)
    np.testing.assert_allclose(
        (centred.T * masses) @ centred, covariance + between, rtol=1e-11
    )  # 200 000 terms up to 100


@pytest.mark.parametrize("rule", ["trapezoid", "hermite"])
def test_components_may_have_covariances_of_their_own(rule):
    rows, masses = population_rows([0.5, 0.5], [[0.0], [3.0]], covariance=[[[1.0]], [[4.0]]], n_nodes=64, rule=rule)
    assert masses @ rows[:, 0] ** 2 == pytest.approx(0.5 * 1 + 0.5 * (4 + 9), rel=ROUNDING)


def test_a_component_without_weight_has_no_rows():
    rows, masses = population_rows([1.0, 0.0], [[0.0], [5.0]], n_nodes=30)
    assert rows.shape == (30, 1) and masses.all()


@pytest.mark.parametrize("theta", [-5.0, 0.5, 2.0, 5.0])
@pytest.mark.parametrize("theta_star", [1.0, 5.0])
def test_negative_log_likelihood_is_exact(theta, theta_star):
    rows, masses = symmetric_rows(0.7, theta_star)
    value = solve_plan(log_densities(rows, theta, -theta), masses, [0.7, 0.3], tau=0).value
    exact = exact_mean(lambda y: log_mixture(y, theta, 0.7), 0.7, theta_star)
    assert value == pytest.approx(exact, abs=1e-12)  # the rule errs by 7e-15, the sum of terms up to 100 by more


@pytest.mark.parametrize("theta", [-5.0, 0.5, 2.0, 5.0])
def test_sinkhorn_objective_is_exact(theta):
    rows, masses = symmetric_rows(0.7, 1.0)
    plan = solve_plan(log_densities(rows, theta, -theta), masses, [0.7, 0.3], tau=1)
    a = tilted_weight(theta, 0.7, 1.0)
    share = exact_mean(lambda y: expit(2 * theta * y + logit(a)), 0.7, 1.0)
    exact = exact_mean(lambda y: log_mixture(y, theta, a), 0.7, 1.0)
    assert share == pytest.approx(0.7, abs=1e-12)  # the tilted weight gives the component its mass
    divergence = 0.7 * np.log(0.7 / a) + 0.3 * np.log(0.3 / (1 - a))
    assert plan.value == pytest.approx(exact + divergence, abs=1e-9)  # -L = -l(theta, a) + KL(alpha | a); plan to 1e-9


def test_trapezoid_beats_hermite_on_a_sharp_posterior():
    exact = exact_mean(lambda y: np.tanh(5 * y + logit(0.7) / 2) * y, 0.7, 1.0)
    error = {}
    for rule, n_nodes in (("trapezoid", 256), ("hermite", 400)):
        rows, masses = symmetric_rows(0.7, 1.0, rule=rule, n_nodes=n_nodes)
        error[rule] = abs(masses @ (np.tanh(5 * rows[:, 0] + logit(0.7) / 2) * rows[:, 0]) - exact)
    assert error["trapezoid"] < ROUNDING
    assert 1e-8 < error["hermite"] < 1e-6  # what the docstring says of it


def test_expectations_in_the_plane_are_those_on_a_line():
    line, masses = symmetric_rows(0.6, 2.0)
    direction = np.array([0.6, 0.8])
    plane, plane_masses = population_rows([0.6, 0.4], np.outer([2.0, -2.0], direction))
    along = plane @ direction
    assert plane_masses @ log_expit(4 * along) == pytest.approx(masses @ log_expit(4 * line[:, 0]), abs=ROUNDING)


# the symmetric mixture


@pytest.mark.parametrize("tau", [0.0, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("theta", [-2.0, 0.3, 1.0, 3.0])
def test_map_is_an_iteration_on_the_population_rows(tau, theta):
    rows, masses = symmetric_rows(0.7, 1.0)
    plan = solve_plan(log_densities(rows, theta, -theta), masses, [0.7, 0.3], tau=tau, tol=1e-12)
    iterated = (plan.rows.matrix @ [1, -1]) @ rows[:, 0]
    assert population_map(theta, 0.7, 1.0, tau=tau) == pytest.approx(iterated, abs=1e-10)  # tol times |y|


def test_map_of_many_means_is_that_of_each():
    theta = np.array([[-2.0, 0.0, 0.1], [1.0, 4.0, 9.0]])
    each = [[population_map(t, 0.6, 1.5, tau=1.0) for t in row] for row in theta]
    np.testing.assert_allclose(population_map(theta, 0.6, 1.5, tau=1.0), each, atol=ROUNDING)


def test_tilted_weights_have_the_right_values():
    right = [0.931, 0.673, 0.700, 0.782, 0.856]  # independent quadrature, to a unit of the last digit
    np.testing.assert_allclose(tilted_weight([-1, 0.5, 1, 2, 3], 0.7, 1.0), right, atol=1e-3)
    assert tilted_weight(1.0, 0.7, 1.0) == pytest.approx(0.7, abs=ROUNDING)
    assert tilted_weight(-3.0, 0.7, 1.0, tau=0) == pytest.approx(0.7, abs=ROUNDING)


def test_mean_responsibility_is_the_weight_at_the_tilted_weight():
    rows, masses = symmetric_rows(0.6, 2.0)
    theta = np.linspace(-4, 4, 17)
    offsets = logit(tilted_weight(theta, 0.6, 2.0))
    np.testing.assert_allclose(
        masses @ expit(2 * rows * theta + offsets), 0.6, rtol=1e-10
    )  # weights near 1 lose digits in log odds


def test_far_means_put_the_boundary_at_a_quantile():
    rows, masses = symmetric_rows(0.6, 2.0, n_nodes=5100)
    order = np.argsort(rows[:, 0])
    share, partial_mean = np.cumsum(masses[order]), np.cumsum((masses * rows[:, 0])[order])
    mean = partial_mean[-1]
    lower = (
        2 * np.interp(0.6, share, partial_mean) - mean
    )  # the component of weight .6, at -100, takes the lower .6 of Y
    upper = mean - 2 * np.interp(0.4, share, partial_mean)  # or at 100 the upper
    mapped = population_map([-100.0, 100.0], 0.6, 2.0, tau=1)
    np.testing.assert_allclose(mapped, [lower, upper], atol=1e-3)  # the responsibility is a step of width 1/200


def test_underflow_far_from_the_root_does_no_harm():
    assert np.isfinite(population_map(np.linspace(-40, 0, 41), expit(36.0), 40.0, tau=1)).all()


@pytest.mark.parametrize(
    ("theta_star", "tau", "spurious"), [(1.0, 0, -0.979), (1.0, 1, -0.846), (2.0, 0, -1.998), (2.0, 1, -1.580)]
)
def test_spurious_root_at_weight_six_tenths(theta_star, tau, spurious):
    roots = fixed_points(0.6, theta_star, tau=tau)
    assert len(roots) == 3
    assert roots[0] == pytest.approx(spurious, abs=1e-3)  # independent quadrature, three digits
    assert spurious < roots[1] < 0
    assert roots[2] == pytest.approx(theta_star, abs=1e-10)
    np.testing.assert_allclose(population_map(roots, 0.6, theta_star, tau=tau), roots, atol=1e-12)


@pytest.mark.parametrize("tau", [0.0, 0.5, 1.0])
def test_equal_weights_have_the_truth_its_mirror_and_zero(tau):
    np.testing.assert_allclose(fixed_points(0.5, 1.0, tau=tau), [-1, 0, 1], atol=1e-11)


@pytest.mark.parametrize("tau", [0.0, 0.5, 1.0])
def test_weight_and_its_complement_are_the_same_problem(tau):  # by the reflection Y -> -Y and an exchange of names
    theta = np.array([-2.0, -0.7, 0.4, 3.0])
    one, other = (population_map(theta, alpha, 1.0, tau=tau) for alpha in (0.4, 0.6))
    np.testing.assert_allclose(one, other, atol=ROUNDING)


RIGHT_THRESHOLDS = {  # independent quadrature, +-.002
    0: {0.5: 0.6256, 0.75: 0.6911, 1.0: 0.7606, 1.5: 0.8984, 2.0: 0.9797, 3.0: 1.000},
    1: {0.5: 0.6119, 0.75: 0.6504, 1.0: 0.6774, 1.5: 0.7086, 2.0: 0.7237, 3.0: 0.7367},
}


@pytest.mark.parametrize("tau", [0, 1])
@pytest.mark.parametrize("theta_star", [0.5, 0.75, 1.0, 1.5, 2.0, 3.0])
def test_thresholds_have_the_right_values(theta_star, tau):
    assert spurious_threshold(theta_star, tau=tau) == pytest.approx(RIGHT_THRESHOLDS[tau][theta_star], abs=2e-3)


def test_thresholds_tend_to_three_quarters_and_to_one():
    errors = [0.75 - spurious_threshold(theta_star, tau=1) for theta_star in (3.0, 6.0, 12.0)]
    assert all(errors[i] > 3 * errors[i + 1] > 0 for i in range(2))  # it nears 3/4 as theta*^-2
    assert errors[-1] < 2e-3
    assert spurious_threshold(6.0, tau=0) == pytest.approx(1, abs=1e-8)


def test_threshold_falls_as_the_weights_are_held_more():
    thresholds = [spurious_threshold(1.0, tau=tau) for tau in (0.0, 0.5, 0.9, 1.0)]
    assert all(np.diff(thresholds) < 0)


@pytest.mark.parametrize("tau", [0.0, 1.0])
def test_two_negative_roots_merge_at_the_threshold(tau):
    threshold = spurious_threshold(1.0, tau=tau)
    below, above = (fixed_points(threshold + shift, 1.0, tau=tau) for shift in (-1e-7, 1e-7))
    assert len(below) == 3 and len(above) == 1
    assert 0 < below[1] - below[0] < 2e-2  # nearer than two nodes of the grid: a fold, so of order sqrt(1e-7)


# errors name the parameter, the rule and the remedy


@pytest.mark.parametrize("tau", [0.0, 0.4, 1.0])
@pytest.mark.parametrize(("alpha", "theta_star"), [(0.5, 1.0), (0.7, 1.0), (0.9, 2.0), (0.6, 4.0)])
def test_asymptotic_factor_is_the_derivative_of_the_map(alpha, theta_star, tau):
    """Central differences of step 1e-4 err by a few 1e-8, rounding by 1e-12."""
    step = 1e-4
    low, high = population_map([theta_star - step, theta_star + step], alpha, theta_star, tau=tau)
    assert asymptotic_factor(alpha, theta_star, tau=tau) == pytest.approx((high - low) / (2 * step), abs=2e-7)


@pytest.mark.parametrize("tau", [0.0, 1.0])
def test_asymptotic_factor_is_one_less_the_curvature(tau):
    rows, masses = population_rows([0.7, 0.3], [[1.0], [-1.0]])
    H = hessian(rows, [[[1.0], [-1.0]]], [0.7, 0.3], tau=tau, row_mass=masses)[0]
    curvature = H[0, 0] - H[0, 1] - H[1, 0] + H[1, 1]
    assert asymptotic_factor(0.7, 1.0, tau=tau) == pytest.approx(1 - curvature, abs=1e-10)


@pytest.mark.parametrize("tau", [0, 0.5, 1])
def test_clusters_without_overlap_have_an_asymptotic_factor_of_zero(tau):
    assert asymptotic_factor(0.7, 50.0, tau=tau) == 0


def test_the_closest_means_that_are_allowed_have_their_three_roots():
    np.testing.assert_allclose(fixed_points(0.5, 0.01, tau=1), [-0.01, 0, 0.01], atol=1e-9)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: population_rows([0.5, 0.6], [[0.0], [1.0]]), "weights=.* sum to 1"),
        (lambda: population_rows([1.0], [0.0]), "as a column"),
        (lambda: population_rows([1.0], [[0.0]], n_nodes=1), "n_nodes=1 must be an integer of at least 2"),
        (lambda: population_rows([1.0], [[0.0] * 3]), "pass n_nodes=170 or fewer"),
        (lambda: population_rows([1.0], [[0.0]], rule="simpson"), "rule='simpson' must be"),
        (lambda: population_rows([1.0], [[0.0]], covariance=-1.0), "positive definite"),
        (lambda: population_rows([1.0], [[0.0]], covariance=np.nan), "finite"),
        (lambda: population_rows([1.0], [[0.0]], covariance=[1.0]), "covariance of shape"),
        (lambda: fixed_points(1.0, 1.0, tau=0), "alpha=1.0 must be a weight in"),
        (lambda: fixed_points(0.6, -1.0, tau=0), "theta_star=-1.0 must be positive"),
        (lambda: fixed_points(0.5, 1e-3, tau=1), "theta_star=0.001 must be at least 0.01"),
        (lambda: spurious_threshold(1e-7, tau=0), "theta_star=1e-07 must be at least 0.01"),
        (lambda: spurious_threshold(1.0, tau=2), "tau=2 must be in"),
        (lambda: population_map(np.inf, 0.6, 1.0, tau=0), "theta=inf must be finite"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
