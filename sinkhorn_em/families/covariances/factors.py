"""Factors of covariances: S^-1 = F' F with F lower triangular, or diagonal."""

from __future__ import annotations

import numpy as np
from scipy.linalg.lapack import dpotrf, dtrtri

from ..._typing import Booleans, Floats
from .base import EPS, TINY, Covariances, Regularisation


def factorise(S: Floats, floor: float) -> Covariances:
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


def clipped(S: Floats, regularisation: Regularisation) -> Covariances:
    """The same with floor and bounds: clipping eigenvalues is the exact maximiser under them."""
    if not regularisation.bounded:
        return factorise(S, regularisation.floor)
    eigenvalues, U = np.linalg.eigh(S)
    lower, upper, reported = regularisation.limits(EPS * float(np.abs(S).max()))
    held = np.asarray((eigenvalues < lower).any(axis=1) & reported)
    return from_spectra(U, np.clip(eigenvalues, lower, upper), held)


def from_spectra(U: Floats, spectra: Floats, held: Booleans) -> Covariances:
    """S_k = U_k diag(s_k) U_k' from orthogonal U, (K, d, d) or (d, d) for all, and s (K, d)."""
    root = U * np.sqrt(spectra)[:, None, :]
    S = root @ root.transpose(0, 2, 1)
    R = np.linalg.qr(root.transpose(0, 2, 1))[1]  # S = root root' = R' R
    factors = np.array([dtrtri(one.T * np.sign(np.diagonal(one)), lower=1)[0] for one in R])
    return Covariances(S, factors, -0.5 * np.log(spectra).sum(axis=1), held)


def repeat(one: Covariances, K: int) -> Covariances:
    """One covariance for all components."""
    return Covariances(
        one.values[0], np.repeat(one.factors, K, axis=0), np.repeat(one.log_det, K), np.repeat(one.held, K)
    )


def diagonal(variances: Floats, regularisation: Regularisation, K: int) -> Covariances:
    """From variances (K, d) or shared (d,), with ridge, floor and bounds applied."""
    if regularisation.ridge is not None:
        variances = variances + np.diagonal(regularisation.ridge)
    lower, upper, reported = regularisation.limits()
    held = np.broadcast_to((variances < lower).any(axis=-1) & reported, (K,))
    variances = np.clip(variances, lower, upper)
    return from_variances(variances, variances, K, variances.shape[-1])._replace(held=held)


def from_variances(values: Floats, variances: Floats, K: int, d: int) -> Covariances:
    """From variances that broadcast to (K, d)."""
    scales = 1 / np.sqrt(np.broadcast_to(variances, (K, d)))
    return Covariances(values, scales, np.log(scales).sum(axis=1), np.zeros(K, bool))


def _raise_eigenvalues(S: Floats, floor: float) -> tuple[Floats, Floats, bool]:
    """The covariance with its eigenvalues raised to the floor, its Cholesky factor, and whether any was raised."""
    eigenvalues, U = np.linalg.eigh(S)
    least = max(floor, EPS * float(eigenvalues[-1]), TINY)
    root = U * np.sqrt(np.maximum(eigenvalues, least))
    R = np.linalg.qr(root.T)[1]  # S = root root' = R' R
    return root @ root.T, R.T * np.sign(np.diagonal(R)), bool(eigenvalues[0] < least)
