"""Priors, frozen parameters, blocks of features, bounds of eigenvalues."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal

from sinkhorn_em import GaussianMixture, LocationScaleMixture
from sinkhorn_em.families import Generator, InverseWishart, NormalInverseWishart, NormalPrior, StudentT

RNG = np.random.default_rng(0)
K, D = 2, 3
N = 120
A = RNG.normal(size=(K, D, D))
LABELS = np.repeat([0, 1], [70, 50])
X = np.array([[0.0, 1.0, -2.0], [4.0, 2.0, 1.0]])[LABELS] + np.einsum("nij,nj->ni", A[LABELS], RNG.normal(size=(N, D)))
X = X * [1.0, 5.0, 0.2] + [10.0, 0.0, -3.0]  # units that differ
SPREAD = X.var(axis=0)
B = A @ np.swapaxes(A, 1, 2) + np.eye(D)
B = B * np.sqrt(SPREAD) * np.sqrt(SPREAD)[:, None] / 20

PLACES = X.mean(axis=0) + np.array([[-1.0, 0.5, 0.0], [1.0, -0.5, 0.5]]) * np.sqrt(SPREAD)
SCALE = np.diag(SPREAD) * 0.5 + 0.1 * np.sqrt(np.outer(SPREAD, SPREAD))
PRIORS = {
    "normal": NormalPrior(PLACES, B),
    "wishart": InverseWishart(7.5, SCALE),
    "conjugate": NormalInverseWishart(mean=X.mean(axis=0) + 0.2, shrinkage=4.0, dof=6.0, scale=SCALE),
    "mclust": "mclust",
    "both": (NormalPrior(PLACES, B), InverseWishart(7.5, SCALE)),
}
DIAGONAL = ("diag", "tied_diag", "spherical", "tied_spherical")
every_prior = pytest.mark.parametrize("prior", PRIORS)


def fit(X=X, K=K, sample_weight=None, **options):
    return GaussianMixture(K, **{"random_state": 0, "tol": 1e-13, "max_iter": 20_000, **options}).fit(
        X, sample_weight=sample_weight
    )


def diagonal(prior):
    """The prior of independent coordinates: the means' too."""
    return (
        NormalPrior(prior.means, np.array([np.diag(np.diag(b)) for b in B]))
        if isinstance(prior, NormalPrior)
        else prior
    )


def prior_for(name, covariance_type):
    prior = PRIORS[name]
    if covariance_type not in DIAGONAL:
        return prior
    scalar = (
        InverseWishart(7.5, float(SPREAD.mean())) if "spherical" in covariance_type else InverseWishart(7.5, SPREAD)
    )
    return {
        "normal": diagonal(PRIORS["normal"]),
        "wishart": scalar,
        "both": (diagonal(PRIORS["normal"]), scalar),
        "conjugate": NormalInverseWishart(PRIORS["conjugate"].mean, 4.0, 6.0, scalar.scale),
        "mclust": "mclust",
    }[name]


def dense(values, covariance_type, K=K, d=D):
    values = np.asarray(values)
    if covariance_type.startswith("tied"):
        values = np.broadcast_to(values, (K, *values.shape))
    if "spherical" in covariance_type:
        values = values[:, None] * np.ones(d)
    return values if values.ndim == 3 else values[:, :, None] * np.eye(d)


def mclust_prior(covariance_type):
    """priorControl() of Fraley & Raftery 2007."""
    C = np.cov(X.T)
    scale = C if covariance_type not in DIAGONAL else np.trace(C) / D
    return NormalInverseWishart(X.mean(axis=0), 0.01, D + 2, scale / K ** (2 / D))


def log_prior(prior, covariance_type, means, values):
    """log p(m, S) without constants, written from the densities themselves; values in the structure's shape."""
    S = dense(values, covariance_type)
    each = S if covariance_type not in ("tied", "tied_diag", "tied_spherical") else S[:1]
    total = 0.0
    for p in prior if isinstance(prior, tuple) else (prior,):
        if isinstance(p, NormalPrior):
            total += sum(multivariate_normal(p.means[k], p.covariances[k]).logpdf(means[k]) for k in range(K))
            continue
        if isinstance(p, NormalInverseWishart):
            total += sum(multivariate_normal(p.mean, S[k] / p.shrinkage).logpdf(means[k]) for k in range(K))
        for C in each:
            if covariance_type in DIAGONAL:
                v = np.diag(C)[:1] if "spherical" in covariance_type else np.diag(C)
                total -= ((p.dof + 2) / 2 * np.log(v) + p.scale / (2 * v)).sum()
            else:
                total -= (p.dof + D + 1) / 2 * np.linalg.slogdet(C)[1] + np.trace(np.linalg.solve(C, p.scale)) / 2
    return total


