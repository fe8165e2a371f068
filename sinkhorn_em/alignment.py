"""Similarity transforms between point sets: least squares, robust, of several sets to each other, and of points without names.

x -> c R x + t, with a scale c > 0, a rotation R (no reflection) and a shift t.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ._typing import Floats
from .ot import solve_plan

DEGREES = 3.0  # of freedom of the Student errors of a robust transform: one gross error in a dozen points hardly counts
SETTLED = 1e-10  # relative change of the variance of errors that ends the reweighting
TURNS = 200  # of reweighting, at most
ROUNDS = 10  # of a consensus, and of an alignment without names


class Similarity(NamedTuple):
    """x -> scale * rotation x + shift."""

    scale: float
    rotation: Floats  # (d, d)
    shift: Floats  # (d,)

    def forward(self, X: Floats) -> Floats:
        """The images of rows X (n, d)."""
        return self.scale * X @ self.rotation.T + self.shift


def fit_similarity(X: Any, Y: Any, weights: Any = None) -> Similarity:
    r"""The similarity that maps X onto Y best, :math:`\min \sum_i w_i \|y_i - c R x_i - t\|^2`, in closed form.

    Parameters
    ----------
    X, Y : arrays (n, d)
        Corresponding points.
    weights : array (n,), optional
        w >= 0; default equal.

    Raises
    ------
    ValueError
        Shapes do not fit, values are not finite, weights are negative or all 0, the points of X coincide, or no c > 0 is best: the
        points of Y coincide, or d = 1 and the two sets run in opposite directions.

    References
    ----------
    Umeyama 1991, Least-squares estimation of transformation parameters between two point patterns.
    """
    x, y = np.asarray(X, float), np.asarray(Y, float)
    if x.ndim != 2 or x.shape != y.shape or not len(x):
        raise ValueError(
            f"X has shape {x.shape} and Y {y.shape}; both must be (n, d): one point of Y for every one of X"
        )
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise ValueError("X or Y has entries that are NaN or infinite: leave those pairs of points out")
    w = _check_weights(weights, len(x))
    x_mean, y_mean = w @ x, w @ y
    dx = x - x_mean
    spread = float(w @ (dx**2).sum(axis=1))
    if not spread > 0:
        raise ValueError(
            f"all {len(x)} points of X with a weight coincide; a scale needs at least two different points"
        )
    U, singular, V = np.linalg.svd(((y - y_mean) * w[:, None]).T @ dx)
    signs = np.ones(len(singular))
    signs[-1] = np.sign(np.linalg.det(U @ V))  # a rotation, not a reflection
    rotation = (U * signs) @ V
    scale = float(singular @ signs) / spread
    if not scale > 0:
        raise ValueError(
            f"the best scale from X to Y is {scale:.3g}; it must be positive: the points of Y coincide, or run against those of X"
        )
    return Similarity(scale, rotation, y_mean - scale * rotation @ x_mean)


def _check_weights(weights: Any, n: int) -> Floats:
    """Weights (n,) of sum 1."""
    w = np.ones(n) if weights is None else np.asarray(weights, float)
    if w.shape != (n,) or not (w >= 0).all() or not 0 < w.sum() < np.inf:
        raise ValueError(
            f"weights has shape {w.shape} and sum {w.sum()}; it must be ({n},) numbers >= 0, not all 0: leave it out for equal ones"
        )
    return w / w.sum()


def robust_similarity(X: Any, Y: Any) -> Similarity:
    """The similarity of the largest Student likelihood (3 degrees of freedom, one variance), by iterative reweighting.

    Points whose errors are gross lose their weight (Lange, Little & Taylor 1989). X, Y and errors are those of `fit_similarity`.
    """
    x, y = np.asarray(X, float), np.asarray(Y, float)
    fit, d = fit_similarity(x, y), x.shape[1]
    squares = ((y - fit.forward(x)) ** 2).sum(axis=1)
    variance = float(np.median(squares)) / d
    for _ in range(TURNS):
        if variance <= np.finfo(float).eps ** 2 * float((y**2).sum(axis=1).mean()):
            return fit  # more than half of the points are mapped exactly
        w = (DEGREES + d) / (DEGREES + squares / variance)
        fit = fit_similarity(x, y, w)
        squares = ((y - fit.forward(x)) ** 2).sum(axis=1)
        before, variance = variance, float(w @ squares) / (d * len(x))
        if abs(variance - before) <= SETTLED * before:
            break
    return fit


def consensus(points: Sequence[Floats], names: Sequence[Sequence[str]]) -> list[Floats]:
    """Several sets of named points, aligned to each other: each to the mean of all, in turns (generalised Procrustes analysis).

    Points of the same name correspond; a set needs not have every name. The geometric mean of the scales is 1, so the size of the
    sets stays. ValueError if a set shares fewer than two names with the others.
    """
    aligned = [np.asarray(X, float) for X in points]
    for _ in range(ROUNDS):
        stacked = pd.DataFrame(np.concatenate(aligned), index=pd.Index([name for own in names for name in own]))
        shared = stacked.groupby(level=0).mean()[stacked.groupby(level=0).size() > 1]
        fits = []
        for i, (X, own) in enumerate(zip(points, names, strict=True)):
            common = pd.Index(list(own)).isin(shared.index)
            if common.sum() < 2:
                raise ValueError(
                    f"names[{i}] shares {common.sum()} names with the other sets; a similarity needs at least 2: leave the set out"
                )
            fits.append(robust_similarity(np.asarray(X)[common], shared.loc[pd.Index(list(own))[common]].to_numpy()))
        size = float(np.exp(np.mean([np.log(fit.scale) for fit in fits])))
        aligned = [
            fit._replace(scale=fit.scale / size, shift=fit.shift / size).forward(X)
            for fit, X in zip(fits, points, strict=True)
        ]
    return aligned


def soft_similarity(
    X: Floats, scores: Any, centres: Floats, weights: Floats, precisions: Floats, tau: float = 0.0
) -> Similarity:
    """Align points without names to named centres: soft assignment and weighted least squares in turns.

    Parameters
    ----------
    X : array (n, d)
        Points.
    scores : function of points (n, d) to log-densities (n, K)
        Of the moved points under every centre: the E-step.
    centres : array (K, d)
    weights : array (K,)
        How likely each centre is.
    precisions : array (K,)
        How much the distance to a centre counts, in inverse squared units.
    tau : float
        The rule of the E-step: 0 posterior probabilities, 1 the balanced plan.
    """
    fit = Similarity(1.0, np.eye(X.shape[1]), np.zeros(X.shape[1]))
    for _ in range(ROUNDS):
        R = solve_plan(scores(fit.forward(X)), None, weights, tau=tau).responsibilities * precisions
        mass = R.sum(axis=1)
        fit = fit_similarity(X, R @ centres / mass[:, None], mass)
    return fit
