"""Structures whose M-step is one formula: a covariance for every component, or one for all; any, diagonal or spherical."""

from __future__ import annotations

import numpy as np

from ..._typing import Floats
from .base import Covariances, Regularisation, Structure, average
from .factors import clipped, diagonal, factorise, from_variances, repeat


class OwnMatrices(Structure):
    """A matrix for every component, values (K, d, d), whatever they have in common."""

    full = True

    def from_values(self, values: Floats, K: int, d: int) -> Covariances:
        return factorise(values, 0.0)

    @property
    def pooled(self) -> Structure:
        return Tied()


class OwnVariances(Structure):
    """Variances for every component, values (K, d), whatever they have in common."""

    full, coordinates = False, "scaled"

    def from_values(self, values: Floats, K: int, d: int) -> Covariances:
        return from_variances(values, values, K, d)

    @property
    def pooled(self) -> Structure:
        return TiedDiag()


class Full(OwnMatrices):
    """Every component its own covariance (mclust VVV): values (K, d, d)."""

    name, coordinates, independent = "full", "whitened", True

    def maximise(
        self, mass: Floats, scatter: Floats, regularisation: Regularisation, current: Covariances | None = None
    ) -> Covariances:
        S = average(mass, scatter)
        if regularisation.ridge is not None:
            S = S + regularisation.ridge
        return clipped(S, regularisation)

    def n_parameters(self, K: int, d: int) -> int:
        return K * d * (d + 1) // 2


class Tied(Structure):
    """One covariance for all (mclust EEE): values (d, d)."""

    name, full, coordinates, shared = "tied", True, "whitened", True

    def maximise(
        self, mass: Floats, scatter: Floats, regularisation: Regularisation, current: Covariances | None = None
    ) -> Covariances:
        S = scatter.sum(axis=0) / mass.sum()
        if regularisation.ridge is not None:
            S = S + regularisation.ridge
        return repeat(clipped(S[None], regularisation), len(mass))

    def from_values(self, values: Floats, K: int, d: int) -> Covariances:
        return repeat(factorise(values[None], 0.0), K)

    def n_parameters(self, K: int, d: int) -> int:
        return d * (d + 1) // 2


class Diag(OwnVariances):
    """Own variances, no correlation (mclust VVI): values (K, d)."""

    name, independent = "diag", True

    def maximise(
        self, mass: Floats, scatter: Floats, regularisation: Regularisation, current: Covariances | None = None
    ) -> Covariances:
        return diagonal(average(mass, scatter), regularisation, len(mass))

    def n_parameters(self, K: int, d: int) -> int:
        return K * d


class TiedDiag(Structure):
    """Shared variances, no correlation (mclust EEI): values (d,)."""

    name, full, coordinates, shared = "tied_diag", False, "scaled", True

    def maximise(
        self, mass: Floats, scatter: Floats, regularisation: Regularisation, current: Covariances | None = None
    ) -> Covariances:
        return diagonal(scatter.sum(axis=0) / mass.sum(), regularisation, len(mass))

    def from_values(self, values: Floats, K: int, d: int) -> Covariances:
        return from_variances(values, values, K, d)

    def n_parameters(self, K: int, d: int) -> int:
        return d


class Spherical(Structure):
    """One variance per component (mclust VII): values (K,)."""

    name, full, coordinates, spherical, independent = "spherical", False, "isotropic", True, True

    def maximise(
        self, mass: Floats, scatter: Floats, regularisation: Regularisation, current: Covariances | None = None
    ) -> Covariances:
        variance = average(mass, scatter).mean(axis=1)
        return _spherical(variance, regularisation, scatter.shape)

    def from_values(self, values: Floats, K: int, d: int) -> Covariances:
        return from_variances(values, values[:, None], K, d)

    def n_parameters(self, K: int, d: int) -> int:
        return K

    @property
    def pooled(self) -> Structure:
        return TiedSpherical()


class TiedSpherical(Structure):
    """One variance (mclust EII): values ()."""

    name, full, coordinates, spherical, shared = "tied_spherical", False, "isotropic", True, True

    def maximise(
        self, mass: Floats, scatter: Floats, regularisation: Regularisation, current: Covariances | None = None
    ) -> Covariances:
        variance = scatter.sum() / (scatter.shape[1] * mass.sum())
        return _spherical(variance, regularisation, scatter.shape)

    def from_values(self, values: Floats, K: int, d: int) -> Covariances:
        return from_variances(values, values, K, d)

    def n_parameters(self, K: int, d: int) -> int:
        return 1


def _spherical(variance: Floats, regularisation: Regularisation, shape: tuple[int, ...]) -> Covariances:
    """From the mean variance of every component, (K,), or of all, ()."""
    K, d = shape
    result = diagonal(np.repeat(np.asarray(variance)[..., None], d, axis=-1), regularisation, K)
    return result._replace(values=result.values.mean(axis=-1))