def objective(prior, covariance_type, weights, means, values):
    """Mean log-likelihood and log prior over n, by scipy."""
    S = dense(values, covariance_type)
    density = sum(w * multivariate_normal(m, C).pdf(X) for w, m, C in zip(weights, means, S, strict=True))
    return np.log(density).mean() + log_prior(prior, covariance_type, means, values) / N


def slopes(f, x, scale, step=1e-4):
    """Central differences in units of ``scale``, error of order step^2."""
    x = np.array(x, float)
    out = []
    for index in np.ndindex(x.shape):
        h = np.zeros_like(x)
        h[index] = step * np.broadcast_to(scale, x.shape)[index]
        out.append((f(x + h) - f(x - h)) / (2 * step))
    return np.array(out)


def falls(model):
    """How often the bound falls."""
    return int((np.diff(model.lower_bounds_) < -1e-10).sum())


STRUCTURES = ["full", "tied", "diag", "tied_diag", "spherical", "tied_spherical"]


@every_prior
@pytest.mark.parametrize("tau", [0, 1])
@pytest.mark.parametrize("covariance_type", STRUCTURES)
def test_the_fit_is_a_mode_of_the_posterior(covariance_type, prior, tau):
    """The gradient of the objective, in units of the data's spread, is 0 up to what the solver leaves, sqrt(tol) = 3e-7."""
    prior = prior_for(prior, covariance_type)
    model = fit(prior=prior, covariance_type=covariance_type, tau=tau)
    prior = mclust_prior(covariance_type) if prior == "mclust" else prior
    w, m, S = model.weights_, model.means_, model.covariances_
    sd = np.sqrt(SPREAD)
    gradient = slopes(lambda means: objective(prior, covariance_type, w, means, S), m, sd)
    np.testing.assert_allclose(gradient, 0, atol=5e-6)
    if covariance_type in DIAGONAL:
        moved, start, scale = (lambda t: S * np.exp(t)), np.zeros(np.shape(S)), 1.0
        gradient = slopes(lambda t: objective(prior, covariance_type, w, m, moved(t)), start, scale)
    else:  # S -> e^T S e^T' along every direction of T
        eye = np.eye(D)

        def turned(T):
            return S + np.swapaxes((eye + T) @ S @ np.swapaxes(eye + T, -1, -2) - S, -1, -2)

        scale = sd[:, None] / sd
        gradient = slopes(lambda T: objective(prior, covariance_type, w, m, turned(T)), np.zeros(S.shape), scale)
    np.testing.assert_allclose(gradient, 0, atol=2e-5)
    # bounds differ by the constants of the prior only
    assert (np.diff(model.lower_bounds_) >= -1e-11).all()


@pytest.mark.parametrize("covariance_type", STRUCTURES)
@every_prior
def test_bounds_differ_from_the_objective_by_a_constant(prior, covariance_type):
    prior = prior_for(prior, covariance_type)
    models = [fit(prior=prior, covariance_type=covariance_type, tau=0, tol=tol) for tol in (1e-1, 1e-3, 1e-13)]
    own = mclust_prior(covariance_type) if prior == "mclust" else prior
    gaps = [
        model.lower_bound_ - objective(own, covariance_type, model.weights_, model.means_, model.covariances_)
        for model in models
    ]
    np.testing.assert_allclose(gaps, gaps[0], atol=1e-9)


@pytest.mark.parametrize("covariance_type", ["VEE", "EVE", "VEI", "EEV"])
@pytest.mark.parametrize("tau", [0, 1])
@every_prior
def test_the_bound_never_falls_in_other_structures(prior, tau, covariance_type):
    prior = prior_for(prior, "diag" if covariance_type.endswith("I") else "full")
    for weights in ("learned", "uniform"):
        model = fit(prior=prior, covariance_type=covariance_type, tau=tau, weights=weights, tol=1e-9)
        assert falls(model) == 0


