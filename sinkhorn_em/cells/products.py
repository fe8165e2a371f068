"""Products of a matrix, dense or sparse, with a few columns of responsibilities: the work of a co-clustering sweep."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import issparse

from .._typing import Floats


def times(values: Any, powers: tuple[int, ...], N: Floats) -> Floats:
    """(P, n, q): values ** power times N (m, q), for each power."""
    return np.stack([_power(values, power) @ N for power in powers])


def transposed_times(values: Any, powers: tuple[int, ...], T: Floats) -> Floats:
    """(P, m, q): the transpose of values ** power times T (n, q), for each power."""
    return np.stack([_power(values, power).T @ T for power in powers])


def _power(values: Any, power: int) -> Any:
    if power == 1:
        return values
    return values.power(power) if issparse(values) else values**power
