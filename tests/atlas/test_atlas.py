"""An atlas says where names lie, and names rows."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from sinkhorn_em.atlas import build_atlas, normal_scores
from sinkhorn_em.datasets import synthetic_atlas

ATLAS = synthetic_atlas(4)
X = np.random.default_rng(0).normal(size=(6, 6)) * 5 + ATLAS.means.mean(axis=0)


def test_densities_are_scipys():
    expected = [multivariate_normal(m, S).logpdf(X) for m, S in zip(ATLAS.means, ATLAS.covariances, strict=True)]
    np.testing.assert_allclose(ATLAS.log_density(X).T, expected, rtol=1e-10)


def test_a_marginal_is_the_atlas_of_some_features():
    m, S = ATLAS.means[1, 3:], ATLAS.covariances[1, 3:, 3:]
    np.testing.assert_allclose(
        ATLAS.marginal(range(3, 6)).log_density(X[:, 3:])[:, 1], multivariate_normal(m, S).logpdf(X[:, 3:]), rtol=1e-10
    )


def test_rows_at_the_means_get_their_names_and_rows_too_many_get_none():
    rows = ATLAS.means[[2, 0, 3, 1]]
    assert ATLAS.assign(rows).tolist() == [2, 0, 3, 1]
    assert sorted(ATLAS.assign(np.concatenate([rows, rows + 100])).tolist()) == [-1] * 4 + [0, 1, 2, 3]


def test_names_are_selected_and_numbered():
    part = ATLAS.select(["N3", "N1"])
    np.testing.assert_array_equal(part.means, ATLAS.means[[2, 0]])
    assert part.numbers(["N1", "N2", "N3"]).tolist() == [1, -1, 0]
    with pytest.raises(KeyError, match="the atlas has no N9"):
        ATLAS.select(["N9"])


def test_covariances_are_shrunk_as_the_formula_says():
    """Names a (three rows) and b (one row), one feature in each of two blocks."""
    rows, names = np.array([[0.0, 1.0], [3.0, 1.0], [6.0, 4.0], [50.0, 7.0]]), ["a", "a", "a", "b"]
    atlas = build_atlas(rows, names, ((0,), (1,)))
    scatter = np.array([18.0, 6.0])
    pooled = scatter / 2
    np.testing.assert_allclose(atlas.means, [[3.0, 2.0], [50.0, 7.0]])
    np.testing.assert_allclose(atlas.covariances[0], np.diag((scatter + 5 * pooled) / 7 * 4 / 3))
    np.testing.assert_allclose(atlas.covariances[1], np.diag(pooled * 2))
    np.testing.assert_allclose(atlas.weights, [0.75, 0.25])


def test_an_atlas_needs_a_name_with_two_rows():
    with pytest.raises(ValueError, match="names has 3 names for 3 rows; some name must have two rows"):
        build_atlas(np.zeros((3, 2)), ["a", "b", "c"], ((0, 1),))


def test_normal_scores_do_not_see_gain_or_saturation():
    x = np.array([[0.1], [0.9], [0.4], [0.6]])
    np.testing.assert_allclose(normal_scores(x)[:, 0], norm.ppf([0.125, 0.875, 0.375, 0.625]))
    np.testing.assert_allclose(normal_scores(3 * x**2 + 1), normal_scores(x))
    assert np.ptp(normal_scores(np.minimum(x, 0.5))[[1, 3]]) == 0


def test_an_atlas_finds_a_worm_that_was_moved():
    atlas = synthetic_atlas(60)
    rows = atlas.means.copy()
    rows[:, :3] = rows[:, :3] * 1.02 + [1.0, -0.5, 0.5]
    fit = atlas.align(rows)
    left = np.abs(fit.forward(rows[:, :3]) - atlas.means[:, :3]).mean()
    assert left < 0.2 * np.abs(rows[:, :3] - atlas.means[:, :3]).mean()