@pytest.mark.parametrize("shrinkage", [0.01, 4.0])
@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag", "spherical"])
def test_one_component_is_the_conjugate_closed_form(covariance_type, shrinkage):
    """Fraley & Raftery 2007, section 3."""
    mu, dof = X.mean(axis=0) + np.sqrt(SPREAD), 6.0
    scale = {"diag": SPREAD, "spherical": SPREAD.mean()}.get(covariance_type, SCALE)
    model = fit(K=1, prior=NormalInverseWishart(mu, shrinkage, dof, scale), covariance_type=covariance_type)
    mean = (X.sum(axis=0) + shrinkage * mu) / (N + shrinkage)
    np.testing.assert_allclose(model.means_[0], mean, rtol=1e-10)
    delta = X.mean(axis=0) - mu
    W = (X - X.mean(axis=0)).T @ (X - X.mean(axis=0)) + shrinkage * N / (shrinkage + N) * np.outer(delta, delta)
    exact = {
        "full": lambda: (scale + W) / (dof + N + D + 2),
        "tied": lambda: (scale + W) / (dof + N + D + 2),
        "diag": lambda: (scale + np.diag(W)) / (dof + N + 3),
        "spherical": lambda: (scale + np.trace(W)) / (dof + (N + 1) * D + 2),
    }[covariance_type]()
    np.testing.assert_allclose(np.squeeze(model.covariances_), exact, rtol=1e-8)


def test_a_normal_prior_of_one_component_is_the_precision_weighted_mean():
    model = fit(K=1, prior=NormalPrior(PLACES[0], B[0]))
    S = model.covariances_[0]
    H = N * np.linalg.inv(S) + np.linalg.inv(B[0])
    pull = N * np.linalg.solve(S, X.mean(axis=0)) + np.linalg.solve(B[0], PLACES[0])
    np.testing.assert_allclose(model.means_[0], np.linalg.solve(H, pull), rtol=1e-6)


@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag", "spherical", "VEE"])
def test_a_tight_prior_pins_the_means_and_a_loose_one_is_maximum_likelihood(covariance_type):
    tight = fit(prior=NormalPrior(PLACES, SPREAD * 1e-12), covariance_type=covariance_type, tol=1e-9)
    np.testing.assert_allclose((tight.means_ - PLACES) / np.sqrt(SPREAD), 0, atol=1e-8)
    start = {"means_init": fit(covariance_type=covariance_type).means_, "covariance_type": covariance_type}
    free, loose = fit(**start), fit(prior=NormalPrior(PLACES, SPREAD * 1e10), **start)
    np.testing.assert_allclose(loose.means_, free.means_, rtol=1e-6)
    np.testing.assert_allclose(loose.covariances_, free.covariances_, rtol=1e-4)


def test_a_strong_wishart_pins_the_covariances():
    model = fit(prior=InverseWishart(1e9, SCALE * 1e9))
    np.testing.assert_allclose(model.covariances_, [SCALE] * K, rtol=1e-6)


@every_prior
def test_a_prior_counts_against_the_total_frequency_of_the_rows(prior):
    prior = prior_for(prior, "full")
    twice = fit(np.repeat(X, 2, axis=0), prior=prior)
    weighted, once = fit(prior=prior, sample_weight=np.full(N, 2.0)), fit(prior=prior)
    np.testing.assert_allclose(weighted.means_, twice.means_, rtol=1e-5)
    if prior != "mclust":
        assert np.abs(weighted.covariances_ - once.covariances_).max() > 1e-3


@every_prior
@pytest.mark.parametrize("covariance_type", ["full", "diag"])
def test_priors_are_stated_in_units_of_the_data(prior, covariance_type):
    prior, scale, shift = prior_for(prior, covariance_type), np.array([2.0, 0.01, 300.0]), np.array([1.0, -5.0, 100.0])

    def other(p):
        if isinstance(p, NormalPrior):
            return NormalPrior(p.means * scale + shift, p.covariances * scale * scale[:, None])
        matrix = np.asarray(p.scale) * (scale**2 if np.ndim(p.scale) == 1 else scale * scale[:, None])
        if isinstance(p, InverseWishart):
            return InverseWishart(p.dof, matrix)
        return NormalInverseWishart(p.mean * scale + shift, p.shrinkage, p.dof, matrix)

    if prior == "mclust" and covariance_type == "diag":
        pytest.skip("its scale is the mean variance: units matter")
    moved = prior if prior == "mclust" else tuple(map(other, prior)) if isinstance(prior, tuple) else other(prior)
    options = {"covariance_type": covariance_type, "tol": 1e-12}
    here, there = fit(prior=prior, **options), fit(X * scale + shift, prior=moved, **options)
    np.testing.assert_allclose((there.means_ - shift) / scale, here.means_, rtol=1e-5)


