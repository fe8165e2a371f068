"""Covariance structures: how component covariances are shared and shaped. One class each, one registry line each.

With masses n_k and scatters W_k (about the new means), the M-step maximises -1/2 sum_k [n_k log|S_k| + tr(W_k S_k^-1)] over the
structure, with every eigenvalue of S_k kept above ``floor``: clipping eigenvalues is the exact maximiser under that constraint,
so the likelihood never falls. ``ridge`` is added instead, when asked for (scikit-learn's ``reg_covar``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrf, dtrtri

from .._typing import Booleans, Floats


class Regularisation(NamedTuple):
    """Smallest eigenvalue allowed, and what is added to every covariance: (d, d), used by its diagonal where S is."""

    floor: float
    ridge: Floats | None = None


class Covariances(NamedTuple):
    """Covariances in the structure's own shape, factors for the density, and which components were held at the floor."""

    values: Floats  # as scikit-learn's covariances_
    factors: Floats  # (K, d, d) lower triangular F with S^-1 = F' F; or (K, d) its diagonal
    log_det: Floats  # (K,) log |F|
    held: Booleans  # (K,)


class Structure(ABC):
    """The contract of a covariance structure. A component of mass 0 has scatter 0."""

    name: str
    full: bool  # scatters are (K, d, d), else their diagonals (K, d)

    @abstractmethod
    def maximise(self, mass: Floats, scatter: Floats, regularisation: Regularisation) -> Covariances:
        """Covariances from masses (K,) and scatters W_k, (K, d, d) or (K, d)."""

    @abstractmethod
    def from_values(self, values: Floats, K: int, d: int) -> Covariances:
        """From covariances in the structure's shape."""

    @abstractmethod
    def n_parameters(self, K: int, d: int) -> int:
        """Free covariance parameters."""

    @property
    def pooled(self) -> Structure:
        """The same shape shared by all components: what the burn-in uses."""
        return self


class Full(Structure):
    """Every component its own covariance (mclust VVV): values (K, d, d)."""

    name, full = "full", True

    def maximise(self, mass: Floats, scatter: Floats, regularisation: Regularisation) -> Covariances:
        S = _per_component(mass, scatter)
        if regularisation.ridge is not None:
            S = S + regularisation.ridge
        return _factorise(S, regularisation.floor)

    def from_values(self, values: Floats, K: int, d: int) -> Covariances:
        return _factorise(values, 0.0)

    def n_parameters(self, K: int, d: int) -> int:
        return K * d * (d + 1) // 2

    @property
    def pooled(self) -> Structure:
        return Tied()


class Tied(Structure):
    """One covariance for all (mclust EEE): values (d, d)."""

    name, full = "tied", True

    def maximise(self, mass: Floats, scatter: Floats, regularisation: Regularisation) -> Covariances:
        S = scatter.sum(axis=0) / mass.sum()
        if regularisation.ridge is not None:
            S = S + regularisation.ridge
        return _repeat(_factorise(S[None], regularisation.floor), len(mass))

    def from_values(self, values: Floats, K: int, d: int) -> Covariances:
        return _repeat(_factorise(values[None], 0.0), K)

    def n_parameters(self, K: int, d: int) -> int:
        return d * (d + 1) // 2


class Diag(Structure):
    """Own variances, no correlation (mclust VVI): values (K, d)."""

    name, full = "diag", False

    def maximise(self, mass: Floats, scatter: Floats, regularisation: Regularisation) -> Covariances:
        return _diagonal(_per_component(mass, scatter), regularisation, len(mass))

    def from_values(self, values: Floats, K: int, d: int) -> Covariances:
        return _from_variances(values, values, K, d)

    def n_parameters(self, K: int, d: int) -> int:
        return K * d

    @property
    def pooled(self) -> Structure:
        return TiedDiag()


class TiedDiag(Structure):
    """Shared variances, no correlation (mclust EEI): values (d,)."""

    name, full = "tied_diag", False

    def maximise(self, mass: Floats, scatter: Floats, regularisation: Regularisation) -> Covariances:
        return _diagonal(scatter.sum(axis=0) / mass.sum(), regularisation, len(mass))

    def from_values(self, values: Floats, K: int, d: int) -> Covariances:
        return _from_variances(values, values, K, d)

    def n_parameters(self, K: int, d: int) -> int:
        return d


