"""Poisson cells: a rate for every block, per unit of exposure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array, issparse
from scipy.special import gammaln, xlogy

from .._typing import Floats
from ..cells import Cells, Part
from ..cells.matrix import Matrix
from .base import BlockFamily, Natural, New, with_exposure
from .margins import Margins, check_counts, check_margins, exposures, measure_margins, scaled, where_exposed
from .values import distinct, floating, mapped

SMALLEST_RATE = 1e-12  # of the overall rate: costs at most 1e-12 nats a count, and no block forbids a cell (-inf)


class Parameters(NamedTuple):
    """Counts per unit of exposure."""

    rates: Floats  # (K, L) gamma


class Counts(NamedTuple):
    """What is needed of the counts beside their sums."""

    rate: float  # the overall one, of the fit
    constant: float  # sum of x log e - log x!


@dataclass(frozen=True)
class Poisson(BlockFamily):
    """X_ij ~ Poisson(e_ij gamma_kl), e_ij = a_i b_j: log f = x log gamma - e gamma + x log e - log x!.

    Rates are kept above 1e-12 of the overall rate, so that an empty block forbids nothing. Values that are not whole are
    allowed with a warning: quasi-likelihood, with x! = Gamma(x + 1).

    Parameters
    ----------
    margins : None, "row", "column" or "both"
        None (default): e_ij = 1, a rate is the mean count of a block. "row": a_i is the mean of row i over the mean of all
        cells (a size factor) and b_j = 1; a rate is a mean count at average exposure. "column": likewise. "both": a and b
        of the fit of independence, a_i = X_i. / sqrt(X..) and b_j = X_.j / sqrt(X..); a rate is relative to independence,
        where it is 1. Exposures are found from the data once, and those of new rows by the columns of the fit, and conversely.
    """

    non_negative = True
    margins: str | None = None

    def check(self) -> None:
        check_margins("Poisson", self.margins)

    def measure(self, X: Matrix, missing: csr_array | None) -> Margins:
        check_counts("Poisson", X, warn=True)
        return measure_margins(X, missing, self.margins)

    def cells(self, X: Matrix, missing: csr_array | None, scale: Margins, new: New | None = None) -> Cells:
        if new is not None:
            check_counts("Poisson", X, warn=False)
        X = where_exposed(floating(X), scale, new)
        a, b, left_out = exposures(X, missing, scale, self.margins, new)
        constant = log_exposures(X, a, b) - log_factorials(X)
        return Cells((Part(X),), a, b, left_out, Counts(scale.rate, constant))

    def start(self, cells: Cells, K: int, L: int) -> Parameters:
        return Parameters(np.full((K, L), cells.extra.rate))

    def natural(self, parameters: Parameters) -> Natural:
        return Natural(np.log(parameters.rates)[None], parameters.rates)

    def maximise(self, sums: Floats, exposure: Floats, cells: Cells, parameters: Parameters) -> Parameters:
        return Parameters(mean_rates(sums[0], exposure, SMALLEST_RATE * cells.extra.rate, parameters.rates))

    def constant(self, cells: Cells, parameters: Parameters) -> float:
        return cells.extra.constant

    def n_parameters(self, K: int, L: int, scale: Any) -> int:
        return K * L

    def describe(self, parameters: Parameters, scale: Any) -> dict[str, Any]:
        return {"rates": parameters.rates}

    def points(self, cells: Cells) -> tuple[Matrix, ...]:
        return (count_points(cells, self.margins),)

    def centre(self, cells: Cells) -> tuple[Floats, Floats] | None:
        return count_centre(cells, self.margins)


def mean_rates(sums: Floats, exposure: Floats, smallest: float, last: Floats) -> Floats:
    """sums / exposure (K, L), not under the smallest; the last ones in blocks without exposure."""
    held = with_exposure(exposure)
    return np.where(held, np.maximum(sums / np.where(held, exposure, 1.0), smallest), last)


def log_exposures(X: Matrix, a: Floats, b: Floats) -> float:
    """Sum of x log a_i b_j; -inf if there are counts where new data have exposure 0."""
    return float(xlogy(X.sum(axis=1), a).sum() + xlogy(X.sum(axis=0), b).sum())


def log_factorials(X: Matrix) -> float:
    """Sum of log x!."""
    values, counts = distinct(X)
    return float(counts @ gammaln(values + 1))


def count_points(cells: Cells, margins: str | None) -> Matrix:
    """With both margins x / sqrt(e), and sqrt(e) at cells left out: less `count_centre` the residuals of independence, in units
    of their standard deviation. Else sqrt(x / e), of variance about 1 / (4 e). 0 where the exposure is.
    """
    X, a, b = cells.parts[0].values, cells.row_exposure, cells.column_exposure
    if margins is None:
        return mapped(X, np.sqrt)
    if margins != "both":
        return mapped(scaled(X, _inverse(a), _inverse(b)), np.sqrt)
    Y = scaled(X, _inverse(np.sqrt(a)), _inverse(np.sqrt(b)))
    if cells.missing is None:
        return Y
    expected = csr_array(mapped(cells.missing, np.sqrt))
    return csr_array(Y + expected) if issparse(Y) else np.asarray(Y + expected)


def count_centre(cells: Cells, margins: str | None) -> tuple[Floats, Floats] | None:
    """sqrt(e) = sqrt(a) sqrt(b)' with both margins."""
    return (np.sqrt(cells.row_exposure), np.sqrt(cells.column_exposure)) if margins == "both" else None


def _inverse(e: Floats) -> Floats:
    return np.divide(1.0, e, out=np.zeros_like(e), where=e > 0)
