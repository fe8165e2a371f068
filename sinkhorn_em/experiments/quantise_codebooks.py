"""What `quantise` compares: rows of photographs and of an embedding, and the codebooks that each method finds for them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.cluster import KMeans, kmeans_plusplus
from sklearn.datasets import load_digits, load_sample_image
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning

from .._typing import Floats, Integers
from ..mixture import GaussianMixture
from .base import ReproductionError

PLAIN, SHARP = "Sinkhorn-EM", "Sinkhorn-EM, sharp"
METHODS = ("k-means", "EM", PLAIN, SHARP)
STARTS = ("random rows", "k-means++")
SIDE = 4  # of a patch, pixels
COMPONENTS = 16  # principal components of the digits
TEMPERATURE = 0.1  # variance of a sharp E-step, as a share of what k-means leaves of a feature
ITERATIONS = 60


def load(data: str) -> Floats:
    """All rows of a data set (n, d): pixels in [0, 1], patches of them, or components of the digits."""
    if data == "digits":
        Z = PCA(COMPONENTS, random_state=0).fit_transform(load_digits().data)
        return Z / np.sqrt((Z**2).sum(axis=1).mean())
    picture = photograph("china.jpg")
    if data == "colours":
        return picture.reshape(-1, 3)
    height, width = (size // SIDE for size in picture.shape[:2])
    blocks = picture[: height * SIDE, : width * SIDE].reshape(height, SIDE, width, SIDE, 3)
    return blocks.swapaxes(1, 2).reshape(height * width, -1)


def photograph(name: str) -> Floats:
    """One of scikit-learn's two photographs, (height, width, 3), values in [0, 1]."""
    try:
        return load_sample_image(name) / 255.0
    except ImportError as error:
        raise ReproductionError(f"reading {name} needs Pillow ({error}): pip install 'sinkhorn-em[plot]'") from None


def draw_start(X: Floats, codes: int, start: str, seed: int) -> Floats:
    if start == "k-means++":
        return kmeans_plusplus(X, codes, random_state=seed)[0]
    return X[np.random.default_rng(seed).choice(len(X), codes, replace=False)]


def codebooks(X: Floats, first: Floats) -> dict[str, tuple[Floats, float, bool]]:
    """Codes (K, d), the variance of a sharp E-step, and whether the method converged, from the same codes ``first``."""
    K = len(first)
    k_means = KMeans(K, init=first, n_init=1, max_iter=300, tol=0.0).fit(X)
    variance = TEMPERATURE * float(k_means.inertia_) / X.size
    found = {"k-means": (k_means.cluster_centers_, variance, k_means.n_iter_ < 300)}
    for method, tau, bounds in (("EM", 0.0, None), (PLAIN, 1.0, None), (SHARP, 1.0, (0.0, variance))):
        options: dict[str, Any] = {"tau": tau, "eigenvalue_bounds": bounds, "max_iter": ITERATIONS, "tol": 1e-4}
        mixture = GaussianMixture(K, covariance_type="tied_spherical", weights="uniform", means_init=first, **options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # kept in the table
            mixture.fit(X)
        found[method] = (mixture.means_, variance, mixture.converged_)
    return found


def quantiser(codes: Floats, variance: float) -> GaussianMixture:
    """Any codebook as a mixture: its labels are the nearest codes, its plan is the balanced assignment."""
    K = len(codes)
    return GaussianMixture.from_parameters(np.full(K, 1 / K), codes, variance, covariance_type="tied_spherical")


def assignments(mixture: GaussianMixture, X: Floats) -> dict[str, Integers]:
    return {"nearest": mixture.predict(X), "balanced": mixture.transport_plan(X).responsibilities.argmax(axis=1)}
