"""The first centres, and which size belongs to which of them."""

from __future__ import annotations

import warnings

import numpy as np
import torch
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from .._compiled import single_threaded_blas
from ..mixture import GaussianMixture
from .assignment import nearest
from .objective import scaled
from .options import Options
from .state import State

STARTS = 10  # of k-means, as in scikit-learn's classical default
MIXTURE_STARTS = 5


def first_centres(codes: Tensor, weights: Tensor, options: Options, keys: list[list[int]]) -> Tensor:
    """Centres (S, K, d) of codes (S, n, d), on at most ``kmeans_rows`` rows; ``weights`` (S, K) are the sizes of a mixture."""
    found = []
    for z, w, key in zip(codes, weights, keys, strict=True):
        rng = np.random.default_rng(key)
        z = z[torch.as_tensor(np.sort(rng.permutation(len(z))[: options.kmeans_rows]))]
        seed = int(rng.integers(2**31))
        with single_threaded_blas():
            if options.centres == "mixture":
                found.append(mixture_centres(z, w.cpu().numpy(), options, seed))
            else:
                fit = KMeans(options.n_clusters, n_init=STARTS, random_state=seed)
                found.append(torch.as_tensor(fit.fit(scaled(z, options).double().numpy()).cluster_centers_))
    return torch.stack(found).float()


def mixture_centres(z: Tensor, weights: np.ndarray, options: Options, seed: int) -> Tensor:
    """Means (K, d) of the clusters that a Gaussian mixture with the sizes held finds among codes z (n, d), by Sinkhorn-EM.

    Clusters of codes are ellipses, which the spheres of k-means cut across: the mixture finds them, and its sizes keep it from
    merging two. Codes are those before they are scaled to length 1, the means of those after.
    """
    codes = z.double().numpy()
    mixture = GaussianMixture(options.n_clusters, weights=weights, n_init=MIXTURE_STARTS, random_state=seed)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", ConvergenceWarning)
        mixture.fit(codes)
    if told:
        warnings.warn(
            f"centres is 'mixture', and the mixture of the codes says: {told[0].message}. centres='kmeans' asks less of them",
            ConvergenceWarning,
            stacklevel=2,
        )
    labels = torch.as_tensor(mixture.predict(codes))
    points = scaled(z, options).double()
    means = [points[labels == k].mean(0) for k in range(options.n_clusters)]
    alone = torch.as_tensor(mixture.means_)
    return torch.stack([m if bool(torch.isfinite(m).all()) else alone[k] for k, m in enumerate(means)])


@torch.no_grad()
def natural_sizes(codes: Tensor, state: State, options: Options) -> Tensor:
    """Share of the rows whose nearest centre each centre is, (S, K)."""
    K, labels = state.centres.shape[1], nearest(codes, state, options)
    return torch.stack([torch.bincount(own, minlength=K) for own in labels]).double() / labels.shape[1]


def matched(weights: Tensor, sizes: Tensor) -> Tensor:
    """``weights`` (S, K) handed out so that the larger one goes to the larger of the natural ``sizes``.

    Of all one-to-one assignments this has the least sum |weight - size| (rearrangement inequality).
    """
    order = sizes.argsort(dim=1, stable=True)
    return torch.zeros_like(weights).scatter(1, order, weights.sort(dim=1).values)
