"""Random centres keep their distance, and many-to-one starts are what they say."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist, pdist

from sinkhorn_em.datasets import simulate_centres, simulate_many_to_one_start


@pytest.mark.parametrize("K", [1, 3, 20, 50])
@pytest.mark.parametrize("d", [1, 2, 5, 10])
def test_centres_keep_their_distance_inside_the_cube(K, d):
    centres = simulate_centres(K, d, 4.0, random_state=0)
    assert centres.shape == (K, d)
    assert np.abs(centres).max() <= 2.0 * (2 * K) ** (1 / d)
    assert K == 1 or pdist(centres).min() >= 4.0


def test_the_seed_decides_and_the_unit_does_not_matter():
    np.testing.assert_array_equal(simulate_centres(5, 2, 4, random_state=1), simulate_centres(5, 2, 4, random_state=1))
    np.testing.assert_allclose(
        simulate_centres(5, 2, 8, random_state=1), 2 * simulate_centres(5, 2, 4, random_state=1), rtol=1e-14
    )


@pytest.mark.parametrize("n_crowded", [0, 1, 3])
def test_so_many_clusters_have_two_centres_and_so_many_none(n_crowded):
    means = simulate_centres(6, 2, 5.0, random_state=0)
    start = simulate_many_to_one_start(means, n_crowded, scale=0.01, random_state=2)
    owners = np.bincount(cdist(start, means).argmin(axis=1), minlength=6)
    assert np.bincount(owners, minlength=3).tolist() == [n_crowded, 6 - 2 * n_crowded, n_crowded]


def test_the_noise_of_a_start_has_its_scale():
    """1000 distances of the start to the only mean: chi-squared of 2 degrees of freedom, standard error of the mean .06."""
    start = simulate_many_to_one_start(np.zeros((1000, 2)), 0, scale=3.0, random_state=0)
    assert np.mean(start**2) == pytest.approx(9.0, rel=0.15)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: simulate_centres(0, 2, 4.0), "n_components=0 must be an integer"),
        (lambda: simulate_centres(3, 1.5, 4.0), "n_features=1.5 must be an integer"),
        (lambda: simulate_centres(3, 2, 0.0), "separation=0.0 must be positive"),
        (lambda: simulate_many_to_one_start(np.zeros(3), 1), "must be a finite array"),
        (lambda: simulate_many_to_one_start(np.zeros((3, 1)), 2), "from 0 to K // 2 = 1"),
        (lambda: simulate_many_to_one_start(np.zeros((3, 1)), 1, scale=-1.0), "scale=-1.0"),
    ],
)
def test_parameters_that_break_a_rule_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