@pytest.mark.parametrize("prior", ["normal", "wishart", "both", "mclust"])
@pytest.mark.parametrize("tau", [0, 1])
@pytest.mark.parametrize(
    "options",
    [
        {"family": StudentT(df=4.0)},
        {"family": "student_t"},
        {"family": "laplace"},
        {"family": "laplace", "form": "product", "covariance_type": "diag"},
        {"family": "logistic", "form": "product", "covariance_type": "tied_diag"},
    ],
    ids=["t", "t, df estimated", "laplace", "product laplace", "product logistic"],
)
def test_the_bound_never_falls_for_other_families(options, tau, prior):
    prior = prior_for(prior, options.get("covariance_type", "full"))
    model = LocationScaleMixture(K, prior=prior, tau=tau, tol=1e-7, max_iter=5000, random_state=0, **options).fit(X)
    assert falls(model) == 0
    tight = NormalPrior(PLACES, SPREAD * 1e-12)
    model.set_params(prior=tight, tol=1e-4).fit(X)
    np.testing.assert_allclose((model.means_ - PLACES) / np.sqrt(SPREAD), 0, atol=1e-6)


@pytest.mark.parametrize(
    "prior,message",
    [
        ("uniform", "prior is 'uniform'; it must be 'mclust'"),
        ((InverseWishart(7, 1.0), InverseWishart(7, 1.0)), "or the pair"),
        (NormalPrior(np.zeros((3, D)), 1.0), r"prior.means has shape \(3, 3\); it must be \(2, 3\)"),
        (NormalPrior(np.zeros(D), -1.0), "prior.covariances is not symmetric and positive definite"),
        (NormalPrior(np.full(D, np.nan), 1.0), "prior.means has values that are not finite"),
        (InverseWishart(2, 1.0), "prior.dof is 2; it must be a number above 2"),
        (InverseWishart(7, np.zeros((D, D))), "prior.scale is not symmetric and positive definite"),
        (NormalInverseWishart(shrinkage=0), "prior.shrinkage is 0; it must be a positive number"),
        (NormalInverseWishart(mean=[0.0]), r"prior.mean has shape \(1,\); it must be \(3,\)"),
    ],
)
def test_priors_that_do_not_fit_raise(prior, message):
    with pytest.raises(ValueError, match=message):
        fit(prior=prior)


# frozen parameters

M0 = np.array([[9.0, 2.0, -3.4], [14.0, 9.0, -2.8]])
P0 = {"full": np.linalg.inv(SCALE * np.array([[[1.0]], [[0.5]]])), "tied": np.linalg.inv(SCALE)}
P0 |= {"diag": 1 / (SPREAD * np.array([[0.5], [0.7]])), "spherical": 1 / (SPREAD.mean() * np.array([0.5, 0.7]))}
W0 = np.array([0.25, 0.75])


def frozen(which, covariance_type="full", **options):
    return fit(
        **{"frozen": which, "covariance_type": covariance_type, "means_init": M0, "weights_init": W0, "tol": 1e-7}
        | {"precisions_init": P0[covariance_type], **options}
    )


def stays(new, old, scale):
    """To rounding: parameters are mapped to the coordinates of the fit and back."""
    np.testing.assert_allclose(new, old, rtol=1e-13, atol=1e-13 * scale)


@pytest.mark.parametrize("tau", [0, 0.5, 1])
@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag", "spherical"])
@pytest.mark.parametrize("with_covariances", [True, False])
def test_frozen_means_stay(covariance_type, tau, with_covariances):
    """With covariances that are not given there is a burn-in, which does not move them either."""
    options = {} if with_covariances else {"precisions_init": None}
    model = frozen("means", covariance_type, tau=tau, **options)
    stays(model.means_, M0, np.abs(X).max())
    np.testing.assert_array_equal(
        frozen(["means"], covariance_type, tau=tau, max_iter=1_000, **options).means_, model.means_
    )
    assert (np.diff(model.lower_bounds_) >= -1e-11).all()


@pytest.mark.parametrize("tau", [0, 1])
@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag", "spherical"])
def test_frozen_covariances_stay(covariance_type, tau):
    model = frozen("covariances", covariance_type, tau=tau)
    given = 1 / P0[covariance_type] if covariance_type in DIAGONAL else np.linalg.inv(P0[covariance_type])
    np.testing.assert_allclose(model.covariances_, given, rtol=1e-10, atol=1e-12)
    assert np.abs(model.means_ - M0).max() > 0.05


