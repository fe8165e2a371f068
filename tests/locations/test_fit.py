"""Fits of means, against the general loop and the identities of EM."""

import numpy as np
import pytest
from unit_gaussian import UnitGaussian

import sinkhorn_em
from sinkhorn_em.em import Phase, State, run_phase
from sinkhorn_em.engines import InMemory
from sinkhorn_em.locations import fit_locations
from sinkhorn_em.ot import FixedMass, FreeMass

RULES = {0: FreeMass(), 1: FixedMass()}


def clusters(seed, n=300, K=3, d=1, separation=3.0):
    rng = np.random.default_rng(seed)
    return separation * rng.standard_normal((K, d))[rng.integers(0, K, n)] + rng.standard_normal((n, d))


def starts(X, B, K, seed=0):
    rng = np.random.default_rng(seed)
    return X[np.array([rng.choice(len(X), K, replace=False) for _ in range(B)])]


def loop(X, start, weights, tau, learned, max_iter):
    """The same iteration by the general loop."""
    engine = InMemory(np.asfortranarray(X), np.full(len(X), 1 / len(X)))
    phase = Phase(UnitGaussian(), RULES[tau], learned, max_iter, 0.0)
    return run_phase(engine, phase, State(start, weights, np.zeros(len(weights))))


@pytest.mark.parametrize(("tau", "learned"), [(0, False), (0, True), (1, False)])
def test_every_iteration_is_that_of_the_general_loop(tau, learned):
    # both loops do the same arithmetic but for the order of sums; potentials of an E-step are only as good as its tolerance,
    # so equality to 1e-9 also says that both stop their E-steps at the same pass
    X, weights, T = clusters(0), np.array([0.2, 0.3, 0.5]), 12
    M = starts(X, 3, 3)
    fits = fit_locations(X, M, weights, tau=tau, learn_weights=learned, max_iter=T, tol=0.0, record=True)
    for j in range(3):
        for t in range(T + 1):
            fit = loop(X, M[j], weights, tau, learned, t)
            np.testing.assert_allclose(fits.path[j, t], fit.state.parameters, rtol=0, atol=1e-9)
            np.testing.assert_allclose(fits.path_weights[j, t], fit.state.weights, rtol=0, atol=1e-9)
        np.testing.assert_allclose(fits.path_bounds[j], fit.bounds, rtol=0, atol=1e-9)
        np.testing.assert_allclose(fits.potentials[j], fit.state.potentials, rtol=0, atol=1e-7)
        np.testing.assert_allclose(fits.bounds[j], fit.bounds[-1], rtol=0, atol=1e-11)
    assert (fits.n_iter == T).all()
    assert not fits.converged.any()


@pytest.mark.parametrize("tau", [0, 1])
def test_the_bound_never_falls_and_a_fit_stops_when_it_stops_rising(tau):
    X = clusters(1, n=400, K=4, d=2)
    fits = fit_locations(X, starts(X, 20, 4), tau=tau, max_iter=5000, tol=1e-9, record=True)
    rise = np.diff(fits.path_bounds, axis=1)
    assert rise.min() > -1e-11  # an E-step may leave 1e-12 nats
    assert fits.converged.all()
    for j, n_iter in enumerate(fits.n_iter):
        assert rise[j, n_iter - 1] < 1e-9
        assert (rise[j, : n_iter - 1] >= 1e-9).all()
        assert (fits.path[j, n_iter:] == fits.means[j]).all()
        np.testing.assert_array_equal(fits.path_bounds[j, n_iter:], fits.bounds[j])


def test_the_bound_is_the_mean_log_likelihood_at_the_final_means():
    X, w = clusters(2, d=2), np.array([0.2, 0.3, 0.5])
    C = np.array([[1.0, 0.4], [0.4, 0.7]])
    fits = fit_locations(X, starts(X, 2, 3), w, tau=0, covariance=C, max_iter=7)
    deviations = X[None, :, None] - fits.means[:, None]
    log_f = -0.5 * np.einsum("bnkd,de,bnke->bnk", deviations, np.linalg.inv(C), deviations)
    log_f -= 0.5 * np.log(np.linalg.det(2 * np.pi * C))
    np.testing.assert_allclose(fits.bounds, np.log(np.exp(log_f) @ w).mean(axis=1), rtol=0, atol=1e-13)


