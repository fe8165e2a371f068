r"""The symmetric mixture of two components on the line: EM and Sinkhorn-EM with an infinite sample.

The truth is ``alpha N(theta*, 1) + (1 - alpha) N(-theta*, 1)``, the model the same with theta for theta*; weights and variance are
known. With ``r_s(y) = sigmoid(2 theta y + logit alpha + s)`` an iteration is

.. math:: \theta \leftarrow M(\theta) = \mathbb E[(2 r_s(Y) - 1) Y],

where s, the difference of the two column potentials, solves

.. math:: \tau\,\{\operatorname{logit} \mathbb E\, r_s(Y) - \operatorname{logit} \alpha\} + (1 - \tau)\, s = 0.

That is ``c_k = b_k exp(-g_k / rho)`` with ``rho = tau / (1 - tau)``: s = 0 in EM (tau = 0), and the mean responsibility is alpha in
Sinkhorn-EM (tau = 1). Stationary points are the roots of ``M(theta) - theta``, spurious those with theta < 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import expit, logit

from .._typing import Floats
from .quadrature import N_NODES, population_rows

GRID = 256  # even, so that theta = 0, a root when alpha = 1/2, is no node
COARSE_GRID = 64  # for one minimum, which is then refined
NODES_PER_THETA = 51  # keeps the quadrature at N_NODES / 5 nodes per unit of theta, where it errs by 1e-14
ROOT_TOLERANCE = 1e-13
POTENTIAL_TOLERANCE = 1e-14  # of s, relative to max(1, |s|)
RESIDUAL_TOLERANCE = 1e-15  # of the equation of s, relative to 1 + |logit alpha|; no sum of n rows is more exact
UNDERFLOW = 1e-150  # smaller means are 0 far from the root, where their logarithm only needs its sign
SMALLEST_SEPARATION = 0.01  # of theta*, for roots: closer ones share a cell of the grid, and the drift is all rounding
MAX_STEPS = 100  # bisection alone takes 60
LARGEST_LOGIT = 36.0  # 1 - alpha = 2e-16: alphas beyond are 1 in double precision


def tilted_weight(theta: Any, alpha: float, theta_star: float, *, tau: float = 1.0) -> Any:
    r"""Mixture weight alpha(theta) at which EM would do what Sinkhorn-EM does at theta.

    .. math:: \alpha(\theta) = \operatorname{sigmoid}(\operatorname{logit} \alpha + s), \qquad
        \mathbb E\, r_s(Y) = \alpha \text{ for } \tau = 1

    For tau = 1 it maximises ``l(theta, a) - KL(alpha | a)`` over a, and the maximum is L(theta).

    Parameters
    ----------
    theta : float or array
        Fitted mean, in standard deviations; finite.
    alpha : float
        Weight of the component at theta, in (0, 1).
    theta_star : float
        True mean, positive.
    tau : float in [0, 1], default 1
        1 Sinkhorn-EM, 0 EM (alpha(theta) = alpha).

    Returns
    -------
    weight : float or array like theta
        Equal to alpha at theta = theta*.

    Raises
    ------
    ValueError
        If a parameter breaks its rule above.

    References
    ----------
    Mena, Nejatbakhsh, Varol & Niles-Weed 2020, arXiv:2006.16548.
    """
    t = _check_theta(theta)
    log_odds, theta_star, tau = _check_model(alpha, theta_star, tau)
    rows, masses = _rows(log_odds, theta_star, np.abs(t).max(initial=0))
    return expit(log_odds + _potentials(t.ravel(), log_odds, tau, rows, masses)).reshape(t.shape)[()]


def population_map(theta: Any, alpha: float, theta_star: float, *, tau: float) -> Any:
    r"""One iteration of EM or Sinkhorn-EM from theta with an infinite sample.

    .. math:: M(\theta) = \mathbb E[(2 r_s(Y) - 1) Y]

    Parameters
    ----------
    theta : float or array
        Current means, in standard deviations; finite.
    alpha : float
        Weight of the component at theta, in (0, 1).
    theta_star : float
        True mean, positive.
    tau : float in [0, 1]
        0 EM, 1 Sinkhorn-EM, between them KL-relaxed.

    Returns
    -------
    theta_next : float or array like theta

    Raises
    ------
    ValueError
        If a parameter breaks its rule above.

    References
    ----------
    Mena, Nejatbakhsh, Varol & Niles-Weed 2020, arXiv:2006.16548.
    """
    t = _check_theta(theta)
    log_odds, theta_star, tau = _check_model(alpha, theta_star, tau)
    iterate = _map(log_odds, theta_star, tau, np.abs(t).max(initial=0))
    return iterate(t.ravel()).reshape(t.shape)[()]


def fixed_points(alpha: float, theta_star: float, *, tau: float) -> Floats:
    """All stationary points of EM or Sinkhorn-EM on the line, with an infinite sample.

    The roots of ``M(theta) - theta``. They lie in ``|theta| <= E|Y|``, as M does; a grid brackets them, and where the difference
    turns back without a change of sign its extremum is looked up, so that two close roots are found as well as one.

    Parameters
    ----------
    alpha : float
        Weight of the component at theta, in (0, 1).
    theta_star : float
        True mean, at least 0.01; it is always one of the roots.
    tau : float in [0, 1]
        0 EM, 1 Sinkhorn-EM, between them KL-relaxed.

    Returns
    -------
    roots : ndarray (n_roots,)
        In ascending order, to about 1e-12 away from a fold. Negative ones are spurious, and every second one is unstable. At
        alpha = 1/2 there are three, -theta* (the truth under the other names), 0 and theta*.

    Raises
    ------
    ValueError
        If a parameter breaks its rule above.

    References
    ----------
    Mena, Nejatbakhsh, Varol & Niles-Weed 2020, arXiv:2006.16548.
    """
    log_odds, theta_star, tau = _check_model(alpha, theta_star, tau)
    _check_separation(theta_star)
    edge = _edge(theta_star)
    drift = _drift(log_odds, theta_star, tau)
    grid = np.linspace(-edge, edge, GRID)
    values = drift(grid)
    turns = _turning_points(drift, grid, values)
    grid = np.sort(np.concatenate([grid, turns]))
    values = drift(grid)
    brackets = np.flatnonzero(np.sign(values[:-1]) * np.sign(values[1:]) < 0)
    roots = [brentq(lambda t: drift(np.array([t]))[0], grid[i], grid[i + 1], xtol=ROOT_TOLERANCE) for i in brackets]
    return np.sort(np.concatenate([grid[values == 0], roots]))


def spurious_threshold(theta_star: float, *, tau: float) -> float:
    """Smallest weight alpha above which there is no spurious (theta < 0) stationary point.

    ``M(theta) - theta`` is positive at both ends of the negative half-line; its minimum there rises with alpha and is 0 at the
    threshold, where the two negative roots merge.

    Parameters
    ----------
    theta_star : float
        True mean, at least 0.01, in standard deviations.
    tau : float in [0, 1]
        0 EM, 1 Sinkhorn-EM, between them KL-relaxed.

    Returns
    -------
    alpha : float
        In (1/2, 1], to about 1e-9; 1 where EM keeps a spurious root for every alpha that double precision tells from 1.

    Raises
    ------
    ValueError
        If a parameter breaks its rule above.

    References
    ----------
    Mena, Nejatbakhsh, Varol & Niles-Weed 2020, arXiv:2006.16548 (for tau = 1 it tends to 3/4 as theta* grows).
    """
    _, theta_star, tau = _check_model(0.5, theta_star, tau)
    _check_separation(theta_star)
    grid = np.linspace(-_edge(theta_star), 0, COARSE_GRID)

    def lowest(log_odds: float) -> float:
        drift = _drift(log_odds, theta_star, tau)
        i = min(max(int(np.argmin(drift(grid))), 1), COARSE_GRID - 2)
        fit = minimize_scalar(lambda t: drift(np.array([t]))[0], bounds=(grid[i - 1], grid[i + 1]), method="bounded")
        return fit.fun

    if lowest(LARGEST_LOGIT) < 0:
        return 1.0
    return float(expit(brentq(lowest, 0, LARGEST_LOGIT, xtol=1e-10)))


def asymptotic_factor(alpha: float, theta_star: float, *, tau: float) -> float:
    r"""By what an iteration multiplies a small error at the truth, with an infinite sample: M'(theta*).

    .. math:: M'(\theta^*) = 4 \left\{ \mathbb E[r q Y^2]
        - \frac{\tau\, \mathbb E[r q Y]^2}{\tau\, \mathbb E[r q] + (1 - \tau)\, \alpha (1 - \alpha)} \right\},
        \qquad q = 1 - r

    with the posterior r at the truth: smaller the larger tau. It is 1 - l'' for tau = 0 and 1 - L'' for tau = 1, the second
    derivatives at theta* of the losses along (theta, -theta).

    Parameters
    ----------
    alpha : float
        Weight of the component at theta*, in (0, 1).
    theta_star : float
        True mean, positive.
    tau : float in [0, 1]
        0 EM, 1 Sinkhorn-EM, between them KL-relaxed.

    Returns
    -------
    factor : float
        In [0, 1), to about 1e-15: means far apart give 0.

    Raises
    ------
    ValueError
        If a parameter breaks its rule above.

    References
    ----------
    Mena, Nejatbakhsh, Varol & Niles-Weed 2020, arXiv:2006.16548.
    """
    log_odds, theta_star, tau = _check_model(alpha, theta_star, tau)
    rows, masses = _rows(log_odds, theta_star, theta_star)
    u = 2 * theta_star * rows + log_odds
    overlap = masses * expit(u) * expit(-u)
    spread = tau * overlap.sum() + (1 - tau) * alpha * (1 - alpha)
    pull = tau * (overlap @ rows) ** 2 / spread if spread > 0 else 0.0
    return float(4 * (overlap @ rows**2 - pull))


def _rows(log_odds: float, theta_star: float, largest: float) -> tuple[Floats, Floats]:
    """Rows (n,) and masses of the population, fine enough for posteriors at means up to the largest."""
    n_nodes = max(N_NODES, int(np.ceil(NODES_PER_THETA * largest)))
    weights = [expit(log_odds), expit(-log_odds)]
    rows, masses = population_rows(weights, [[theta_star], [-theta_star]], n_nodes=n_nodes)
    return rows[:, 0], masses


def _map(log_odds: float, theta_star: float, tau: float, largest: float) -> Callable[[Floats], Floats]:
    """The map M of means (B,), for means up to the largest."""
    rows, masses = _rows(log_odds, theta_star, largest)

    def iterate(theta: Floats) -> Floats:
        s = _potentials(theta, log_odds, tau, rows, masses)
        return np.tanh(np.outer(theta, rows) + (log_odds + s)[:, None] / 2) @ (
            masses * rows
        )  # 2 sigmoid(u) - 1 = tanh(u / 2)

    return iterate


def _drift(log_odds: float, theta_star: float, tau: float) -> Callable[[Floats], Floats]:
    """M(theta) - theta."""
    iterate = _map(log_odds, theta_star, tau, _edge(theta_star))
    return lambda theta: iterate(theta) - theta


def _edge(theta_star: float) -> float:
    """A bound of E|Y|, hence of |M| and of all roots."""
    return float(np.hypot(1, theta_star)) * (1 + 1e-9)  # off the root, which is close to the edge for large theta*


def _potentials(theta: Floats, log_odds: float, tau: float, rows: Floats, masses: Floats) -> Floats:
    """Differences s of the column potentials at means (B,): Newton's method, kept within a bracket."""
    s = np.zeros_like(theta)
    if tau == 0:
        return s
    U = 2 * np.outer(theta, rows) + log_odds  # (B, n)
    high = 2 * np.abs(theta) * np.abs(rows).max()  # beyond it all r_s, hence their mean, are on one side of alpha
    low = -high
    for _ in range(MAX_STEPS):
        r = expit(U + s[:, None])
        q = expit(-U - s[:, None])  # 1 - r without cancellation
        c, rest = np.maximum(r @ masses, UNDERFLOW), np.maximum(q @ masses, UNDERFLOW)
        residual = tau * (np.log(c / rest) - log_odds) + (1 - tau) * s
        slope = tau * ((r * q) @ masses) / (c * rest) + (1 - tau)
        low, high = np.where(residual <= 0, s, low), np.where(residual >= 0, s, high)
        newton = s - residual / np.maximum(slope, UNDERFLOW)
        step = np.where((newton >= low) & (newton <= high), newton, (low + high) / 2) - s
        step[np.abs(residual) <= RESIDUAL_TOLERANCE * (1 + abs(log_odds))] = 0
        s = s + step
        if np.all(np.abs(step) <= POTENTIAL_TOLERANCE * np.maximum(1, np.abs(s))):
            break
    return s


