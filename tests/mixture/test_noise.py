"""A uniform component for noise (Banfield & Raftery 1993)."""

import numpy as np
import pandas as pd
import pytest

from sinkhorn_em import GaussianMixture, LocationScaleMixture
from sinkhorn_em.datasets import load_chevron

RNG = np.random.default_rng(0)
CENTRES = np.array([[0.0, 0.0], [8.0, 0.0]])
N_CLEAN, N_NOISE = 300, 60
TRUE = np.repeat([0, 1, -1], [N_CLEAN // 2, N_CLEAN // 2, N_NOISE])
X = np.concatenate(
    [c + RNG.normal(size=(N_CLEAN // 2, 2)) for c in CENTRES] + [RNG.uniform(-15, 20, size=(N_NOISE, 2))]
)


def fit(X=X, K=2, **options):
    return GaussianMixture(K, **{"noise": "estimate", "random_state": 0, "tol": 1e-9, **options}).fit(X)


def log_volume(X):
    """Of the smaller of the upright box and the one along the principal axes."""
    V = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)[2].T
    return min(np.log(np.ptp(X @ B, axis=0)).sum() for B in (np.eye(X.shape[1]), V))


def gaussians(model, X):
    """Densities (n, K) of the Gaussian components."""
    clean = GaussianMixture.from_parameters(
        model.weights_ / model.weights_.sum(), model.means_, model.covariances_, covariance_type=model.covariance_type
    )
    return clean.predict_proba(X) * clean.pdf(X)[:, None] * model.weights_.sum()


@pytest.mark.parametrize("noise", ["estimate", 0.2])
@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag", "spherical", "VEE"])
def test_the_density_is_that_of_the_gaussians_and_one_over_the_volume(noise, covariance_type):
    model = fit(noise=noise, covariance_type=covariance_type)
    uniform = model.noise_weight_ * np.exp(-log_volume(X))
    joint = np.column_stack([gaussians(model, X), np.full(len(X), uniform)])
    np.testing.assert_allclose(model.pdf(X), joint.sum(axis=1), rtol=1e-10)
    np.testing.assert_allclose(model.predict_proba(X), joint / joint.sum(axis=1, keepdims=True), rtol=1e-8, atol=1e-14)
    best = np.argmax(joint, axis=1)
    np.testing.assert_array_equal(model.predict(X), np.where(best == 2, -1, best))
    assert model.weights_.sum() + model.noise_weight_ == pytest.approx(1.0, abs=1e-14)
    assert model.lower_bound_ == pytest.approx(model.score(X), abs=1e-10)


def test_estimated_shares_are_the_mean_posteriors():
    """The stationarity of EM in the weights; the tolerance is what is left of the last step."""
    model = fit(tol=1e-13, max_iter=5000)
    share = np.append(model.weights_, model.noise_weight_)
    np.testing.assert_allclose(model.predict_proba(X).mean(axis=0), share, atol=1e-6)


def test_noise_is_found_and_the_clusters_are_not_blown_up():
    model, plain = fit(), fit(noise=None)
    # noise over the clusters themselves, about 5 % of it, cannot be told; standard error of the share 0.02
    assert model.noise_weight_ == pytest.approx(N_NOISE / len(X), abs=0.06)
    labels = model.predict(X)
    assert set(labels) == {-1, 0, 1}
    assert (labels[:N_CLEAN] >= 0).mean() > 0.95 and (labels[N_CLEAN:] == -1).mean() > 0.8
    order = np.argsort(model.means_[:, 0])
    np.testing.assert_allclose(model.means_[order], CENTRES, atol=5 / np.sqrt(N_CLEAN / 2))
    assert np.linalg.det(model.covariances_).max() < 2 < np.linalg.det(plain.covariances_).max()


@pytest.mark.parametrize("tau", [0, 0.5, 1])
def test_a_given_share_of_noise_is_kept_to_the_bit(tau):
    model = fit(noise=0.125, tau=tau)
    assert model.noise_weight_ == 0.125
    assert model.weights_.sum() == pytest.approx(0.875, abs=1e-15)


@pytest.mark.parametrize("tau", [0, 0.5, 1])
def test_prescribed_weights_share_what_the_noise_leaves(tau):
    model = fit(noise=0.2, weights=[0.25, 0.75], tau=tau)
    assert model.noise_weight_ == 0.2
    np.testing.assert_allclose(model.weights_, [0.2, 0.6], rtol=1e-15)
    assert (np.diff(model.lower_bounds_[-5:]) >= -1e-12).all()


def test_the_plan_holds_the_noise_like_the_other_columns():
    model = fit(noise=0.2, weights=[0.25, 0.75], tau=1)
    plan = model.transport_plan(X)
    np.testing.assert_allclose(plan.column_mass, [0.2, 0.6, 0.2], atol=1e-8)
    np.testing.assert_allclose(plan.matrix.sum(axis=1), 1 / len(X), rtol=1e-10)


def test_an_array_of_tau_is_about_the_components_and_noise_is_held():
    model = fit(noise=0.2, weights="uniform", tau=[0.0, 1.0])
    mass = model.transport_plan(X).column_mass
    np.testing.assert_allclose(mass[1:], [0.4, 0.2], atol=1e-8)
    assert mass.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("noise", [0.1, "estimate"])
def test_size_bounds_are_about_the_components(noise):
    model = fit(noise=noise, size_bounds=(0.3, 0.42))
    mass = model.transport_plan(X).column_mass
    assert (mass[:2] >= 0.3 - 1e-8).all() and (mass[:2] <= 0.42 + 1e-8).all()


@pytest.mark.parametrize("noise", [0.1, "estimate"])
@pytest.mark.parametrize("tau", [0, 1])
def test_trimming_goes_with_noise(noise, tau):
    model = fit(noise=noise, trim=0.05, tau=tau)
    plan = model.transport_plan(X)
    assert plan.unassigned.mean() == pytest.approx(0.05, abs=1e-8)  # shares of the rows
    assert model.predict_proba(X).shape == (len(X), 3)


@pytest.mark.parametrize("options", [{}, {"noise": 0.1}, {"weights": "uniform", "noise": 0.1}, {"prior": "mclust"}])
@pytest.mark.parametrize("tau", [0, 1])
def test_the_bound_never_falls(options, tau):
    model = fit(tau=tau, tol=1e-12, **options)
    bounds = np.array(model.lower_bounds_)
    assert (np.diff(bounds) >= -1e-11).all()  # E-steps of an L1 error of 1e-9


@pytest.mark.parametrize("covariance_type,n_components", [("full", 2 * 5), ("tied", 2 * 2 + 3), ("spherical", 2 * 3)])
def test_bic_counts_the_volume_and_the_share(covariance_type, n_components):
    model = fit(covariance_type=covariance_type)
    components = n_components + 1  # and the weights of two components
    log_likelihood = model.score(X) * len(X)
    assert model.bic(X) == pytest.approx(-2 * log_likelihood + (components + 2) * np.log(len(X)), rel=1e-12)
    assert model.aic(X) == pytest.approx(-2 * log_likelihood + 2 * (components + 2), rel=1e-12)
    fixed = fit(covariance_type=covariance_type, noise=0.2)
    assert fixed.aic(X) == pytest.approx(-2 * fixed.score(X) * len(X) + 2 * (components + 1), rel=1e-12)


def test_the_volume_of_the_chevron_is_mclusts():
    """mclust's hypvol() of the 1104 rows, 16021.8071077811."""
    X = load_chevron().data
    model = GaussianMixture(1, noise="estimate", random_state=0).fit(X)
    far = X.max(axis=0) + 1e6  # there only the noise has a density
    assert model.noise_weight_ / float(model.pdf(far[None])[0]) == pytest.approx(16021.8071077811, rel=1e-11)


def test_the_noise_of_the_chevron_is_found():
    data = load_chevron()
    model = GaussianMixture(2, noise="estimate", random_state=0, n_init=3).fit(data.data)
    noise = np.asarray(data.target_names)[data.target] == "noise"
    assert ((model.predict(data.data) == -1) == noise).mean() > 0.85


@pytest.mark.parametrize("noise", ["estimate", 0.2])
@pytest.mark.parametrize("covariance_type", ["full", "diag", "spherical"])
def test_units_and_offsets_do_not_matter(noise, covariance_type):
    """A map that keeps axes and the smaller box: densities scale, all else stays."""
    scale = {"full": [3.0, 0.01], "diag": [3.0, 0.01], "spherical": [7.0, 7.0]}[covariance_type]
    options = {"noise": noise, "covariance_type": covariance_type}
    Y = X * scale + [5.0, -1e3]
    assert all(log_volume(Z) == pytest.approx(np.log(np.ptp(Z, axis=0)).sum()) for Z in (X, Y))  # upright, both
    model, other = fit(**options), fit(Y, **options)
    np.testing.assert_allclose(other.means_, model.means_ * scale + [5.0, -1e3], rtol=1e-6, atol=1e-5)
    assert other.noise_weight_ == pytest.approx(model.noise_weight_, abs=1e-6)
    assert other.lower_bound_ == pytest.approx(model.lower_bound_ - np.log(scale).sum(), abs=1e-8)
    np.testing.assert_array_equal(other.predict(Y), model.predict(X))


def test_draws_of_noise_fill_its_box_and_nothing_else():
    model = fit()
    rows, labels = model.sample(6000)
    noise = rows[labels == -1]
    share = model.noise_weight_
    assert abs(len(noise) / 6000 - share) < 5 * np.sqrt(share * (1 - share) / 6000)
    assert (noise >= X.min(axis=0) - 1e-9).all() and (noise <= X.max(axis=0) + 1e-9).all()
    # the mean of a uniform on [0, 1]: standard error sqrt(1/12n)
    place = (noise - X.min(axis=0)) / np.ptp(X, axis=0)
    assert (np.abs(place.mean(axis=0) - 0.5) < 5 / np.sqrt(12 * len(noise))).all()
    for k in range(2):
        rows_k = rows[labels == k]
        error = 5 * np.sqrt(np.diagonal(model.covariances_[k]) / len(rows_k))
        assert (np.abs(rows_k.mean(axis=0) - model.means_[k]) < error).all()


def test_rows_along_a_diagonal_have_a_tilted_box():
    t = np.random.default_rng(2).normal(size=(200, 2)) * [5.0, 0.3]
    rotated = t @ np.array([[1.0, 1.0], [-1.0, 1.0]]) / np.sqrt(2)
    assert log_volume(rotated) < np.log(np.ptp(rotated, axis=0)).sum() - 1
    model = GaussianMixture(1, noise=0.1, random_state=0).fit(rotated)
    far = float(model.logpdf(np.array([[1e4, 1e4]]))[0])
    assert far == pytest.approx(np.log(0.1) - log_volume(rotated), abs=1e-10)
    draws, labels = model.sample(3000)
    inside = draws[labels == -1] @ np.array([[1.0, -1.0], [1.0, 1.0]]) / np.sqrt(2)
    # principal axes of a sample are those of the truth to a few times 0.3/5/sqrt(n)
    assert np.ptp(inside[:, 1]) < 1.2 * np.ptp(t[:, 1])


@pytest.mark.parametrize("sizes", [None, [100, 160, 100], [0, 300, 60]])
def test_balanced_labels_have_the_counts_noise_included(sizes):
    model = fit()
    labels = model.balanced_predict(X, sizes)
    share = np.append(model.weights_, model.noise_weight_)
    counts = [int((labels == k).sum()) for k in (0, 1, -1)]
    if sizes is None:
        assert np.abs(np.array(counts) - share * len(X)).max() < 1
    else:
        assert counts == sizes


def test_rows_of_weight_0_do_not_count_for_the_box():
    far = np.concatenate([X, [[1e3, 1e3]]])
    weight = np.append(np.ones(len(X)), 0.0)
    model = GaussianMixture(2, noise="estimate", random_state=0, tol=1e-9).fit(far, sample_weight=weight)
    plain = fit()
    assert model.noise_weight_ == pytest.approx(plain.noise_weight_, abs=1e-7)
    assert model.score(X) == pytest.approx(plain.score(X), abs=1e-9)


def test_weights_are_frequencies():
    twice, weighted = fit(np.repeat(X, 2, axis=0)), GaussianMixture(2, noise="estimate", random_state=0, tol=1e-9)
    weighted.fit(X, sample_weight=np.full(len(X), 2.0))
    np.testing.assert_allclose(weighted.means_, twice.means_, atol=1e-5)
    assert weighted.noise_weight_ == pytest.approx(twice.noise_weight_, abs=1e-6)


@pytest.mark.parametrize("family", ["student_t", "cauchy", "laplace", "logistic", "gumbel"])
def test_noise_goes_with_every_continuous_family(family):
    model = LocationScaleMixture(2, family=family, noise="estimate", random_state=0, tol=1e-5).fit(X)
    assert 0 < model.noise_weight_ < 0.5
    uniform = model.noise_weight_ / np.exp(log_volume(X))
    R = model.predict_proba(X)
    np.testing.assert_allclose(R.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(R[:, 2], uniform / model.pdf(X), rtol=1e-9)


def test_one_feature_has_an_interval_of_noise():
    x = np.concatenate([np.random.default_rng(0).normal(size=200), np.linspace(-30, 50, 40)])[:, None]
    model = fit(x, K=1)
    far = float(model.pdf([[1e5]])[0])
    assert far == pytest.approx(model.noise_weight_ / 80.0, rel=1e-12)
    assert model.means_[0, 0] == pytest.approx(0.0, abs=5 / np.sqrt(200))


def test_a_stored_mixture_with_noise_is_the_same(tmp_path):
    model = fit(pd.DataFrame(X, columns=["a", "b"]))
    model.save(tmp_path / "noise.json")
    again = GaussianMixture.load(tmp_path / "noise.json")
    frame = pd.DataFrame(X, columns=["a", "b"])
    np.testing.assert_array_equal(again.predict_proba(frame), model.predict_proba(frame))
    assert again.noise_weight_ == model.noise_weight_
    np.testing.assert_array_equal(again.sample(50)[0], model.sample(50)[0])


def test_a_warm_start_goes_on_where_the_last_fit_stopped():
    model = fit(warm_start=True, tol=1e-8)
    bound = model.lower_bound_
    model.fit(X)
    assert model.n_iter_ <= 2 and model.lower_bound_ == pytest.approx(bound, abs=1e-7)
    with pytest.raises(ValueError, match="warm_start: the last fit has"):
        model.set_params(noise=None).fit(X)


def test_weights_to_start_with_may_be_those_of_the_components_alone():
    short = fit(weights_init=[0.4, 0.6], noise=0.2, tau=0)
    assert short.noise_weight_ == 0.2


@pytest.mark.parametrize(
    "options,message",
    [
        ({"noise": 1.5}, "noise is 1.5; it must be None, 'estimate', or the share of noise, strictly between 0 and 1"),
        ({"noise": 0.0}, "noise is 0.0"),
        ({"noise": 1}, "noise is 1;"),
        ({"noise": -0.1}, "noise is -0.1"),
        ({"noise": float("nan")}, "noise is nan"),
        ({"noise": "yes"}, "noise is 'yes'"),
        ({"noise": True}, "noise is True"),
        ({"noise": [0.1]}, r"noise is \[0.1\]"),
        ({"weights": "uniform"}, "noise is 'estimate' but weights are prescribed"),
        ({"weights": [0.5, 0.5]}, "noise is 'estimate' but weights are prescribed"),
        ({"tau": [0.5, 0.5, 0.5]}, "tau has shape"),
    ],
)
def test_options_of_noise_that_do_not_fit_raise(options, message):
    with pytest.raises(ValueError, match=message):
        fit(**options)


@pytest.mark.parametrize("rows", [np.column_stack([X[:, 0], np.ones(len(X))]), np.column_stack([X[:, 0], 2 * X[:, 0]])])
def test_flat_data_have_no_volume(rows):
    with pytest.raises(ValueError, match="noise: the rows lie in a flat box of volume 0"):
        fit(rows)


@pytest.mark.parametrize("family", ["poisson", "bernoulli", "multinomial"])
def test_counts_have_no_uniform_density(family):
    counts = np.random.default_rng(0).integers(0, 2, size=(40, 2)).astype(float)
    counts[:, 1] = 1 - counts[:, 0]
    with pytest.raises(ValueError, match="counts have no uniform density: set noise=None"):
        LocationScaleMixture(2, family=family, noise=0.1).fit(counts)