@pytest.mark.parametrize("tau", [0, 1])
def test_what_is_recorded_does_not_change_the_fit(tau):
    X = clusters(9)
    silent, recorded = (
        fit_locations(X, starts(X, 3, 3), tau=tau, max_iter=9, tol=0.0, record=r) for r in (False, True)
    )
    np.testing.assert_array_equal(silent.means, recorded.means)
    np.testing.assert_array_equal(silent.bounds, recorded.bounds)
    assert silent.path is None
    assert recorded.path_bounds.shape == (3, 10)


@pytest.mark.parametrize("tau", [0, 1])
def test_weighted_rows_are_repeated_rows(tau):
    X = clusters(3, n=80)
    counts = np.random.default_rng(3).integers(0, 4, len(X))
    weighted = fit_locations(X, M := starts(X, 3, 3), tau=tau, row_mass=counts, max_iter=20, tol=0.0)
    repeated = fit_locations(np.repeat(X, counts, axis=0), M, tau=tau, max_iter=20, tol=0.0)
    np.testing.assert_allclose(weighted.means, repeated.means, rtol=0, atol=1e-9)
    np.testing.assert_allclose(weighted.bounds, repeated.bounds, rtol=0, atol=1e-12)


@pytest.mark.parametrize("tau", [0, 1])
def test_any_covariance_is_that_of_whitened_data(tau):
    X, C = clusters(4, d=2), np.array([[4.0, 1.5], [1.5, 1.0]])
    L = np.linalg.cholesky(C)
    M = starts(X, 3, 3)
    fits = fit_locations(X @ L.T, M @ L.T, tau=tau, covariance=C, max_iter=20, tol=0.0)
    white = fit_locations(X, M, tau=tau, max_iter=20, tol=0.0)
    np.testing.assert_allclose(fits.means, white.means @ L.T, rtol=0, atol=1e-9)
    np.testing.assert_allclose(fits.bounds, white.bounds - np.log(np.diag(L)).sum(), rtol=0, atol=1e-12)
    variance = fit_locations(3 * X, 3 * M, tau=tau, covariance=9.0, max_iter=20, tol=0.0)
    np.testing.assert_allclose(variance.means, 3 * white.means, rtol=0, atol=1e-9)


@pytest.mark.parametrize("tau", [0, 1])
def test_a_far_offset_costs_no_more_digits_than_the_data_lose(tau):
    X = clusters(5)
    fits = fit_locations(X, M := starts(X, 3, 3), tau=tau, max_iter=20, tol=0.0)
    far = fit_locations(X + 1e6, M + 1e6, tau=tau, max_iter=20, tol=0.0)
    np.testing.assert_allclose(far.means - 1e6, fits.means, rtol=0, atol=1e-7)  # 1e6 + x keeps 1e-10


@pytest.mark.parametrize("tau", [0, 1])
def test_a_symmetric_fit_moves_theta_as_in_mena_2020(tau):
    rng = np.random.default_rng(6)
    X = rng.choice([-1.0, 1.0], (500, 1)) + rng.standard_normal((500, 1))
    theta = np.array([0.3, 2.0])
    fits = fit_locations(X, np.stack([theta, -theta], axis=1)[..., None], tau=tau, symmetric=True, max_iter=1)
    if tau == 0:  # r_1 - r_2 = tanh(theta x)
        np.testing.assert_allclose(fits.means[:, 0, 0], (np.tanh(theta * X) * X).mean(axis=0), rtol=0, atol=1e-14)
    free = fit_locations(X, np.stack([theta, -theta], axis=1)[..., None], tau=tau, max_iter=1)
    if tau == 1:  # both masses are 1/2: theta is half the difference of the means
        half = 0.5 * (free.means[:, 0] - free.means[:, 1])
        np.testing.assert_allclose(
            fits.means[:, 0], half, rtol=0, atol=1e-4
        )  # what the first E-step may leave of the masses
    assert (fits.means[:, 1] == -fits.means[:, 0]).all()


