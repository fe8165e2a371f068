"""Noise, a prior, densities and quantiles against mclust 6.0.0, which stops at a relative gain of 1e-5 in the log-likelihood."""

import numpy as np
import pytest
from scipy.optimize import least_squares
from scipy.stats import norm

from sinkhorn_em import GaussianMixture
from sinkhorn_em.datasets import load_acidity, load_chevron, load_faithful
from sinkhorn_em.families.noise import smallest_box
from sinkhorn_em.families.priors import NormalInverseWishart

MCLUST_TOL = 1e-5  # it stops when the log-likelihood l rises by less than this times 1 + |l|


def log_likelihood(mixture, X):
    return mixture.score(X) * len(X)


# noise: chevron, EEV, 2 components and noise


def test_the_volume_of_the_noise_is_mclusts_hypervolume():
    volume = np.exp(smallest_box(load_chevron().data).log_volume)
    assert volume == pytest.approx(16021.8071077811, rel=1e-13)
    assert 1 / volume == pytest.approx(6.24149319283e-05, rel=1e-11)


@pytest.fixture(scope="module")
def minefield():
    options = {"noise": "estimate", "tau": 0, "init_params": "random", "random_state": 0, "tol": 1e-12}
    return GaussianMixture(2, covariance_type="EEV", max_iter=20_000, **options).fit(load_chevron().data)


def test_the_minefield_has_mclusts_likelihood_up_to_its_tolerance_and_no_less(minefield):
    X, mclust = load_chevron().data, -10525.3744520561
    ours = log_likelihood(minefield, X)
    assert ours == pytest.approx(-10525.264447, abs=1e-5)
    assert mclust < ours < mclust + 2 * MCLUST_TOL * (1 + abs(mclust))  # two of its steps
    assert minefield.noise_weight_ == pytest.approx(0.754321, abs=1e-3)
    assert minefield.weights_.sum() + minefield.noise_weight_ == pytest.approx(1, abs=1e-12)


def test_the_minefield_has_eleven_parameters_and_mclusts_bic_up_to_its_tolerance(minefield):
    X, mclust = load_chevron().data, 21127.8225516074
    n_parameters = (minefield.bic(X) + 2 * log_likelihood(minefield, X)) / np.log(len(X))
    assert n_parameters == pytest.approx(11, abs=1e-9)
    assert mclust - 4 * MCLUST_TOL * 10526 < minefield.bic(X) < mclust


# prior: Mclust(faithful, G = 3, modelNames = "VVV", prior = priorControl())

PRIOR_WEIGHTS, PRIOR_LOG_LIKELIHOOD, PRIOR_BIC = [0.109405, 0.355972, 0.534622], -1128.1833873795, 2351.66540988602
# the first M-step from mclust's hierarchical labels (sizes 40, 96, 136), rounded
START = {
    "weights_init": [0.147, 0.353, 0.5],
    "means_init": [[4.11, 86.5], [2.03, 54.4], [4.33, 78]],
    "precisions_init": np.linalg.inv(
        [[[0.162, 1.35], [1.35, 17.3]], [[0.0629, 0.393], [0.393, 31.4]], [[0.159, 1.29], [1.29, 25]]]
    ),
}


def with_prior(**options):
    return GaussianMixture(3, prior="mclust", tau=0, **START, **options).fit(load_faithful().data)


def test_the_default_prior_is_mclusts():
    """Given explicitly, it has the same posterior mode."""
    X = load_faithful().data
    scale = np.cov(X.T) / 3  # K^(2/d) = 3
    np.testing.assert_allclose(scale, [[0.434242777616, 4.659268982252], [4.659268982252, 61.607770783590]], rtol=1e-7)
    prior = NormalInverseWishart(mean=X.mean(axis=0), shrinkage=0.01, dof=4, scale=scale)
    given = GaussianMixture(3, prior=prior, tau=0, **START, tol=1e-12, max_iter=20_000).fit(X)
    default = with_prior(tol=1e-12, max_iter=20_000)
    assert given.lower_bound_ == pytest.approx(default.lower_bound_, abs=1e-11)
    np.testing.assert_allclose(given.means_, default.means_, rtol=1e-7)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_em_with_mclusts_prior_and_stopping_rule_stops_where_mclust_does():
    X = load_faithful().data
    last = -np.inf
    for iterations in range(1, 60):
        mixture = with_prior(tol=0, max_iter=iterations)
        now = log_likelihood(mixture, X)
        if now - last < MCLUST_TOL * (1 + abs(now)):
            break
        last = now
    assert now == pytest.approx(PRIOR_LOG_LIKELIHOOD, abs=MCLUST_TOL * (1 + abs(now)))
    np.testing.assert_allclose(np.sort(mixture.weights_), PRIOR_WEIGHTS, atol=1.5e-3)
    assert mixture.bic(X) == pytest.approx(PRIOR_BIC, abs=2 * MCLUST_TOL * (1 + abs(now)))
    converged = with_prior(tol=1e-12, max_iter=20_000)
    assert converged.lower_bound_ > mixture.lower_bound_
    assert log_likelihood(converged, X) == pytest.approx(PRIOR_LOG_LIKELIHOOD, abs=0.05)


# densityMclust(acidity, G = 2, modelNames = "V")

POINTS = np.array([3, 4, 4.5, 5, 6, 7])
DENSITIES = [0.000655806259, 0.480627807882, 0.532655746156, 0.150958043815, 0.243253568879, 0.104559104456]
DISTRIBUTION = [0.000147783580, 0.087232736815, 0.424100481288, 0.555475614419, 0.765628416749, 0.950377981520]
PROBABILITIES = [0.025, 0.25, 0.5, 0.75, 0.975]
QUANTILES = [3.807250456, 4.247052901, 4.694964028, 5.935976646, 7.299951118]
SHARES = np.array([0.483020559, 0.516979441])


@pytest.fixture(scope="module")
def density():
    """mclust's mixture: six densities determine the two means and deviations, which it does not print."""

    def error(parameters):
        return 1e3 * (norm.pdf(POINTS[:, None], parameters[:2], np.exp(parameters[2:])) @ SHARES - DENSITIES)

    precise = {"xtol": 1e-15, "ftol": 1e-15, "gtol": 1e-15}
    solution = least_squares(error, [4.3, 5.8, np.log(0.3), np.log(0.9)], **precise)
    assert np.abs(solution.fun).max() < 1e-7  # six equations, four unknowns
    means, variances = solution.x[:2, None], np.exp(2 * solution.x[2:])[:, None, None]
    return GaussianMixture.from_parameters(SHARES, means, variances)


def test_densities_are_mclusts(density):
    np.testing.assert_allclose(density.pdf(POINTS[:, None]), DENSITIES, atol=1e-10)


def test_the_distribution_function_is_mclusts(density):
    np.testing.assert_allclose(density.cdf(POINTS), DISTRIBUTION, atol=1e-9)


def test_quantiles_are_mclusts(density):
    np.testing.assert_allclose(density.quantile(PROBABILITIES), QUANTILES, atol=5e-9)


def test_em_goes_on_from_there_to_the_tight_value(density):
    X = load_acidity().data
    start = {
        "weights_init": density.weights_,
        "means_init": density.means_,
        "precisions_init": density.precisions_,
    }
    tight = GaussianMixture(2, covariance_type="V", tau=0, tol=1e-12, max_iter=20_000, **start).fit(X)
    assert log_likelihood(tight, X) == pytest.approx(-187.234513217, abs=1e-6)
    assert 0 < log_likelihood(tight, X) - log_likelihood(density, X) < 3 * MCLUST_TOL * 188
