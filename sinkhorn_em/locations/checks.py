"""What is asked of the user's arrays, and the coordinates in which the common covariance is the identity."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._typing import Floats, Integers

LARGEST = 1e140  # standard deviations: squares, and sums of many of them, stay finite


@dataclass(frozen=True)
class Whitening:
    """Coordinates y = L^-1 x, covariance L L'."""

    root: Floats  # (d, d) L, lower triangular

    @property
    def inverse(self) -> Floats:
        """L^-1."""
        return np.asarray(np.linalg.inv(self.root), np.float64)

    @property
    def log_peak(self) -> float:
        """Log-density of a component at its mean, in the units of the data."""
        return -0.5 * len(self.root) * math.log(2 * math.pi) - float(np.log(np.diag(self.root)).sum())

    def forward(self, A: Floats, name: str) -> Floats:
        """y of rows x (..., d); ValueError naming them where squares of y are not representable."""
        Y = A @ self.inverse.T
        size = np.abs(Y).max()
        if not size <= LARGEST:
            raise ValueError(
                f"{name} has entries of {size:.3g} standard deviations; they must be at most {LARGEST:.0e}, or their squares "
                "are infinite: rescale the data and the covariance"
            )
        return Y

    def backward(self, A: Floats) -> Floats:
        """x of rows y (..., d)."""
        return A @ self.root.T


def check_covariance(covariance: Any, d: int) -> Whitening:
    """The whitening of a variance or of a covariance matrix (d, d)."""
    C = np.asarray(covariance, float)
    if C.shape not in ((), (d, d)):
        raise ValueError(f"covariance has shape {C.shape}; it must be a number, the variance, or ({d}, {d})")
    if not np.isfinite(C).all():
        raise ValueError("covariance has entries that are not finite: give a variance, or a positive definite matrix")
    if C.ndim == 0:
        if not C > 0:
            raise ValueError(f"covariance is {C}; a variance must be positive: 1.0 is the default")
        return Whitening(math.sqrt(C) * np.eye(d))
    if not np.allclose(C, C.T, rtol=1e-10, atol=0):
        raise ValueError("covariance is not symmetric; it must be a covariance matrix: use (C + C.T) / 2")
    try:
        return Whitening(np.linalg.cholesky(C))
    except np.linalg.LinAlgError:
        smallest = np.linalg.eigvalsh(C)[0]
        raise ValueError(
            f"covariance has the eigenvalue {smallest:.3g}; it must be positive definite: leave out features that are "
            "combinations of others"
        ) from None


def check_rows(X: Any, stacked: bool) -> Floats:
    """Data sets (G, n, d) from (n, d), or, where ``stacked``, from (G, n, d) as well."""
    rows = np.asarray(X, float)
    if rows.ndim not in ((2, 3) if stacked else (2,)) or 0 in rows.shape:
        rule = "(n, d), or (G, n, d) for G data sets" if stacked else "(n, d)"
        raise ValueError(
            f"X has shape {rows.shape}; it must be {rule}, not empty: X[:, None] makes one feature of a vector"
        )
    if not np.isfinite(rows).all():
        raise ValueError("X has entries that are NaN or infinite: leave those rows out")
    return rows.reshape(-1, *rows.shape[-2:])


def check_means(means: Any, d: int) -> Floats:
    """Means (B, K, d)."""
    M = np.asarray(means, float)
    if M.ndim != 3 or 0 in M.shape or M.shape[2] != d:
        raise ValueError(
            f"means has shape {M.shape}; it must be (B, K, {d}) for B problems: means[None] is one problem"
        )
    if not np.isfinite(M).all():
        raise ValueError("means has entries that are NaN or infinite: start at points among the data")
    return M


def check_data(data: Any, B: int, G: int) -> Integers:
    """Which of G data sets each of B problems uses."""
    if data is None:
        if G not in (1, B):
            raise ValueError(
                f"data is None, with {G} data sets and {B} problems: give the number of each problem's data set"
            )
        return np.zeros(B, np.int64) if G == 1 else np.arange(B, dtype=np.int64)
    which = np.asarray(data)
    if which.shape != (B,) or not np.issubdtype(which.dtype, np.integer):
        raise ValueError(
            f"data has shape {which.shape} and type {which.dtype}; it must be ({B},) integers, one per problem"
        )
    if which.min() < 0 or which.max() >= G:
        raise ValueError(
            f"data has entries from {which.min()} to {which.max()}; they must be among the data sets, 0 to {G - 1}"
        )
    return which.astype(np.int64)
