"""Column rules: what the transport problem asks of the mass of each column.

With column masses b and potentials g (in nats), the semi-dual is

    minimise over g:   sum_i a_i lse_k(S_ik + log b_k + g_k) + sum_k psi_k(g_k),

and a rule is its second term: `penalty` psi, `target` t = -psi' (optimal means: column mass c equals t) and `curvature`
psi''. The first term is invariant to a constant added to g; a rule says with `translate` where the constant goes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import rel_entr

from .._typing import Booleans, Floats

_LARGEST_EXPONENT = 700.0  # exp stays finite


class ColumnRule(ABC):
    """The contract of a rule. Stateless: every method is given the potentials ``g``, the masses ``b``, or the plan's ``c``."""

    #: the objective does not change when a constant is added to every potential
    invariant: bool = False
    #: some potential may have to move: the solver needs second derivatives
    constrains: bool = True

    @property
    def released(self) -> ColumnRule:
        """The rule that is left when the column masses are no longer pulled towards b."""
        return FreeMass()

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

    def clip(self, g: Floats, d: Floats) -> Floats:
        """Shorten a step so that no potential jumps over a kink of psi."""
        return d

    def translate(self, g: Floats, b: Floats) -> Floats:
        """Add the best constant to g."""
        return g

    def mass_bounds(self, b: Floats) -> tuple[Floats, Floats]:
        """Smallest and largest mass that a column of the plan may have."""
        return np.zeros_like(b), np.ones_like(b)

    def extend(self, b: Floats) -> Floats:
        """Masses of all columns, virtual ones included."""
        return b

    def restrict(self, active: Booleans) -> ColumnRule:
        """The same rule for the columns with positive mass."""
        return self

    def check(self, n_columns: int) -> None:  # noqa: B027
        """Raise ValueError if the options do not fit ``n_columns``."""


@dataclass(frozen=True)
class FreeMass(ColumnRule):
    """tau = 0, psi = 0 and g = 0: ordinary EM responsibilities; the value is the mean log-likelihood."""

    constrains = False

    def penalty(self, g: Floats, b: Floats) -> float:
        return 0.0

    def target(self, g: Floats, b: Floats, c: Floats) -> Floats:
        return c

    def movable(self, g: Floats, b: Floats, c: Floats) -> Booleans:
        return np.zeros(len(g), bool)

    def translate(self, g: Floats, b: Floats) -> Floats:
        return np.zeros_like(g)

    def scale(self, g: Floats, b: Floats, c: Floats) -> Floats:
        return np.zeros_like(g)

    def divergence(self, b: Floats, c: Floats) -> float:
        return 0.0


@dataclass(frozen=True)
class FixedMass(ColumnRule):
    """tau = 1, psi_k = -b_k g_k: the plan's columns have mass b exactly (Sinkhorn-EM; balanced transport)."""

    invariant = True

    def penalty(self, g: Floats, b: Floats) -> float:
        return -float(b @ g)

    def target(self, g: Floats, b: Floats, c: Floats) -> Floats:
        return b

    def translate(self, g: Floats, b: Floats) -> Floats:
        return g - b @ g

    def mass_bounds(self, b: Floats) -> tuple[Floats, Floats]:
        return b, b

    def scale(self, g: Floats, b: Floats, c: Floats) -> Floats:
        return g + _log_ratio(b, c)

    def divergence(self, b: Floats, c: Floats) -> float:
        return 0.0


