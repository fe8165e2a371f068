"""Contaminated Gaussian: (1 - alpha) N(m, S) + alpha N(m, eta S); the weight is 1 for good rows and 1/eta for bad ones."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, ndtr

from ..._compiled import LARGEST, affine_log1p, exp_in_place
from ..._typing import Floats
from .base import Generator, pooled_where, positive_choice

START_SHARE, START_INFLATION = 0.05, 20.0
LARGEST_SHARE, SMALLEST_INFLATION = 0.5, 1.01  # the good part is the larger one, and the tighter one


@dataclass(frozen=True)
class ContaminatedGaussian(Generator):
    r"""Contaminated Gaussian: :math:`(1-\alpha)\,\phi(x; m, S) + \alpha\,\phi(x; m, \eta S)`.

    Parameters
    ----------
    contamination : "common", "component", float in (0, 1) or array (K,), default "component"
        alpha, the share of bad rows: estimated (at most 0.5) or given.
    inflation : "common", "component", float > 1 or array (K,), default "common"
        eta: estimated (at least 1.01) or given.

    References
    ----------
    Tukey 1960; Punzo & McNicholas 2016, Parsimonious mixtures of multivariate contaminated normal distributions.
    """

    contamination: Any = "component"
    inflation: Any = "common"
    shape_names: ClassVar[tuple[str, ...]] = ("contamination", "inflation")

    def log_density(self, q: Floats, d: int, *shape: Floats) -> None:
        alpha, eta = shape
        np.minimum(q, LARGEST, out=q)
        odds = self._log_odds(q, d, alpha, eta)
        tail = -np.abs(odds)
        exp_in_place(tail)
        affine_log1p(tail, 1.0, 1.0, np.log1p(-alpha) - 0.5 * d * math.log(2 * math.pi))
        tail += np.maximum(odds, 0.0, out=odds)  # log(1 + e^odds)
        q *= -0.5
        q += tail

    def weight(self, q: Floats, d: int, *shape: Floats) -> Floats:
        alpha, eta = shape
        w = _sigmoid(self._log_odds(q, d, alpha, eta))
        w *= 1 / eta - 1
        w += 1
        return w

    def draw(self, n: int, d: int, rng: np.random.Generator, *shape: float) -> Floats:
        alpha, eta = shape
        bad = rng.uniform(size=(n, 1)) < alpha
        return rng.standard_normal((n, d)) * np.where(bad, math.sqrt(eta), 1.0)

    def cdf(self, z: Floats, *shape: Floats) -> Floats:
        alpha, eta = shape
        return (1 - alpha) * ndtr(z) + alpha * ndtr(z / np.sqrt(eta))

    def check(self, K: int) -> None:
        positive_choice("contamination", self.contamination, ("common", "component"), K, 1.0)
        if not isinstance(self.contamination, str) and not (np.asarray(self.contamination, float) < 1).all():
            raise ValueError(f"contamination is {self.contamination!r}; it must lie below 1: some rows are good")
        positive_choice("inflation", self.inflation, ("common", "component"), K)
        if not isinstance(self.inflation, str) and not (np.asarray(self.inflation, float) > 1).all():
            raise ValueError(f"inflation is {self.inflation!r}; it must exceed 1: bad rows are the more spread ones")

    def start_shape(self, K: int) -> tuple[Floats, ...]:
        alpha = START_SHARE if isinstance(self.contamination, str) else self.contamination
        eta = START_INFLATION if isinstance(self.inflation, str) else self.inflation
        return np.broadcast_to(alpha, (K,)).astype(float), np.broadcast_to(eta, (K,)).astype(float)

    def n_shape_parameters(self, K: int) -> int:
        return sum({"common": 1, "component": K}[o] for o in (self.contamination, self.inflation) if isinstance(o, str))

    @property
    def estimates_shape(self) -> bool:
        return isinstance(self.contamination, str) or isinstance(self.inflation, str)

    def shape_sums(self, P: Floats, q: Floats, d: int, *shape: Floats) -> list[Floats]:
        np.minimum(q, LARGEST, out=q)
        bad = P * _sigmoid(self._log_odds(q, d, *shape))
        return [bad.sum(axis=-1), (bad * q).sum(axis=-1)]

    def maximise_shape(self, mass: Floats, sums: list[Floats], d: int, *shape: Floats) -> tuple[Floats, ...]:
        alpha, eta = shape
        if isinstance(self.contamination, str):
            share, total = pooled_where(self.contamination == "common", sums[0], mass)
            alpha = np.where(total > 0, np.clip(share / np.where(total > 0, total, 1), 1e-12, LARGEST_SHARE), alpha)
        if isinstance(self.inflation, str):
            squares, share = pooled_where(self.inflation == "common", sums[1], sums[0])
            usable = share > 0
            eta = np.where(usable, np.maximum(squares / np.where(usable, d * share, 1), SMALLEST_INFLATION), eta)
        return alpha, eta

    def marginal(self, d: int) -> bool:
        return True

    def conditional(self, q: Floats, given: int, *shape: Floats) -> tuple[Generator, tuple[Floats, ...], Floats]:
        alpha, eta = shape
        posterior = np.clip(expit(self._log_odds(q, given, alpha, eta)), 1e-300, 1 - 1e-16)
        return ContaminatedGaussian(posterior, eta), (posterior, eta), np.ones_like(q)

    def _log_odds(self, q: Floats, d: int, alpha: Floats, eta: Floats) -> Floats:
        """log posterior odds of being a bad row."""
        return np.log(alpha) - np.log1p(-alpha) - 0.5 * d * np.log(eta) + 0.5 * (1 - 1 / eta) * q


def _sigmoid(x: Floats) -> Floats:
    """1/(1 + e^-x)."""
    e = -np.abs(x)
    exp_in_place(e)
    return np.where(x > 0, 1.0, e) / (1 + e)
