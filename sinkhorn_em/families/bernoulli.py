"""Bernoulli components for zeros and ones, independent in every coordinate (latent class analysis).

    log f(x) = sum_q x_q log p_q + (1 - x_q) log(1 - p_q)

The M-step is the mean of the rows (exact).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from .._typing import Booleans, Floats, Integers, LinearMap, RowPlan
from .base import TILE, Family, empty_components, prescribed_means
from .counts import CountStatistics, count_statistics

#: probabilities are kept this far from 0 and 1: costs 1e-12 nats an entry, and no component forbids a row (-inf), which a mass it
#: must take could need
SMALLEST_PROBABILITY = 1e-12


class BernoulliParameters(NamedTuple):
    """Probabilities of a one (K, d), and components that lost all their mass and keep their last ones."""

    probabilities: Floats
    retired: Booleans  # (K,)


@dataclass(frozen=True)
class Bernoulli(Family):
    """The Bernoulli family."""

    discrete: ClassVar[bool] = True

    def check(self, X: Floats) -> None:
        for i in range(0, len(X), TILE):
            tile = np.asarray(X[i : i + TILE])
            bad = (tile != 0) & (tile != 1)
            if bad.any():
                row, column = np.argwhere(bad)[0]
                raise ValueError(
                    f"X[{i + row}, {column}] is {tile[row, column]:.6g}; Bernoulli takes zeros and ones: "
                    f"recode the column, for instance X > 0"
                )

    def start(self, n_components: int, n_features: int) -> BernoulliParameters:
        return BernoulliParameters(np.full((n_components, n_features), 0.5), np.zeros(n_components, bool))

    def log_density(self, X: Floats, params: BernoulliParameters, out: Floats | None = None) -> Floats:
        p = params.probabilities
        if out is None:
            out = np.empty((len(p), len(X))).T
        zero = np.log1p(-p)
        slope, constant = np.log(p) - zero, zero.sum(axis=1, keepdims=True)
        for i in range(0, len(X), TILE):
            x = np.ascontiguousarray(X[i : i + TILE].T)  # (d, rows)
            out.T[:, i : i + TILE] = slope @ x + constant
        return out

    def statistics(self, X: Floats, plan: RowPlan, params: BernoulliParameters) -> CountStatistics:
        return count_statistics(X, plan, len(params.probabilities))

    def maximise(self, statistics: CountStatistics, params: BernoulliParameters) -> BernoulliParameters:
        retired = empty_components(statistics.mass)
        mean = statistics.first / np.where(retired, 1.0, statistics.mass)[:, None]
        return BernoulliParameters(np.where(retired[:, None], params.probabilities, _inside(mean)), retired)

    def sample(self, params: BernoulliParameters, labels: Integers, rng: np.random.Generator) -> Floats:
        p = params.probabilities[labels]
        return (rng.random(p.shape) < p).astype(np.float64)

    def n_parameters(self, params: BernoulliParameters) -> int:
        return params.probabilities.size

    def cdf(self, x: Floats, params: BernoulliParameters) -> Floats:
        """F_k(x_i), (m, K), of values x (m,); one feature only."""
        if params.probabilities.shape[1] != 1:
            raise ValueError(f"cdf needs one feature; this fit has {params.probabilities.shape[1]}")
        x = np.asarray(x)[:, None]
        return np.where(x < 0, 0.0, np.where(x < 1, 1 - params.probabilities[:, 0], 1.0))

    def describe(self, params: BernoulliParameters, coordinates: LinearMap) -> dict[str, Any]:
        """``means``: probabilities of a one (K, d)."""
        return {"means": params.probabilities}

    def prescribe(
        self, params: BernoulliParameters, values: dict[str, Any], coordinates: LinearMap
    ) -> BernoulliParameters:
        if not values:
            return params
        p = prescribed_means(self, values, params.probabilities.shape)
        if ((p < 0) | (p > 1)).any():
            raise ValueError(f"means reach from {p.min():.6g} to {p.max():.6g}; give Bernoulli probabilities in [0, 1]")
        return params._replace(probabilities=_inside(p))


def _inside(p: Floats) -> Floats:
    return np.clip(p, SMALLEST_PROBABILITY, 1 - SMALLEST_PROBABILITY)
