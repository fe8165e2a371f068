"""Column masses between bounds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..._typing import Booleans, Floats
from .base import ColumnRule, log_ratio

SLACK = 1e-12  # rounding of a sum of bounds


@dataclass(frozen=True)
class BoundedMass(ColumnRule):
    """lower_k <= c_k <= upper_k, psi_k = -lower_k max(g_k, 0) + upper_k max(-g_k, 0).

    Parameters
    ----------
    lower, upper : float or array (K,)
        Bounds on the column masses (fractions of the total); sum(lower) <= 1 <= sum(upper).
    """

    lower: float | Floats = 0.0
    upper: float | Floats = 1.0

    @property
    def released(self) -> ColumnRule:
        return self

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, BoundedMass)
            and np.array_equal(self.lower, other.lower)
            and np.array_equal(self.upper, other.upper)
        )

    def check(self, n_columns: int) -> None:
        self.check_bounds(n_columns, 1.0)

    def check_bounds(self, n_columns: int, total: float) -> None:
        """Raise ValueError unless the bounds fit ``n_columns`` columns that share the mass ``total``."""
        for name, value in (("lower", self.lower), ("upper", self.upper)):
            if np.ndim(value) > 1 or (np.ndim(value) == 1 and len(np.asarray(value)) != n_columns):
                raise ValueError(f"{name} has shape {np.shape(value)}; it must be a number or ({n_columns},)")
        low, high = self._bounds(n_columns)
        if not ((low >= 0) & (low <= high) & (high <= 1)).all():
            raise ValueError(
                f"bounds lower={self.lower}, upper={self.upper}: they must satisfy 0 <= lower <= upper <= 1 in every column"
            )
        if low.sum() > total + SLACK or high.sum() < total - SLACK:
            raise ValueError(
                f"bounds cannot be met: sum(lower) = {low.sum():.6g} must be at most {total:.6g}, and sum(upper) = "
                f"{high.sum():.6g} at least that; widen them"
            )

    def _bounds(self, n_columns: int) -> tuple[Floats, Floats]:
        return (
            np.broadcast_to(np.asarray(self.lower, float), (n_columns,)),
            np.broadcast_to(np.asarray(self.upper, float), (n_columns,)),
        )

    def restrict(self, active: Booleans, total: float = 1.0) -> ColumnRule:
        low, high = self._bounds(len(active))
        if low[~active].any():
            raise ValueError("lower is positive for a column whose mass is 0: give that column mass, or no lower bound")
        if high[active].sum() < total - SLACK:
            raise ValueError(
                f"bounds cannot be met: sum(upper) over the columns of positive mass is {high[active].sum():.6g}; it must be at "
                f"least {total:.6g}: widen upper, or give more columns a mass"
            )
        return BoundedMass(low[active], high[active])

    def penalty(self, g: Floats, b: Floats) -> float:
        low, high = self._bounds(len(g))
        return float(-low @ np.maximum(g, 0) + high @ np.maximum(-g, 0))

    def target(self, g: Floats, b: Floats, c: Floats) -> Floats:
        low, high = self._bounds(len(g))
        return np.where(g > 0, low, np.where(g < 0, high, np.clip(c, low, high)))

    def movable(self, g: Floats, b: Floats, c: Floats) -> Booleans:
        low, high = self._bounds(len(g))
        return (g != 0) | (c < low) | (c > high)

    def clip(self, g: Floats, d: Floats, c: Floats) -> Floats:
        low, high = self._bounds(len(g))
        side = np.where(
            g != 0, np.sign(g), (c < low).astype(float) - (c > high)
        )  # g > 0 raises a mass to its lower bound
        return np.where(side * (g + d) < 0, -g, d)

    def translate(self, g: Floats, b: Floats) -> Floats:
        """The penalty is piecewise linear along the constant: its minimum is where some potential reaches 0."""
        low, high = self._bounds(len(g))
        for shift in np.sort(-g):
            moved = g + shift
            right = 1.0 - np.where(moved >= 0, low, high).sum()
            left = 1.0 - np.where(moved > 0, low, high).sum()
            if left <= 0 <= right:
                return g if low.sum() == 1.0 == high.sum() else moved
        return g

    def mass_bounds(self, b: Floats) -> tuple[Floats, Floats]:
        return self._bounds(len(b))

    def scale(self, g: Floats, b: Floats, c: Floats) -> Floats:
        low, high = self._bounds(len(g))
        return np.maximum(g + log_ratio(low, c), 0) + np.minimum(g + log_ratio(high, c), 0)

    def divergence(self, b: Floats, c: Floats) -> float:
        return 0.0
