"""Neurons: the files of a folder, and the simulation."""

import numpy as np
import pytest

from sinkhorn_em.datasets import load_neuropal_atlas, load_neuropal_worms, simulate_neurons, synthetic_atlas


@pytest.mark.parametrize(("part", "K", "name"), [("head", 195, "ADAL"), ("tail", 45, "PDA")])
def test_the_atlas_has_its_neurons_in_two_blocks(shared, part, K, name):
    atlas = load_neuropal_atlas(shared / "data", part=part)
    assert atlas.means.shape == (K, 6)
    assert len(set(atlas.names)) == K
    assert name in atlas.names
    assert not atlas.covariances[:, :3, 3:].any()
    assert (np.linalg.eigvalsh(atlas.covariances) > 0).all()


def test_seven_worms_have_the_counts_of_the_table(shared):
    worms = load_neuropal_worms(shared / "data" / "neuropal")
    assert len(worms) == 1654
    assert worms["worm"].nunique() == 7
    assert (worms.groupby("id")["worm"].nunique() == 7).sum() == 93
    assert not worms["id"].str.startswith("pop_").any()


def test_what_is_not_there_is_named(tmp_path):
    with pytest.raises(
        FileNotFoundError, match=r"worms_straightened.csv is neither in .* nor in its subfolder neuropal"
    ):
        load_neuropal_worms(tmp_path)
    with pytest.raises(ValueError, match="part='body' must be 'head' or 'tail'"):
        load_neuropal_atlas(tmp_path, part="body")


def test_the_made_up_atlas_has_the_shape_of_the_real_one():
    atlas = synthetic_atlas(9)
    assert atlas.means.shape == (9, 6)
    assert not atlas.covariances[:, :3, 3:].any()
    assert (np.linalg.eigvalsh(atlas.covariances) > 0).all()
    np.testing.assert_array_equal(synthetic_atlas(9).means, atlas.means)
    assert not np.array_equal(synthetic_atlas(9, random_state=1).means, atlas.means)


def test_a_worm_is_drawn_from_the_shifted_atlas():
    """Mahalanobis distances of centres are chi-squared with 6 degrees of freedom: their mean over 300 is 6 +- .2, five of them."""
    worm = simulate_neurons(synthetic_atlas(300), 3000, random_state=0)
    np.testing.assert_allclose(worm.atlas.means[:, :3].min(axis=0), 5.0)
    delta = worm.means - worm.atlas.means
    radii = np.einsum("ki,ki->k", delta, np.linalg.solve(worm.atlas.covariances, delta[:, :, None])[:, :, 0])
    assert radii.mean() == pytest.approx(6, abs=1.0)
    logs = np.log(worm.covariances[:, 0, 0])  # standard errors .0058 and .0041; five of them
    assert logs.mean() == pytest.approx(1.0, abs=0.03)
    assert logs.std() == pytest.approx(0.1, abs=0.02)


def test_background_has_its_share_and_no_neuron():
    """Binomial standard deviation of 3000 draws: .0073; five of them."""
    worm = simulate_neurons(synthetic_atlas(), 3000, background=0.2, random_state=0)
    assert (worm.target == -1).mean() == pytest.approx(0.2, abs=0.037)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: synthetic_atlas(0), "n_neurons=0 must be an integer of at least 1"),
        (lambda: simulate_neurons(synthetic_atlas(), 10, background=1.0), r"background=1.0 must be in \[0, 1\)"),
        (lambda: simulate_neurons(synthetic_atlas(), 10, background=-0.1), r"background=-0.1 must be in \[0, 1\)"),
    ],
)
def test_bad_options_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
