"""Weights, tau, trimming, size bounds; bad input; degenerate data (what broke in other people's code)."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning

from sinkhorn_em import GaussianMixture, block_families, families, solve_plan
from sinkhorn_em.datasets import simulate_many_to_one
from sinkhorn_em.mixture import storage

IRIS = load_iris().data
quiet = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def test_prescribed_weights_are_kept_and_the_plan_meets_them():
    weights = [0.2, 0.3, 0.5]
    model = GaussianMixture(3, weights=weights, random_state=0).fit(IRIS)
    np.testing.assert_array_equal(model.weights_, weights)
    np.testing.assert_allclose(model.transport_plan(IRIS).column_mass, weights, atol=1e-9)


def test_size_bounds_hold_for_the_plan():
    model = GaussianMixture(3, size_bounds=(0.3, 0.36), random_state=0).fit(IRIS)
    mass = model.transport_plan(IRIS).column_mass
    assert (mass >= 0.3 - 1e-8).all() and (mass <= 0.36 + 1e-8).all()
    start = {"means_init": IRIS[[0, 60, 120]], "precisions_init": np.stack([np.eye(4)] * 3), "tol": 1e-10}
    free = GaussianMixture(3, size_bounds=(0.0, 1.0), **start).fit(IRIS)
    em = GaussianMixture(3, tau=0, **start).fit(IRIS)
    assert free.lower_bound_ == pytest.approx(em.lower_bound_, abs=1e-9)


@quiet
@pytest.mark.parametrize("init", ["kmeans", "random_from_data", "random"])
@pytest.mark.parametrize("covariance_type", ["full", "tied", "spherical"])
def test_with_learned_weights_the_fit_is_never_worse_than_em_from_the_same_start(init, covariance_type):
    for seed in range(6):
        options = {"init_params": init, "covariance_type": covariance_type, "random_state": seed}
        em, sem = (GaussianMixture(3, tau=tau, **options).fit(IRIS) for tau in (0, 1))
        spike = (
            em._parameters.covariances.held.any() or em._parameters.retired.any()
        )  # then a sound fit is kept instead
        assert spike or sem.lower_bound_ >= em.lower_bound_ - 1e-12


def test_far_clusters_of_unequal_counts_are_not_pulled_together():
    """Weights held at 1/3 would carry 2 % of the rows over 45 standard deviations."""
    data = simulate_many_to_one(5, 1500, random_state=0)
    for seed in range(5):
        model = GaussianMixture(3, covariance_type="spherical", random_state=seed).fit(data.data)
        np.testing.assert_allclose(np.sort(model.means_[:, 0]), [-5, 5, 50], atol=0.3)


def test_trimming_leaves_the_outliers_out():
    rng = np.random.default_rng(0)
    clean = np.concatenate([rng.normal(size=(150, 2)), rng.normal(size=(150, 2)) + 8])
    X = np.concatenate([clean, rng.uniform(-60, 60, size=(15, 2))])
    trimmed = GaussianMixture(2, trim=0.05, random_state=0).fit(X)
    plain = GaussianMixture(2, random_state=0).fit(X)
    truth = np.array([[0.0, 0.0], [8.0, 8.0]])

    def error(model):
        return np.abs(model.means_[np.argsort(model.means_[:, 0])] - truth).max()

    assert error(trimmed) < 0.35 < error(plain)
    outside = trimmed.transport_plan(X).unassigned
    assert outside[-15:].mean() > 0.8 > 0.05 > outside[:300].mean()


@pytest.mark.parametrize("tau", [0, 0.5, 1])
@pytest.mark.parametrize("weights", ["learned", "uniform"])
def test_one_component_is_the_closed_form(tau, weights):
    for covariance_type, exact in {
        "full": np.cov(IRIS.T, bias=True)[None],
        "tied": np.cov(IRIS.T, bias=True),
        "diag": IRIS.var(axis=0)[None],
        "spherical": [IRIS.var(axis=0).mean()],
    }.items():
        model = GaussianMixture(1, tau=tau, weights=weights, covariance_type=covariance_type).fit(IRIS)
        np.testing.assert_allclose(model.means_[0], IRIS.mean(axis=0), rtol=1e-12)
        np.testing.assert_allclose(model.covariances_, exact, rtol=1e-10)


@pytest.mark.parametrize(
    "options,message",
    [
        ({"n_components": 0}, "n_components is 0; it must be an integer of at least 1"),
        ({"n_components": 2.5}, "n_components is 2.5"),
        ({"n_components": True}, "n_components is True"),
        ({"verbose_interval": 0}, "verbose_interval is 0"),
        ({"covariance_type": ["full"]}, r"covariance_type is \['full'\]"),
        ({"reg_covar": np.ones(2)}, "reg_covar is array"),
        ({"weights": None}, "weights is None; it must be 'learned'"),
        ({"n_components": 151}, "n_components is 151 but X has 150 rows"),
        ({"max_iter": 0}, "max_iter is 0"),
        ({"n_init": 0}, "n_init is 0"),
        ({"tol": -1.0}, "tol is -1.0; it must be a number >= 0"),
        ({"covariance_type": "round"}, "covariance_type is 'round'; it must be one of"),
        ({"init_params": "best"}, "init_params is 'best'"),
        ({"reg_covar": -1.0}, "reg_covar is -1.0"),
        ({"reg_covar": "auto"}, "reg_covar is 'auto'"),
        ({"tau": 1.5}, r"tau is 1.5; it must lie in \[0, 1\]"),
        ({"tau": float("nan")}, "tau is nan"),
        ({"tau": [0.5, 1.0]}, r"tau has shape \(2,\)"),
        ({"tau": "one"}, "tau is 'one'; it must be a number"),
        ({"weights": "equal"}, "weights is 'equal'; it must be 'learned', 'uniform'"),
        ({"weights": [0.5, 0.6, 0.5]}, "weights must be >= 0 and sum to 1"),
        ({"weights": [1.0, 0.5, -0.5]}, "weights must be >= 0 and sum to 1"),
        ({"weights": [0.5, 0.5]}, r"weights has shape \(2,\); it must be \(3,\)"),
        ({"weights_init": [0.5, 0.5]}, "weights_init has shape"),
        ({"means_init": [[0, 0, 0, 0]]}, r"means_init has shape \(1, 4\); it must be \(3, 4\)"),
        ({"means_init": np.full((3, 4), np.nan)}, "means_init has values that are not finite"),
        ({"precisions_init": np.zeros((3, 4, 4))}, "precisions_init must be symmetric and positive-definite"),
        ({"trim": 1.0}, r"trim is 1.0; it must lie in \[0, 1\)"),
        ({"trim": -0.1}, "trim is -0.1"),
        ({"size_bounds": 0.2}, "size_bounds is 0.2; it must be a pair"),
        ({"size_bounds": (0.5, 0.6)}, r"bounds cannot be met: sum\(lower\) = 1.5"),
        ({"size_bounds": (0.3, 0.2)}, "0 <= lower <= upper <= 1"),
    ],
)
def test_a_bad_parameter_is_named_with_its_value_and_the_rule(options, message):
    with pytest.raises(ValueError, match=message):
        GaussianMixture(**{"n_components": 3, **options}).fit(IRIS)


@pytest.mark.parametrize(
    "weight,message",
    [
        (np.ones(3), r"sample_weight has shape \(3,\)"),
        (np.full(150, -1.0), "negative or non-finite"),
        (np.full(150, np.nan), "negative or non-finite"),
        (np.zeros(150), "sums to zero"),
    ],
)
def test_bad_sample_weights_raise(weight, message):
    with pytest.raises(ValueError, match=message):
        GaussianMixture(2).fit(IRIS, sample_weight=weight)


@pytest.mark.parametrize("scale", [1e200, 1e-200])
def test_data_whose_squares_are_not_numbers_raise_and_name_the_feature(scale):
    X = IRIS.copy()
    X[:, 2] *= scale
    with pytest.raises(ValueError, match=r"feature 2 of X lies between .* rescale it"):
        GaussianMixture(2).fit(X)


def test_nan_and_infinite_rows_raise():
    for bad in (np.nan, np.inf):
        X = IRIS.copy()
        X[3, 1] = bad
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            GaussianMixture(2).fit(X)


@pytest.mark.parametrize("tau", [0, 0.5, 1])
@pytest.mark.parametrize("weights", ["learned", "uniform"])
@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag", "spherical"])
@pytest.mark.parametrize(
    "X",
    [
        np.repeat([[0.0, 1.0], [3.0, 2.0]], 20, axis=0),  # fewer distinct rows than components
        np.ones((30, 2)),  # one row, many times
        np.column_stack([np.arange(40.0), np.full(40, 7.0)]),  # a constant feature
        np.column_stack([np.arange(40.0), 2 * np.arange(40.0)]),  # a line
        np.random.default_rng(0).normal(size=(3, 5)),  # n = K, d > n
        np.concatenate([np.random.default_rng(0).normal(size=(60, 2)), [[1e6, 1e6]]]),  # one gross outlier
        np.concatenate([np.zeros((50, 2)), np.random.default_rng(1).normal(size=(50, 2))]),  # a spike
        np.array([[0.0], [1e-300], [1e300**0.25]] * 5),  # extreme range
    ],
    ids=["two-points", "one-point", "constant-feature", "line", "n=K", "outlier", "spike", "range"],
)
def test_degenerate_data_give_finite_numbers_and_a_warning_that_names_the_component(X, covariance_type, weights, tau):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = GaussianMixture(
            3, tau=tau, weights=weights, covariance_type=covariance_type, random_state=0, max_iter=50
        )
        model.fit(X)
    for name in ("weights_", "means_", "covariances_", "precisions_", "lower_bounds_", "potentials_"):
        value = np.asarray(getattr(model, name))
        finite = np.isfinite(value) if name != "potentials_" else ~np.isnan(value)
        assert finite.all(), name
    assert np.isfinite(model.predict_proba(X)).all()
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)
    assert model.weights_.sum() == pytest.approx(1)
    messages = [str(w.message) for w in caught if issubclass(w.category, ConvergenceWarning)]
    assert all(issubclass(w.category, ConvergenceWarning) for w in caught), [str(w.message) for w in caught]
    if len(np.unique(X, axis=0)) < 3:
        assert any("components [" in m for m in messages)


def test_a_component_that_loses_its_rows_is_retired_by_name():
    X = np.random.default_rng(0).normal(size=(100, 1))
    with pytest.warns(ConvergenceWarning, match=r"components \[1\] lost all their rows and were retired"):
        model = GaussianMixture(
            2, tau=0, means_init=[[0.0], [1e6]], precisions_init=[[[1.0]], [[1.0]]], weights_init=[0.5, 0.5]
        ).fit(X)
    assert model.weights_[1] == 0
    assert set(model.predict(X)) == {0}


def test_a_component_whose_weight_is_prescribed_as_0_is_no_surprise():
    model = GaussianMixture(3, weights=(0.5, 0.5, 0.0), random_state=0).fit(IRIS)
    assert set(model.predict(IRIS)) == {0, 1}
    assert 0 <= model.classification_entropy(IRIS) < np.log(2)


def test_a_warm_start_of_another_structure_is_refused():
    model = GaussianMixture(2, covariance_type="tied", warm_start=True, random_state=0).fit(IRIS[:, :2])
    with pytest.raises(ValueError, match=r"warm_start: the last fit has .*covariance_type"):
        model.set_params(covariance_type="diag").fit(IRIS[:, :2])


@quiet
def test_precisions_without_means_are_used():
    options = {"tau": 0, "max_iter": 1, "random_state": 0}
    bounds = [
        GaussianMixture(2, precisions_init=np.stack([c * np.eye(4)] * 2), **options).fit(IRIS).lower_bounds_[0]
        for c in (1e-3, 1e3)
    ]
    assert bounds[0] != pytest.approx(bounds[1], abs=1.0)


def test_no_component_can_be_emptied_when_weights_are_prescribed():
    X = np.random.default_rng(0).normal(size=(100, 1))
    model = GaussianMixture(2, weights="uniform", means_init=[[0.0], [1e6]], precisions_init=[[[1.0]], [[1.0]]]).fit(X)
    np.testing.assert_allclose(model.transport_plan(X).column_mass, 0.5, atol=1e-8)
    assert np.abs(model.means_).max() < 2


def test_no_convergence_warns_once_and_says_what_to_do():
    with pytest.warns(ConvergenceWarning, match="raise max_iter or tol") as caught:
        GaussianMixture(3, n_init=5, max_iter=1, tol=0, random_state=0).fit(IRIS)
    assert len(caught) == 1


def test_more_starts_never_lower_the_bound():
    bounds = [
        GaussianMixture(4, n_init=n, random_state=3, init_params="random_from_data").fit(IRIS).lower_bound_
        for n in (1, 4)
    ]
    assert bounds[1] >= bounds[0]


def test_all_starts_differ():
    values = {
        round(GaussianMixture(4, random_state=s, init_params="random_from_data", tau=0).fit(IRIS).lower_bound_, 6)
        for s in range(6)
    }
    assert len(values) > 1


@quiet
@pytest.mark.parametrize("d", [1, 2, 3, 5, 8, 13])
def test_any_number_of_features_gives_scipys_density(d):
    from scipy.stats import multivariate_normal

    rng = np.random.default_rng(d)
    X = rng.normal(size=(200, d)) @ rng.normal(size=(d, d))
    model = GaussianMixture(2, random_state=0).fit(X)
    density = sum(
        w * multivariate_normal(m, C).pdf(X)
        for w, m, C in zip(model.weights_, model.means_, model.covariances_, strict=True)
    )
    np.testing.assert_allclose(model.score_samples(X), np.log(density), atol=1e-8)


def test_tau_between_0_and_1_lies_between():
    b = [0.7, 0.2, 0.1]
    fits = [GaussianMixture(3, tau=t, weights=b, random_state=0).fit(IRIS) for t in (0, 0.5, 1)]
    S = np.log(fits[2].predict_proba(IRIS))
    errors = [np.abs(solve_plan(S, None, b, tau=t).column_mass - b).sum() for t in (0, 0.5, 1)]
    assert errors[0] > errors[1] > errors[2]


def test_a_trimmed_fit_with_learned_weights_says_what_its_plan_says():
    rng = np.random.default_rng(0)
    noise, moved = rng.uniform(-30, 30, (15, 2)), np.array([5, 0])
    X = np.concatenate([rng.normal(size=(200, 2)), rng.normal(size=(100, 2)) + moved, noise])
    model = GaussianMixture(2, trim=0.05, random_state=0, tol=1e-10).fit(X)
    assert np.sort(model.weights_) == pytest.approx([1 / 3, 2 / 3], abs=0.02)
    em = GaussianMixture(2, trim=0.05, tau=0, random_state=0, tol=1e-10).fit(X)
    assert em.lower_bound_ == pytest.approx(em.transport_plan(X).value, abs=1e-9)
    assert model.lower_bound_ >= em.lower_bound_ - 1e-9
    # learned weights end in EM: the bound is that of tau = 0
    assert model.set_params(tau=0).transport_plan(X).value == pytest.approx(model.lower_bound_, abs=1e-9)
    model.set_params(tau=1)
    moved = GaussianMixture(2, trim=0.05, random_state=0, tol=1e-10).fit(1e3 * X)
    assert moved.lower_bound_ == pytest.approx(model.lower_bound_ - 0.95 * 2 * np.log(1e3), abs=1e-6)


@pytest.mark.parametrize("tau", [0, 1])
def test_prescribed_weights_are_kept_whatever_the_start(tau):
    wanted = [0.2, 0.3, 0.5]
    options = {"weights": wanted, "tau": tau, "random_state": 0}
    model = GaussianMixture(3, weights_init=[1 / 3] * 3, **options).fit(IRIS)
    assert model.weights_.tolist() == wanted
    model = GaussianMixture(3, warm_start=True, random_state=0).fit(IRIS).set_params(**options).fit(IRIS)
    assert model.weights_.tolist() == wanted


def test_a_warm_start_keeps_what_is_frozen_now():
    places = GaussianMixture(3, random_state=0).fit(IRIS).means_ + 0.1
    model = GaussianMixture(3, warm_start=True, random_state=0).fit(IRIS)
    model.set_params(frozen={"means": [0, 2], "weights": [1]}, means_init=places, weights_init=[0.3, 0.25, 0.45]).fit(
        IRIS
    )
    assert model.means_[[0, 2]] == pytest.approx(places[[0, 2]], rel=1e-12)
    assert model.weights_[1] == 0.25


def test_a_stored_family_is_not_mistaken_for_a_block_family_of_its_name():
    assert block_families.Poisson.__name__ == families.Poisson.__name__
    assert storage._kinds()["Poisson"] is families.Poisson
    assert not any("block_families" in kind.__module__ for kind in storage._kinds().values())
