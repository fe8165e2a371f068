"""Against the exact likelihood and posterior of small matrices, summed over all labels, densities by scipy."""

import numpy as np
import pytest
import sklearn.mixture
from block_matrices import FAMILIES
from co_clusterings import blocks, bound, cell_scores, exact, fit, fitted_bound, left_out
from scipy.optimize import minimize
from scipy.special import logsumexp

from sinkhorn_em import LatentBlockModel
from sinkhorn_em.block_families import BLOCK_FAMILIES
from sinkhorn_em.coclustering.loop import Side, assign
from sinkhorn_em.ot import rule_for_tau

every_family = pytest.mark.parametrize("name", FAMILIES)
few_families = pytest.mark.parametrize(
    "name",
    [
        "gaussian-common",
        "gaussian-block",
        "poisson-None",
        "poisson-both",
        "bernoulli",
        "negative_binomial-held",
        "multinomial",
    ],
)
TIGHT = {"tol": 0, "max_iter": 400}  # to the last digit: gaps below are those of the optimum


def test_every_registered_family_is_tested_here():
    assert {name.split("-")[0] for name in FAMILIES} == set(BLOCK_FAMILIES)


def small(name, shape=(6, 5), K=2, L=2, seed=0, gap=1.0):
    """A small matrix with a positive count in every row and column."""
    X, z, w = blocks(name, shape, K, L, seed, gap)
    X[0, X.sum(axis=0) == 0] = 1
    X[X.sum(axis=1) == 0, 0] = 1
    return X, z, w


@every_family
@pytest.mark.parametrize(
    ("tau", "weights", "missing"),
    [(0, "learned", False), (0.5, [0.6, 0.4], False), (1, "learned", True), (1, [0.6, 0.4], True)],
    ids=["vem", "half, prescribed", "svem, missing", "svem, prescribed, missing"],
)
def test_the_bound_is_below_the_exact_likelihood(name, tau, weights, missing):
    X, z, w = small(name)
    mask = left_out(X.shape) if missing else None
    model = fit(name, X, 2, 2, mask, (z, w), tau=tau, row_weights=weights, column_weights=weights, max_iter=20)
    S = cell_scores(name, X, model, mask)
    likelihood, _, _ = exact(S, model.row_weights_, model.column_weights_)
    assert model.bound_ <= likelihood + 1e-9 * (1 + abs(likelihood))
    assert model.bound_ == pytest.approx(fitted_bound(name, X, model, mask), rel=1e-9)
    rng = np.random.default_rng(0)  # so is that of any responsibilities
    T, N = rng.dirichlet([1, 1], 6), rng.dirichlet([1, 1], 5)
    assert bound(S, T, N, model.row_weights_, model.column_weights_) < likelihood


@few_families
def test_three_clusters_of_rows_are_enumerated_too(name):
    X, z, w = small(name, (6, 4), K=3, seed=1)
    model = fit(name, X, 3, 2, labels=(z, w), tau=0, max_iter=20)
    likelihood, _, _ = exact(cell_scores(name, X, model), model.row_weights_, model.column_weights_)
    assert model.bound_ <= likelihood + 1e-9 * abs(likelihood)


@few_families
@pytest.mark.parametrize("side", ["rows", "columns"])
def test_mean_field_is_exact_with_one_cluster_on_the_other_side(name, side):
    shape, (K, L) = ((6, 5), (2, 1)) if side == "rows" else ((5, 6), (1, 2))
    X, z, w = small(name, shape, K, L)
    model = fit(name, X, K, L, labels=(z, w), tau=0, row_weights="uniform", column_weights="uniform", **TIGHT)
    likelihood, rows, columns = exact(cell_scores(name, X, model), model.row_weights_, model.column_weights_)
    # the fit stops when a sweep gains nothing that can be seen, 1e-16 |J|: gaps are of that order, posteriors of its root
    assert model.bound_ == pytest.approx(likelihood, rel=1e-10, abs=1e-10)
    np.testing.assert_allclose(model.row_responsibilities_, rows, atol=1e-5)
    np.testing.assert_allclose(model.column_responsibilities_, columns, atol=1e-5)


SEPARATED = {
    "gaussian": lambda level: 20.0 * level + np.random.default_rng(0).normal(size=level.shape),
    "poisson": lambda level: np.random.default_rng(0).poisson(40.0 * level**2) + 1.0,
    "bernoulli": lambda level: (level > 1).astype(float),
    "negative_binomial": lambda level: np.random.default_rng(0).poisson(40.0 * level**2) + 1.0,
    "multinomial": lambda level: level.astype(float),
}