def _turning_points(drift: Callable[[Floats], Floats], grid: Floats, values: Floats) -> Floats:
    """Where a grid value is nearer to 0 than both its neighbours of the same sign: the extremum."""
    same = (np.sign(values[1:-1]) == np.sign(values[:-2])) & (np.sign(values[1:-1]) == np.sign(values[2:]))
    size = np.abs(values)
    nearest = np.flatnonzero(same & (size[1:-1] <= size[:-2]) & (size[1:-1] <= size[2:])) + 1
    turns = [
        minimize_scalar(
            lambda t, sign: sign * drift(np.array([t]))[0],
            bounds=(grid[i - 1], grid[i + 1]),
            args=(np.sign(values[i]),),
            method="bounded",
        ).x
        for i in nearest
    ]
    return np.array(turns, dtype=np.float64)


def _check_theta(theta: Any) -> Floats:
    t = np.asarray(theta, dtype=np.float64)
    if not np.all(np.isfinite(t)):
        raise ValueError(f"theta={theta!r} must be finite; pass means in standard deviations.")
    return t


def _check_model(alpha: float, theta_star: float, tau: float) -> tuple[float, float, float]:
    """Log odds of alpha, theta* and tau as floats."""
    if not 0 < alpha < 1:
        raise ValueError(
            f"alpha={alpha!r} must be a weight in (0, 1); with one component there is nothing to separate."
        )
    if not (theta_star > 0 and np.isfinite(theta_star)):
        raise ValueError(
            f"theta_star={theta_star!r} must be positive and finite; swap the components to change its sign."
        )
    if not 0 <= tau <= 1:
        raise ValueError(f"tau={tau!r} must be in [0, 1]; 0 is EM, 1 is Sinkhorn-EM.")
    return float(logit(alpha)), float(theta_star), float(tau)


def _check_separation(theta_star: float) -> None:
    if not theta_star >= SMALLEST_SEPARATION:
        raise ValueError(
            f"theta_star={theta_star!r} must be at least {SMALLEST_SEPARATION}; closer roots cannot be told apart: "
            "follow population_map instead."
        )
