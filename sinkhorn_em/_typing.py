"""Names for arrays. Shapes are written where a name is used: n rows (samples), K columns (components), d features."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]


class RowPlan(Protocol):
    """The plan of some rows, as a family sees it: scores, the offset added to them, and the rows' masses."""

    @property
    def scores(self) -> Floats:
        """(n, K)."""
        ...

    @property
    def offset(self) -> Floats:
        """(K,), or (K + 1,) with a virtual column."""
        ...

    @property
    def row_mass(self) -> Floats:
        """(n,)."""
        ...

    @property
    def matrix(self) -> Floats:
        """Mass times responsibilities, (n, K), a new array; a virtual column is left out."""
        ...

    def rows(self, rows: slice) -> RowPlan:
        """The plan of some of the rows."""
        ...


class LinearMap(Protocol):
    """Coordinates z = A (x - shift) of a fit, as a family sees them."""

    @property
    def shift(self) -> Floats:
        """(d,)."""
        ...

    @property
    def A(self) -> Floats:
        """(d, d), or (d,) where it is diagonal."""
        ...

    @property
    def log_det(self) -> float:
        """log |det A|."""
        ...

    def forward(self, X: Floats) -> Floats:
        """z of rows x."""
        ...

    def backward(self, Z: Floats) -> Floats:
        """x of rows z."""
        ...

    def covariances_forward(self, S: Floats, full: bool, spherical: bool) -> Floats:
        """Covariances of x as those of z."""
        ...

    def covariances_backward(self, S: Floats, full: bool, spherical: bool) -> Floats:
        """Covariances of z as those of x."""
        ...
