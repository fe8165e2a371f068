"""Free, fixed and KL-relaxed column masses: tau = 0, tau = 1, and between."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import rel_entr

from ..._typing import Booleans, Floats
from .base import ColumnRule, log_ratio

_LARGEST_EXPONENT = 700.0  # exp stays finite
FAR = 3.0  # |log(t/c)| beyond which Newton's method on exp(g) takes unit steps where scaling takes one


@dataclass(frozen=True)
class FreeMass(ColumnRule):
    """tau = 0, psi = 0 and g = 0: ordinary EM responsibilities; the value is the mean log-likelihood."""

    constrains = False

    @property
    def released(self) -> ColumnRule:
        return FreeMass()

    def penalty(self, g: Floats, b: Floats) -> float:
        return 0.0

    def target(self, g: Floats, b: Floats, c: Floats) -> Floats:
        return c

    def movable(self, g: Floats, b: Floats, c: Floats) -> Booleans:
        return np.zeros(len(g), bool)

    def pin(self, g: Floats) -> Floats:
        return np.zeros_like(g)

    def scale(self, g: Floats, b: Floats, c: Floats) -> Floats:
        return np.zeros_like(g)

    def divergence(self, b: Floats, c: Floats) -> float:
        return 0.0


@dataclass(frozen=True)
class FixedMass(ColumnRule):
    """tau = 1, psi_k = -b_k g_k: the plan's columns have mass b exactly (Sinkhorn-EM; balanced transport)."""

    invariant = True

    @property
    def released(self) -> ColumnRule:
        return FreeMass()

    def penalty(self, g: Floats, b: Floats) -> float:
        return -float(b @ g)

    def target(self, g: Floats, b: Floats, c: Floats) -> Floats:
        return b

    def translate(self, g: Floats, b: Floats) -> Floats:
        return g - b @ g

    def mass_bounds(self, b: Floats) -> tuple[Floats, Floats]:
        return b, b

    def scale(self, g: Floats, b: Floats, c: Floats) -> Floats:
        return g + log_ratio(b, c)

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

    @property
    def released(self) -> ColumnRule:
        return FreeMass()

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

    def restrict(self, active: Booleans, total: float = 1.0) -> ColumnRule:
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

    def off_scale(self, g: Floats, b: Floats, c: Floats) -> bool:
        rho = self._rho(g)
        soft = (rho > 0) & np.isfinite(rho)
        return bool((np.abs(log_ratio(b, c) - g / np.where(soft, rho, 1.0))[soft] > FAR).any())

    def step_norm(self, d: Floats) -> float:
        rho = self._rho(d)
        with np.errstate(divide="ignore", invalid="ignore"):
            relative = np.where(rho > 0, np.abs(d) / rho, 0.0)
        return max(float(d.max() - d.min()), float(relative.max()))

    def pin(self, g: Floats) -> Floats:
        return np.where(self._rho(g) > 0, g, 0.0)

    def translate(self, g: Floats, b: Floats) -> Floats:
        """Solve sum_k t_k(g + s) = 1 for s: the optimum along the constant, free of any pass over the data."""
        rho = self._rho(g)
        if (rho == 0).any():
            return self.pin(g)
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
        return np.where(np.asarray(self.tau) > 0, self.tau * (g + log_ratio(b, c)), 0.0)

    def divergence(self, b: Floats, c: Floats) -> float:
        rho = self._rho(b)
        soft = (rho > 0) & np.isfinite(rho)
        return float(rho[soft] @ (rel_entr(c[soft], b[soft]) - c[soft] + b[soft]))


def rule_for_tau(tau: float | Floats) -> ColumnRule:
    """The simplest rule for a relaxation tau: free at 0, fixed at 1, KL between."""
    if np.ndim(tau) == 0 and tau == 0:
        return FreeMass()
    if np.ndim(tau) == 0 and tau == 1:
        return FixedMass()
    return RelaxedMass(tau)