@pytest.mark.parametrize("tau", [0, 1])
def test_all_frozen_is_the_given_mixture(tau):
    model = frozen({"means": True, "covariances": "all", "weights": [0, 1]}, tau=tau)
    given = GaussianMixture.from_parameters(W0, M0, np.linalg.inv(P0["full"]))
    np.testing.assert_allclose(model.score_samples(X), given.score_samples(X), atol=1e-10)
    np.testing.assert_array_equal(model.weights_, W0)
    assert model.converged_ and model.n_iter_ == 1
    assert model.aic(X) == pytest.approx(-2 * N * given.score(X), rel=1e-12)  # nothing is free


@pytest.mark.parametrize("which", [[1], np.array([1]), [False, True], np.array([False, True])])
@pytest.mark.parametrize("name", ["means", "covariances", "weights"])
def test_one_component_may_be_frozen(name, which):
    model = frozen({name: which}, tau=0)
    values = {"means": M0, "covariances": np.linalg.inv(P0["full"]), "weights": W0}[name]
    new = getattr(model, f"{name}_")
    np.testing.assert_allclose(new[1], values[1], rtol=1e-10, atol=1e-12)
    if name != "weights":
        assert np.abs(new[0] - values[0]).max() > 1e-3


@pytest.mark.parametrize("tau", [0, 1])
def test_a_frozen_weight_leaves_the_rest_to_the_others(tau):
    model = fit(K=3, frozen={"weights": [1]}, weights_init=[0.3, 0.45, 0.25], tau=tau, tol=1e-8)
    assert model.weights_[1] == 0.45
    assert model.weights_.sum() == pytest.approx(1.0, abs=1e-14)
    assert abs(model.weights_[0] - 0.3) > 1e-4


@pytest.mark.parametrize("tau", [0, 1])
def test_frozen_means_of_other_families_stay(tau):
    for options in ({"family": "student_t"}, {"family": "laplace", "form": "product", "covariance_type": "diag"}):
        model = LocationScaleMixture(
            K, frozen="means", means_init=M0, tau=tau, random_state=0, max_iter=2000, **options
        )
        stays(model.fit(X).means_, M0, np.abs(X).max())


@pytest.mark.parametrize(
    "which,saved",
    [
        ("means", 6),
        ({"means": [0]}, 3),
        ("covariances", 12),
        ({"covariances": [1]}, 6),
        ("weights", 1),
        (["means", "weights"], 7),
        (("means", "covariances", "weights"), 19),
    ],
)
def test_what_is_frozen_is_no_parameter(which, saved):
    model = frozen(which, tau=0)
    n_parameters = (model.aic(X) + 2 * N * model.score(X)) / 2
    assert n_parameters == pytest.approx(6 + 12 + 1 - saved, abs=1e-6)


def test_the_mean_that_is_free_is_the_one_of_maximum_likelihood():
    """With the other frozen where maximum likelihood has it nothing changes."""
    free = fit()
    model = fit(
        frozen={"means": [1], "covariances": [0]},
        means_init=free.means_,
        precisions_init=free.precisions_,
        weights_init=free.weights_,
    )
    np.testing.assert_allclose(model.means_, free.means_, rtol=1e-5)
    assert model.lower_bound_ == pytest.approx(free.lower_bound_, abs=1e-9)


@pytest.mark.parametrize(
    "options,message",
    [
        ({"which": "locations"}, "frozen names 'locations'; it must name some of"),
        ({"which": "means", "means_init": None}, "frozen: means are frozen but means_init is None"),
        (
            {"which": "covariances", "precisions_init": None},
            "frozen: covariances are frozen but precisions_init is None",
        ),
        ({"which": "weights", "weights_init": None}, "frozen: weights are frozen but weights_init is None"),
        ({"which": "weights", "weights": "uniform"}, "prescribed weights are frozen already"),
        ({"which": {"means": [2]}}, r"frozen\['means'\] is \[2\]; it must be True, a mask of 2 booleans"),
        ({"which": {"means": [True]}}, r"frozen\['means'\] is \[True\]"),
        ({"which": {"means": 0.5}}, r"frozen\['means'\] is 0.5"),
        (
            {"which": {"covariances": [0]}, "covariance_type": "tied"},
            r"frozen: only components \[0\] of 2 have frozen covariances",
        ),
    ],
)
def test_what_cannot_be_frozen_raises(options, message):
    with pytest.raises(ValueError, match=message):
        frozen(**options)


