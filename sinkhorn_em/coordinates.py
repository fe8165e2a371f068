"""The coordinates a mixture is fitted in: centred, and scaled by a transform that commutes with the covariance structure.

z = A (x - s): whitening for full and tied covariances, one scale per feature for diagonal ones, one scale for spherical ones.
Nothing then depends on units or offsets: an affine map of the data (of the kind the structure allows) leaves z as it is, up to
a rotation.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ._kinds import with_tensor_form
from ._typing import Floats
from .families.kernels import TENSOR_FORM, moments

Blocks = tuple[tuple[int, ...], ...]
CHUNK = 8192  # rows transformed at a time
ROUGH = 1e-6  # below this share the eigenvalues have lost half their digits
DEGENERATE = 1e-14  # eigenvalues of the correlation matrix below this share of the largest: no spread, not rescaled


class Coordinates(NamedTuple):
    """z = A (x - shift), with A (d, d), or (d,) where it is diagonal."""

    shift: Floats  # (d,)
    A: Floats

    @property
    def log_det(self) -> float:
        """log |det A|: what a log-density in z gains in x."""
        return float(np.linalg.slogdet(self.A)[1] if self.A.ndim == 2 else np.log(np.abs(self.A)).sum())

    def forward(self, X: Any) -> Floats:
        """z of rows x, (n, d), stored feature-major as the kernels like it."""
        return affine(X, self.shift, self.A)

    def backward(self, Z: Floats) -> Floats:
        """x of rows z."""
        X = np.linalg.solve(self.A, Z.T).T if self.A.ndim == 2 else Z / self.A
        return X + self.shift

    def covariances_forward(self, S: Floats, full: bool, spherical: bool) -> Floats:
        """A S A' of covariances (..., d, d) if full; of variances (..., d) or, if spherical, scalars (...) else."""
        return _congruent(self.A, S, full, spherical)

    def covariances_backward(self, S: Floats, full: bool, spherical: bool) -> Floats:
        """The inverse of `covariances_forward`."""
        inverse: Any = np.linalg.inv(self.A) if self.A.ndim == 2 else 1 / self.A
        return _congruent(inverse, S, full, spherical)


@with_tensor_form(TENSOR_FORM)
def affine(X: Any, shift: Floats, A: Floats) -> Floats:
    """A (x - shift) of rows X (n, d), stored feature-major."""
    Z = np.empty((X.shape[1], X.shape[0]))
    for rows in _chunks(len(X)):
        Z[:, rows] = _apply(A, (np.asarray(X[rows], np.float64) - shift).T)
    return Z.T


def _apply(A: Floats, columns: Floats) -> Floats:
    return A @ columns if A.ndim == 2 else A[:, None] * columns


def identity(d: int) -> Coordinates:
    """The data as they are."""
    return Coordinates(np.zeros(d), np.ones(d))


def _congruent(A: Floats, S: Floats, full: bool, spherical: bool) -> Floats:
    if spherical:
        return S * A[0] ** 2
    if not full:
        return S * A**2
    X = A @ S @ A.T if A.ndim == 2 else A[:, None] * S * A
    return 0.5 * (X + np.swapaxes(X, -1, -2))


def fit_coordinates(X: Any, row_mass: Floats, kind: str, blocks: Blocks = ()) -> tuple[Coordinates, Floats]:
    """Coordinates for rows of total mass 1, and the rows in them.

    ``kind`` is "whitened", "scaled", "isotropic", or "blocks": isotropic within each of ``blocks``, tuples of features.
    """
    n, d = X.shape
    near = np.asarray(X[int(np.argmax(row_mass > 0))], np.float64)  # some row: only what differs from it is averaged
    near = near + sum((row_mass[rows] @ (X[rows] - near) for rows in _chunks(n)), np.zeros(d))
    coordinates = Coordinates(near, np.ones(d))
    Z = coordinates.forward(X)
    for _ in range(2):
        delta, A, rough = _rescaling(Z, row_mass, kind, blocks)
        back = np.linalg.solve(coordinates.A, delta) if coordinates.A.ndim == 2 else delta / coordinates.A
        combined = A @ coordinates.A if A.ndim == 2 and coordinates.A.ndim == 2 else A * coordinates.A
        coordinates = Coordinates(coordinates.shift + back, combined)
        for rows in _chunks(n):
            Z.T[:, rows] = _apply(A, Z.T[:, rows] - delta[:, None])
        if not rough:
            break
    return coordinates, Z


def _rescaling(Z: Floats, row_mass: Floats, kind: str, blocks: Blocks) -> tuple[Floats, Floats, bool]:
    """Mean, transform A, and whether A is rough: squaring cost half the digits, so it is to be repeated in its own image."""
    n, d = Z.shape
    _, first, second = moments(Z, np.zeros((1, n)).T, row_mass, np.zeros(1), np.zeros((1, d)), kind == "whitened")
    delta = first[0]
    if kind == "whitened":
        return delta, *_whitening(second[0] - np.outer(delta, delta))
    variance = np.maximum(second[0, :, 0] - delta**2, 0.0)
    for block in {"isotropic": (tuple(range(d)),), "blocks": blocks}.get(kind, ()):
        variance[list(block)] = variance[list(block)].mean()
    return delta, 1 / np.sqrt(np.where(variance > 0, variance, 1.0)), False


def _whitening(C: Floats) -> tuple[Floats, bool]:
    """The symmetric square root of the inverse correlation matrix, times the inverse standard deviations."""
    sd = np.sqrt(np.where(np.diagonal(C) > 0, np.diagonal(C), 1.0))
    eigenvalues, V = np.linalg.eigh(C / np.outer(sd, sd))
    largest = float(eigenvalues[-1]) if eigenvalues[-1] > 0 else 1.0
    safe = np.where(eigenvalues > DEGENERATE * largest, eigenvalues, largest)
    return (V / np.sqrt(safe)) @ V.T / sd, bool(safe.min() < ROUGH * largest)


def _chunks(n: int) -> Iterator[slice]:
    return (slice(start, start + CHUNK) for start in range(0, n, CHUNK))
