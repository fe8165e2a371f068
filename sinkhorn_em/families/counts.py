"""What the families for counts share: their sums, and the check that the data are counts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._typing import Floats, RowPlan
from .base import TILE, Family, tiles


class CountStatistics(NamedTuple):
    """Sums of the plan."""

    mass: Floats  # (K,)
    first: Floats  # (K, d) sum P x


def count_statistics(X: Floats, plan: RowPlan, K: int) -> CountStatistics:
    """Masses and first moments of the plan, for K components."""
    mass, first = np.zeros(K), np.zeros((K, X.shape[1]))
    for x, P in tiles(X, plan):
        mass += P.sum(axis=0)
        first += P.T @ x
    return CountStatistics(mass, first)


def check_counts(family: Family, X: Floats) -> None:
    """Raise ValueError if any of X (n, d) is not 0, 1, 2, ..."""
    for i in range(0, len(X), TILE):
        tile = np.asarray(X[i : i + TILE])
        bad = ~((tile >= 0) & (tile == np.floor(tile)))
        if bad.any():
            row, column = np.argwhere(bad)[0]
            raise ValueError(
                f"X[{i + row}, {column}] is {tile[row, column]:.6g}; {type(family).__name__} takes counts 0, 1, 2, ...: "
                f"round them, or use a continuous family such as Gaussian"
            )
