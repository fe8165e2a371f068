"""Names for arrays. Shapes are written where a name is used: n rows (samples), K columns (components), d features."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]


class Start(NamedTuple):
    """Where a fit begins: one responsibility per distinct row and component."""

    responsibilities: Floats  # (n, K)


class RowPlan(Protocol):
    """The plan of some rows, as a family sees it: scores, the offset added to them, and the rows' masses."""

    scores: Floats  # (n, K)
    offset: Floats  # (K,) or (K + 1,) with a virtual column
    row_mass: Floats  # (n,)

    @property
    def matrix(self) -> Floats:
        """Mass times responsibilities, (n, K), a new array; a virtual column is left out."""
        ...
