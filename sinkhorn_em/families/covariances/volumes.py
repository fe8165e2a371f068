"""One shape for all, each component its own volume: mclust's VEI, VEE and VEV, S_k = lambda_k B, rotated for VEV.

Given the volumes, B is a weighted mean; given B, lambda_k = tr(C_k B^-1) / d (Celeux & Govaert 1995). With variances c_kj this is
Sinkhorn's algorithm: pi_k c_kj / (lambda_k B_j) gets row sums d pi_k and column sums 1. The sum of the contract is (geodesically)
convex in (log lambda, log B), so the fixed point is the minimum. |B| = 1 is not imposed: lambda_k B does not feel the scale.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from ..._typing import Booleans, Floats
from .base import Covariances, Limits, Regularisation, Structure, weights_and_covariances
from .factors import factorise, from_spectra, from_variances
from .separable import Tied, TiedDiag

MAX_SWEEPS = 1000
STEP = 1e-13  # of log |S_k| / d, where the alternation stops: rounding of its terms


class _Spread(Protocol):
    def __call__(self, volumes: Floats) -> tuple[Floats, Floats]:
        """Basis of the shape given the volumes, and the variances of all components along it, (K, d)."""
        ...


class _Boxes(NamedTuple):
    """Intervals for log B and log lambda whose sums stay within the limits of eigenvalues."""

    shape: tuple[float, float]
    volume: tuple[float, float]


class VEI(Structure):
    """S_k = lambda_k B, B diagonal: values (K, d)."""

    name, full, coordinates, bounds_together = "VEI", False, "scaled", False

    def maximise(
        self, mass: Floats, scatter: Floats, regularisation: Regularisation, current: Covariances | None = None
    ) -> Covariances:
        weights, C, limits = weights_and_covariances(mass, scatter, regularisation)
        _, variances, held = volumes_and_shape(lambda volumes: (C, C), weights, C.mean(axis=1), limits, current)
        return from_variances(variances, variances, *variances.shape)._replace(held=held)

    def from_values(self, values: Floats, K: int, d: int) -> Covariances:
        return from_variances(values, values, K, d)

    def n_parameters(self, K: int, d: int) -> int:
        return K + d - 1

    @property
    def pooled(self) -> Structure:
        return TiedDiag()


class VEE(Structure):
    """S_k = lambda_k B: values (K, d, d)."""

    name, full, coordinates, bounds_together = "VEE", True, "whitened", False

    def maximise(
        self, mass: Floats, scatter: Floats, regularisation: Regularisation, current: Covariances | None = None
    ) -> Covariances:
        weights, C, limits = weights_and_covariances(mass, scatter, regularisation)

        def spread(volumes: Floats) -> tuple[Floats, Floats]:
            U = np.linalg.eigh(np.tensordot(weights / volumes, C, 1))[1]
            return U, np.maximum(((C @ U) * U).sum(axis=1), 0.0)

        mean = C.trace(axis1=1, axis2=2) / C.shape[1]
        return from_spectra(*volumes_and_shape(spread, weights, mean, limits, current))

    def from_values(self, values: Floats, K: int, d: int) -> Covariances:
        return factorise(values, 0.0)

    def n_parameters(self, K: int, d: int) -> int:
        return K - 1 + d * (d + 1) // 2

    @property
    def pooled(self) -> Structure:
        return Tied()


class VEV(Structure):
    """S_k = lambda_k D_k B D_k', B diagonal: values (K, d, d). D_k are the eigenvectors of W_k, in one order."""

    name, full, coordinates, bounds_together = "VEV", True, "isotropic", False

    def maximise(
        self, mass: Floats, scatter: Floats, regularisation: Regularisation, current: Covariances | None = None
    ) -> Covariances:
        weights, C, limits = weights_and_covariances(mass, scatter, regularisation)
        eigenvalues, U = np.linalg.eigh(C)
        omega = np.maximum(eigenvalues, 0.0)
        return from_spectra(
            *volumes_and_shape(lambda volumes: (U, omega), weights, omega.mean(axis=1), limits, current)
        )

    def from_values(self, values: Floats, K: int, d: int) -> Covariances:
        return factorise(values, 0.0)

    def n_parameters(self, K: int, d: int) -> int:
        return K * d * (d - 1) // 2 + K + d - 1

    @property
    def pooled(self) -> Structure:
        return Tied()


def volumes_and_shape(
    spread: _Spread, weights: Floats, volumes: Floats, limits: Limits, current: Covariances | None
) -> tuple[Floats, Floats, Booleans]:
    """Basis, variances lambda_k B_j (K, d) along it, and components held; from the volumes of ``current``, if any."""
    if current is not None:
        volumes = np.exp(-2 * current.log_det / current.factors.shape[1])  # log_det is that of F
    volumes = np.clip(volumes, limits.lower, limits.upper)
    boxes = _first_boxes(volumes, limits)
    volumes = np.clip(volumes, *boxes.volume)
    before = np.full(len(weights), np.inf)
    for _ in range(MAX_SWEEPS):
        basis, C = spread(volumes)
        raw_shape = (weights / volumes) @ C
        shape = np.clip(raw_shape, *boxes.shape)
        raw_volumes = (C / shape).mean(axis=1)
        volumes = np.clip(raw_volumes, *boxes.volume)
        log_sizes = np.log(volumes) + np.log(shape).mean()
        if np.abs(log_sizes - before).max() <= STEP + 1e-15 * np.abs(log_sizes).max():
            break
        before = log_sizes
        boxes = _boxes(shape, volumes, limits)
    held = _held(raw_shape, raw_volumes, boxes) & limits.reported
    return basis, np.clip(volumes[:, None] * shape, limits.lower, limits.upper), held


def _held(raw_shape: Floats, raw_volumes: Floats, boxes: _Boxes) -> Booleans:
    """A shape held at its limit holds all components."""
    tolerance = 1 - 1e-9
    return (raw_volumes < boxes.volume[0] * tolerance) | (raw_shape < boxes.shape[0] * tolerance).any()


def _first_boxes(volumes: Floats, limits: Limits) -> _Boxes:
    low, high = limits.lower / volumes.min(), limits.upper / volumes.max()
    if low > high:  # no shape fits these volumes: one volume for all does
        one = np.sqrt(volumes.min() * volumes.max())
        return _Boxes((limits.lower / one, limits.upper / one), (one, one))
    return _Boxes((low, high), (float(volumes.min()), float(volumes.max())))


def _boxes(shape: Floats, volumes: Floats, limits: Limits) -> _Boxes:
    """lambda_k B_j >= l for all k, j is the same as B >= 1 and lambda >= l at some scale: two boxes, so that taking turns does not
    get stuck as it would at l / min lambda. What slack there is, the two share."""
    down = np.sqrt(max(volumes.min() * shape.min() / limits.lower, 1.0))
    up = np.sqrt(max(limits.upper / (volumes.max() * shape.max()), 1.0))
    return _Boxes((shape.min() / down, shape.max() * up), (volumes.min() / down, volumes.max() * up))
