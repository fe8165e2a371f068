"""Similarities: exact answers, and what gross errors and missing names do to them."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from sinkhorn_em.alignment import Similarity, consensus, fit_similarity, robust_similarity, soft_similarity

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3)) * [10.0, 3.0, 2.0]
TRUE = Similarity(1.7, Rotation.from_euler("xyz", [0.4, -1.0, 2.0]).as_matrix(), np.array([5.0, -3.0, 100.0]))


def same(fit, other, atol=1e-9):
    np.testing.assert_allclose(fit.scale, other.scale, atol=atol)
    np.testing.assert_allclose(fit.rotation, other.rotation, atol=atol)
    np.testing.assert_allclose(fit.shift, other.shift, atol=100 * atol)


@pytest.mark.parametrize("fitted", [fit_similarity, robust_similarity])
def test_an_exact_similarity_comes_back(fitted):
    same(fitted(X, TRUE.forward(X)), TRUE)


def test_umeyamas_own_example():
    """Umeyama 1991, section IV: a reflection would fit exactly, the best rotation has scale .721."""
    x, y = np.array([[0.0, 0], [1, 0], [0, 2]]), np.array([[0.0, 0], [-1, 0], [0, 2]])
    fit = fit_similarity(x, y)
    np.testing.assert_allclose(fit.rotation, [[0.832, 0.555], [-0.555, 0.832]], atol=5e-4)
    np.testing.assert_allclose(fit.scale, 0.721, atol=5e-4)
    np.testing.assert_allclose(fit.shift, [-0.8, 0.4], atol=5e-4)


def test_the_fit_is_the_minimum_of_the_weighted_squares():
    y, w = TRUE.forward(X) + RNG.normal(size=X.shape), RNG.uniform(size=len(X))

    def loss(fit):
        return w @ ((y - fit.forward(X)) ** 2).sum(axis=1)

    best = fit_similarity(X, y, w)
    for _ in range(50):
        turn = Rotation.from_rotvec(1e-3 * RNG.normal(size=3)).as_matrix()
        other = Similarity(
            best.scale * (1 + 1e-3 * RNG.normal()), turn @ best.rotation, best.shift + 1e-2 * RNG.normal(size=3)
        )
        assert loss(other) >= loss(best)


def test_points_of_weight_zero_do_not_count():
    y = TRUE.forward(X)
    y[:5] += 1000
    same(fit_similarity(X, y, np.arange(len(X)) >= 5), TRUE)


def test_gross_errors_move_least_squares_but_not_the_robust_fit():
    """30 % gross errors; what is left of them in a Student fit is of the order of the small errors, .01."""
    y = TRUE.forward(X) + 0.01 * RNG.normal(size=X.shape)
    y[:12] += RNG.normal(size=(12, 3)) * 50
    off = [np.abs(fit(X, y).forward(X) - TRUE.forward(X)).max() for fit in (robust_similarity, fit_similarity)]
    assert off[0] < 0.1
    assert off[1] > 5


def test_several_sets_come_together_and_keep_their_size():
    names = [f"n{i}" for i in range(len(X))]
    turns = [
        Similarity(c, Rotation.from_euler("z", a).as_matrix(), np.full(3, a)) for c, a in ((0.8, 0.3), (1.25, -0.2))
    ]
    sets = [turns[0].forward(X), turns[1].forward(X)[5:]]
    aligned = consensus(sets, [names, names[5:]])
    np.testing.assert_allclose(aligned[0][5:], aligned[1], atol=1e-6)
    size = np.linalg.norm(aligned[0] - aligned[0].mean(axis=0)) / np.linalg.norm(X - X.mean(axis=0))
    np.testing.assert_allclose(size, 1.0, atol=1e-3)  # the geometric mean of .8 and 1.25 is 1


@pytest.mark.parametrize("tau", [0, 1])
def test_points_without_names_find_their_centres(tau):
    moved = Similarity(1.05, Rotation.from_euler("xyz", [0.1, -0.05, 0.05]).as_matrix(), np.array([0.5, -0.4, 0.3]))
    centres, order = moved.forward(X), RNG.permutation(len(X))

    def scores(points):
        return -((points[:, None] - centres) ** 2).sum(axis=2) / 2

    found = soft_similarity(X[order], scores, centres, np.full(len(X), 1 / len(X)), np.ones(len(X)), tau)
    assert np.abs(found.forward(X) - centres).max() < 0.3 * np.abs(X - centres).max()


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (X, X[:3], r"X has shape \(40, 3\) and Y \(3, 3\)"),
        (np.ones((4, 3)), np.ones((4, 3)), "all 4 points of X"),
        (X, X * np.nan, "X or Y has entries that are NaN"),
        (X, np.zeros_like(X), "the best scale from X to Y is 0; it must be positive"),
        (X[:, :1], -X[:, :1], "the best scale from X to Y is -1; it must be positive"),
    ],
)
def test_points_that_do_not_fit_are_refused(x, y, message):
    with pytest.raises(ValueError, match=message):
        fit_similarity(x, y)


@pytest.mark.parametrize("weights", [np.ones(3), -np.ones(40), np.zeros(40), np.full(40, np.nan)])
def test_weights_that_do_not_fit_are_refused(weights):
    with pytest.raises(
        ValueError, match=r"weights has shape .* and sum .*; it must be \(40,\) numbers >= 0, not all 0"
    ):
        fit_similarity(X, X, weights)


def test_a_set_without_common_names_is_named():
    with pytest.raises(
        ValueError, match=r"names\[2\] shares 1 names with the other sets; a similarity needs at least 2"
    ):
        consensus([X[:3], X[:3], X[:3]], ["abc", "abc", "cde"])
