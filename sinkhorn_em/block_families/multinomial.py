"""Cells in categories: the probabilities of all categories for every block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array, issparse

from .._typing import Booleans, Floats
from ..cells import Cells, Part
from ..cells.matrix import Matrix
from .base import BlockFamily, Natural, New, with_exposure
from .values import Cell, distinct, first_failure

SMALLEST_PROBABILITY = 1e-12  # of a category: costs 1e-12 nats a cell, and no block forbids a category (-inf)
MOST_CATEGORIES = 50


class Parameters(NamedTuple):
    """Probabilities of the categories, in the order of the scale: the baseline first."""

    probabilities: Floats  # (K, L, C)


class Categories(NamedTuple):
    """The values of the fit, the baseline first, the others sorted."""

    values: Floats  # (C,)


@dataclass(frozen=True)
class Multinomial(BlockFamily):
    """X_ij is category c with probability p_klc: log f = sum_c [x = c] log(p_c / p_0) + log p_0.

    Categories are the distinct values of the observed cells, at most 50; a zero that a sparse matrix leaves out is one.
    Probabilities are kept above 1e-12 and sum to one. New rows and columns may have categories of the fit only.
    """

    def measure(self, X: Matrix, missing: csr_array | None) -> Categories:
        values, counts = distinct(X)
        n_zeros = X.shape[0] * X.shape[1] - (0 if missing is None else missing.nnz) - counts.sum()
        if n_zeros > 0:
            values, counts = np.append(0.0, values), np.append(n_zeros, counts)
        if len(values) > MOST_CATEGORIES:
            raise ValueError(
                f"X has {len(values)} distinct values, from {values.min():.6g} to {values.max():.6g}; Multinomial blocks take at "
                f"most {MOST_CATEGORIES} categories: X looks continuous, or counts; use Gaussian or Poisson blocks, or bin it"
            )
        baseline = 0 if issparse(X) and n_zeros > 0 else int(counts.argmax())
        return Categories(np.append(values[baseline], np.sort(np.delete(values, baseline))))

    def cells(self, X: Matrix, missing: csr_array | None, scale: Categories, new: New | None = None) -> Cells:
        if new is not None:
            _check(X, missing, scale)
        if issparse(X) and 0.0 in scale.values[1:]:
            X = X.toarray()  # the fit was dense, and zeros are not its baseline
        parts = tuple(Part(_indicator(X, missing, value)) for value in scale.values[1:])
        return Cells(parts, np.ones(X.shape[0]), np.ones(X.shape[1]), missing, len(scale.values))

    def start(self, cells: Cells, K: int, L: int) -> Parameters:
        others = np.array([part.values.nnz for part in cells.parts], float)
        counts = np.append(cells.n_observed - others.sum(), others)
        p = _probabilities(counts / max(cells.n_observed, 1))
        return Parameters(np.tile(p, (K, L, 1)))

    def natural(self, parameters: Parameters) -> Natural:
        log_p = np.log(np.moveaxis(parameters.probabilities, 2, 0))
        return Natural(log_p[1:] - log_p[0], -log_p[0])

    def maximise(self, sums: Floats, exposure: Floats, cells: Cells, parameters: Parameters) -> Parameters:
        held = with_exposure(exposure)
        count = np.where(held, exposure, 1.0)
        baseline = np.maximum(count - sums.sum(axis=0), 0.0)
        means = np.concatenate([baseline[None], sums]) / count
        p = _probabilities(np.moveaxis(means, 0, 2))
        return Parameters(np.where(held[:, :, None], p, parameters.probabilities))

    def constant(self, cells: Cells, parameters: Parameters) -> float:
        return 0.0

    def n_parameters(self, K: int, L: int, scale: Categories) -> int:
        return K * L * (len(scale.values) - 1)

    def describe(self, parameters: Parameters, scale: Categories) -> dict[str, Any]:
        """``modes`` (K, L) the most probable categories, ``probabilities`` (K, L, C) of the sorted ``categories`` (C,)."""
        order = np.argsort(scale.values)
        p, categories = parameters.probabilities[:, :, order], scale.values[order]
        return {"modes": categories[p.argmax(axis=2)], "probabilities": p, "categories": categories}

    def points(self, cells: Cells) -> tuple[Matrix, ...]:
        return tuple(part.values for part in cells.parts) or (csr_array(cells.shape),)  # of one category: all alike


def _probabilities(means: Floats) -> Floats:
    """The p (..., C) >= 1e-12 of sum one with the largest sum of means log p: those above it are in proportion."""
    p = means / means.sum(axis=-1, keepdims=True)
    low = p < SMALLEST_PROBABILITY
    while low.any():
        rest = np.where(low, 0.0, means)
        room = 1 - SMALLEST_PROBABILITY * low.sum(axis=-1, keepdims=True)
        p = np.where(low, SMALLEST_PROBABILITY, rest * (room / rest.sum(axis=-1, keepdims=True)))
        lower = p < SMALLEST_PROBABILITY
        if not lower.any():
            break
        low |= lower
    return p


def _indicator(X: Matrix, missing: csr_array | None, value: float) -> csr_array:
    """1 at the observed cells with this value."""
    if issparse(X):
        kept = X.data == value  # never 0, which is the baseline
        starts = np.append(0, np.cumsum(kept))[X.indptr].astype(X.indptr.dtype)
        return csr_array((np.ones(starts[-1]), X.indices[kept], starts), shape=X.shape)
    found = value == X
    if value == 0 and missing is not None:
        found[missing.nonzero()] = False
    return csr_array(found, dtype=np.float64)


def _check(X: Matrix, missing: csr_array | None, scale: Categories) -> None:
    """Raise ValueError at a category that the fit does not have."""

    def known(x: Floats) -> Booleans:
        return np.isin(x, scale.values) | (x == 0)  # a zero may be a cell that is left out

    cell = first_failure(X, known)
    if cell is None and 0.0 not in scale.values:
        cell = _first_zero(X, missing)
    if cell is not None:
        raise ValueError(
            f"{cell}; Multinomial blocks know the categories of the fit only, {np.sort(scale.values).tolist()}: leave the "
            f"cell out by a mask, or fit again with data that have this category"
        )


def _first_zero(X: Matrix, missing: csr_array | None) -> Cell | None:
    """The first observed cell that is 0."""
    for i in range(X.shape[0]):
        row = slice(X.indptr[i], X.indptr[i + 1]) if issparse(X) else i
        known = X.indices[row][X.data[row] != 0] if issparse(X) else np.flatnonzero(X[row])
        if missing is not None:
            known = np.append(known, missing.indices[missing.indptr[i] : missing.indptr[i + 1]])
        zeros = np.setdiff1d(np.arange(X.shape[1]), known)
        if zeros.size:
            return Cell(i, int(zeros[0]), 0.0)
    return None
