"""Draws from Gaussian mixtures whose parameters are known."""

from __future__ import annotations

from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Bunch

from .._parameters import SYMMETRY_TOLERANCE, valid_means, valid_weights

Seed = int | np.random.Generator | None


def simulate_gaussian_mixture(
    n_samples: int,
    weights: ArrayLike,
    means: ArrayLike,
    covariances: ArrayLike,
    *,
    random_state: Seed = None,
    balanced_counts: bool = False,
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Draw from the Gaussian mixture ``sum_k weights_k N(means_k, covariances_k)``, in random order.

    Parameters
    ----------
    n_samples : int
        Number of draws n, at least 1.
    weights : array-like of shape (K,)
        Component weights, non-negative, sum 1.
    means : array-like of shape (K, d)
        Component means.
    covariances : array-like of shape (K, d, d) or (d, d)
        Component covariances, positive definite; one matrix serves all components.
    random_state : int, numpy.random.Generator or None, default=None
        Seed or source of the draws.
    balanced_counts : bool, default=False
        False: counts are multinomial. True: counts are ``n_samples * weights`` rounded by largest remainder.

    Returns
    -------
    X : ndarray of shape (n, d)
        The draws.
    labels : ndarray of shape (n,)
        The component of each draw.

    Raises
    ------
    ValueError
        If a parameter breaks its rule above.
    """
    b = valid_weights(weights)
    mu = valid_means(means, len(b))
    roots = _cholesky_roots(covariances, *mu.shape)  # (K, d, d)
    n = valid_count(n_samples)
    rng = np.random.default_rng(random_state)
    counts = largest_remainder(n, b) if balanced_counts else rng.multinomial(n, b)
    labels = rng.permutation(np.repeat(np.arange(len(b)), counts))
    X = rng.standard_normal((n, mu.shape[1]))
    for k, root in enumerate(roots):
        X[labels == k] = X[labels == k] @ root.T + mu[k]
    return X, labels


def simulate_many_to_one(radius: float, n_samples: int, *, random_state: Seed = None) -> Bunch:
    """Draw the one-dimensional problem on which EM keeps two components on one cluster.

    Three components of weight 1/3 and variance 1 at (-R, R, 10 R). In the start (0, 10 R - 1, 10 R + 1) one
    component covers two clusters and two share the third. With weights and variances known, EM does not get
    away from there; Sinkhorn-EM reaches the truth.

    Parameters
    ----------
    radius : float
        R, positive, in standard deviations; the clusters are well separated from R = 3 on.
    n_samples : int
        Number of draws n, at least 1; the counts of the components are multinomial.
    random_state : int, numpy.random.Generator or None, default=None
        Seed or source of the draws.

    Returns
    -------
    dataset : :class:`~sklearn.utils.Bunch`
        ``data`` (n, 1), ``target`` (n,), ``means`` (3, 1) the truth, ``start`` (3, 1) the many-to-one start.

    Raises
    ------
    ValueError
        If a parameter breaks its rule above.
    """
    if not (np.isfinite(radius) and radius > 0):
        raise ValueError(f"radius={radius!r} must be positive and finite; 3, 5 and 10 show the effect.")
    means = np.array([[-radius], [radius], [10 * radius]])
    start = np.array([[0.0], [10 * radius - 1], [10 * radius + 1]])
    X, labels = simulate_gaussian_mixture(n_samples, np.full(3, 1 / 3), means, [[1.0]], random_state=random_state)
    return Bunch(data=X, target=labels, means=means, start=start)


def valid_count(count: int, name: str = "n_samples") -> int:
    """A number of draws, rows or columns."""
    if not isinstance(count, Integral) or count < 1:
        raise ValueError(f"{name}={count!r} must be an integer of at least 1; pass a whole number.")
    return int(count)


def _cholesky_roots(covariances: ArrayLike, n_components: int, n_features: int) -> NDArray[np.float64]:
    """Lower triangular roots of the covariances (K, d, d)."""
    sigma = np.asarray(covariances, dtype=np.float64)
    shape = (n_components, n_features, n_features)
    if sigma.shape not in (shape, shape[1:]):
        raise ValueError(
            f"covariances of shape {sigma.shape} must have the shape (K, d, d) = {shape} or (d, d) = "
            f"{shape[1:]}; write variances as a diagonal matrix, numpy.diag(variances)."
        )
    roots = [_cholesky_root(k, sigma_k) for k, sigma_k in enumerate(np.broadcast_to(sigma, shape))]
    return np.array(roots, dtype=np.float64)


def _cholesky_root(k: int, sigma: NDArray[np.float64]) -> NDArray[np.floating]:
    try:
        if np.all(np.isfinite(sigma)) and np.allclose(sigma, sigma.T, rtol=SYMMETRY_TOLERANCE, atol=0):
            return np.linalg.cholesky(sigma)
    except np.linalg.LinAlgError:
        pass  # not positive definite: the same rule, the same message
    raise ValueError(
        f"covariances[{k}]={sigma.tolist()} must be finite, symmetric and positive definite; "
        "symmetrise it or add a positive number to its diagonal."
    )


def largest_remainder(n: int, weights: NDArray[np.float64]) -> NDArray[np.int64]:
    """Round ``n * weights`` to counts that sum to n: down, then up where most was lost (first of ties)."""
    quota = n * weights
    counts = np.floor(quota).astype(np.int64)
    lost = np.argsort(counts - quota, kind="stable")
    counts[lost[: n - counts.sum()]] += 1
    return counts
