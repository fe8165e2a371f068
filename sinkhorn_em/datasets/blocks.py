"""Draws of a latent block model: a matrix whose rows and columns have known clusters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import Bunch

from .._parameters import valid_weights
from .._typing import Floats, Integers
from .simulated import Seed, largest_remainder, valid_count

Draw = Callable[[np.random.Generator, Floats, Floats], Any]


def _negative_binomial(rng: np.random.Generator, mean: Floats, dispersion: Floats) -> Integers:
    """As a Poisson count whose rate is gamma with shape r and mean mu: a mean of 0 gives zeros."""
    return rng.poisson(mean * rng.gamma(dispersion, 1 / dispersion, mean.shape))


FAMILIES: dict[str, Draw] = {
    "gaussian": lambda rng, mean, scale: rng.normal(mean, scale),
    "poisson": lambda rng, mean, scale: rng.poisson(mean),
    "bernoulli": lambda rng, mean, scale: rng.binomial(1, mean),
    "negative_binomial": _negative_binomial,
}
SCALED = ("gaussian", "negative_binomial")
EXPOSED = ("poisson", "negative_binomial")


def simulate_latent_blocks(
    n_rows: int,
    n_columns: int,
    parameters: ArrayLike,
    *,
    family: str = "gaussian",
    scale: ArrayLike = 1.0,
    row_weights: ArrayLike | None = None,
    column_weights: ArrayLike | None = None,
    counts: str = "balanced",
    row_exposure: ArrayLike | None = None,
    column_exposure: ArrayLike | None = None,
    random_state: Seed = None,
) -> Bunch:
    r"""Draw an n x m matrix of a latent block model, rows and columns in random order.

    .. math:: X_{ij} \mid z_i = k, w_j = l \;\sim\; f(\,\cdot\,; \mu_{kl}), \qquad \text{independent, of mean } a_i b_j \mu_{kl}

    Parameters
    ----------
    n_rows, n_columns : int
        n and m, at least 1.
    parameters : array-like of shape (K, L)
        mu: means of a Gaussian, non-negative rates of counts, probabilities of a Bernoulli.
    family : "gaussian", "poisson", "bernoulli" or "negative_binomial"
    scale : float or array-like of shape (K, L)
        Positive. Gaussian: the standard deviation. Negative binomial: the dispersion r, the variance of a cell of mean mu being
        mu + mu^2 / r. The other families have none and leave it at 1.
    row_weights : array-like of shape (K,), optional
        Non-negative, sum 1; None: equal.
    column_weights : array-like of shape (L,), optional
    counts : "balanced" or "multinomial"
        Sizes of clusters: weights times n (or m), rounded by largest remainder; or drawn.
    row_exposure : array-like of shape (n,), optional
        a, non-negative, such as size factors of the rows; for counts. None: 1.
    column_exposure : array-like of shape (m,), optional
        b.
    random_state : int, numpy.random.Generator or None

    Returns
    -------
    dataset : :class:`~sklearn.utils.Bunch`
        ``data`` (n, m), float64 for a Gaussian, else int64; ``row_labels`` (n,), ``column_labels`` (m,); ``parameters`` (K, L),
        ``scale`` (K, L), ``row_weights``, ``column_weights``, ``row_exposure`` (n,), ``column_exposure`` (m,), ``family``: what
        was drawn from.

    Raises
    ------
    ValueError
        If a parameter breaks its rule above.

    References
    ----------
    Govaert & Nadif 2013, Co-Clustering: Models, Algorithms and Applications.
    """
    mu, spread = _valid_blocks(parameters, family, scale)
    pi = _valid_side(row_weights, len(mu), "row_weights")
    rho = _valid_side(column_weights, mu.shape[1], "column_weights")
    if counts not in ("balanced", "multinomial"):
        raise ValueError(f"counts={counts!r} must be 'balanced' or 'multinomial'.")
    n, m = valid_count(n_rows, "n_rows"), valid_count(n_columns, "n_columns")
    a = _valid_exposure(row_exposure, n, "row_exposure", family)
    b = _valid_exposure(column_exposure, m, "column_exposure", family)
    rng = np.random.default_rng(random_state)
    z, w = _labels(rng, n, pi, counts), _labels(rng, m, rho, counts)
    cells = np.ix_(z, w)
    data = FAMILIES[family](rng, a[:, None] * b * mu[cells], spread[cells])
    return Bunch(
        data=data,
        row_labels=z,
        column_labels=w,
        parameters=mu,
        scale=spread,
        row_weights=pi,
        column_weights=rho,
        row_exposure=a,
        column_exposure=b,
        family=family,
    )


def _valid_blocks(parameters: ArrayLike, family: str, scale: ArrayLike) -> tuple[Floats, Floats]:
    """Parameters and scales, (K, L) both."""
    if family not in FAMILIES:
        raise ValueError(f"family={family!r} must be one of {', '.join(FAMILIES)}.")
    mu, spread = np.array(parameters, dtype=np.float64), np.asarray(scale, dtype=np.float64)
    if mu.ndim != 2 or mu.size == 0 or not np.all(np.isfinite(mu)):
        raise ValueError(
            f"parameters={mu.tolist()} must be a finite array of shape (K, L), one number for every block."
        )
    if family in EXPOSED and np.any(mu < 0):
        raise ValueError(f"parameters has the rate {mu.min():g}; rates of the family {family!r} must be non-negative.")
    if family == "bernoulli" and (np.any(mu < 0) or np.any(mu > 1)):
        raise ValueError(f"parameters={mu.tolist()} must be probabilities, between 0 and 1, for family='bernoulli'.")
    if spread.shape not in ((), mu.shape) or not np.all((spread > 0) & np.isfinite(spread)):
        raise ValueError(f"scale={scale!r} must be positive and finite, one number or one for every block, {mu.shape}.")
    if family not in SCALED and np.any(spread != 1):
        raise ValueError(f"scale={scale!r} has no meaning for family={family!r}; leave it out.")
    return mu, np.broadcast_to(spread, mu.shape).copy()


def _valid_side(weights: ArrayLike | None, n_clusters: int, name: str) -> Floats:
    """Weights of the clusters of rows, or of columns."""
    if weights is None:
        return np.full(n_clusters, 1 / n_clusters)
    if np.shape(weights) != (n_clusters,):
        raise ValueError(f"{name} of shape {np.shape(weights)} must have one weight for each of {n_clusters} clusters.")
    return valid_weights(weights, name)


def _valid_exposure(exposure: ArrayLike | None, length: int, name: str, family: str) -> Floats:
    if exposure is None:
        return np.ones(length)
    if family not in EXPOSED:
        raise ValueError(f"{name} is for counts, family {' or '.join(EXPOSED)}, not {family!r}; leave it out.")
    values = np.array(exposure, dtype=np.float64)
    if values.shape != (length,) or not np.all((values >= 0) & np.isfinite(values)):
        raise ValueError(f"{name} of shape {values.shape} must be {length} non-negative finite numbers.")
    return values


def _labels(rng: np.random.Generator, n: int, weights: Floats, counts: str) -> Integers:
    sizes = largest_remainder(n, weights) if counts == "balanced" else rng.multinomial(n, weights)
    return rng.permutation(np.repeat(np.arange(len(weights)), sizes))
