"""The matrices of the simulation study `coclustering`, the methods that are run on them, and what is measured."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BiclusterMixin
from sklearn.cluster import KMeans, SpectralBiclustering, SpectralCoclustering
from sklearn.metrics import adjusted_rand_score, consensus_score

from .._typing import Floats, Integers
from ..block_families import BlockFamily, Gaussian, Poisson
from ..coclustering import LatentBlockModel
from ..coclustering.model import block_indicators
from ..datasets import simulate_latent_blocks
from ..metrics import coclustering_ari
from .base import fit_quietly

VEM, VEM_LEARNED, SVEM = "VEM, uniform weights", "VEM, learned weights", "SVEM, uniform weights"
DEFAULT = "default (burn-in, VEM)"
VEM_TRUE, SVEM_TRUE = "VEM, true weights", "SVEM, true weights"
BICLUSTERING, COCLUSTERING, KMEANS = "SpectralBiclustering", "SpectralCoclustering", "k-means, each side"
RIVALS = (BICLUSTERING, COCLUSTERING, KMEANS)
FROM_TRUTH = {name: f"{name}, from the truth" for name in (VEM, VEM_LEARNED, SVEM)}
HELD: dict[str, Any] = {"row_weights": "uniform", "column_weights": "uniform"}
MODELS: dict[str, dict[str, Any]] = {VEM: {"tau": 0.0, **HELD}, VEM_LEARNED: {"tau": 0.0}, SVEM: HELD, DEFAULT: {}}
FAMILIES: dict[str, BlockFamily] = {"Gaussian": Gaussian(variance="common"), "Poisson": Poisson()}
KMEANS_STARTS = 10
LARGEST = 5.0  # cluster over the smallest one, where blocks are unbalanced
BALANCED, UNBALANCED = "balanced", "unbalanced"


class Size(NamedTuple):
    """A matrix, its clusters, and how far apart the blocks are."""

    n: int
    m: int
    K: int
    L: int
    gap: float  # standard deviation of the means of Gaussian blocks of variance 1
    log_gap: float  # of the log-rates of Poisson blocks


SIZES = {
    "200 x 100": Size(200, 100, 5, 4, 0.5, 0.3),
    "400 x 200": Size(400, 200, 7, 6, 0.3, 0.2),
    "120 x 120": Size(120, 120, 10, 10, 1.0, 0.5),  # quick mode: a few matrices show the difference
}


class Blocks(NamedTuple):
    """A matrix and the truth."""

    X: Floats  # (n, m)
    family: BlockFamily
    rows: Integers  # (n,) true clusters
    columns: Integers  # (m,)
    row_weights: Floats  # (K,)
    column_weights: Floats  # (L,)


def draw_blocks(family: str, size: Size, balance: str, rng: np.random.Generator) -> Blocks:
    """Means gap N(0, 1) with variance 1, or rates exp(log_gap N(0, 1)); sizes equal, or geometric."""
    deviations = rng.normal(size=(size.K, size.L))
    parameters = size.gap * deviations if family == "Gaussian" else np.exp(size.log_gap * deviations)
    pi, rho = (None if balance == BALANCED else _geometric(count) for count in (size.K, size.L))
    drawn = simulate_latent_blocks(
        size.n, size.m, parameters, family=family.lower(), row_weights=pi, column_weights=rho, random_state=rng
    )
    truth = drawn.row_labels, drawn.column_labels, drawn.row_weights, drawn.column_weights
    return Blocks(drawn.data.astype(float), FAMILIES[family], *truth)


def _geometric(n_clusters: int) -> Floats:
    shares = np.geomspace(LARGEST, 1, n_clusters)
    return shares / shares.sum()


def fit_all(blocks: Blocks, everything: bool, seed: int) -> Iterator[tuple[str, Any]]:
    """Name and fit of every method; the models of ``seed`` start at the same labels, and from the truth."""
    K, L = len(blocks.row_weights), len(blocks.column_weights)
    truth = {"row_labels": blocks.rows, "column_labels": blocks.columns}
    models = dict(MODELS)
    if everything and blocks.row_weights[0] != blocks.row_weights[-1]:
        true = {"row_weights": blocks.row_weights, "column_weights": blocks.column_weights}
        models |= {VEM_TRUE: {"tau": 0.0, **true}, SVEM_TRUE: true}
    for name, options in models.items():
        model = LatentBlockModel(K, L, family=blocks.family, init="random", random_state=seed, **options)
        yield name, fit_quietly(model, blocks.X)
        if name in FROM_TRUTH:
            yield FROM_TRUTH[name], fit_quietly(model, blocks.X, **truth)
    if everything:
        yield BICLUSTERING, SpectralBiclustering((K, L), random_state=seed).fit(blocks.X)
        yield COCLUSTERING, SpectralCoclustering(max(K, L), random_state=seed).fit(blocks.X)
        yield KMEANS, EachSide(blocks.X, K, L, seed)


class EachSide(BiclusterMixin):
    """k-means of the rows and of the columns, best of some starts; blocks are all pairs of clusters."""

    def __init__(self, X: Floats, K: int, L: int, seed: int) -> None:
        sides = ((X, K), (X.T, L))
        z, w = (KMeans(count, n_init=KMEANS_STARTS, random_state=seed).fit(Y).labels_ for Y, count in sides)
        self.row_labels_, self.column_labels_ = z, w
        self.rows_, self.columns_ = block_indicators(z, w, K, L)


def measures(blocks: Blocks, fit: Any, consensus: bool) -> dict[str, Any]:
    """Agreement with the truth, and how a model got there; a loss is the negative bound per cell, nats."""
    z, w = fit.row_labels_, fit.column_labels_
    K, L = len(blocks.row_weights), len(blocks.column_weights)
    true = block_indicators(blocks.rows, blocks.columns, K, L)
    found = {
        "row_ari": round(adjusted_rand_score(blocks.rows, z), 4),
        "column_ari": round(adjusted_rand_score(blocks.columns, w), 4),
        "cari": round(coclustering_ari(blocks.rows, blocks.columns, z, w), 4),
        "consensus": round(consensus_score(fit.biclusters_, true), 4) if consensus else np.nan,
    }
    if not isinstance(fit, LatentBlockModel):
        return found
    return {
        **found,
        "loss": round(-fit.bound_ / blocks.X.size, 7),
        "sweeps": fit.n_iter_,
        "passes": fit.n_passes_,
        "empty": K + L - len(np.unique(z)) - len(np.unique(w)),
    }
