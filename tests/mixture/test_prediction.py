"""What a fitted mixture tells: densities, posteriors, plans, labels with exact sizes; and saving it."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linear_sum_assignment
from scipy.stats import multivariate_normal
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError

from sinkhorn_em import GaussianMixture
from sinkhorn_em.datasets import load_crabs
from sinkhorn_em.mixture.rounding import round_plan, sizes_from_weights

TYPES = ("full", "tied", "diag", "spherical", "tied_diag", "tied_spherical")


def covariance_of(model, k):
    d, C = model.n_features_in_, model.covariances_
    return {
        "full": lambda: C[k],
        "tied": lambda: C,
        "diag": lambda: np.diag(C[k]),
        "spherical": lambda: C[k] * np.eye(d),
        "tied_diag": lambda: np.diag(C),
        "tied_spherical": lambda: C * np.eye(d),
    }[model.covariance_type]()


@pytest.mark.parametrize("covariance_type", TYPES)
def test_densities_and_posteriors_are_those_of_the_reported_parameters(covariance_type):
    X = load_iris().data
    model = GaussianMixture(3, covariance_type=covariance_type, random_state=0).fit(X)
    density = np.column_stack(
        [
            w * multivariate_normal(m, covariance_of(model, k)).pdf(X)
            for k, (w, m) in enumerate(zip(model.weights_, model.means_, strict=True))
        ]
    )
    np.testing.assert_allclose(model.score_samples(X), np.log(density.sum(axis=1)), rtol=1e-9)
    np.testing.assert_allclose(model.predict_proba(X), density / density.sum(axis=1, keepdims=True), atol=1e-10)
    np.testing.assert_array_equal(model.predict(X), density.argmax(axis=1))
    inverse = np.linalg.inv(np.stack([covariance_of(model, k) for k in range(3)]))
    if covariance_type in ("full", "tied"):
        precisions = model.precisions_ if covariance_type == "full" else np.stack([model.precisions_] * 3)
        np.testing.assert_allclose(precisions, inverse, rtol=1e-8, atol=1e-8)
        U = model.precisions_cholesky_
        assert np.allclose(np.tril(U, -1), 0)
        np.testing.assert_allclose(U @ np.swapaxes(U, -1, -2), model.precisions_, rtol=1e-8, atol=1e-8)


def test_one_rows_label_never_depends_on_the_batch():
    X = load_iris().data
    model = GaussianMixture(3, weights="uniform", random_state=0).fit(X)
    alone = np.concatenate([model.predict(X[i : i + 1]) for i in range(len(X))])
    np.testing.assert_array_equal(model.predict(X), alone)


def test_the_transport_plan_of_a_batch_has_the_weights_as_its_column_masses():
    X = load_crabs().data
    model = GaussianMixture(4, weights="uniform", random_state=0).fit(X)
    plan = model.transport_plan(X)
    np.testing.assert_allclose(plan.matrix.sum(axis=0), 0.25, atol=1e-9)
    np.testing.assert_allclose(plan.matrix.sum(axis=1), 1 / len(X), atol=1e-15)


@pytest.mark.parametrize("seed", range(8))
def test_balanced_labels_solve_the_assignment_problem(seed):
    rng = np.random.default_rng(seed)
    n, K = 60, 4
    scores = rng.normal(size=(n, K)) * 3
    counts = rng.multinomial(n, rng.dirichlet(np.ones(K)))
    labels = round_plan(scores, counts)
    np.testing.assert_array_equal(np.bincount(labels, minlength=K), counts)
    replicated = np.repeat(scores, counts, axis=1)
    rows, columns = linear_sum_assignment(-replicated)
    assert scores[np.arange(n), labels].sum() == pytest.approx(replicated[rows, columns].sum(), abs=1e-8)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_balanced_labels_have_the_sizes_asked_for():
    X = load_crabs().data
    model = GaussianMixture(4, weights="uniform", random_state=0).fit(X)
    np.testing.assert_array_equal(np.bincount(model.balanced_predict(X)), [50, 50, 50, 50])
    np.testing.assert_array_equal(np.bincount(model.balanced_predict(X, sizes=[20, 80, 60, 40])), [20, 80, 60, 40])
    np.testing.assert_array_equal(np.bincount(model.balanced_predict(X[:7]), minlength=4).sum(), 7)
    with pytest.raises(ValueError, match=r"sizes is \[1, 2, 3, 4\].*sum to the number of rows, 200"):
        model.balanced_predict(X, sizes=[1, 2, 3, 4])


@pytest.mark.parametrize("separation", [1, 5, 40, 1000])
def test_balanced_labels_of_clusters_at_any_distance_are_optimal(separation):
    rng = np.random.default_rng(0)
    n, centres = 1200, separation * np.array([0.0, 1.0, 2.0])
    X = rng.normal(size=n) + rng.choice(centres, n)
    scores = -0.5 * (X[:, None] - centres) ** 2
    counts = np.array([400, 400, 400])
    labels = round_plan(scores, counts)
    np.testing.assert_array_equal(np.bincount(labels), counts)
    replicated = np.repeat(scores, counts, axis=1)
    rows, columns = linear_sum_assignment(-replicated)
    assert scores[np.arange(n), labels].sum() == pytest.approx(replicated[rows, columns].sum(), rel=1e-10)


def test_many_rows_are_balanced_at_once():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200_000, 2)) + 40 * rng.integers(0, 3, size=(200_000, 1))
    model = GaussianMixture(3, weights="uniform", random_state=0).fit(X)
    counts = np.bincount(model.balanced_predict(X), minlength=3)
    assert counts.max() - counts.min() <= 1


def test_sizes_are_rounded_by_largest_remainder():
    np.testing.assert_array_equal(sizes_from_weights(np.array([0.5, 0.3, 0.2]), 7), [4, 2, 1])
    np.testing.assert_array_equal(sizes_from_weights(np.full(3, 1 / 3), 10), [4, 3, 3])


@pytest.mark.parametrize(
    "options", [{}, {"weights": [0.2, 0.3, 0.5]}, {"trim": 0.1}, {"size_bounds": (0.2, 0.5)}, {"tau": [0, 0.5, 1]}]
)
@pytest.mark.parametrize("covariance_type", TYPES)
def test_a_saved_mixture_comes_back_to_the_last_bit(tmp_path, options, covariance_type):
    X = load_iris().data
    model = GaussianMixture(3, covariance_type=covariance_type, random_state=0, **options).fit(X)
    model.save(tmp_path / "fit.json")
    json.loads((tmp_path / "fit.json").read_text())
    again = GaussianMixture.load(tmp_path / "fit.json")
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(again.score_samples(X), model.score_samples(X))
    np.testing.assert_array_equal(again.sample(10)[0], model.sample(10)[0])
    for name in ("weights_", "means_", "covariances_", "lower_bounds_", "transport_loss_", "n_iter_", "potentials_"):
        np.testing.assert_array_equal(getattr(again, name), getattr(model, name))
    assert again.bic(X) == model.bic(X)
    assert str(again.get_params()) == str(model.get_params())


def test_a_file_that_is_no_saved_mixture_is_refused(tmp_path):
    path = tmp_path / "other.json"
    path.write_text("{}")
    with pytest.raises(ValueError, match="is not a saved GaussianMixture"):
        GaussianMixture.load(path)
    path.write_text("no json")
    with pytest.raises(ValueError, match="it is not JSON"):
        GaussianMixture.load(path)


def test_what_json_cannot_hold_is_named(tmp_path):
    X = load_iris().data
    with pytest.raises(ValueError, match="a RandomState cannot be stored"):
        GaussianMixture(2, random_state=np.random.RandomState(0)).fit(X).save(tmp_path / "a.json")
    assert not list(tmp_path.iterdir())
    GaussianMixture(2, weights=pd.Series([0.5, 0.5])).fit(X).save(tmp_path / "a.json")
    assert GaussianMixture.load(tmp_path / "a.json").fit(X).weights_.tolist() == [0.5, 0.5]
    (tmp_path / "b.json").write_text('{"format": 2, "estimator": "GaussianMixture"}')
    with pytest.raises(ValueError, match="is damaged: it lacks"):
        GaussianMixture.load(tmp_path / "b.json")
    with pytest.raises(NotFittedError):
        GaussianMixture(2).save(tmp_path / "c.json")


def test_a_row_out_of_all_reach_has_log_density_minus_infinity_and_the_weights_as_posterior():
    model = GaussianMixture(2, weights=[0.25, 0.75], random_state=0).fit(load_iris().data)
    far = np.full((1, 4), 1e160)
    assert model.score_samples(far)[0] == -np.inf
    np.testing.assert_array_equal(model.predict_proba(far), [[0.25, 0.75]])


def test_frequencies_count_in_the_information_criteria():
    X = load_iris().data
    frequency = np.where(np.arange(150) < 50, 2, 1)
    twice = np.repeat(X, frequency, axis=0)
    model = GaussianMixture(2, random_state=0).fit(X, sample_weight=frequency)
    assert model.bic(X, sample_weight=frequency) == pytest.approx(model.bic(twice))
    assert model.aic(X, sample_weight=frequency) == pytest.approx(model.aic(twice))
    assert type(model.bic(X)) is float


@pytest.mark.parametrize("sizes", [[75.5, 74.5, 0], ["a", "b", "c"], [50, 50], [-1, 51, 100]])
def test_sizes_that_are_no_counts_are_refused(sizes):
    X = load_iris().data
    model = GaussianMixture(3, random_state=0).fit(X)
    with pytest.raises(ValueError, match=r"sizes is .* whole counts"):
        model.balanced_predict(X, sizes=sizes)


def test_rows_far_from_the_fit_can_be_balanced():
    X = load_iris().data
    model = GaussianMixture(3, weights="uniform", random_state=0).fit(X)
    assert np.bincount(model.balanced_predict(X * 1e100)).tolist() == [50, 50, 50]


def test_an_unfitted_mixture_says_so():
    with pytest.raises(NotFittedError, match="not fitted"):
        GaussianMixture(2).predict(np.zeros((3, 2)))