class Spherical(Structure):
    """One variance per component (mclust VII): values (K,)."""

    name, full = "spherical", False

    def maximise(self, mass: Floats, scatter: Floats, regularisation: Regularisation) -> Covariances:
        K, d = scatter.shape
        variance = _per_component(mass, scatter).mean(axis=1)
        result = _diagonal(np.repeat(variance[:, None], d, axis=1), regularisation, K)
        return result._replace(values=result.values.mean(axis=1))

    def from_values(self, values: Floats, K: int, d: int) -> Covariances:
        return _from_variances(values, values[:, None], K, d)

    def n_parameters(self, K: int, d: int) -> int:
        return K

    @property
    def pooled(self) -> Structure:
        return TiedSpherical()


class TiedSpherical(Structure):
    """One variance (mclust EII): values ()."""

    name, full = "tied_spherical", False

    def maximise(self, mass: Floats, scatter: Floats, regularisation: Regularisation) -> Covariances:
        K, d = scatter.shape
        result = _diagonal(np.full(d, scatter.sum() / (d * mass.sum())), regularisation, K)
        return result._replace(values=result.values.mean())

    def from_values(self, values: Floats, K: int, d: int) -> Covariances:
        return _from_variances(values, values, K, d)

    def n_parameters(self, K: int, d: int) -> int:
        return 1


#: structures by name
STRUCTURES: dict[str, type[Structure]] = {s.name: s for s in (Full, Tied, Diag, TiedDiag, Spherical, TiedSpherical)}


def _per_component(mass: Floats, scatter: Floats) -> Floats:
    """W_k / n_k; a component without mass takes the pooled covariance."""
    empty = mass == 0
    n = mass.reshape(-1, *[1] * (scatter.ndim - 1))
    if not empty.any():
        return scatter / n
    pooled = scatter.sum(axis=0) / mass.sum()
    return np.where(n > 0, scatter / np.where(n > 0, n, 1.0), pooled)


def _factorise(S: Floats, floor: float) -> Covariances:
    """Inverse Cholesky factors of (K, d, d) covariances whose eigenvalues are first raised to ``floor``."""
    S = S.copy()
    factors, held = np.empty_like(S), np.zeros(len(S), bool)
    for k, covariance in enumerate(S):
        L, failed = dpotrf(covariance, lower=1)
        F = dtrtri(L, lower=1)[0] if not failed else L
        # 1/|F|^2 is below the smallest eigenvalue: most covariances are cleared by it
        if failed or (floor and np.vdot(F, F) * floor > 1 and dpotrf(covariance - floor * np.eye(len(L)), lower=1)[1]):
            S[k], L, held[k] = _raise_eigenvalues(covariance, floor)
            F = dtrtri(L, lower=1)[0]
        factors[k] = F
    return Covariances(S, factors, np.log(factors.diagonal(axis1=1, axis2=2)).sum(axis=1), held)


def _raise_eigenvalues(S: Floats, floor: float) -> tuple[Floats, Floats, bool]:
    """The covariance with its eigenvalues raised to the floor, its Cholesky factor, and whether any was raised."""
    eigenvalues, U = np.linalg.eigh(S)
    least = max(floor, np.finfo(float).eps * float(eigenvalues[-1]), np.finfo(float).tiny)
    root = U * np.sqrt(np.maximum(eigenvalues, least))
    R = np.linalg.qr(root.T)[1]  # S = root root' = R' R
    return root @ root.T, R.T * np.sign(np.diagonal(R)), bool(eigenvalues[0] < least)


def _repeat(one: Covariances, K: int) -> Covariances:
    return Covariances(
        one.values[0], np.repeat(one.factors, K, axis=0), np.repeat(one.log_det, K), np.repeat(one.held, K)
    )


def _diagonal(variances: Floats, regularisation: Regularisation, K: int) -> Covariances:
    """From variances (K, d) or shared (d,), with ridge and floor applied."""
    if regularisation.ridge is not None:
        variances = variances + np.diagonal(regularisation.ridge)
    floor = max(regularisation.floor, np.finfo(float).tiny)
    held = np.broadcast_to((variances < floor).any(axis=-1), (K,))
    variances = np.maximum(variances, floor)
    return _from_variances(variances, variances, K, variances.shape[-1])._replace(held=held)


def _from_variances(values: Floats, variances: Floats, K: int, d: int) -> Covariances:
    scales = 1 / np.sqrt(np.broadcast_to(variances, (K, d)))
    return Covariances(values, scales, np.log(scales).sum(axis=1), np.zeros(K, bool))
