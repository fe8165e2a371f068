"""A virtual column: partial transport, trimming, noise."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..._typing import Booleans, Floats
from .base import ColumnRule, log_ratio
from .bounded import BoundedMass
from .marginals import FixedMass


@dataclass(frozen=True)
class VirtualColumn(ColumnRule):
    """One more column of constant score and fixed mass m; the others follow ``rule`` with masses (1 - m) b.

    Partial transport: the share m of the rows that fit worst is left out (trimming), or is noise.
    """

    mass: float
    rule: ColumnRule = field(default_factory=FixedMass)

    @property
    def released(self) -> ColumnRule:
        return VirtualColumn(self.mass, self.rule.released)

    @property
    def invariant(self) -> bool:  # type: ignore[override]
        return self.rule.invariant

    def check(self, n_columns: int) -> None:
        if not 0 < self.mass < 1:
            raise ValueError(f"mass of the virtual column is {self.mass}; it must lie strictly between 0 and 1")
        if isinstance(self.rule, BoundedMass):
            self.rule.check_bounds(n_columns, 1 - self.mass)
        else:
            self.rule.check(n_columns)

    def restrict(self, active: Booleans, total: float = 1.0) -> ColumnRule:
        return VirtualColumn(self.mass, self.rule.restrict(active[:-1], total - self.mass))

    def extend(self, b: Floats) -> Floats:
        return np.append((1 - self.mass) * b, self.mass)

    def penalty(self, g: Floats, b: Floats) -> float:
        return self.rule.penalty(g[:-1], b[:-1]) - self.mass * float(g[-1])

    def target(self, g: Floats, b: Floats, c: Floats) -> Floats:
        return np.append(self.rule.target(g[:-1], b[:-1], c[:-1]), self.mass)

    def curvature(self, g: Floats, b: Floats) -> Floats:
        return np.append(self.rule.curvature(g[:-1], b[:-1]), 0.0)

    def movable(self, g: Floats, b: Floats, c: Floats) -> Booleans:
        return np.append(self.rule.movable(g[:-1], b[:-1], c[:-1]), True)

    def step_norm(self, d: Floats) -> float:
        return max(float(d.max() - d.min()), self.rule.step_norm(d[:-1]))

    def clip(self, g: Floats, d: Floats, c: Floats) -> Floats:
        return np.append(self.rule.clip(g[:-1], d[:-1], c[:-1]), d[-1])

    def off_scale(self, g: Floats, b: Floats, c: Floats) -> bool:
        return self.rule.off_scale(g[:-1], b[:-1], c[:-1])

    def translate(self, g: Floats, b: Floats) -> Floats:
        return g - b @ g if self.invariant else np.append(self.rule.pin(g[:-1]), g[-1])

    def mass_bounds(self, b: Floats) -> tuple[Floats, Floats]:
        lower, upper = self.rule.mass_bounds(b[:-1])
        return np.append(lower, self.mass), np.append(upper, self.mass)

    def scale(self, g: Floats, b: Floats, c: Floats) -> Floats:
        return np.append(self.rule.scale(g[:-1], b[:-1], c[:-1]), g[-1] + log_ratio(np.array(self.mass), c[-1]))

    def divergence(self, b: Floats, c: Floats) -> float:
        return self.rule.divergence(b[:-1], c[:-1])
