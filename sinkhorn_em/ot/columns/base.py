"""The contract of a column rule."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from ..._typing import Booleans, Floats


class ColumnRule(ABC):
    """The contract of a rule. Stateless: every method is given the potentials ``g``, the masses ``b``, or the plan's ``c``."""

    #: the objective does not change when a constant is added to every potential
    invariant: bool = False
    #: some potential may have to move: the solver needs second derivatives
    constrains: bool = True

    @property
    @abstractmethod
    def released(self) -> ColumnRule:
        """The rule that is left when the column masses are no longer pulled towards b (for most: `FreeMass`)."""

    @abstractmethod
    def penalty(self, g: Floats, b: Floats) -> float:
        """sum_k psi_k(g_k)."""

    @abstractmethod
    def target(self, g: Floats, b: Floats, c: Floats) -> Floats:
        """t_k = -psi_k'(g_k), the mass that column k should have; at a kink of psi the closest to c."""

    @abstractmethod
    def scale(self, g: Floats, b: Floats, c: Floats) -> Floats:
        """The Sinkhorn update: the potentials that are optimal when the row normalisation is held."""

    @abstractmethod
    def divergence(self, b: Floats, c: Floats) -> float:
        """What a column mass of c costs in the primal problem (0 where c is prescribed)."""

    def curvature(self, g: Floats, b: Floats) -> Floats:
        """psi_k''(g_k)."""
        return np.zeros_like(g)

    def movable(self, g: Floats, b: Floats, c: Floats) -> Booleans:
        """Columns whose potential may move from here."""
        return np.ones(len(g), bool)

    def step_norm(self, d: Floats) -> float:
        """Size of a step in nats: its oscillation, and its largest entry when a constant matters."""
        spread = float(d.max() - d.min())
        return spread if self.invariant else max(spread, float(np.abs(d).max()))

    def clip(self, g: Floats, d: Floats, c: Floats) -> Floats:
        """Shorten a step so that no potential jumps over a kink of psi."""
        return d

    def off_scale(self, g: Floats, b: Floats, c: Floats) -> bool:
        """Some column is so far from its target that its own scaling update is better than a Newton step."""
        return False

    def pin(self, g: Floats) -> Floats:
        """g with 0 for the columns that the rule leaves free, whatever they came with."""
        return g

    def translate(self, g: Floats, b: Floats) -> Floats:
        """Pin g, and add the best constant to it."""
        return self.pin(g)

    def mass_bounds(self, b: Floats) -> tuple[Floats, Floats]:
        """Smallest and largest mass that a column of the plan may have."""
        return np.zeros_like(b), np.ones_like(b)

    def extend(self, b: Floats) -> Floats:
        """Masses of all columns, virtual ones included."""
        return b

    def restrict(self, active: Booleans, total: float = 1.0) -> ColumnRule:
        """The same rule for the columns with positive mass, which share ``total``."""
        return self

    def check(self, n_columns: int) -> None:  # noqa: B027
        """Raise ValueError if the options do not fit ``n_columns``."""


def log_ratio(b: Floats, c: Floats) -> Floats:
    """log(b/c), -inf where b is 0."""
    with np.errstate(divide="ignore"):
        return np.log(b) - np.log(np.maximum(c, np.finfo(float).tiny))
