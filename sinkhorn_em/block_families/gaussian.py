"""Gaussian cells: a mean for every block; a variance in common, for every column cluster, or for every block."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array, issparse

from .._typing import Booleans, Floats
from ..cells import Cells, Part
from ..cells.matrix import Matrix
from .base import BlockFamily, Natural, New, with_exposure

VARIANCES = ("common", "column", "block")
LARGEST_UNIT = 1e150
FLOOR = 1e-10  # smallest variance of a block, in units of the variance of all cells
LOG_2PI = float(np.log(2 * np.pi))


class Parameters(NamedTuple):
    """In the units of the fit."""

    means: Floats  # (K, L)
    variances: Floats  # (K, L)


class Units(NamedTuple):
    """z = (x - shift) / unit."""

    shift: float
    unit: float


@dataclass(frozen=True)
class Gaussian(BlockFamily):
    """X_ij ~ N(mu_kl, sigma^2), sigma^2 the same for all blocks, for a column cluster, or for none.

    Cells are centred and scaled to variance 1 for the fit, which so does not depend on units; sparse ones are scaled only (give
    dense ones if their mean is beyond 1e5 standard deviations). Variances are kept above 1e-10 of the variance of all cells.

    Parameters
    ----------
    variance : "common", "column" or "block"
        One variance; one for every column cluster; one for every block (default).
    """

    variance: str = "block"

    def check(self) -> None:
        if self.variance not in VARIANCES:
            raise ValueError(f"variance of Gaussian is {self.variance!r}; it must be one of {list(VARIANCES)}")

    @property
    def pooled(self) -> Gaussian:
        return replace(self, variance="common")

    def measure(self, X: Matrix, missing: csr_array | None) -> Units:
        values = X.data[X.data != 0] if issparse(X) else X.reshape(-1)
        if missing is not None and not issparse(X):
            observed = np.ones(X.shape, bool)
            observed[missing.nonzero()] = False
            values = X[observed]
        n_observed = X.shape[0] * X.shape[1] - (0 if missing is None else missing.nnz)
        mean, unit = _mean_and_deviation(values, n_observed - len(values))
        if unit > LARGEST_UNIT or 0 < unit < 1 / LARGEST_UNIT:
            raise ValueError(
                f"X has standard deviation {unit:.3g}; Gaussian blocks need one between {1 / LARGEST_UNIT:g} and "
                f"{LARGEST_UNIT:g}, whose square is a number: give X in other units"
            )
        if not unit > abs(mean) * np.finfo(float).eps:
            unit = abs(mean) if 1 / LARGEST_UNIT < abs(mean) < LARGEST_UNIT else 1.0  # a constant matrix
        return Units(0.0 if issparse(X) else mean, unit)

    def cells(self, X: Matrix, missing: csr_array | None, scale: Units, new: New | None = None) -> Cells:
        n, m = X.shape
        if issparse(X) and scale.shift != 0:
            X = X.toarray()  # the fit was dense, and zeros are not its origin
        if issparse(X):
            Z = csr_array((np.divide(X.data, scale.unit, dtype=np.float64), X.indices, X.indptr), shape=X.shape)
        else:
            Z = np.subtract(X, scale.shift, dtype=np.float64)
            Z /= scale.unit
            if missing is not None:
                Z[missing.nonzero()] = 0.0
        return Cells((Part(Z, (1, 2)),), np.ones(n), np.ones(m), missing, scale)

    def start(self, cells: Cells, K: int, L: int) -> Parameters:
        sums = cells.over_columns(np.ones((cells.shape[1], 1))).sum(axis=1)[:, 0]
        mean = sums[0] / sums[2]
        variance = max(sums[1] / sums[2] - mean**2, FLOOR)
        return Parameters(np.full((K, L), mean), np.full((K, L), variance))

    def natural(self, parameters: Parameters) -> Natural:
        mu, v = parameters
        return Natural(np.stack([mu / v, -0.5 / v]), 0.5 * (mu**2 / v + np.log(v) + LOG_2PI))

    def maximise(self, sums: Floats, exposure: Floats, cells: Cells, parameters: Parameters) -> Parameters:
        held = with_exposure(exposure)
        count = np.where(held, exposure, 1.0)
        means = np.where(held, sums[0] / count, parameters.means)
        squares = np.where(held, np.maximum(sums[1] - sums[0] * means, 0.0), 0.0)
        if self.variance == "block":
            variances = np.where(held, np.maximum(squares / count, FLOOR), parameters.variances)
        elif self.variance == "column":
            total = exposure.sum(axis=0)
            pooled = np.maximum(squares.sum(axis=0) / np.where(total > 0, total, 1.0), FLOOR)
            variances = np.broadcast_to(np.where(total > 0, pooled, parameters.variances[0]), means.shape).copy()
        else:
            variances = np.full(means.shape, max(squares.sum() / exposure[held].sum(), FLOOR))
        return Parameters(means, variances)

    def constant(self, cells: Cells, parameters: Parameters) -> float:
        return -cells.n_observed * float(np.log(cells.extra.unit))

    def n_parameters(self, K: int, L: int, scale: Any) -> int:
        return K * L + {"common": 1, "column": L, "block": K * L}[self.variance]

    def describe(self, parameters: Parameters, scale: Units) -> dict[str, Any]:
        return {
            "means": scale.shift + scale.unit * parameters.means,
            "variances": scale.unit**2 * parameters.variances,
        }

    def points(self, cells: Cells) -> tuple[Matrix, ...]:
        return (cells.parts[0].values,)

    def collapsed(self, parameters: Parameters) -> Booleans | None:
        return parameters.variances <= FLOOR


def _mean_and_deviation(values: Floats, n_zeros: int) -> tuple[float, float]:
    """Of the values and so many zeros; from one of them, in units of the largest deviation: exact for constants, no overflow."""
    origin = 0.0 if n_zeros or not values.size else float(values[0])
    with np.errstate(over="ignore"):
        around = np.subtract(values, origin, dtype=np.float64)
    largest = max(float(around.max(initial=0.0)), -float(around.min(initial=0.0)))
    if largest == 0 or largest == np.inf:
        return origin, largest
    around /= largest
    n = around.size + n_zeros
    mean = float(around.sum()) / n
    around -= mean
    variance = (float(np.vdot(around, around)) + n_zeros * mean**2) / n
    return origin + largest * mean, largest * float(np.sqrt(variance))
