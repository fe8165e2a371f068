"""Clusterings and fitted centres against the truth."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import wasserstein_distance

from sinkhorn_em.metrics import clustering_accuracy, matched_errors, matched_labels, mixing_distance, recovered

few = settings(max_examples=25, deadline=None, derandomize=True)
seeds = st.integers(0, 10**6)
ROUNDING = 1e-12  # sums of at most a few hundred products of order 1 to 100
LP = 1e-8  # the linear program is solved to 1e-10 of the largest squared distance, below 100 here


def measure(rng, K, d, *batch):
    return rng.dirichlet(np.ones(K), batch or None), rng.normal(size=(*batch, K, d))


# clustering accuracy


def test_names_of_clusters_do_not_matter():
    assert clustering_accuracy([0, 0, 1, 1, 2], ["b", "b", "c", "c", "a"]) == 1


def test_a_cluster_beyond_the_classes_is_wrong():
    assert clustering_accuracy([0, 0, 0, 1], [0, 0, 1, 2]) == 3 / 4


def test_a_class_beyond_the_clusters_is_wrong():
    assert clustering_accuracy([0, 0, 1, 2], [5, 5, 5, 5]) == 1 / 2


@few
@given(seeds, st.integers(1, 4))
def test_accuracy_is_the_best_of_all_renamings(seed, K):
    rng = np.random.default_rng(seed)
    y, labels = rng.integers(K, size=(2, 30))
    best = max(np.mean(y == np.array(p)[labels]) for p in permutations(range(K)))
    assert clustering_accuracy(y, labels) == pytest.approx(best, abs=ROUNDING)


@few
@given(seeds)
def test_accuracy_is_symmetric_and_ignores_the_order_of_rows(seed):
    rng = np.random.default_rng(seed)
    y, labels = rng.integers(4, size=40), rng.integers(6, size=40)
    order = rng.permutation(40)
    assert clustering_accuracy(y, labels) == clustering_accuracy(labels, y)
    assert clustering_accuracy(y, labels) == clustering_accuracy(y[order], labels[order])


# mixing distance


def test_two_points_are_their_squared_distance_apart():
    assert mixing_distance([1.0], [[0.0, 0.0]], [1.0], [[3.0, 4.0]]) == 25
    assert mixing_distance([1.0], [[1.0]], [1.0], [[3.0]]) == 4


def test_exchanged_weights_cost_the_mass_moved():
    far = mixing_distance([0.8, 0.2], [[1.0], [-1.0]], [0.2, 0.8], [[1.0], [-1.0]])
    assert far == pytest.approx(0.6 * 4, abs=ROUNDING)  # a fit of figure 2 that ends at -theta* with weight .8


@few
@given(seeds, st.integers(1, 6), st.integers(1, 3))
def test_distance_is_zero_between_a_measure_and_its_relabelled_and_split_self(seed, K, d):
    rng = np.random.default_rng(seed)
    w, m = measure(rng, K, d)
    order = rng.permutation(K)
    assert mixing_distance(w, m, w[order], m[order]) == pytest.approx(0, abs=LP)
    halves = np.concatenate([w, w]) / 2
    assert mixing_distance(w, m, halves, np.concatenate([m, m])) == pytest.approx(0, abs=LP)


@few
@given(seeds, st.integers(1, 5), st.integers(1, 5), st.integers(1, 3))
def test_distance_of_different_measures_is_positive_and_symmetric(seed, K, K2, d):
    rng = np.random.default_rng(seed)
    one, other = measure(rng, K, d), measure(rng, K2, d)
    distance = mixing_distance(*one, *other)
    assert distance > LP
    assert mixing_distance(*other, *one) == pytest.approx(distance, abs=LP)


@few
@given(seeds, st.integers(1, 7), st.integers(1, 7))
def test_linear_program_agrees_with_quantiles_on_a_line(seed, K, K2):
    rng = np.random.default_rng(seed)
    (w, m), (v, y) = measure(rng, K, 1), measure(rng, K2, 1)
    line = np.array([[0.6, -0.8]])  # a unit vector: distances on this line of the plane are those in one dimension
    assert mixing_distance(w, m @ line, v, y @ line) == pytest.approx(mixing_distance(w, m, v, y), abs=LP)


@few
@given(seeds, st.integers(1, 7))
def test_assignment_agrees_with_quantiles_on_a_line(seed, K):
    rng = np.random.default_rng(seed)
    m, y, w = rng.normal(size=(K, 1)), rng.normal(size=(K, 1)), np.full(K, 1 / K)
    line = np.array([[0.6, -0.8]])
    assert mixing_distance(w, m @ line, w, y @ line) == pytest.approx(mixing_distance(w, m, w, y), abs=ROUNDING)


@few
@given(seeds)
def test_distance_bounds_the_first_wasserstein_distance_of_scipy(seed):
    rng = np.random.default_rng(seed)
    (w, m), (v, y) = measure(rng, 4, 1), measure(rng, 3, 1)
    first = wasserstein_distance(m[:, 0], y[:, 0], w, v)
    assert mixing_distance(w, m, v, y) >= first**2 - ROUNDING  # Jensen
    assert mixing_distance(w, m, [1.0], [[9.0]]) == pytest.approx(w @ (m[:, 0] - 9) ** 2, abs=ROUNDING)


def test_far_offsets_cancel():
    rng = np.random.default_rng(0)
    (w, m), (v, y) = measure(rng, 4, 2), measure(rng, 3, 2)
    shifted = mixing_distance(w, m + 2.0**20, v, y + 2.0**20)
    assert shifted == pytest.approx(mixing_distance(w, m, v, y), rel=1e-8)  # rounding of the shifted means, 1e-10


@pytest.mark.parametrize("d", [1, 2])
def test_a_batch_agrees_with_a_loop(d):
    rng = np.random.default_rng(1)
    w, m = measure(rng, 3, d, 2, 5)
    v, y = measure(rng, 2, d)
    batch = mixing_distance(w, m, v, y)
    loop = [[mixing_distance(w[i, j], m[i, j], v, y) for j in range(5)] for i in range(2)]
    assert batch.shape == (2, 5)
    np.testing.assert_allclose(batch, loop, atol=ROUNDING)


def test_batches_broadcast():
    rng = np.random.default_rng(2)
    _, m = measure(rng, 3, 1, 4)
    v, y = measure(rng, 3, 1, 6, 1)
    w = np.array([0.2, 0.0, 0.8])
    assert mixing_distance(w, m, v, y).shape == (6, 4)


# recovery of centres


def test_errors_are_in_the_order_of_the_true_centres():
    errors = matched_errors([[10.0, 1.0], [0.0, 2.0], [50.0, 50.0]], [[0.0, 0.0], [10.0, 0.0]])
    np.testing.assert_array_equal(errors, [2, 1])


def test_two_centres_cannot_share_a_fitted_mean():
    assert not recovered([[0.0], [9.0]], [[-0.5], [0.5]], radius=1)
    assert recovered([[0.6], [-0.4]], [[-0.5], [0.5]], radius=1)


def test_recovery_is_judged_by_the_best_matching_for_the_radius():
    means, truth = [[0.0, 0.0], [-0.2, 0.97]], [[0.0, 0.0], [-1.0, 0.0]]
    np.testing.assert_allclose(matched_errors(means, truth), [0, 1.257], atol=1e-3)  # squares 0 + 1.58 < .98 + 1
    assert recovered(means, truth, radius=1)  # by the other matching


@few
@given(seeds, st.integers(1, 5), st.integers(1, 3))
def test_order_of_fitted_means_does_not_matter(seed, K, d):
    rng = np.random.default_rng(seed)
    m, y = rng.normal(size=(K, d)), rng.normal(size=(K, d))
    order = rng.permutation(K)
    np.testing.assert_allclose(matched_errors(m[order], y), matched_errors(m, y), atol=ROUNDING)
    assert recovered(m[order], y, 1.0) == recovered(m, y, 1.0)
    assert not matched_errors(y[order], y).any()
    assert recovered(m, y, matched_errors(m, y).max())


# errors name the parameter, the rule and the remedy

MIXED = ([0.5, 0.5], [[0.0], [1.0]])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: clustering_accuracy([0, 1], [0]), "y_true has 2 rows and labels 1"),
        (lambda: clustering_accuracy([], []), "y_true has the shape"),
        (lambda: clustering_accuracy([0.0, np.nan], [0, 1]), "y_true has NaN in 1 rows"),
        (lambda: mixing_distance([1.5, -0.5], MIXED[1], *MIXED), r"weights=\[1.5, -0.5\] must be non-negative"),
        (lambda: mixing_distance(*MIXED, [0.5, 0.4], MIXED[1]), "divide"),
        (lambda: mixing_distance([np.nan, 0.5], MIXED[1], *MIXED), "weights="),
        (lambda: mixing_distance(*MIXED, [0.5, 0.5], [[0.0], [np.inf]]), "true_means must be finite"),
        (lambda: mixing_distance([0.5, 0.5], [0.0, 1.0], *MIXED), "as a column"),
        (lambda: mixing_distance([1.0], [[0.0, 0.0]], *MIXED), "d = 2 and true_means d = 1"),
        (lambda: mixing_distance([1.0], np.zeros((2, 1, 1)), [1.0], np.zeros((3, 1, 1))), "leading dimensions"),
        (lambda: matched_errors([[0.0]], [[0.0], [1.0]]), "fit at least 2 components"),
        (lambda: matched_errors([[np.nan]], [[0.0]]), "must be finite"),
        (lambda: matched_errors([0.0], [[0.0]]), "as a column"),
        (lambda: recovered([[0.0]], [[0.0]], -1), "radius=-1 must be non-negative"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_matched_labels_take_the_numbers_of_the_classes():
    y, labels = ["b", "b", "a", "a", "c"], [7, 7, 3, 3, 9]
    assert matched_labels(y, labels).tolist() == [1, 1, 0, 0, 2]
    assert matched_labels(["a", "a", "a", "b"], [0, 0, 1, 2]).tolist() == [0, 0, -1, 1]