# blocks of features


@pytest.mark.parametrize("tau", [0, 1])
def test_blocks_are_independent_within_a_component(tau):
    model = fit(blocks=[[0, 2], [1]], tau=tau, tol=1e-8)
    assert (model.covariances_[:, [0, 2], [1, 1]] == 0).all() and (model.covariances_[:, 0, 2] != 0).all()
    assert (np.diff(model.lower_bounds_) >= -1e-11).all()
    n_parameters = (model.aic(X) + 2 * N * model.score(X)) / 2
    assert n_parameters == pytest.approx(6 + 2 * (3 + 1) + 1, abs=1e-6)
    density = sum(
        w * multivariate_normal(m, S).pdf(X)
        for w, m, S in zip(model.weights_, model.means_, model.covariances_, strict=True)
    )
    np.testing.assert_allclose(model.pdf(X), density, rtol=1e-9)


@pytest.mark.parametrize("covariance_type", ["full", "tied", "VEE", "diag"])
def test_one_component_of_blocks_is_a_fit_of_every_block(covariance_type):
    model = fit(K=1, blocks=[[2, 0], [1]], covariance_type=covariance_type)
    for block in ([0, 2], [1]):
        alone = fit(X[:, block], K=1, covariance_type="full" if covariance_type != "diag" else "diag")
        dense_alone = dense(alone.covariances_, covariance_type if covariance_type == "diag" else "full", 1, len(block))
        np.testing.assert_allclose(model.covariances_[0][np.ix_(block, block)], dense_alone[0], rtol=1e-9)
        np.testing.assert_allclose(model.means_[0, block], alone.means_[0], rtol=1e-12)


def test_one_block_is_no_constraint_and_single_features_are_diagonal():
    start = {"means_init": M0, "tau": 0}
    np.testing.assert_allclose(fit(blocks=[[0, 1, 2]], **start).means_, fit(**start).means_, rtol=1e-5)
    single, diag = fit(blocks=[[0], [1], [2]], **start), fit(covariance_type="diag", **start)
    np.testing.assert_allclose(single.means_, diag.means_, rtol=1e-5)
    np.testing.assert_allclose(single.covariances_, dense(diag.covariances_, "diag"), rtol=1e-5, atol=1e-12)


def test_blocks_may_be_named():
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    by_name, by_number = fit(frame, blocks=[["c", "a"], ["b"]], tol=1e-8), fit(blocks=[[2, 0], [1]], tol=1e-8)
    np.testing.assert_array_equal(by_name.covariances_, by_number.covariances_)


@pytest.mark.parametrize(
    "blocks",
    [[[0, 1]], [[0, 1], [1, 2]], [[0, 1], [3]], [[0, 1, 2], []], [["a"], [1, 2]], 3, [0, 1, 2], [[-1, 0], [1]]],
)
def test_blocks_that_are_no_partition_raise(blocks):
    with pytest.raises(ValueError, match=r"blocks is .*; (it must be a list of lists|every one of the 3 features)"):
        fit(blocks=blocks)


# bounds of eigenvalues

LOW, HIGH = 0.05, 3.0


def eigenvalues(model, covariance_type):
    return np.linalg.eigvalsh(dense(model.covariances_, covariance_type, len(model.means_)))


@pytest.mark.parametrize("bounds", [(LOW, HIGH), (0.0, HIGH), (20.0, np.inf), (0.7, 0.7)])
@pytest.mark.parametrize("tau", [0, 1])
@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag", "tied_diag", "spherical", "tied_spherical"])
def test_eigenvalues_keep_their_bounds(covariance_type, tau, bounds):
    model = fit(eigenvalue_bounds=bounds, covariance_type=covariance_type, tau=tau, tol=1e-8)
    values, (low, high) = eigenvalues(model, covariance_type), bounds
    # to rounding, of the largest eigenvalue
    rounding = 1e-13 * values.max()
    assert (values >= low - rounding).all() and (values <= high + rounding).all()
    assert (np.diff(model.lower_bounds_) >= -1e-11).all()
    assert min(np.abs(values - low).min(), np.abs(values - high).min() if high < np.inf else 1) < 1e-9  # they bind


