"""Small real data sets of model-based clustering, and simulations whose truth is known."""

from sinkhorn_em.datasets.blocks import simulate_latent_blocks
from sinkhorn_em.datasets.centres import simulate_centres, simulate_many_to_one_start
from sinkhorn_em.datasets.classical import (
    load_acidity,
    load_banknote,
    load_chevron,
    load_crabs,
    load_cross,
    load_diabetes,
    load_faithful,
    load_galaxies,
    load_gvhd,
    load_thyroid,
)
from sinkhorn_em.datasets.images import (
    IMAGE_SETS,
    fetch_cifar10,
    fetch_fashion_mnist,
    fetch_mnist,
    fetch_usps,
    load_digit_images,
)
from sinkhorn_em.datasets.neuropal import load_neuropal_atlas, load_neuropal_worms, simulate_neurons, synthetic_atlas
from sinkhorn_em.datasets.simulated import simulate_gaussian_mixture, simulate_many_to_one
from sinkhorn_em.datasets.single_cell import load_pbmc68k
from sinkhorn_em.datasets.spatial import fetch_dlpfc

__all__ = [
    "IMAGE_SETS",
    "fetch_cifar10",
    "fetch_dlpfc",
    "fetch_fashion_mnist",
    "fetch_mnist",
    "fetch_usps",
    "load_acidity",
    "load_banknote",
    "load_chevron",
    "load_crabs",
    "load_cross",
    "load_diabetes",
    "load_digit_images",
    "load_faithful",
    "load_galaxies",
    "load_gvhd",
    "load_neuropal_atlas",
    "load_neuropal_worms",
    "load_pbmc68k",
    "load_thyroid",
    "simulate_centres",
    "simulate_gaussian_mixture",
    "simulate_latent_blocks",
    "simulate_many_to_one",
    "simulate_many_to_one_start",
    "simulate_neurons",
    "synthetic_atlas",
]
