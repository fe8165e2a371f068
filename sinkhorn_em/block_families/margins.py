"""Exposures e_ij = a_i b_j of counts: what cells are expected to hold before rows and columns are clustered (size factors).

With both margins, a and b are the fit of independence, the Poisson model of rank one: its likelihood equations
X_i. = a_i sum_j M_ij b_j and X_.j = b_j sum_i M_ij a_i (M_ij = 0 at cells left out) are solved in turn, exactly at once
if no cell is left out. With one margin, a_i is the mean of row i in units c, the mean of all cells. Rows and columns
without counts, or without cells, get exposure 0.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array, issparse
from sklearn.exceptions import ConvergenceWarning

from .._typing import Floats
from ..cells.matrix import Matrix
from .base import New
from .values import Cell, first_failure, whole

MARGINS = (None, "row", "column", "both")
RANK_ONE_TOLERANCE = 1e-13  # relative, of every exposure
RANK_ONE_TURNS = 1000
ROUNDING = 1e-12  # sums over cells that are all left out are 0 up to this part of the sum over all cells


class Margins(NamedTuple):
    """Exposures of the rows and the columns of the fit, and what counts are measured in."""

    row: Floats  # (n,) a
    column: Floats  # (m,) b
    mean: float  # c, the unit of exposures: the mean of all cells with one margin, else 1
    rate: float  # counts over exposures in all; 1 if there are no counts


def check_margins(family: str, margins: Any) -> None:
    """Raise ValueError if margins is not one of the four."""
    if margins not in MARGINS:
        raise ValueError(f"margins of {family} is {margins!r}; it must be one of {list(MARGINS)}")


def check_counts(family: str, X: Matrix, warn: bool) -> None:
    """Raise ValueError at a negative value; ``warn``: one warning if some are not whole."""
    cell = first_failure(X, lambda x: x >= 0)
    if cell is not None:
        raise ValueError(_not_a_count(family, cell))
    cell = first_failure(X, whole) if warn else None
    if cell is not None:
        warnings.warn(
            f"{cell}, not a whole number: {family} blocks are fitted by quasi-likelihood (x! is Gamma(x + 1)), and "
            f"likelihoods are not those of counts; give the raw counts, or use Gaussian blocks for transformed ones",
            UserWarning,
            stacklevel=3,
        )


def _not_a_count(family: str, cell: Cell) -> str:
    return (
        f"Negative values in data: {cell}; {family} blocks take counts 0, 1, 2, ...: give the raw counts (not centred or "
        f"logarithms of them), leave the cell out by a mask, or use Gaussian blocks"
    )


def measure_margins(X: Matrix, missing: csr_array | None, margins: str | None) -> Margins:
    """The exposures of X."""
    n, m = X.shape
    rows, columns = _totals(X)
    total = float(rows.sum())
    a, b, mean = np.ones(n), np.ones(m), 1.0
    if margins == "both":
        a, b = _independence(rows, columns, missing)
    elif margins is not None:
        mean = total / (n * m - (0 if missing is None else missing.nnz)) if total else 1.0
        if margins == "row":
            a = _per(rows, b, missing) / mean
        else:
            b = _per(columns, a, None if missing is None else missing.T) / mean
    exposure = a.sum() * b.sum() - (0.0 if missing is None else float(a @ (missing @ b)))
    return Margins(a, b, mean, float(total / exposure) if total else 1.0)


def where_exposed(X: Matrix, scale: Margins, new: New | None) -> Matrix:
    """New rows or columns without their counts where the fit had none: exposure 0 says nothing of clusters."""
    if new is None:
        return X
    u, v = (np.ones(size) for size in X.shape)
    if new == "rows":
        v = (scale.column > 0).astype(float)
    else:
        u = (scale.row > 0).astype(float)
    return X if u.all() and v.all() else scaled(X, u, v)


def scaled(X: Matrix, u: Floats, v: Floats) -> Matrix:
    """X_ij u_i v_j."""
    if issparse(X):
        return csr_array((X.data * np.repeat(u, np.diff(X.indptr)) * v[X.indices], X.indices, X.indptr), shape=X.shape)
    Y = X * u[:, None]
    Y *= v
    return Y


def exposures(X: Matrix, missing: csr_array | None, scale: Margins, margins: str | None, new: New | None) -> Any:
    """(a, b, a_i b_j at the cells left out) of X; those of new rows or columns by the other margin of the fit."""
    a, b = scale.row, scale.column
    if new == "rows":
        by_totals = margins in ("row", "both")
        a = _per(_totals(X)[0], b, missing) / scale.mean if by_totals else np.ones(X.shape[0])
    elif new == "columns":
        by_totals = margins in ("column", "both")
        across = None if missing is None else missing.T
        b = _per(_totals(X)[1], a, across) / scale.mean if by_totals else np.ones(X.shape[1])
    if missing is None or margins is None:
        return a, b, missing
    at = np.repeat(a, np.diff(missing.indptr)) * b[missing.indices]
    return a, b, csr_array((at, missing.indices, missing.indptr), shape=missing.shape)


def _totals(X: Matrix) -> tuple[Floats, Floats]:
    return np.asarray(X.sum(axis=1, dtype=np.float64)), np.asarray(X.sum(axis=0, dtype=np.float64))


def _per(totals: Floats, weights: Floats, missing: Any) -> Floats:
    """Totals over the weights of the observed cells; 0 where there are no counts or no weights."""
    observed = np.full(len(totals), weights.sum())
    if missing is not None:
        observed -= missing @ weights
    some = (totals > 0) & (observed > ROUNDING * weights.sum())
    return np.divide(totals, observed, out=np.zeros_like(totals), where=some)


def _independence(rows: Floats, columns: Floats, missing: csr_array | None) -> tuple[Floats, Floats]:
    """The fit of independence, with a. = b."""
    root = np.sqrt(rows.sum()) or 1.0
    a, b = rows / root, columns / root
    if missing is None:
        return a, b
    across = missing.T.tocsr()
    for _ in range(RANK_ONE_TURNS):
        last, a = a, _per(rows, b, missing)
        b = _per(columns, a, across)
        if np.all(np.abs(a - last) <= RANK_ONE_TOLERANCE * a):
            break
    else:
        warnings.warn(
            f"row and column margins still change after {RANK_ONE_TURNS} turns: so many cells are left out that "
            f"the fit of independence has no unique solution; the last one is used, or choose margins='row', 'column' or None",
            ConvergenceWarning,
            stacklevel=3,
        )
    balance = np.sqrt(b.sum() / a.sum()) if a.any() else 1.0
    return a * balance, b / balance
