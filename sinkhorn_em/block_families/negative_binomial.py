"""Negative binomial cells: overdispersed counts, a rate for every block and one dispersion."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array, issparse

from .._typing import Floats
from ..cells import Cells, Part
from ..cells.matrix import Matrix
from .base import BlockFamily, Natural, New
from .dispersion import LARGEST, SMALLEST, Rising, best_dispersion, profile
from .margins import Margins, check_counts, check_margins, exposures, measure_margins, where_exposed
from .poisson import SMALLEST_RATE, count_centre, count_points, log_factorials, mean_rates
from .rising import Nonzeros, log_rising
from .values import distinct, floating

KEPT = 128  # sums at as many dispersions: a step begins where the last one ended, in every start


class Parameters(NamedTuple):
    """Counts per unit of exposure, and alpha = 1 / r."""

    rates: Floats  # (K, L) gamma
    dispersion: Floats  # () alpha


class Counts(NamedTuple):
    """What is needed of the counts beside their sums."""

    rate: float  # the overall one, of the fit
    log_factorials: float  # sum of log x!
    rising: Rising  # `log_rising` of the counts; the last results are kept


@dataclass(frozen=True)
class NegativeBinomial(BlockFamily):
    """X_ij is a sum of e_ij unit cells of mean gamma_kl and variance gamma_kl + alpha gamma_kl^2, with e_ij = a_i b_j.

    Its mean is e gamma, its variance e gamma (1 + alpha gamma), its size e r with r = 1 / alpha:

        log f = x log[gamma / (1 + alpha gamma)] - e log(1 + alpha gamma) / alpha + sum_{v < x} log(e + alpha v) - log x!

    With e = 1 it is the usual negative binomial (NB2), of variance mu + alpha mu^2 = mu + mu^2 / r. Because size grows with
    exposure, gamma is a ratio of sums; because alpha is one number, the sum over v does not depend on clusters. As alpha falls
    to 0, every term becomes that of `Poisson`. Rates are kept above 1e-12 of the overall rate, alpha in [1e-8, 1e4]: the
    first is Poisson to all digits that matter. Values that are not whole are allowed with a warning (quasi-likelihood).

    Parameters
    ----------
    margins : None, "row", "column" or "both"
        Exposures, as in `Poisson`.
    dispersion : "common" or a number in [1e-8, 1e4]
        "common" (default): alpha is estimated, one for all blocks. A number: alpha is held there.
    """

    non_negative = True
    margins: str | None = None
    dispersion: str | float = "common"

    def check(self) -> None:
        check_margins("NegativeBinomial", self.margins)
        number = isinstance(self.dispersion, Real) and not isinstance(self.dispersion, bool)
        if self.dispersion != "common" and not (number and SMALLEST <= float(self.dispersion) <= LARGEST):
            raise ValueError(
                f"dispersion of NegativeBinomial is {self.dispersion!r}; it must be 'common', or a number alpha in "
                f"[{SMALLEST:g}, {LARGEST:g}] (the variance is mu + alpha mu^2); for alpha = 0 use Poisson"
            )

    def measure(self, X: Matrix, missing: csr_array | None) -> Margins:
        check_counts("NegativeBinomial", X, warn=True)
        return measure_margins(X, missing, self.margins)

    def cells(self, X: Matrix, missing: csr_array | None, scale: Margins, new: New | None = None) -> Cells:
        if new is not None:
            check_counts("NegativeBinomial", X, warn=False)
        X = where_exposed(floating(X), scale, new)
        a, b, left_out = exposures(X, missing, scale, self.margins, new)
        nonzeros = _histogram(X) if self.margins is None else _nonzeros(X, a, b)
        rising = lru_cache(KEPT)(partial(log_rising, nonzeros))
        return Cells((Part(X),), a, b, left_out, Counts(scale.rate, log_factorials(X), rising))

    def start(self, cells: Cells, K: int, L: int) -> Parameters:
        sums = cells.over_columns(np.ones((cells.shape[1], 1))).sum(axis=1)[:, None]
        alike = Parameters(np.full((1, 1), cells.extra.rate), np.array(1.0))
        alike = self.maximise(sums[:-1], sums[-1], cells, alike)
        return Parameters(np.full((K, L), alike.rates[0, 0]), alike.dispersion)

    def natural(self, parameters: Parameters) -> Natural:
        rates, alpha = parameters
        log_grown = np.log1p(alpha * rates)
        return Natural((np.log(rates) - log_grown)[None], log_grown / alpha)

    def maximise(self, sums: Floats, exposure: Floats, cells: Cells, parameters: Parameters) -> Parameters:
        rates = mean_rates(sums[0], exposure, SMALLEST_RATE * cells.extra.rate, parameters.rates)
        if self.dispersion != "common":
            return Parameters(rates, np.array(float(self.dispersion)))
        best = best_dispersion(profile(sums[0], exposure, rates, cells.extra.rising), float(parameters.dispersion))
        return Parameters(rates, np.array(best))

    def constant(self, cells: Cells, parameters: Parameters) -> float:
        return float(cells.extra.rising(float(parameters.dispersion))[0]) - cells.extra.log_factorials

    def n_parameters(self, K: int, L: int, scale: Any) -> int:
        return K * L + (self.dispersion == "common")

    def describe(self, parameters: Parameters, scale: Any) -> dict[str, Any]:
        return {"rates": parameters.rates, "dispersion": parameters.dispersion}

    def points(self, cells: Cells) -> tuple[Matrix, ...]:
        return (count_points(cells, self.margins),)

    def centre(self, cells: Cells) -> tuple[Floats, Floats] | None:
        return count_centre(cells, self.margins)


def _histogram(X: Matrix) -> Nonzeros:
    """Distinct counts as rows with one cell each, of exposure 1."""
    values, counts = distinct(X)
    D = len(values)
    return Nonzeros(values, np.zeros(D, np.int32), np.arange(D + 1, dtype=np.int32), np.ones(D), np.ones(1), counts)


def _nonzeros(X: Matrix, a: Floats, b: Floats) -> Nonzeros:
    kept = X if issparse(X) else csr_array(X)
    return Nonzeros(kept.data, kept.indices, kept.indptr, a, b, np.ones(len(a)))
