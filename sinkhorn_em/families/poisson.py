"""Poisson components for counts, independent in every coordinate.

    log f(x) = sum_q x_q log r_q - r_q - log x_q!

The M-step is the mean of the counts (exact).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.special import gammaln, pdtr

from .._typing import Booleans, Floats, Integers, LinearMap, RowPlan
from .base import TILE, Family, empty_components, prescribed_means
from .counts import CountStatistics, check_counts, count_statistics

#: rates are kept above it: costs nothing in likelihood, and no component forbids a row (-inf), which a mass it must take could need
SMALLEST_RATE = 1e-14


class PoissonParameters(NamedTuple):
    """Rates (K, d), and components that lost all their mass and keep their last rates."""

    rates: Floats
    retired: Booleans  # (K,)


@dataclass(frozen=True)
class Poisson(Family):
    """The Poisson family."""

    discrete: ClassVar[bool] = True

    def check(self, X: Floats) -> None:
        check_counts(self, X)

    def start(self, n_components: int, n_features: int) -> PoissonParameters:
        return PoissonParameters(np.ones((n_components, n_features)), np.zeros(n_components, bool))

    def log_density(self, X: Floats, params: PoissonParameters, out: Floats | None = None) -> Floats:
        if out is None:
            out = np.empty((len(params.rates), len(X))).T
        log_rates, total = np.log(params.rates), params.rates.sum(axis=1, keepdims=True)
        for i in range(0, len(X), TILE):
            x = np.ascontiguousarray(X[i : i + TILE].T)  # (d, rows)
            out.T[:, i : i + TILE] = log_rates @ x - total - gammaln(x + 1).sum(axis=0)
        return out

    def statistics(self, X: Floats, plan: RowPlan, params: PoissonParameters) -> CountStatistics:
        return count_statistics(X, plan, len(params.rates))

    def maximise(self, statistics: CountStatistics, params: PoissonParameters) -> PoissonParameters:
        retired = empty_components(statistics.mass)
        mean = statistics.first / np.where(retired, 1.0, statistics.mass)[:, None]
        return PoissonParameters(np.where(retired[:, None], params.rates, np.maximum(mean, SMALLEST_RATE)), retired)

    def sample(self, params: PoissonParameters, labels: Integers, rng: np.random.Generator) -> Floats:
        return rng.poisson(params.rates[labels]).astype(np.float64)

    def n_parameters(self, params: PoissonParameters) -> int:
        return params.rates.size

    def cdf(self, x: Floats, params: PoissonParameters) -> Floats:
        """F_k(x_i), (m, K), of values x (m,); one feature only."""
        if params.rates.shape[1] != 1:
            raise ValueError(f"cdf needs one feature; this fit has {params.rates.shape[1]}")
        x = np.floor(np.asarray(x, np.float64))[:, None]
        return np.where(x < 0, 0.0, pdtr(np.maximum(x, 0.0), params.rates[:, 0]))

    def describe(self, params: PoissonParameters, coordinates: LinearMap) -> dict[str, Any]:
        """``means``: rates (K, d)."""
        return {"means": params.rates}

    def prescribe(self, params: PoissonParameters, values: dict[str, Any], coordinates: LinearMap) -> PoissonParameters:
        if not values:
            return params
        rates = prescribed_means(self, values, params.rates.shape)
        if (rates < 0).any():
            raise ValueError(f"means hold {rates.min():.6g}; a Poisson rate is not negative: give rates >= 0")
        return params._replace(rates=np.maximum(rates, SMALLEST_RATE))
