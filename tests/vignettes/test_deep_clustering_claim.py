"""What the vignette says is so: transport does without pre-training, soft k-means does not, and a mixture reads codes best."""

import pytest

pytest.importorskip("torch")


@pytest.fixture
def table(ran):
    _, variables = ran("deep_clustering")
    return variables["table"]


def test_transport_from_random_networks_comes_near_the_autoencoder(table):
    assert table["transport"].mean() > table["autoencoder, k-means"].mean() - 0.05


def test_soft_k_means_from_random_networks_does_not(table):
    assert table["soft_kmeans"].mean() < table["transport"].mean() - 0.04


def test_random_codes_are_a_poor_start(table):
    assert table["random codes, k-means"].max() < 0.65


def test_a_mixture_of_the_autoencoders_codes_finds_more_than_k_means_of_them(table):
    assert (table["autoencoder, mixture"] - table["autoencoder, k-means"]).mean() > 0.05
