"""What the theory says of Sinkhorn-EM, on any data (Mena et al. 2020; Mena 2026)."""

import numpy as np
import pytest
from scipy.special import logsumexp, rel_entr
from sklearn.datasets import load_iris, load_wine

from sinkhorn_em import GaussianMixture, solve_plan
from sinkhorn_em.datasets import load_crabs, load_faithful

DATA = {
    "faithful": lambda: load_faithful().data,
    "iris": lambda: load_iris().data,
    "crabs": lambda: load_crabs().data,
    "wine": lambda: load_wine().data,
}
quiet = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def log_density(X, means, covariances):
    """(n, K), by the definition."""
    d = X.shape[1]
    columns = []
    for m, S in zip(means, covariances, strict=True):
        L = np.linalg.cholesky(S)
        z = np.linalg.solve(L, (X - m).T)
        columns.append(-0.5 * (z**2).sum(axis=0) - np.log(np.diagonal(L)).sum() - 0.5 * d * np.log(2 * np.pi))
    return np.column_stack(columns)


def parameters(seed, X, K):
    rng = np.random.default_rng(seed)
    means = X[rng.choice(len(X), K, replace=False)]
    return means, np.repeat(np.cov(X.T)[None] / 4, K, axis=0), rng.dirichlet(np.full(K, 3.0))


@quiet
@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("weights", ["learned", "uniform", [0.2, 0.3, 0.5]])
@pytest.mark.parametrize("tau", [0, 0.3, 0.7, 1, [0.0, 0.5, 1.0]])
@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag", "spherical"])
def test_the_bound_never_falls(data, weights, tau, covariance_type):
    X = DATA[data]()
    for seed in range(2):
        model = GaussianMixture(
            3,
            tau=tau,
            weights=weights,
            covariance_type=covariance_type,
            init_params="random_from_data",
            random_state=seed,
            max_iter=200,
            tol=1e-9,
        ).fit(X)
        assert np.diff(model.lower_bounds_).min() > -1e-10 * abs(model.lower_bound_)


@quiet
@pytest.mark.parametrize(
    "options", [{"trim": 0.1}, {"size_bounds": (0.2, 0.5)}, {"trim": 0.05, "size_bounds": (0.25, 0.4)}]
)
@pytest.mark.parametrize("weights", ["learned", "uniform"])
def test_the_bound_never_falls_with_trimming_or_bounds(options, weights):
    X = load_iris().data
    model = GaussianMixture(3, weights=weights, random_state=1, max_iter=100, tol=1e-9, **options).fit(X)
    assert np.diff(model.lower_bounds_).min() > -1e-10 * abs(model.lower_bound_)


@pytest.mark.parametrize("seed", range(5))
def test_the_transport_loss_is_an_upper_bound_attained_at_the_tilted_weights(seed):
    X = load_iris().data
    means, covariances, b = parameters(seed, X, 3)
    S = log_density(X, means, covariances)

    def loss(a):
        return -logsumexp(S + np.log(a), axis=1).mean()

    plan = solve_plan(S, None, b)
    L = -plan.value
    assert loss(b) <= L + 1e-12
    tilted = b * np.exp(plan.potentials)
    tilted /= tilted.sum()
    assert loss(tilted) - rel_entr(b, tilted).sum() == pytest.approx(L, abs=1e-10)
    rng = np.random.default_rng(seed)
    for a in rng.dirichlet(np.ones(3), size=50):
        assert loss(a) - rel_entr(b, a).sum() <= L + 1e-10


@pytest.mark.parametrize("seed", range(3))
def test_the_gradient_is_that_of_the_likelihood_at_the_tilted_weights(seed):
    X = load_iris().data
    means, covariances, b = parameters(seed, X, 3)
    plan = solve_plan(log_density(X, means, covariances), None, b, tol=1e-13)
    h = 1e-5
    # d value / d m_k = sum_i P_ik S_k^-1 (x_i - m_k) at the plan, whose responsibilities are those of the tilted weights
    P = plan.matrix
    for k in range(3):
        exact = np.linalg.solve(covariances[k], (P[:, k, None] * (X - means[k])).sum(axis=0))
        for q in range(X.shape[1]):
            step = np.zeros_like(means)
            step[k, q] = h
            up = solve_plan(log_density(X, means + step, covariances), None, b, tol=1e-12).value
            down = solve_plan(log_density(X, means - step, covariances), None, b, tol=1e-12).value
            assert (up - down) / (2 * h) == pytest.approx(exact[q], abs=2e-8)


