"""Bernoulli cells: zeros and ones, with a probability for every block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from .._typing import Booleans, Floats
from ..cells import Cells, Part
from ..cells.matrix import Matrix
from .base import BlockFamily, Natural, New, with_exposure
from .values import first_failure, floating

SMALLEST_PROBABILITY = 1e-12  # of either value: costs 1e-12 nats a cell, and no block forbids a cell (-inf)


class Parameters(NamedTuple):
    """Probabilities of a one."""

    probabilities: Floats  # (K, L)


@dataclass(frozen=True)
class Bernoulli(BlockFamily):
    """X_ij is 1 with probability p_kl, else 0: log f = x log(p / (1 - p)) + log(1 - p).

    Probabilities are kept in [1e-12, 1 - 1e-12].
    """

    def measure(self, X: Matrix, missing: csr_array | None) -> None:
        _check(X)

    def cells(self, X: Matrix, missing: csr_array | None, scale: Any, new: New | None = None) -> Cells:
        if new is not None:
            _check(X)
        return Cells((Part(floating(X)),), np.ones(X.shape[0]), np.ones(X.shape[1]), missing)

    def start(self, cells: Cells, K: int, L: int) -> Parameters:
        ones = float(cells.parts[0].values.sum())
        return Parameters(_inside(np.full((K, L), ones / max(cells.n_observed, 1))))

    def natural(self, parameters: Parameters) -> Natural:
        p = parameters.probabilities
        log_zero = np.log1p(-p)
        return Natural((np.log(p) - log_zero)[None], -log_zero)

    def maximise(self, sums: Floats, exposure: Floats, cells: Cells, parameters: Parameters) -> Parameters:
        held = with_exposure(exposure)
        mean = _inside(sums[0] / np.where(held, exposure, 1.0))
        return Parameters(np.where(held, mean, parameters.probabilities))

    def constant(self, cells: Cells, parameters: Parameters) -> float:
        return 0.0

    def n_parameters(self, K: int, L: int, scale: Any) -> int:
        return K * L

    def describe(self, parameters: Parameters, scale: Any) -> dict[str, Any]:
        return {"probabilities": parameters.probabilities}

    def points(self, cells: Cells) -> tuple[Matrix, ...]:
        return (cells.parts[0].values,)


def _inside(p: Floats) -> Floats:
    return np.clip(p, SMALLEST_PROBABILITY, 1 - SMALLEST_PROBABILITY)


def _zero_or_one(x: Floats) -> Booleans:
    return (x == 0) | (x == 1)


def _check(X: Matrix) -> None:
    cell = first_failure(X, _zero_or_one)
    if cell is not None:
        raise ValueError(
            f"{cell}; Bernoulli blocks take zeros and ones: recode the matrix, for instance X > 0, leave the cell out by a "
            f"mask, or use Multinomial blocks for more than two values"
        )