@pytest.mark.parametrize("covariance_type", ["full", "diag", "spherical"])
def test_one_component_of_bounded_eigenvalues_is_clipped(covariance_type):
    model = fit(K=1, eigenvalue_bounds=(LOW, HIGH), covariance_type=covariance_type)
    C = np.cov(X.T, bias=True)
    C = {"full": C, "diag": np.diag(np.diag(C)), "spherical": np.eye(D) * np.trace(C) / D}[covariance_type]
    values, V = np.linalg.eigh(C)
    exact = (V * np.clip(values, LOW, HIGH)) @ V.T
    np.testing.assert_allclose(dense(model.covariances_, covariance_type, 1)[0], exact, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag", "spherical", "VEE"])
def test_loose_bounds_are_none(covariance_type):
    start = {"covariance_type": covariance_type, "means_init": M0, "tau": 0}
    bounds = (0.0, np.inf) if covariance_type == "VEE" else (1e-6, 1e6)
    loose, free = fit(eigenvalue_bounds=bounds, **start), fit(**start)
    np.testing.assert_allclose(loose.means_, free.means_, rtol=1e-5)
    assert loose.lower_bound_ == pytest.approx(free.lower_bound_, abs=1e-9)


def test_every_block_may_have_its_own_bounds():
    bounds = [(0.5, 1.0), (2.0, 4.0)]
    model = fit(blocks=[[0, 2], [1]], eigenvalue_bounds=bounds, tol=1e-8)
    for block, (low, high) in zip(([0, 2], [1]), bounds, strict=True):
        values = np.linalg.eigvalsh(model.covariances_[:, block][:, :, block])
        assert (values >= low - 1e-12).all() and (values <= high + 1e-12).all()
    alone = fit(X[:, [0, 2]], K=1, eigenvalue_bounds=bounds[0])
    one = fit(K=1, blocks=[[0, 2], [1]], eigenvalue_bounds=bounds)
    np.testing.assert_allclose(one.covariances_[0][np.ix_([0, 2], [0, 2])], alone.covariances_[0], rtol=1e-9)


@pytest.mark.parametrize("covariance_type", ["VEI", "VEE", "VEV"])
@pytest.mark.parametrize("bounds", [(0.3, np.inf), (0.0, 3.0)])
def test_structures_of_separate_volumes_keep_one_bound(covariance_type, bounds):
    model = fit(eigenvalue_bounds=bounds, covariance_type=covariance_type, tau=0, tol=1e-8)
    values = eigenvalues(model, "full" if np.ndim(model.covariances_) == 3 else "diag")
    assert (values >= bounds[0] * (1 - 1e-8)).all() and (values <= bounds[1] * (1 + 1e-8)).all()


@pytest.mark.parametrize(
    "bounds,message",
    [
        ((3.0, 1.0), r"eigenvalue_bounds is \(3.0, 1.0\); it must satisfy 0 <= lower <= upper"),
        ((-1.0, 1.0), "it must satisfy 0 <= lower"),
        ((0.0, 0.0), "and 0 < upper"),
        ((np.nan, 1.0), "it must satisfy"),
        (2.0, "eigenvalue_bounds is 2.0; it must be a pair"),
        ("narrow", "eigenvalue_bounds is 'narrow'; it must be a pair"),
        ([(0.1, 1.0), (0.1, 1.0)], "or one pair for each of 1 blocks"),
        ((1e-30, 1e-25), "its upper bound below"),
    ],
)
def test_bounds_that_contradict_themselves_raise(bounds, message):
    with pytest.raises(ValueError, match=message):
        fit(eigenvalue_bounds=bounds)


@pytest.mark.parametrize("covariance_type", ["VEI", "VEE"])
def test_two_bounds_of_separate_volumes_and_shapes_raise(covariance_type):
    with pytest.raises(ValueError, match="cannot keep two bounds at once: give only one"):
        fit(eigenvalue_bounds=(0.1, 1.0), covariance_type=covariance_type)


@pytest.mark.parametrize("options", [{"prior": "mclust"}, {"blocks": [[0, 1, 2]]}, {"eigenvalue_bounds": (0.1, 1.0)}])
def test_families_without_scale_matrices_take_no_constraints(options):
    with pytest.raises(ValueError, match="it is about scale matrices, which the family 'gumbel' does not have"):
        LocationScaleMixture(2, family="gumbel", **options).fit(X)


@pytest.mark.parametrize("n_init", [1, 3])
@pytest.mark.parametrize("init_params", ["kmeans", "random_from_data"])
def test_components_are_those_of_their_own_priors(init_params, n_init):
    rng = np.random.default_rng(1)
    n_components, d = 8, 3
    atlas = rng.uniform(0, 100, (n_components, d))
    places = atlas + rng.normal(0, 3, (n_components, d))
    rows = np.vstack([place + rng.normal(0, 2, (40, d)) for place in places])
    truth = np.repeat(np.arange(n_components), 40)
    for seed in range(3):
        model = GaussianMixture(
            n_components, prior=NormalPrior(atlas, 9.0), init_params=init_params, n_init=n_init, random_state=seed
        ).fit(rows)
        assert (model.predict(rows) == truth).mean() > 0.95


def test_a_refit_forgets_what_the_last_fit_said():
    model = LocationScaleMixture(K, family="student_t", noise=0.05, random_state=0).fit(X)
    assert model.df_.shape == (K,) and model.noise_weight_ == 0.05
    model.set_params(family="gaussian", noise=None).fit(X)
    assert not hasattr(model, "df_") and not hasattr(model, "noise_weight_")


def test_a_warm_start_takes_the_shape_that_the_family_has_now():
    model = LocationScaleMixture(K, family=StudentT(df=3), warm_start=True, random_state=0).fit(X)
    assert model.set_params(family=StudentT(df=50)).fit(X).df_.tolist() == [50.0] * K


class Returns(Generator):
    def log_density(self, q, d, *shape):
        return -0.5 * q - 0.5 * d * np.log(2 * np.pi)

    def weight(self, q, d, *shape):
        return np.ones_like(q)

    def draw(self, n, d, rng, *shape):
        return rng.standard_normal((n, d))

    def cdf(self, z, *shape):
        return np.zeros_like(z)


class Unnormalised(Returns):
    def log_density(self, q, d, *shape):
        q *= -0.5


class Rising(Returns):
    def log_density(self, q, d, *shape):
        q[...] = -(q**2)

    def weight(self, q, d, *shape):
        return 4 * q


class Wrong(Unnormalised):
    def weight(self, q, d, *shape):
        return 2 * np.ones_like(q)


@pytest.mark.parametrize(
    "generator,message",
    [
        (Returns(), "must overwrite q with h"),
        (Unnormalised(), "integrates to"),
        (Rising(), "rises with q"),
        (Wrong(), r"-2 h'\(q\) is"),
    ],
)
def test_a_generator_that_is_none_is_refused(generator, message):
    with pytest.raises(ValueError, match=message):
        LocationScaleMixture(K, family=generator).fit(X)


def test_counts_are_asked_for_after_the_fit_too():
    counts = np.random.default_rng(0).poisson([[2.0, 9.0]] * 30 + [[9.0, 2.0]] * 30).astype(float)
    model = LocationScaleMixture(2, family="poisson", random_state=0).fit(counts)
    with pytest.raises(ValueError, match=r"X\[0, 0\] is .*; Poisson takes counts"):
        model.score(counts + 0.5)


@pytest.mark.parametrize("options", [{"tau": 0}, {"tau": 1}, {"size_bounds": (0.0, 0.5)}])
def test_more_components_than_rows_if_each_has_a_place_and_a_shape(options):
    """The many names of an atlas and the few rows of one worm: what no row supports stays at its prior."""
    places = np.arange(6.0)[:, None] * 20
    known = {"prior": NormalPrior(places, 1.0), "means_init": places, "precisions_init": np.ones((6, 1, 1))}
    rows, weights = places[[1, 3]] + 1.0, np.full(6, 1 / 6)
    model = GaussianMixture(6, weights=weights, frozen="covariances", **known, **options).fit(rows)
    if options != {"tau": 1}:
        np.testing.assert_array_equal(model.predict(rows), [1, 3])
        np.testing.assert_allclose(model.means_[[0, 2, 4, 5]], places[[0, 2, 4, 5]], atol=1e-6)
        np.testing.assert_allclose(model.means_[[1, 3]], places[[1, 3]] + 0.5, atol=1e-6)  # equal precisions: half-way
    np.testing.assert_allclose(model.transport_plan(rows).column_mass.sum(), 1)
    with pytest.raises(ValueError, match="n_components is 6 but X has 2 rows"):
        GaussianMixture(6, weights=weights, **known, **options).fit(rows)
