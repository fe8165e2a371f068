"""Random centres of clusters, and starts that misplace them."""

from __future__ import annotations

from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .simulated import Seed

ROOM = 2  # cells of side ``separation`` for every centre: places are found after a few trials in every dimension
MAX_TRIALS = 100_000  # points drawn for one set of centres


def simulate_centres(
    n_components: int, n_features: int, separation: float, *, random_state: Seed = None
) -> NDArray[np.float64]:
    """Draw centres that keep a distance: random sequential addition in a cube.

    Points are uniform in a cube of volume ``2 K separation ** d``, and one that is nearer than ``separation`` to an earlier one is
    drawn again.

    Parameters
    ----------
    n_components : int
        Number of centres K, at least 1.
    n_features : int
        Dimension d, at least 1.
    separation : float
        Smallest distance of two centres, positive, in the units of the data.
    random_state : int, numpy.random.Generator or None, default=None
        Seed or source of the draws.

    Returns
    -------
    centres : ndarray of shape (K, d)
        The middle of the cube is the origin.

    Raises
    ------
    ValueError
        If a parameter breaks its rule above.
    RuntimeError
        If no place is found in 100 000 trials: the cube is full.
    """
    for name, value in (("n_components", n_components), ("n_features", n_features)):
        if not isinstance(value, Integral) or value < 1:
            raise ValueError(f"{name}={value!r} must be an integer of at least 1.")
    if not (np.isfinite(separation) and separation > 0):
        raise ValueError(
            f"separation={separation!r} must be positive and finite; 4 to 6 standard deviations are usual."
        )
    rng = np.random.default_rng(random_state)
    side = separation * (ROOM * n_components) ** (1 / n_features)
    centres = np.empty((0, n_features))
    for _ in range(MAX_TRIALS):
        point = rng.uniform(-side / 2, side / 2, n_features)
        if np.all(np.linalg.norm(centres - point, axis=1) >= separation):
            centres = np.vstack([centres, point])
        if len(centres) == n_components:
            return centres
    raise RuntimeError(
        f"{n_components} centres with separation {separation} were not placed in {MAX_TRIALS} trials; another seed may do."
    )


def simulate_many_to_one_start(
    means: ArrayLike, n_crowded: int, *, scale: float = 1.0, random_state: Seed = None
) -> NDArray[np.float64]:
    """Draw a start with two centres on some clusters and none on as many others.

    Clusters are chosen at random. A centre is the mean of its cluster plus normal noise: with ``scale`` the standard deviation of
    a spherical cluster, a draw from it.

    Parameters
    ----------
    means : array-like of shape (K, d)
        Means of the true clusters.
    n_crowded : int
        Number of clusters with two centres, from 0 (one for every cluster) to K / 2.
    scale : float, default=1.0
        Standard deviation of the noise, not negative.
    random_state : int, numpy.random.Generator or None, default=None
        Seed or source of the draws.

    Returns
    -------
    start : ndarray of shape (K, d)
        In random order.

    Raises
    ------
    ValueError
        If a parameter breaks its rule above.
    """
    mu = np.asarray(means, dtype=np.float64)
    if mu.ndim != 2 or 0 in mu.shape or not np.all(np.isfinite(mu)):
        raise ValueError(f"means={mu.tolist()} must be a finite array of shape (K, d).")
    K = len(mu)
    if not isinstance(n_crowded, Integral) or not 0 <= n_crowded <= K // 2:
        raise ValueError(f"n_crowded={n_crowded!r} must be an integer from 0 to K // 2 = {K // 2}.")
    if not (np.isfinite(scale) and scale >= 0):
        raise ValueError(f"scale={scale!r} must be finite and not negative.")
    rng = np.random.default_rng(random_state)
    order = rng.permutation(K)
    crowded, covered = order[:n_crowded], order[: K - n_crowded]
    return rng.permutation(mu[np.concatenate([crowded, covered])]) + scale * rng.standard_normal(mu.shape)
