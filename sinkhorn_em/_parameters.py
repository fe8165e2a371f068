"""What is asked of the weights and means of a mixture that a caller gives."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._typing import Floats

SUM_TOLERANCE = 1e-8  # weights typed with eight digits still count as summing to one
SYMMETRY_TOLERANCE = 1e-8  # relative; room for a covariance computed in another order


def valid_weights(weights: Any) -> Floats:
    """Weights (K,), scaled to sum exactly 1; ValueError if they are negative or sum to something else."""
    b = np.asarray(weights, dtype=np.float64)
    valid = b.ndim == 1 and b.size > 0 and np.all(b >= 0) and abs(b.sum() - 1) <= SUM_TOLERANCE
    if not valid:
        raise ValueError(
            f"weights={weights!r} must be a vector of non-negative numbers that sum to 1; "
            "divide non-negative numbers by their sum."
        )
    return b / b.sum()


def valid_means(means: Any, n_components: int) -> Floats:
    """Means (K, d); ValueError if they are not finite, or not one for every weight."""
    mu = np.asarray(means, dtype=np.float64)
    if mu.ndim != 2 or len(mu) != n_components or mu.shape[1] == 0 or not np.all(np.isfinite(mu)):
        raise ValueError(
            f"means={mu.tolist()} must be a finite array of shape (K, d) with K = {n_components}, the length "
            "of weights; write one-dimensional means as a column, means[:, None]."
        )
    return mu
