"""What families ask of the values of a matrix: float64, which values there are, and the first one that breaks a rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array, issparse

from .._typing import Booleans, Floats
from ..cells.matrix import Matrix

TILE = 1 << 18  # values looked at in one go: temporaries stay small
TABLE = 1 << 16  # whole numbers below are counted in a table, all others are sorted


class Cell(NamedTuple):
    """A cell and its value."""

    row: int
    column: int
    value: float

    def __str__(self) -> str:
        return f"X[{self.row}, {self.column}] is {self.value:.6g}"


def floating(X: Matrix) -> Matrix:
    """X in float64; the same object where it is so already."""
    if issparse(X):
        return csr_array((X.data.astype(np.float64, copy=False), X.indices, X.indptr), shape=X.shape)
    return np.ascontiguousarray(X, dtype=np.float64)


def mapped(X: Matrix, function: Callable[[Floats], Floats]) -> Matrix:
    """The function of every value, for functions that leave 0 as it is: a sparse X stays sparse."""
    if issparse(X):
        return csr_array((function(X.data), X.indices, X.indptr), shape=X.shape)
    return function(X)


def first_failure(X: Matrix, passes: Callable[[Floats], Booleans]) -> Cell | None:
    """The first cell whose value does not pass; None if all do. Zeros that a sparse X leaves out are not looked at."""
    values = X.data if issparse(X) else X.reshape(-1)
    for start in range(0, values.size, TILE):
        failed = np.flatnonzero(~passes(values[start : start + TILE]))
        if failed.size:
            at = start + int(failed[0])
            if issparse(X):
                return Cell(int(np.searchsorted(X.indptr, at, side="right")) - 1, int(X.indices[at]), values[at])
            return Cell(at // X.shape[1], at % X.shape[1], values[at])
    return None


def whole(values: Floats) -> Booleans:
    """Which values are whole numbers."""
    return values == np.floor(values)


def distinct(X: Matrix) -> tuple[Floats, Floats]:
    """The distinct values of X other than 0, sorted, and how many cells have each."""
    values = X.data if issparse(X) else X.reshape(-1)
    if not values.size:
        return np.empty(0), np.empty(0)
    if values.min() < 0 or values.max() >= TABLE or first_failure(X, whole) is not None:
        found, counts = np.unique(values[values != 0], return_counts=True)
        return found.astype(np.float64), counts.astype(np.float64)
    table = np.zeros(int(values.max()) + 1, np.int64)
    for start in range(0, values.size, TILE):
        table += np.bincount(values[start : start + TILE].astype(np.int64), minlength=table.size)
    table[0] = 0
    found = np.flatnonzero(table)
    return found.astype(np.float64), table[found].astype(np.float64)
