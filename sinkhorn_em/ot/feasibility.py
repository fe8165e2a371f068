"""Can the column masses be met when some scores are -inf? A max-flow between patterns of finite scores and columns."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array

from .._typing import Booleans, Floats

_SLACK = 1e-10


class InfeasibleMarginalsError(ValueError):
    """No plan has the column masses asked for: the rows that may go to ``columns`` carry too little mass, or too much.

    Attributes
    ----------
    columns : list of int
        The columns that cannot be served together.
    """

    def __init__(self, columns: list[int], message: str) -> None:
        super().__init__(message)
        self.columns = columns


def check_feasible(
    finite: Booleans, row_mass: Floats, lower: Floats, upper: Floats, active: Booleans | None = None
) -> None:
    """Raise `InfeasibleMarginalsError` unless some plan supported on ``finite`` (n, K) has lower <= c <= upper.

    Where only ``active`` columns take part, ``finite`` has them all and the bounds have the active ones: errors name columns of
    ``finite``.
    """
    active = np.ones(finite.shape[1], bool) if active is None else active
    names, finite = np.flatnonzero(active), finite[:, active]
    patterns, inverse = np.unique(finite[row_mass > 0], axis=0, return_inverse=True)
    supply = np.bincount(inverse.ravel(), row_mass[row_mass > 0], minlength=len(patterns)).astype(np.float64)
    flow, full = _max_flow(patterns, supply, lower)
    if flow < lower.sum() - _SLACK:
        starved = np.flatnonzero(~full & (lower > 0))
        reach = patterns[:, starved].any(axis=1)
        raise InfeasibleMarginalsError(
            names[starved].tolist(),
            f"columns {names[starved].tolist()} need mass {lower[starved].sum():.6g}, but the rows with a finite score there carry "
            f"only {supply[reach].sum():.6g}: lower their mass, use tau < 1, or allow more rows",
        )
    flow, full = _max_flow(patterns, supply, upper)
    if flow < supply.sum() - _SLACK:
        crowded = np.flatnonzero(full)
        bound = ~patterns[:, ~full].any(axis=1)
        raise InfeasibleMarginalsError(
            names[crowded].tolist(),
            f"columns {names[crowded].tolist()} may take mass {upper[crowded].sum():.6g}, but rows with no other finite score "
            f"carry {supply[bound].sum():.6g}: raise their mass, use tau < 1, or allow more columns",
        )


def _max_flow(patterns: Booleans, supply: Floats, capacity: Floats) -> tuple[float, Booleans]:
    """The largest mass that can go from patterns to columns, and the columns whose capacity limits it."""
    p, k = np.nonzero(patterns)
    n_patterns, K = patterns.shape
    arcs = np.arange(len(p))
    A = csr_array(
        (np.ones(2 * len(p)), (np.concatenate([p, n_patterns + k]), np.concatenate([arcs, arcs]))),
        shape=(n_patterns + K, len(p)),
    )
    result = linprog(-np.ones(len(p)), A_ub=A, b_ub=np.concatenate([supply, capacity]), method="highs-ds")
    return -float(result.fun), -result.ineqlin.marginals[n_patterns:] > 0.5
