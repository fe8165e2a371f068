r"""Generalised Gaussian (power exponential): h(q) = const - r^p, r = sqrt(q); weight p r^(p-2).

For p <= 2 h is convex in q and the M-step monotone. For p > 2 it is concave there: the tangent bounds it from the wrong side, and
a reweighted step can lower the likelihood, so such powers are refused.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import gammaincc, gammaln

from ..._typing import Floats
from ..exponential_sums import exponential_sum_bound, exponential_sum_terms
from .base import Cusp, Generator, log_sphere, pooled_where, positive_choice, spread

START_POWER, SMALLEST_POWER, LARGEST_POWER = 1.5, 0.1, 2.0
STRIDE = 1.5  # a turn changes the power by this factor at most


@dataclass(frozen=True)
class GeneralisedGaussian(Generator):
    r"""Generalised Gaussian: :math:`f(x) = \frac{p\,\Gamma(d/2)}{2 \pi^{d/2} \Gamma(d/p)} |S|^{-1/2} e^{-r^p}`.

    In one dimension ``scipy.stats.gennorm``. Power 2 is the Gaussian with covariance S/2, power 1 the Laplace distribution.

    Parameters
    ----------
    power : "common", "component", float in (0, 2] or array (K,), default "common"
        p: estimated (one for all components, or one each, between 0.1 and 2), or given.

    References
    ----------
    Gómez, Gómez-Villegas & Marín 1998; Dang, Browne & McNicholas 2015.
    """

    power: Any = "common"
    shape_names: ClassVar[tuple[str, ...]] = ("power",)

    def log_density(self, q: Floats, d: int, *shape: Floats) -> None:
        (p,) = shape
        _raise(q, p / 2)
        np.negative(q, out=q)
        q += np.log(p) - gammaln(d / p) - log_sphere(d)

    def weight(self, q: Floats, d: int, *shape: Floats) -> Floats:
        (p,) = shape
        w = q.copy()
        with np.errstate(divide="ignore"):
            _raise(w, p / 2 - 1)
        w *= p
        return w

    def draw(self, n: int, d: int, rng: np.random.Generator, *shape: float) -> Floats:
        (p,) = shape
        return spread(rng.gamma(d / p, size=n) ** (1 / p), d, rng)

    def cdf(self, z: Floats, *shape: Floats) -> Floats:
        (p,) = shape
        tail = gammaincc(1 / p, np.abs(z) ** p) / 2
        return np.where(z < 0, tail, 1 - tail)

    def cusp(self, *shape: Floats) -> Cusp | None:
        (p,) = shape
        return Cusp(np.ones_like(p), p) if (p < 2).any() else None

    def check(self, K: int) -> None:
        positive_choice("power", self.power, ("common", "component"), K, LARGEST_POWER)

    def start_shape(self, K: int) -> tuple[Floats, ...]:
        return (np.full(K, START_POWER) if self.estimates_shape else np.broadcast_to(self.power, (K,)).astype(float),)

    def n_shape_parameters(self, K: int) -> int:
        return {"common": 1, "component": K}[self.power] if self.estimates_shape else 0

    @property
    def estimates_shape(self) -> bool:
        return isinstance(self.power, str)

    def shape_sums(self, P: Floats, q: Floats, d: int, *shape: Floats) -> list[Floats]:
        (p,) = shape
        with np.errstate(divide="ignore"):
            y = p / 2 * np.log(q)
        return list(exponential_sum_terms(P, y, 1 / STRIDE, STRIDE))

    def maximise_shape(self, mass: Floats, sums: list[Floats], d: int, *shape: Floats) -> tuple[Floats, ...]:
        (p,) = shape
        common = self.power == "common"
        mass, *sums = pooled_where(common, mass, *sums)
        new = np.array(
            [
                _best_power(old, d, np.array([total[k] for total in sums]) / mass[k]) if mass[k] > 0 else old
                for k, old in enumerate(p[:1] if common else p)
            ]
        )
        return (np.full_like(p, new[0]) if common else new,)


def _best_power(old: float, d: int, terms: Floats) -> float:
    """The power that maximises the bound on the expected log-likelihood, per unit of mass, radii held."""

    def loss(t: float) -> float:
        p = t * old
        return float(gammaln(d / p) - math.log(p) + exponential_sum_bound(terms, np.array(t))[0])

    low, high = max(1 / STRIDE, SMALLEST_POWER / old), min(STRIDE, LARGEST_POWER / old)
    if not low < high:
        return old
    best = minimize_scalar(loss, bounds=(low, high), method="bounded", options={"xatol": 1e-10})
    return old * float(best.x) if best.fun < loss(1.0) else old


def _raise(q: Floats, exponent: Floats) -> None:
    """q^exponent in place, by the square root where it will do: a power costs ten times as much."""
    if (exponent == 0.5).all():
        np.sqrt(q, out=q)
    elif (exponent == -0.5).all():
        np.sqrt(q, out=q)
        np.divide(1.0, q, out=q)
    else:
        np.power(q, exponent, out=q)
