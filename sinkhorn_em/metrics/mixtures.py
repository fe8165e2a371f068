"""Fitted centres of a mixture against the truth."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment, linprog
from scipy.sparse import eye_array, kron, vstack
from scipy.spatial.distance import cdist

from .._parameters import SUM_TOLERANCE
from .._typing import Floats

EQUAL_TOLERANCE = 1e-14  # weights this close count as equal: many rounding errors, and far less than a row in n
LP_TOLERANCE = 1e-10  # the smallest that HiGHS takes, on masses below 1 and on costs scaled to at most 1


def mixing_distance(weights: Any, means: Any, true_weights: Any, true_means: Any) -> Any:
    r"""Squared 2-Wasserstein distance between two mixing measures.

    .. math:: W_2^2\Bigl(\sum_k w_k \delta_{m_k}, \sum_j w^*_j \delta_{m^*_j}\Bigr)
        = \min_{\pi \ge 0,\ \pi 1 = w,\ \pi^T 1 = w^*} \sum_{kj} \pi_{kj} \|m_k - m^*_j\|^2

    Exact: the integral of the squared difference of quantile functions in one dimension, an assignment where all weights
    are equal and the numbers of atoms too, and the transport linear program otherwise (there to 1e-10 of the largest cost).

    Parameters
    ----------
    weights : array (..., K)
        Weights, non-negative, sum 1. The leading dimensions, the batch, broadcast over all four arguments.
    means : array (..., K, d)
        Atoms. In one dimension a column: ``means[..., None]``.
    true_weights : array (..., K2)
        Weights of the other measure, non-negative, sum 1.
    true_means : array (..., K2, d)
        Its atoms.

    Returns
    -------
    distance : float, or ndarray of the batch's shape
        In squared units of the means; 0 when the measures are the same, whatever the order or number of their atoms.

    Raises
    ------
    ValueError
        If weights are negative or do not sum to 1, a value is not finite, or shapes do not fit.

    References
    ----------
    Mena, Nejatbakhsh, Varol & Niles-Weed 2020, arXiv:2006.16548 (the error in figure 2); Villani 2003, section 2.2 (quantiles).
    """
    w, m = _measure(weights, means, "weights", "means")
    v, y = _measure(true_weights, true_means, "true_weights", "true_means")
    if m.shape[-1] != y.shape[-1]:
        raise ValueError(f"means have d = {m.shape[-1]} and true_means d = {y.shape[-1]}; both must have the same d.")
    batch = _batch_of(w.shape[:-1], m.shape[:-2], v.shape[:-1], y.shape[:-2])
    w, v = (np.broadcast_to(x, batch + x.shape[-1:]) for x in (w, v))
    m, y = (np.broadcast_to(x, batch + x.shape[-2:]) for x in (m, y))
    if m.shape[-1] == 1:
        return _quantile_distance(w, m[..., 0], v, y[..., 0])
    distance = np.empty(batch)
    for index in np.ndindex(batch):
        distance[index] = _transport_cost(w[index], v[index], cdist(m[index], y[index], "sqeuclidean"))
    return distance[()]


def matched_errors(means: Any, true_means: Any) -> Floats:
    """Distance of every true centre to the fitted mean that is matched to it.

    The matching is one-to-one and has the smallest sum of squared distances (Hungarian method). Fitted means beyond the number
    of true centres stay unmatched.

    Parameters
    ----------
    means : array (K2, d)
        Fitted means, K2 >= K, in any order.
    true_means : array (K, d)
        True centres.

    Returns
    -------
    errors : ndarray (K,)
        Euclidean distances in the order of the true centres, in units of the means.

    Raises
    ------
    ValueError
        If a value is not finite, shapes do not fit, or there are fewer fitted means than true centres.

    References
    ----------
    Kuhn 1955 (the Hungarian method).
    """
    squares = _squared_distances(means, true_means)
    return np.sqrt(squares[linear_sum_assignment(squares)])


def recovered(means: Any, true_means: Any, radius: float) -> bool:
    """Whether every true centre has a fitted mean of its own within the radius.

    True when some one-to-one matching has all its distances at most ``radius``. That of `matched_errors` usually is one; where
    it trades one long distance for several short ones, another may be.

    Parameters
    ----------
    means : array (K2, d)
        Fitted means, K2 >= K, in any order.
    true_means : array (K, d)
        True centres.
    radius : float
        Largest distance, non-negative, in units of the means.

    Returns
    -------
    recovered : bool

    Raises
    ------
    ValueError
        As `matched_errors`, and for a negative or NaN radius.
    """
    if not radius >= 0:
        raise ValueError(f"radius={radius!r} must be non-negative; one standard deviation is usual.")
    missed = np.sqrt(_squared_distances(means, true_means)) > radius
    return not missed[linear_sum_assignment(missed)].any()


def _measure(weights: Any, means: Any, weights_name: str, means_name: str) -> tuple[Floats, Floats]:
    """Weights, scaled to sum exactly 1, and atoms of a measure, checked."""
    w, m = np.asarray(weights, dtype=np.float64), np.asarray(means, dtype=np.float64)
    if w.ndim < 1 or m.ndim < 2 or w.shape[-1] != m.shape[-2] or 0 in (w.shape[-1], m.shape[-1]):
        raise ValueError(
            f"{weights_name} of shape {w.shape} and {means_name} of shape {m.shape} must be (..., K) and (..., K, d); "
            f"write one-dimensional means as a column, {means_name}[..., None]."
        )
    if not np.all(np.isfinite(m)):
        raise ValueError(f"{means_name} must be finite, and {np.sum(~np.isfinite(m))} values are not; drop those fits.")
    total = w.sum(axis=-1, keepdims=True)
    wrong = ~np.all(w >= 0, axis=-1) | ~(np.abs(total[..., 0] - 1) <= SUM_TOLERANCE)
    if wrong.any():
        raise ValueError(
            f"{weights_name}={w[wrong][0].tolist()} must be non-negative numbers that sum to 1; "
            "divide non-negative numbers by their sum."
        )
    return w / total, m


def _batch_of(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise ValueError(
            f"the batches of weights, means, true_weights and true_means are {', '.join(map(str, shapes))}; "
            "leading dimensions must be equal or 1."
        ) from None


def _squared_distances(means: Any, true_means: Any) -> Floats:
    """Of every true centre (rows) to every fitted mean, (K, K2), checked."""
    m, y = np.asarray(means, dtype=np.float64), np.asarray(true_means, dtype=np.float64)
    if m.ndim != 2 or y.ndim != 2 or m.shape[1] != y.shape[1] or 0 in y.shape:
        raise ValueError(
            f"means of shape {m.shape} and true_means of shape {y.shape} must be (K2, d) and (K, d); "
            "write one-dimensional means as a column, means[:, None]."
        )
    if not (np.all(np.isfinite(m)) and np.all(np.isfinite(y))):
        raise ValueError("means and true_means must be finite; a fit with NaN or infinite means has recovered nothing.")
    if len(m) < len(y):
        raise ValueError(f"{len(m)} means cannot be matched to {len(y)} true_means; fit at least {len(y)} components.")
    return cdist(y, m, "sqeuclidean")


def _quantile_distance(w: Floats, m: Floats, v: Floats, y: Floats) -> Any:
    """Integral of the squared difference of two quantile functions, which are steps at the cumulated weights."""
    m, levels = _steps(w, m)
    y, true_levels = _steps(v, y)
    K = m.shape[-1]
    merged = np.concatenate([levels, true_levels], axis=-1)
    order = np.argsort(merged, axis=-1, kind="stable")
    first = order < K  # whose step ends at this level
    k = np.minimum(np.cumsum(first, axis=-1) - first, K - 1)  # steps of each that ended before
    j = np.minimum(np.cumsum(~first, axis=-1) - ~first, y.shape[-1] - 1)
    lengths = np.diff(np.take_along_axis(merged, order, axis=-1), axis=-1, prepend=0)
    gaps = np.take_along_axis(m, k, axis=-1) - np.take_along_axis(y, j, axis=-1)
    return np.sum(lengths * gaps**2, axis=-1)


def _steps(w: Floats, m: Floats) -> tuple[Floats, Floats]:
    """Atoms in ascending order, and the level at which the step of each ends; the last is exactly 1."""
    order = np.argsort(m, axis=-1, kind="stable")
    levels = np.minimum(np.cumsum(np.take_along_axis(w, order, axis=-1), axis=-1), 1)
    levels[..., -1] = 1
    return np.take_along_axis(m, order, axis=-1), levels


def _transport_cost(w: Floats, v: Floats, cost: Floats) -> float:
    """Smallest mean cost (K, K2) of moving the masses w to the masses v."""
    K, K2 = cost.shape
    scale = cost.max()
    if scale == 0:
        return 0.0
    if K == K2 and max(np.ptp(w), np.ptp(v)) <= EQUAL_TOLERANCE:
        return float(cost[linear_sum_assignment(cost)].mean())
    row_sums = kron(eye_array(K), np.ones((1, K2)))
    column_sums = kron(np.ones((1, K)), eye_array(K2))
    solution = linprog(
        (cost / scale).ravel(),
        A_eq=vstack([row_sums, column_sums]).tocsr()[:-1],  # the last follows from the others
        b_eq=np.concatenate([w, v])[:-1],
        method="highs-ds",  # the simplex ends at a vertex
        options={"primal_feasibility_tolerance": LP_TOLERANCE, "dual_feasibility_tolerance": LP_TOLERANCE},
    )
    if not solution.success:
        raise RuntimeError(f"the transport problem of {K} and {K2} atoms was not solved: {solution.message}")
    return scale * max(float(solution.fun), 0.0)