@pytest.mark.parametrize("seed", range(3))
def test_the_minimum_over_weights_of_the_transport_loss_is_that_of_the_likelihood(seed):
    X = load_iris().data
    means, covariances, b = parameters(seed, X, 3)
    S = log_density(X, means, covariances)
    for _ in range(4000):  # EM in the weights: their maximum likelihood for these components
        R = np.exp(S + np.log(b) - logsumexp(S + np.log(b), axis=1, keepdims=True))
        b = R.mean(axis=0)
    best = logsumexp(S + np.log(b), axis=1).mean()
    assert solve_plan(S, None, b).value == pytest.approx(best, abs=1e-9)
    rng = np.random.default_rng(seed)
    for other in rng.dirichlet(np.ones(3), size=30):
        assert solve_plan(S, None, other).value <= best + 1e-10


def test_the_loss_is_coercive_where_the_likelihood_is_not():
    X = load_faithful().data
    means, covariances, _ = parameters(0, X, 2)
    means = means[np.argsort(-means[:, 1])]  # the upper one moves up, away from the data
    losses, likelihoods = [], []
    for distance in (0, 10, 100, 1000):
        S = log_density(X, means + np.array([[0.0, distance], [0.0, 0.0]]), covariances)
        losses.append(-solve_plan(S, None, [0.5, 0.5]).value)
        likelihoods.append(-logsumexp(S + np.log(0.5), axis=1).mean())
    assert np.all(np.diff(losses[1:]) > 0) and losses[-1] > 1000
    assert likelihoods[-1] < 20
    shrunk_losses, shrunk = [], []
    for variance in (1e-2, 1e-6, 1e-10, 1e-14):
        S = log_density(X, np.array([X[0], X.mean(axis=0)]), np.stack([variance * np.eye(2), np.cov(X.T)]))
        shrunk_losses.append(-solve_plan(S, None, [0.5, 0.5]).value)
        shrunk.append(-logsumexp(S + np.log(0.5), axis=1).mean())
    assert np.all(np.diff(shrunk_losses) > 0) and shrunk_losses[-1] > 1e8
    assert np.all(np.diff(shrunk) < 0)


def test_em_and_sinkhorn_em_coincide_on_symmetrised_data():
    rng = np.random.default_rng(0)
    Y = rng.normal(size=(200, 1)) + np.where(rng.random((200, 1)) < 0.5, 1.0, -1.0)
    X = np.concatenate([Y, -Y])
    fits = [
        GaussianMixture(
            2,
            tau=tau,
            weights="uniform",
            covariance_type="tied",
            means_init=[[-0.4], [0.4]],
            precisions_init=[[1.0]],
            tol=1e-10,
        ).fit(X)
        for tau in (0, 1)
    ]
    m = min(len(f.lower_bounds_) for f in fits)
    np.testing.assert_allclose(fits[0].lower_bounds_[:m], fits[1].lower_bounds_[:m], rtol=1e-9)
    np.testing.assert_allclose(fits[0].means_, fits[1].means_, atol=1e-5)


@pytest.mark.parametrize("weights", ["learned", "uniform"])
@pytest.mark.parametrize("tau", [0, 0.5, 1])
def test_the_reported_values_agree_with_each_other(tau, weights):
    X = load_iris().data
    model = GaussianMixture(3, tau=tau, weights=weights, random_state=0, tol=1e-10).fit(X)
    plan = model.transport_plan(X)
    assert model.transport_loss_ == pytest.approx(-plan.value, abs=1e-9)
    assert model.marginal_error_ < 1e-8
    likelihood = model.score(X)
    assert model.lower_bound_ == model.lower_bounds_[-1]
    assert -model.transport_loss_ <= likelihood + 1e-9
    if weights == "learned" or tau == 0:
        assert model.lower_bound_ == pytest.approx(likelihood, abs=1e-12)
    else:
        assert model.lower_bound_ == pytest.approx(-model.transport_loss_, abs=1e-9)
    if weights == "uniform":
        np.testing.assert_array_equal(model.weights_, np.full(3, 1 / 3))
    np.testing.assert_allclose(model.tilted_weights_.sum(), 1)


def test_learned_weights_end_at_a_point_where_the_plan_needs_no_tilt():
    X = load_faithful().data  # components that overlap: the potential of an isolated one is not determined
    model = GaussianMixture(2, random_state=0, tol=1e-13, max_iter=5000).fit(X)
    np.testing.assert_allclose(model.tilted_weights_, model.weights_, atol=1e-5)
    assert -model.transport_loss_ == pytest.approx(model.lower_bound_, abs=1e-8)