@dataclass(frozen=True)
class RelaxedMass(ColumnRule):
    """KL column k: psi_k = rho_k b_k (exp(-g_k/rho_k) - 1), rho = tau/(1 - tau); the plan pays rho_k KL(c_k | b_k).

    Parameters
    ----------
    tau : float or array (K,)
        In [0, 1]; 0 is `FreeMass`, 1 is `FixedMass`, and columns may differ.
    """

    tau: float | Floats = 0.5

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RelaxedMass) and np.array_equal(self.tau, other.tau)

    def check(self, n_columns: int) -> None:
        tau = np.asarray(self.tau, float)
        if tau.ndim > 1 or (tau.ndim == 1 and len(tau) != n_columns):
            raise ValueError(
                f"tau has shape {tau.shape}; it must be a number or one per column, ({n_columns},): give one value each"
            )
        if not ((tau >= 0) & (tau <= 1)).all():
            raise ValueError(f"tau is {self.tau}; it must lie in [0, 1]: 0 is EM, 1 holds the column masses exactly")

    def restrict(self, active: Booleans) -> ColumnRule:
        return self if np.ndim(self.tau) == 0 else RelaxedMass(np.asarray(self.tau)[active])

    def _rho(self, g: Floats) -> Floats:
        tau = np.broadcast_to(np.asarray(self.tau, float), g.shape)
        with np.errstate(divide="ignore"):
            return tau / (1 - tau)

    def penalty(self, g: Floats, b: Floats) -> float:
        rho = self._rho(g)
        soft = (rho > 0) & np.isfinite(rho)
        exponent = np.minimum(-g[soft] / rho[soft], _LARGEST_EXPONENT)
        fixed = np.isinf(rho)
        return float(rho[soft] * b[soft] @ np.expm1(exponent) - b[fixed] @ g[fixed])

    def target(self, g: Floats, b: Floats, c: Floats) -> Floats:
        rho = self._rho(g)
        with np.errstate(divide="ignore", invalid="ignore"):
            t = b * np.exp(np.minimum(-g / rho, _LARGEST_EXPONENT))
        return np.where(rho > 0, t, c)

    def curvature(self, g: Floats, b: Floats) -> Floats:
        rho = self._rho(g)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(rho > 0, self.target(g, b, b) / rho, 0.0)

    def movable(self, g: Floats, b: Floats, c: Floats) -> Booleans:
        return self._rho(g) > 0

    def step_norm(self, d: Floats) -> float:
        rho = self._rho(d)
        with np.errstate(divide="ignore", invalid="ignore"):
            relative = np.where(rho > 0, np.abs(d) / rho, 0.0)
        return max(float(d.max() - d.min()), float(relative.max()))

    def translate(self, g: Floats, b: Floats) -> Floats:
        """Solve sum_k t_k(g + s) = 1 for s: the optimum along the constant, free of any pass over the data."""
        rho = self._rho(g)
        if (rho == 0).any():
            return np.where(rho > 0, g, 0.0)
        fixed, soft = np.isinf(rho), np.isfinite(rho)
        left = 1.0 - b[fixed].sum()
        if not soft.any() or left <= 0:
            return g - b @ g if not soft.any() else g
        log_terms, rho = np.log(b[soft]) - g[soft] / rho[soft], rho[soft]

        def excess(s: float) -> float:
            exponent = log_terms - s / rho
            top = exponent.max()
            return float(top + np.log(np.exp(exponent - top).sum()) - np.log(left))

        edges = rho * (log_terms - np.log(left))
        low, high = float(edges.min()) - 1e-9, float((edges + rho * np.log(len(rho))).max()) + 1e-9
        return g + brentq(excess, low, high, xtol=1e-14, rtol=1e-14) if excess(low) > 0 > excess(high) else g

    def mass_bounds(self, b: Floats) -> tuple[Floats, Floats]:
        fixed = np.isinf(self._rho(b))
        return np.where(fixed, b, 0.0), np.where(fixed, b, 1.0)

    def scale(self, g: Floats, b: Floats, c: Floats) -> Floats:
        return np.where(np.asarray(self.tau) > 0, self.tau * (g + _log_ratio(b, c)), 0.0)

    def divergence(self, b: Floats, c: Floats) -> float:
        rho = self._rho(b)
        soft = (rho > 0) & np.isfinite(rho)
        return float(rho[soft] @ (rel_entr(c[soft], b[soft]) - c[soft] + b[soft]))


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
        for name, value in (("lower", self.lower), ("upper", self.upper)):
            if np.ndim(value) > 1 or (np.ndim(value) == 1 and len(np.asarray(value)) != n_columns):
                raise ValueError(f"{name} has shape {np.shape(value)}; it must be a number or ({n_columns},)")
        low, high = self._bounds(n_columns)
        if not ((low >= 0) & (low <= high) & (high <= 1)).all():
            raise ValueError(
                f"bounds lower={self.lower}, upper={self.upper}: they must satisfy 0 <= lower <= upper <= 1 in every column"
            )
        if low.sum() > 1 + 1e-12 or high.sum() < 1 - 1e-12:
            raise ValueError(
                f"bounds cannot be met: sum(lower) = {low.sum():.6g} must be at most 1 and sum(upper) = {high.sum():.6g} "
                "at least 1; widen them"
            )

    def _bounds(self, n_columns: int) -> tuple[Floats, Floats]:
        return (
            np.broadcast_to(np.asarray(self.lower, float), (n_columns,)),
            np.broadcast_to(np.asarray(self.upper, float), (n_columns,)),
        )

    def restrict(self, active: Booleans) -> ColumnRule:
        low, high = self._bounds(len(active))
        if low[~active].any():
            raise ValueError("lower is positive for a column whose mass is 0: give that column mass, or no lower bound")
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

    def clip(self, g: Floats, d: Floats) -> Floats:
        return np.where(g * (g + d) < 0, -g, d)

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
        return np.maximum(g + _log_ratio(low, c), 0) + np.minimum(g + _log_ratio(high, c), 0)

    def divergence(self, b: Floats, c: Floats) -> float:
        return 0.0


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
            low, high = self.rule._bounds(n_columns)
            if low.sum() > 1 - self.mass + 1e-12 or high.sum() < 1 - self.mass - 1e-12:
                raise ValueError(f"bounds cannot be met with {1 - self.mass:.6g} of the mass left: widen them")
            return
        self.rule.check(n_columns)

    def restrict(self, active: Booleans) -> ColumnRule:
        return VirtualColumn(self.mass, self.rule.restrict(active[:-1]))

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

    def clip(self, g: Floats, d: Floats) -> Floats:
        return np.append(self.rule.clip(g[:-1], d[:-1]), d[-1])

    def translate(self, g: Floats, b: Floats) -> Floats:
        if self.invariant:
            return g - b @ g
        return g

    def mass_bounds(self, b: Floats) -> tuple[Floats, Floats]:
        lower, upper = self.rule.mass_bounds(b[:-1])
        return np.append(lower, self.mass), np.append(upper, self.mass)

    def scale(self, g: Floats, b: Floats, c: Floats) -> Floats:
        return np.append(self.rule.scale(g[:-1], b[:-1], c[:-1]), g[-1] + np.log(self.mass / c[-1]))

    def divergence(self, b: Floats, c: Floats) -> float:
        return self.rule.divergence(b[:-1], c[:-1])


#: rules by name
RULES: dict[str, Any] = {"free": FreeMass, "fixed": FixedMass, "relaxed": RelaxedMass, "bounded": BoundedMass}


def rule_for_tau(tau: float | Floats) -> ColumnRule:
    """The simplest rule for a relaxation tau: free at 0, fixed at 1, KL between."""
    if np.ndim(tau) == 0 and tau == 0:
        return FreeMass()
    if np.ndim(tau) == 0 and tau == 1:
        return FixedMass()
    return RelaxedMass(tau)


def _log_ratio(b: Floats, c: Floats) -> Floats:
    """log(b/c), -inf where b is 0."""
    with np.errstate(divide="ignore"):
        return np.log(b) - np.log(np.maximum(c, np.finfo(float).tiny))
