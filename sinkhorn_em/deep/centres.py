"""The first centres, and which size belongs to which of them."""

from __future__ import annotations

import numpy as np
import torch
from sklearn.cluster import KMeans
from torch import Tensor

from .._compiled import single_threaded_blas
from .objective import cost, scaled
from .options import Options
from .state import State

STARTS = 10  # of k-means, as in scikit-learn's classical default


def kmeans_centres(codes: Tensor, options: Options, keys: list[list[int]]) -> Tensor:
    """Centres (S, K, d) of codes (S, n, d) by k-means, on at most ``kmeans_rows`` rows of each member."""
    found = []
    for z, key in zip(codes, keys, strict=True):
        rng = np.random.default_rng(key)
        rows = np.sort(rng.permutation(len(z))[: options.kmeans_rows])
        Z = scaled(z[torch.as_tensor(rows)], options).double().numpy()
        with single_threaded_blas():
            fit = KMeans(options.n_clusters, n_init=STARTS, random_state=int(rng.integers(2**31))).fit(Z)
        found.append(torch.as_tensor(fit.cluster_centers_, dtype=torch.float32))
    return torch.stack(found)


@torch.no_grad()
def natural_sizes(codes: Tensor, state: State, options: Options, rows: int = 20_000) -> Tensor:
    """Share of the rows whose nearest centre each centre is, (S, K)."""
    device = state.centres.device
    nearest = cost(codes[:, :rows].to(device), state, options).argmin(2)
    K = state.centres.shape[1]
    return torch.stack([torch.bincount(labels, minlength=K) for labels in nearest]).double() / nearest.shape[1]


def matched(weights: Tensor, sizes: Tensor) -> Tensor:
    """``weights`` (S, K) handed out so that the larger one goes to the larger of the natural ``sizes``.

    Of all one-to-one assignments this has the least sum |weight - size| (rearrangement inequality).
    """
    order = sizes.argsort(dim=1, stable=True)
    return torch.zeros_like(weights).scatter(1, order, weights.sort(dim=1).values)
