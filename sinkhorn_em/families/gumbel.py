"""Gumbel components (extreme values of type I), independent in every coordinate.

    log f(x) = -log s + y - exp(y),   y = -(x - m) / s  (right tail, scipy's gumbel_r)  or  y = (x - m) / s  (left tail, gumbel_l).

With t = (old scale) / (new scale) and the location profiled out, the expected log-likelihood of n mass is n log t + t sum P y
- n log sum P exp(t y) + constants; the last sum is bounded by `exponential_sums` (tangent at t = 1), whose maximum raises it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from .._typing import Booleans, Floats, Integers, LinearMap, RowPlan
from .base import TILE, Family, empty_components, positive, prescribed_means, tiles
from .exponential_sums import best_exponent, exponential_sum_bound, exponential_sum_terms

LOWER, UPPER = 2 / 3, 3 / 2  # one M-step changes a scale at most by these: a wider interval has a looser bound
#: exp(y) continues as its tangent from here, where log f = -5e21: nothing overflows, and the worst rows still differ
CEILING = 50.0


class GumbelParameters(NamedTuple):
    """Locations and scales, (K, d); components that lost their mass; scales at the floor; whether this is only a start."""

    locations: Floats
    scales: Floats
    retired: Booleans  # (K,)
    held: Booleans  # (K,)
    fresh: bool = False  # the next M-step takes moments, wherever that leads


class GumbelStatistics(NamedTuple):
    """Sums of the plan in y at the old parameters."""

    mass: Floats  # (K,)
    first: Floats  # (K, d) sum P y
    second: Floats  # (K, d) sum P y^2
    terms: Floats  # (4, K, d) exponential sums
    far: Floats  # (2, K, d) sum P and sum P y over y > CEILING


@dataclass(frozen=True)
class Gumbel(Family):
    """Gumbel family whose long tail is on the ``tail`` side, of scales >= ``floor`` (in fitted coordinates)."""

    coordinates: ClassVar[str] = "scaled"

    tail: Literal["right", "left"] = "right"
    floor: float = 1e-9

    def __post_init__(self) -> None:
        if self.tail not in ("right", "left"):
            raise ValueError(f"tail is {self.tail!r}; it must be 'right' or 'left', the side of the long tail")

    @property
    def _sign(self) -> int:
        return -1 if self.tail == "right" else 1

    def start(self, n_components: int, n_features: int) -> GumbelParameters:
        shape, none = (n_components, n_features), np.zeros(n_components, bool)
        return GumbelParameters(np.zeros(shape), np.ones(shape), none, none, True)

    def log_density(self, X: Floats, params: GumbelParameters, out: Floats | None = None) -> Floats:
        K, d = params.locations.shape
        if out is None:
            out = np.empty((K, len(X))).T
        for start in range(0, len(X), TILE):
            rows = slice(start, start + TILE)
            for k, log_f in enumerate(out.T[:, rows]):
                log_f[:] = -np.log(params.scales[k]).sum()
                for q in range(d):
                    y = (X[rows, q] - params.locations[k, q]) * (self._sign / params.scales[k, q])
                    log_f += y - _exp(y)
        return out

    def statistics(self, X: Floats, plan: RowPlan, params: GumbelParameters) -> GumbelStatistics:
        K, d = params.locations.shape
        mass = np.zeros(K)
        first, second, terms, far = np.zeros((K, d)), np.zeros((K, d)), np.zeros((4, K, d)), np.zeros((2, K, d))
        for x, matrix in tiles(X, plan):
            p = matrix.T
            mass += p.sum(axis=1)
            for q in range(d):
                y = (x[:, q] - params.locations[:, q, None]) * (self._sign / params.scales[:, q, None])
                py, beyond = p * y, y > CEILING
                first[:, q] += py.sum(axis=1)
                second[:, q] += np.einsum("ij,ij->i", py, y)
                terms[:, :, q] += exponential_sum_terms(p, y, LOWER, UPPER)
                far[:, :, q] += [(p * beyond).sum(axis=1), (py * beyond).sum(axis=1)]
        return GumbelStatistics(mass, first, second, terms, far)

    def maximise(self, statistics: GumbelStatistics, params: GumbelParameters) -> GumbelParameters:
        m, s = params.locations, params.scales
        retired = empty_components(statistics.mass)
        mass = np.where(retired, 1.0, statistics.mass)[:, None]
        keep = retired[:, None]
        mean = np.where(keep, 0.0, statistics.first / mass)
        if params.fresh:
            # the variance of y is pi^2 / 6, its mean -euler_gamma
            variance = np.maximum(statistics.second / mass - mean**2, 0.0)
            scales = np.maximum(s * np.sqrt(6 * variance) / math.pi, self.floor)
            locations = m + self._sign * (s * mean + np.euler_gamma * scales)
        else:
            terms = np.where(keep, 1.0, statistics.terms / mass)
            t = best_exponent(mean, terms, LOWER, np.clip(s / self.floor, 1.0, UPPER))
            # a row beyond the ceiling outweighs all others: widening alone, until it is no longer there, raises the bound
            far_mass, far_first = statistics.far
            beyond = far_mass > 0
            far = np.where(beyond, far_first, CEILING) / np.where(beyond, far_mass, 1.0)
            b = np.where(beyond, 0.0, -np.log(exponential_sum_bound(terms, t)[0]))
            t = np.where(beyond, 0.5 * CEILING / far, t)
            scales = np.maximum(s / t, self.floor)
            locations = m - self._sign * scales * b
        scales, locations = np.where(keep, s, scales), np.where(keep, m, locations)
        held = np.any(scales <= self.floor * (1 + 1e-9), axis=1)
        return GumbelParameters(locations, scales, retired, held)

    def sample(self, params: GumbelParameters, labels: Integers, rng: np.random.Generator) -> Floats:
        noise = rng.gumbel(size=(len(labels), params.locations.shape[1]))
        return params.locations[labels] - self._sign * params.scales[labels] * noise

    def n_parameters(self, params: GumbelParameters) -> int:
        return 2 * params.locations.size

    def collapsed(self, params: GumbelParameters) -> Booleans:
        return params.held

    def cdf(self, x: Floats, params: GumbelParameters) -> Floats:
        """F_k(x_i), (m, K), of values x (m,); one feature only."""
        if params.locations.shape[1] != 1:
            raise ValueError(f"cdf needs one feature; this fit has {params.locations.shape[1]}")
        y = (np.asarray(x)[:, None] - params.locations[:, 0]) * (self._sign / params.scales[:, 0])
        return np.exp(-_exp(y)) if self.tail == "right" else -np.expm1(-_exp(y))

    def describe(self, params: GumbelParameters, coordinates: LinearMap) -> dict[str, Any]:
        """``means``: locations (K, d), which are the modes; ``scales`` (K, d)."""
        return {"means": params.locations / coordinates.A + coordinates.shift, "scales": params.scales / coordinates.A}

    def prescribe(self, params: GumbelParameters, values: dict[str, Any], coordinates: LinearMap) -> GumbelParameters:
        if not values:
            return params
        given = dict(values)
        if "scales" in given:
            params = params._replace(
                scales=positive("scales", given.pop("scales"), params.scales.shape) * coordinates.A
            )
        means = prescribed_means(self, given, params.locations.shape)
        return params._replace(locations=(means - coordinates.shift) * coordinates.A, fresh=False)


def _exp(y: Floats) -> Floats:
    """e^y, continued as its tangent beyond the ceiling."""
    e = np.exp(np.minimum(y, CEILING))
    return e * (1 + np.maximum(y - CEILING, 0.0))