@pytest.mark.parametrize("name", BLOCK_FAMILIES)
@pytest.mark.parametrize("tau", [0, 1])
def test_the_bound_is_attained_by_separated_blocks(name, tau):
    z, w = np.array([0, 1, 0, 1, 0, 1]), np.array([0, 1, 1, 0])
    X = SEPARATED[name](np.array([[0, 3], [2, 1]])[np.ix_(z, w)])
    member = next(of for of in FAMILIES if of.startswith(name))
    model = fit(member, X, 2, 2, labels=(z, w), tau=tau, row_weights="uniform", column_weights="uniform")
    likelihood, rows, columns = exact(cell_scores(member, X, model), model.row_weights_, model.column_weights_)
    if name == "bernoulli":  # any labels of the rows swapped with those of the columns fit as well
        assert likelihood - model.bound_ < np.log(4) + 1e-6
        return
    # in the sum over labels each pair of equal rows, or of clusters, counts: none is equal here
    assert 0 <= likelihood - model.bound_ + 1e-9 < 1e-6
    np.testing.assert_allclose(model.row_responsibilities_, rows, atol=1e-6)
    np.testing.assert_allclose(model.column_responsibilities_, columns, atol=1e-6)
    np.testing.assert_array_equal(model.row_labels_, z)
    np.testing.assert_array_equal(model.column_labels_, w)


def test_one_row_is_a_gaussian_mixture_of_its_cells():
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(0, 1, 60), rng.normal(4, 0.5, 40)])
    model = LatentBlockModel(1, 2, tau=0, tol=1e-15, max_iter=2000)
    model.fit(x[None], row_labels=[0], column_labels=(x > 2).astype(int))
    theirs = sklearn.mixture.GaussianMixture(2, means_init=[[0], [4]], tol=1e-14, max_iter=2000, reg_covar=0)
    theirs.fit(x[:, None])
    assert model.bound_ == pytest.approx(100 * theirs.score(x[:, None]), rel=1e-10)
    np.testing.assert_allclose(model.block_parameters_["means"][0], theirs.means_[:, 0], atol=1e-4)
    np.testing.assert_allclose(model.column_weights_, theirs.weights_, atol=1e-4)
    np.testing.assert_array_equal(model.column_labels_, theirs.predict(x[:, None]))


def test_one_row_cluster_is_em_of_a_mixture_of_columns():
    X, z, w = blocks("poisson-None", (8, 60), 1, 2, gap=0.3)
    total, n = X.sum(axis=0), len(X)
    R, values = np.eye(2)[w], []
    for _ in range(12):  # the start has had one column step, and weights move at the end of a sweep
        rates, pi = R.T @ total / (n * R.sum(axis=0)), R.mean(axis=0) if len(values) > 1 else np.full(2, 0.5)
        S = np.outer(total, np.log(rates)) - n * rates + np.log(pi)
        values.append(logsumexp(S, axis=1).sum())
        R = np.exp(S - logsumexp(S, axis=1, keepdims=True))
    model = fit("poisson-None", X, 1, 2, labels=(z, w), tau=0, tol=0, max_iter=11)
    constant = model.bounds_[0, 2] - values[1]  # minus the sum of log x!
    np.testing.assert_allclose(model.bounds_[:11, 2] - constant, values[1:], rtol=1e-12)


@pytest.mark.parametrize("name", ["gaussian-block", "poisson-None", "bernoulli"])
def test_held_sizes_give_the_minimum_over_tilted_weights(name):
    X, z, w = blocks(name, (9, 4), 3, 1)
    pi = np.array([0.2, 0.3, 0.5])
    model = fit(name, X, 3, 1, labels=(z, w), row_weights=pi, **TIGHT)
    S = cell_scores(name, X, model)[:, 0].sum(axis=2).T  # (n, K)

    def dual(g):
        return logsumexp(S + np.log(pi) + g, axis=1).sum() - len(S) * pi @ g

    best = minimize(dual, np.zeros(3), method="BFGS", options={"gtol": 1e-9})
    assert model.bound_ == pytest.approx(best.fun, rel=1e-8)


@pytest.mark.parametrize("seed", range(5))
def test_holding_sizes_costs_and_the_more_the_larger_tau(seed):
    rng = np.random.default_rng(seed)
    S, weights = 3 * rng.normal(size=(40, 4)), rng.dirichlet(np.ones(4))
    side = Side(np.empty((0, 4)), weights, np.zeros(4))
    values = []
    for tau in (0, 0.3, 0.7, 0.95, 1):
        moved, value, _ = assign(S, side, rule_for_tau(tau))
        T = moved.responsibilities
        assert np.vdot(T, S) - moved.divergence == pytest.approx(value, abs=1e-9)
        values.append(value)
    assert values[0] == pytest.approx(logsumexp(S + np.log(weights), axis=1).sum(), rel=1e-13)
    assert (np.diff(values) < 0).all()


@pytest.mark.parametrize("scale", [1.0, 30.0, 1000.0])
@pytest.mark.parametrize("tau", [0.5, 1])
def test_the_value_of_a_step_is_that_of_its_responsibilities(scale, tau):
    """Scores are sums over hundreds of cells: plans are near-hard, and potentials hundreds of nats."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        S, weights = scale * rng.normal(size=(60, 5)), rng.dirichlet(np.full(5, 2.0))
        moved, value, _ = assign(S, Side(np.empty((0, 5)), weights, np.zeros(5)), rule_for_tau(tau))
        T = moved.responsibilities
        mass = T.mean(axis=0)
        J = np.vdot(T, S) - np.vdot(T, np.log(np.where(T > 0, T, 1.0) / weights))
        J -= 0 if tau == 1 else 60 * mass @ np.log(mass / weights)
        # held masses are met to 1e-12, and potentials of some thousand nats are what they cost
        assert value == pytest.approx(J, abs=1e-9 * scale)
