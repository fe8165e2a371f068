"""Multinomial components for rows of counts, given their totals N_i.

    log f(x) = log N! - sum_q log x_q! + sum_q x_q log p_q,   N = sum_q x_q

The M-step is the share of every category in the counts (exact). A row of total 0 has log f = 0 for all components.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.special import gammaln

from .._typing import Booleans, Floats, Integers, LinearMap, RowPlan
from .base import TILE, Family, empty_components, prescribed_means
from .counts import CountStatistics, check_counts, count_statistics

#: probabilities are kept above it: costs nothing in likelihood, and no component forbids a row (-inf), which a mass it must take
#: could need
SMALLEST_PROBABILITY = 1e-14
ROUNDED = 1e-6  # prescribed probabilities may be printed ones: their sum is 1 to this, and rescaled


class MultinomialParameters(NamedTuple):
    """Probabilities of the categories (K, d), rows sum to 1, and components that lost all their mass and keep their last ones."""

    probabilities: Floats
    retired: Booleans  # (K,)


@dataclass(frozen=True)
class Multinomial(Family):
    """The multinomial family; ``n_trials`` is the total of every row that `sample` draws, fits take the totals of the rows."""

    discrete: ClassVar[bool] = True

    n_trials: int = 1

    def __post_init__(self) -> None:
        if self.n_trials < 1 or self.n_trials != int(self.n_trials):
            raise ValueError(f"n_trials is {self.n_trials}; it must be a positive integer: the total of a sampled row")

    def check(self, X: Floats) -> None:
        check_counts(self, X)

    def start(self, n_components: int, n_features: int) -> MultinomialParameters:
        p = np.full((n_components, n_features), 1 / n_features)
        return MultinomialParameters(p, np.zeros(n_components, bool))

    def log_density(self, X: Floats, params: MultinomialParameters, out: Floats | None = None) -> Floats:
        if out is None:
            out = np.empty((len(params.probabilities), len(X))).T
        log_p = np.log(params.probabilities)
        for i in range(0, len(X), TILE):
            x = np.ascontiguousarray(X[i : i + TILE].T)  # (d, rows)
            out.T[:, i : i + TILE] = log_p @ x + (gammaln(x.sum(axis=0) + 1) - gammaln(x + 1).sum(axis=0))
        return out

    def statistics(self, X: Floats, plan: RowPlan, params: MultinomialParameters) -> CountStatistics:
        return count_statistics(X, plan, len(params.probabilities))

    def maximise(self, statistics: CountStatistics, params: MultinomialParameters) -> MultinomialParameters:
        retired = empty_components(statistics.mass)
        total = statistics.first.sum(axis=1)
        kept = (retired | (total <= 0))[:, None]  # rows of total 0 say nothing
        shares = np.where(kept, params.probabilities, statistics.first / np.where(kept[:, 0], 1.0, total)[:, None])
        return MultinomialParameters(np.where(kept, shares, _raised(shares)), retired)

    def sample(self, params: MultinomialParameters, labels: Integers, rng: np.random.Generator) -> Floats:
        return rng.multinomial(self.n_trials, params.probabilities[labels]).astype(np.float64)

    def n_parameters(self, params: MultinomialParameters) -> int:
        K, d = params.probabilities.shape
        return K * (d - 1)

    def describe(self, params: MultinomialParameters, coordinates: LinearMap) -> dict[str, Any]:
        """``means``: probabilities of the categories (K, d), the mean of one trial."""
        return {"means": params.probabilities}

    def prescribe(
        self, params: MultinomialParameters, values: dict[str, Any], coordinates: LinearMap
    ) -> MultinomialParameters:
        if not values:
            return params
        p = prescribed_means(self, values, params.probabilities.shape)
        total = p.sum(axis=1, keepdims=True)
        if (p < 0).any() or (np.abs(total - 1) > ROUNDED).any():
            raise ValueError(
                f"means have minimum {p.min():.6g} and row sums {total[:, 0].tolist()}; Multinomial needs probabilities >= 0 "
                f"whose rows sum to 1: divide every row by its sum"
            )
        return params._replace(probabilities=_raised(p / total))


def _raised(shares: Floats) -> Floats:
    """The maximiser of sum shares log p with p >= the smallest probability: small ones there, the others scaled to a sum of 1."""
    small = shares < SMALLEST_PROBABILITY
    left = 1 - SMALLEST_PROBABILITY * small.sum(axis=1, keepdims=True)
    others = np.where(small, 0.0, shares)
    return np.where(small, SMALLEST_PROBABILITY, others * (left / others.sum(axis=1, keepdims=True)))
