"""The plan of a sample against that of its population, a Gaussian location mixture."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.spatial.distance import cdist

from .._typing import Floats
from ..ot import solve_plan
from ..ot.kernel import responsibilities

_TOL = 1e-8  # L1 error of the column masses: of order 1e-4 of the smallest error that 1000 rows leave


class PlanErrors(NamedTuple):
    """Errors of an empirical plan, from `plan_errors`."""

    #: max_k |g_k|^2, potentials in units of epsilon
    potential: float
    #: integral of the squared difference of the densities of the couplings, with respect to P x Q
    coupling: float
    #: E_Q |E_n[X | Y] - E[X | Y]|^2, in squared units of the atoms
    backward: float
    #: E_P |E_n[Y | X] - X|^2, in squared units of the atoms
    forward: float


def plan_errors(
    sample: Any, atoms: Any, sigma: float, fresh: Any, *, method: Literal["newton", "sinkhorn"] = "newton"
) -> PlanErrors:
    r"""Errors of the entropic plan between a sample of Q and the atoms P.

    P is uniform on K atoms x_k, :math:`Q = P * N(0, \sigma^2 I)`, the cost is :math:`|x - y|^2 / 2` and
    :math:`\epsilon = \sigma^2`. The plan of the population then is the posterior,

    .. math:: \pi(k \mid y) = \mathrm{softmax}_k(-|x_k - y|^2 / 2 \epsilon)

    with column potentials 0 and :math:`E[Y \mid x_k] = x_k`. The empirical plan has :math:`g_k` added inside the softmax, so
    that it is known at every y.

    Parameters
    ----------
    sample : array (n, d)
        Draws from Q.
    atoms : array (K, d)
        Support of P.
    sigma : float
        Standard deviation, in the units of the atoms.
    fresh : array (m, d)
        Other draws from Q, which stand for expectations under Q.
    method : "newton" or "sinkhorn"
        As in `solve_plan`; plain scaling is the faster one for many atoms that overlap.

    Returns
    -------
    PlanErrors

    Raises
    ------
    ValueError
        As `solve_plan`, and for a ``sigma`` that is not positive.

    References
    ----------
    Gonzalez & Mena 2026 (all four are of order 1/n).
    """
    if not 0 < sigma < np.inf:
        raise ValueError(
            f"sigma={sigma!r} must be positive and finite; it is the standard deviation of a row about its atom."
        )
    Y, X = np.asarray(sample, float), np.asarray(atoms, float)
    S, T = _scores(Y, X, sigma), _scores(np.asarray(fresh, float), X, sigma)
    g = solve_plan(S, tol=_TOL, method=method).potentials
    R, off = responsibilities(S, g), responsibilities(T, g) - responsibilities(T, np.zeros(len(X)))
    return PlanErrors(
        potential=float(np.max(g**2)),
        coupling=float(len(X) * np.mean(np.sum(off**2, axis=1))),
        backward=float(np.mean(np.sum((off @ X) ** 2, axis=1))),
        forward=float(np.mean(np.sum((R.T @ Y / R.sum(axis=0)[:, None] - X) ** 2, axis=1))),
    )


def _scores(Y: Floats, X: Floats, sigma: float) -> Floats:
    """-|x - y|^2 / (2 epsilon), (n, K)."""
    return np.asarray(-cdist(Y, X, "sqeuclidean") / (2 * sigma**2))
