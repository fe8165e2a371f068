"""Skew-normal components (Azzalini 1985) of one feature.

    f(x) = 2 / omega phi(z) Phi(alpha z),  z = (x - xi) / omega;   x = xi + Delta |u| + sqrt(Gamma) e,  u and e standard normal,
    omega^2 = Delta^2 + Gamma,  alpha = Delta / sqrt(Gamma).

EM (Lin, Lee & Yen 2007) takes |u| as missing: given x it is normal with mean sigma r and variance sigma^2, truncated to positive
values, r = alpha z and sigma = sqrt(Gamma) / omega, and the M-step regresses x on it. The variance of u is left free in the M-step
and set back to 1 through Delta (parameter expansion, Liu, Rubin & Wu 1998): monotone as well, and faster.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.special import erfcx, log_ndtr
from scipy.stats import skewnorm

from .._typing import Booleans, Floats, Integers, LinearMap, RowPlan
from .base import TILE, Family, empty_components, finite, positive, prescribed_means, tiles

DEEP, DEPTH = 8.0, 40  # from r = -DEEP a continued fraction of DEPTH terms is good to rounding
#: delta = Delta / omega at the start: 0 is a stationary point of the likelihood, 1 its boundary
SMALLEST_DELTA, LARGEST_DELTA = 0.3, 0.99
THIRD = 0.5 * (4 - math.pi)  # skewness = THIRD m^3 / (1 - m^2)^(3/2), m = delta sqrt(2/pi) the mean of z


class SkewNormalParameters(NamedTuple):
    """Locations xi, scales omega, slants alpha, (K,); components that lost their mass; at the floor; whether only a start."""

    locations: Floats
    scales: Floats
    slants: Floats
    retired: Booleans
    held: Booleans
    fresh: bool = False  # the next M-step takes moments, wherever that leads


class SkewNormalStatistics(NamedTuple):
    """Sums of the plan, (K,) each, of z and t = E(|u| given x) at the old parameters."""

    mass: Floats
    t: Floats
    t2: Floats  # of E(u^2 given x)
    z: Floats
    z2: Floats
    zt: Floats
    z3: Floats  # for the start alone


@dataclass(frozen=True)
class SkewNormal(Family):
    """Skew-normal family of scales omega and sqrt(Gamma) >= ``floor`` (in fitted coordinates)."""

    coordinates: ClassVar[str] = "scaled"

    floor: float = 1e-9

    def check(self, X: Floats) -> None:
        if X.shape[1] != 1:
            raise ValueError(
                f"X has {X.shape[1]} features; SkewNormal takes one: fit one column, X[:, [0]], or use Gaussian"
            )

    def start(self, n_components: int, n_features: int) -> SkewNormalParameters:
        zero, none = np.zeros(n_components), np.zeros(n_components, bool)
        return SkewNormalParameters(zero, zero + 1, zero, none, none, True)

    def log_density(self, X: Floats, params: SkewNormalParameters, out: Floats | None = None) -> Floats:
        if out is None:
            out = np.empty((len(params.scales), len(X))).T
        for start in range(0, len(X), TILE):
            rows = slice(start, start + TILE)
            for k, log_f in enumerate(out.T[:, rows]):
                omega = params.scales[k]
                z = (X[rows, 0] - params.locations[k]) / omega
                log_f[:] = log_ndtr(params.slants[k] * z)
                log_f += math.log(2) - 0.5 * math.log(2 * math.pi) - math.log(omega) - 0.5 * z * z
        return out

    def statistics(self, X: Floats, plan: RowPlan, params: SkewNormalParameters) -> SkewNormalStatistics:
        alpha, K = params.slants[:, None], len(params.slants)
        mass, sums = np.zeros(K), np.zeros((6, K))
        for x, matrix in tiles(X, plan):
            p = matrix.T
            mass += p.sum(axis=1)
            z = (x[:, 0] - params.locations[:, None]) / params.scales[:, None]
            t, t2 = _truncated_moments(alpha * z)
            root = 1 / np.sqrt(1 + alpha**2)  # sigma
            t, t2 = root * t, root**2 * t2
            sums += [np.einsum("ij,ij->i", p, v) for v in (t, t2, z, z * z, z * t, z**3)]
        return SkewNormalStatistics(mass, *sums)

    def maximise(self, statistics: SkewNormalStatistics, params: SkewNormalParameters) -> SkewNormalParameters:
        retired = empty_components(statistics.mass)
        mass = np.where(retired, 1.0, statistics.mass)
        means = np.where(retired, 0.0, np.array(statistics[1:]) / mass)  # (6, K)
        # in units of the old scale, about the old location
        xi, Delta, Gamma = _by_moments(means) if params.fresh else _by_regression(means)
        Delta, Gamma = params.scales * Delta, np.maximum(params.scales**2 * Gamma, self.floor**2)
        scales = np.hypot(Delta, np.sqrt(Gamma))
        locations = np.where(retired, params.locations, params.locations + params.scales * xi)
        scales, slants = (
            np.where(retired, params.scales, scales),
            np.where(retired, params.slants, Delta / np.sqrt(Gamma)),
        )
        return SkewNormalParameters(locations, scales, slants, retired, scales <= 2 * self.floor)

    def sample(self, params: SkewNormalParameters, labels: Integers, rng: np.random.Generator) -> Floats:
        u, e = rng.standard_normal((2, len(labels)))
        alpha = params.slants[labels]
        z = (alpha * np.abs(u) + e) / np.sqrt(1 + alpha**2)
        return (params.locations[labels] + params.scales[labels] * z)[:, None]

    def n_parameters(self, params: SkewNormalParameters) -> int:
        return 3 * len(params.scales)

    def collapsed(self, params: SkewNormalParameters) -> Booleans:
        return params.held

    def cdf(self, x: Floats, params: SkewNormalParameters) -> Floats:
        """F_k(x_i), (m, K), of values x (m,), by scipy: Phi(z) - 2 T(z, alpha) would cancel in the short tail."""
        z = (np.asarray(x)[:, None] - params.locations) / params.scales
        return np.asarray(skewnorm.cdf(z, params.slants), np.float64)

    def describe(self, params: SkewNormalParameters, coordinates: LinearMap) -> dict[str, Any]:
        """``means``: locations xi (K, 1), which are not expectations; ``scales`` omega and ``slants`` alpha (K,)."""
        xi = params.locations[:, None] / coordinates.A + coordinates.shift
        return {"means": xi, "scales": params.scales / coordinates.A[0], "slants": params.slants}

    def prescribe(
        self, params: SkewNormalParameters, values: dict[str, Any], coordinates: LinearMap
    ) -> SkewNormalParameters:
        if not values:
            return params
        given, K = dict(values), len(params.scales)
        if "scales" in given:
            params = params._replace(scales=positive("scales", given.pop("scales"), (K,)) * coordinates.A[0])
        if "slants" in given:
            params = params._replace(slants=finite("slants", given.pop("slants"), (K,)))
        means = prescribed_means(self, given, (K, 1))
        return params._replace(locations=((means - coordinates.shift) * coordinates.A)[:, 0], fresh=False)


def _truncated_moments(r: Floats) -> tuple[Floats, Floats]:
    """E v and E v^2 of v normal with mean r and variance 1, given v > 0: r + h and 1 + r (r + h), h = phi(r) / Phi(r).

    For r far below 0 both are differences of nearly equal numbers; with x = -r and q = 2 / (x + 3 / (x + 4 / (x + ...))), Laplace's
    continued fraction, they are 1 / (x + q) and q / (x + q).
    """
    deep = r < -DEEP
    near = np.where(deep, 0.0, r)
    with np.errstate(over="ignore"):  # erfcx is inf for r > 38: h is 0
        first = near + math.sqrt(2 / math.pi) / erfcx(near / -math.sqrt(2))
    second = 1 + near * first
    x = -r[deep]
    q = 0.0 * x
    for j in range(DEPTH, 1, -1):
        q = j / (x + q)
    first[deep], second[deep] = 1 / (x + q), q / (x + q)
    return first, second


def _by_regression(means: Floats) -> tuple[Floats, Floats, Floats]:
    """xi, Delta, Gamma: the regression of z on |u|, u scaled back to variance 1."""
    t, t2, z, z2, zt, _ = means
    spread = np.maximum(t2 - t**2, np.finfo(float).tiny)  # at least the variance of |u| given x
    slope = (zt - t * z) / spread
    residual = np.maximum(z2 - z**2 - slope * (zt - t * z), 0.0)
    return z - slope * t, slope * np.sqrt(t2), residual


def _by_moments(means: Floats) -> tuple[Floats, Floats, Floats]:
    """xi, Delta, Gamma that have the mean, variance and, within bounds, the skewness of z."""
    _, _, z, z2, _, z3 = means
    variance = np.maximum(z2 - z**2, 0.0)
    third = z3 - 3 * z * z2 + 2 * z**3
    skewness = third / np.where(variance > 0, variance, 1.0) ** 1.5
    ratio = np.cbrt(np.abs(skewness) / THIRD) ** 2  # m^2 / (1 - m^2)
    delta = np.sqrt(0.5 * math.pi * ratio / (1 + ratio))
    delta = np.clip(delta, SMALLEST_DELTA, LARGEST_DELTA) * np.where(third < 0, -1.0, 1.0)
    omega = np.sqrt(variance / (1 - 2 / math.pi * delta**2))
    Delta = omega * delta
    return z - math.sqrt(2 / math.pi) * Delta, Delta, omega**2 - Delta**2
