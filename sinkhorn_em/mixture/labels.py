"""What is known about single rows: labels of some, and components that others cannot belong to."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from .._parameters import as_array
from .._typing import Booleans, Floats, Integers
from ..families.constraints import OwnLocation
from ..ot import ColumnRule
from ..ot.feasibility import InfeasibleMarginalsError, check_feasible

UNKNOWN = -1


def forbidden_pairs(labels: Any, forbidden: Any, n: int, K: int, noise: bool) -> Booleans | None:
    """Pairs (n, K), or (n, K + 1) with noise, that get the score -inf: from known labels, and from a mask. None: there are none.

    Raises
    ------
    ValueError
        A label outside -1 .. K - 1, a mask of another shape, or a row that is left with no component.
    """
    if labels is None and forbidden is None:
        return None
    pairs = np.zeros((n, K + noise), bool)
    if forbidden is not None:
        pairs[:, :] = _check_mask(forbidden, n, K, noise)
    if labels is not None:
        known = _check_labels(labels, n, K + noise)
        rows = np.flatnonzero(known != UNKNOWN)
        barred = pairs[rows, known[rows]]
        if barred.any():
            i = int(rows[np.argmax(barred)])
            raise ValueError(
                f"labels says that row {i} belongs to component {known[i]}, and forbidden says that it cannot: mend one"
            )
        pairs[rows] = True
        pairs[rows, known[rows]] = False
    full = pairs.all(axis=1)
    if full.any():
        raise ValueError(
            f"forbidden leaves no component for row {int(np.argmax(full))} (and {int(full.sum()) - 1} more): allow one"
        )
    return pairs


def _check_labels(labels: Any, n: int, K: int) -> Integers:
    known = np.asarray(as_array(labels))
    if known.shape != (n,):
        raise ValueError(
            f"labels has shape {known.shape}; it must be ({n},), one label per row, -1 where it is unknown"
        )
    if known.dtype.kind == "f" and np.isfinite(known).all() and (known % 1 == 0).all():
        known = known.astype(np.int64)
    if known.dtype.kind not in "iu":
        raise ValueError(
            f"labels has type {known.dtype}; it must hold whole numbers from 0 to {K - 1}, and -1 where unknown"
        )
    bad = (known < UNKNOWN) | (known >= K)
    if bad.any():
        i = int(np.argmax(bad))
        raise ValueError(
            f"labels[{i}] is {known[i]}; it must be a component from 0 to {K - 1}, or -1 where it is unknown"
        )
    return known.astype(np.int64)


def _check_mask(forbidden: Any, n: int, K: int, noise: bool) -> Booleans:
    mask = np.asarray(as_array(forbidden))
    if mask.dtype != bool or mask.shape not in ((n, K), (n, K + noise)):
        raise ValueError(
            f"forbidden has shape {mask.shape} and type {mask.dtype}; it must be a boolean mask ({n}, {K}), True where a row "
            "cannot belong to a component"
        )
    return np.column_stack([mask, np.zeros(n, bool)]) if mask.shape[1] < K + noise else mask


def check_masses(pairs: Booleans, row_mass: Floats, rule: ColumnRule, weights: Floats) -> None:
    """Raise InfeasibleMarginalsError if the rule's column masses cannot be met by rows with these forbidden pairs."""
    b = rule.extend(weights)
    active = b > 0
    rule = rule if active.all() else rule.restrict(active)
    allowed = ~pairs
    if len(b) > pairs.shape[1]:
        allowed = np.column_stack([allowed, np.ones(len(pairs), bool)])
    lower, upper = rule.mass_bounds(b[active])
    try:
        check_feasible(allowed, row_mass, lower, upper, active)
    except InfeasibleMarginalsError as error:
        raise InfeasibleMarginalsError(
            error.columns,
            f"labels or forbidden contradict the weights: {error}; change weights, size_bounds, or lower tau",
        ) from None


def match(start: Integers | Floats, rows: Integers, pairs: Booleans, row_mass: Floats) -> Integers | Floats:
    """Rename drawn clusters so that they agree best with what is known of the rows; ``rows`` (n,) point from rows to draws."""
    K = pairs.shape[1]
    R = start if start.ndim == 2 else np.eye(K)[start]
    known = pairs.any(axis=1)
    gain = R[rows[known]].T @ (row_mass[known, None] * ~pairs[known])  # (drawn, component)
    return _renamed(start, gain)


def match_prior(start: Integers | Floats, Z: Floats, mass: Floats, prior: OwnLocation) -> Integers | Floats:
    """Rename the drawn clusters of rows Z (m, d) so that the prior of the means is most probable at theirs."""
    R = (start if start.ndim == 2 else np.eye(len(prior.means))[start]) * mass[:, None]
    means = (R.T @ Z) / np.maximum(R.sum(axis=0), np.finfo(float).tiny)[:, None]
    delta = means[:, None] - prior.means  # (drawn, component, d)
    return _renamed(start, -np.einsum("jki,kil,jkl->jk", delta, prior.precisions, delta))


def _renamed(start: Integers | Floats, gain: Floats) -> Integers | Floats:
    """Labels or responsibilities with the names of the clusters permuted for the largest total gain (drawn, component)."""
    new = linear_sum_assignment(-gain)[1]  # of every drawn cluster
    if start.ndim == 1:
        return new[start]
    out = np.empty_like(start)
    out[:, new] = start
    return out


def restrict_responsibilities(log_R: Floats, pairs: Booleans) -> None:
    """Log responsibilities (n, K) with forbidden pairs at -inf; rows that lose everything are shared by what is allowed."""
    lost = ~((log_R > -np.inf) & ~pairs).any(axis=1)
    log_R[lost] = 0.0
    log_R[pairs] = -np.inf
    with np.errstate(divide="ignore"):
        log_R[lost] -= np.log((~pairs[lost]).sum(axis=1))[:, None]