def test_problems_choose_their_data_set():
    X = np.stack([clusters(seed) for seed in range(2)])
    M = np.concatenate([starts(X[0], 1, 3), starts(X[1], 1, 3)])
    each = fit_locations(X, M, max_iter=5)
    swapped = fit_locations(X, M[[1, 0, 1]], data=[1, 0, 1], max_iter=5)
    np.testing.assert_array_equal(swapped.means, each.means[[1, 0, 1]])
    alone = fit_locations(X[1], M[1:], max_iter=5)
    np.testing.assert_array_equal(alone.means[0], each.means[1])


def test_a_plan_that_misses_its_masses_is_no_convergence():
    """Starts 1e9 standard deviations away need potentials of 1e18 nats, far beyond what Newton follows; EM needs none."""
    X, M = np.arange(60.0)[:, None], 1e9 * np.array([[[1.0], [2.0], [-1.0]]])
    assert not fit_locations(X, M, tau=1).converged.any()
    assert fit_locations(X, M, tau=0).converged.all()


def test_a_component_without_mass_keeps_its_mean():
    X = clusters(7)
    M = np.array([[[0.0], [1.0], [1e4]]])
    fits = fit_locations(X, M, tau=0, learn_weights=True, max_iter=5)
    assert fits.means[0, 2, 0] == pytest.approx(1e4, abs=1e-11)  # there and back from the centred coordinates
    assert fits.weights[0, 2] == 0
    assert np.isfinite(fits.means).all()
    held = fit_locations(X, M, [0.5, 0.5, 0.0], tau=1, max_iter=5)
    assert np.isneginf(held.potentials[0, 2])
    assert np.isfinite(held.bounds).all()


@pytest.mark.parametrize("tau", [0, 1])
def test_the_bits_do_not_depend_on_the_number_of_threads(tau):
    X = clusters(8, d=2)
    results = []
    for n_threads in (1, 2):
        sinkhorn_em.set_num_threads(n_threads)
        results.append(fit_locations(X, starts(X, 30, 3), tau=tau, record=True, max_iter=30))
    sinkhorn_em.set_num_threads(None)
    for one, two in zip(*results, strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"X": np.zeros(3)}, r"X has shape \(3,\); it must be \(n, d\)"),
        ({"X": np.full((3, 1), np.inf)}, "X has entries that are NaN or infinite"),
        ({"means": np.zeros((2, 1))}, r"means has shape \(2, 1\); it must be \(B, K, 1\)"),
        ({"means": np.full((1, 2, 1), np.nan)}, "means has entries that are NaN"),
        ({"weights": [0.5, -0.5]}, r"weights\[0, 1\] is -0.5"),
        ({"tau": 0.5}, "tau is 0.5"),
        ({"learn_weights": True}, "learn_weights is True and tau is 1"),
        ({"covariance": -1.0}, "covariance is -1.0; a variance must be positive"),
        ({"covariance": np.eye(2)}, r"covariance has shape \(2, 2\)"),
        (
            {"X": np.zeros((3, 2)), "means": np.zeros((1, 2, 2)), "covariance": np.ones((2, 2)) - np.eye(2)},
            "eigenvalue -1",
        ),
        ({"symmetric": True}, r"means\[0\] is .*; the second mean must be minus the first"),
        ({"symmetric": True, "means": np.zeros((1, 3, 1))}, "a symmetric mixture has K = 2"),
        ({"data": [1]}, "data has entries from 1 to 1; they must be among the data sets, 0 to 0"),
        ({"X": np.zeros((2, 3, 1))}, "data is None, with 2 data sets and 1 problems"),
        ({"row_mass": np.ones(2)}, r"row_mass has shape \(2,\)"),
        ({"max_iter": -1}, "max_iter is -1"),
        ({"tol": -1.0}, "tol is -1.0"),
        ({"X": np.array([[0.0], [1e200]])}, "X has entries of .* standard deviations; they must be at most 1e.140"),
        ({"means": np.full((1, 2, 1), 1e200)}, "means has entries of 1e.200 standard deviations"),
        ({"X": np.array([[0.0], [1.0]]), "covariance": 1e-300}, "X has entries of 5e.149 standard deviations"),
    ],
)
def test_mistakes_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        fit_locations(**{"X": np.zeros((3, 1)), "means": np.array([[[0.0], [1.0]]]), **options})
