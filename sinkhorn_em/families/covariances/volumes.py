"""One shape for all, each component its own volume: mclust's VEI, VEE and VEV, S_k = lambda_k B, rotated for VEV.

Given the volumes, B is a weighted mean; given B, lambda_k = tr(C_k B^-1) / d (Celeux & Govaert 1995). With variances c_kj this is
Sinkhorn's algorithm: pi_k c_kj / (lambda_k B_j) gets row sums d pi_k and column sums 1. The sum of the contract is (geodesically)
convex in (log lambda, log B), so the fixed point is the minimum. |B| = 1 is not imposed: lambda_k B does not feel the scale.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from ..._typing import Booleans, Floats
from .base import EPS, OVERFLOW, TINY, Covariances, Limits, Regularisation, weights_and_covariances
from .factors import from_spectra, from_variances
from .separable import OwnMatrices, OwnVariances

MAX_SWEEPS = 1000
STEP = 1e-13  # of log lambda_k, where the alternation stops
LONGEST = 100.0  # leap, in steps: more is a quotient of rounding errors


class _Spread(Protocol):
    def __call__(self, volumes: Floats) -> tuple[Floats, Floats]:
        """Basis of the shape given the volumes, and the variances of all components along it, (K, d)."""
        ...


class _Boxes(NamedTuple):
    """Intervals for log B and log lambda whose sums stay within the limits of eigenvalues."""

    shape: tuple[float, float]
    volume: tuple[float, float]


class VEI(OwnVariances):
    """S_k = lambda_k B, B diagonal: values (K, d)."""

    name, full, coordinates, bounds_together = "VEI", False, "scaled", False

    def maximise(
        self, mass: Floats, scatter: Floats, regularisation: Regularisation, current: Covariances | None = None
    ) -> Covariances:
        weights, C, limits = weights_and_covariances(mass, scatter, regularisation)
        _, variances, held = volumes_and_shape(lambda volumes: (C, C), weights, C.mean(axis=1), limits, current)
        return from_variances(variances, variances, *variances.shape)._replace(held=held)

    def n_parameters(self, K: int, d: int) -> int:
        return K + d - 1


class VEE(OwnMatrices):
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

    def n_parameters(self, K: int, d: int) -> int:
        return K - 1 + d * (d + 1) // 2


class VEV(OwnMatrices):
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

    def n_parameters(self, K: int, d: int) -> int:
        return K * d * (d - 1) // 2 + K + d - 1


def volumes_and_shape(
    spread: _Spread, weights: Floats, volumes: Floats, limits: Limits, current: Covariances | None
) -> tuple[Floats, Floats, Booleans]:
    """Basis, variances lambda_k B_j (K, d) along it, and components held; from the volumes of ``current``, if any.

    After two sweeps a leap (SQUAREM, Varadhan & Roland 2008), taken back if it raises the sum of the contract.
    """
    if current is not None:
        volumes = np.exp(-2 * current.log_det / current.factors.shape[1])  # log_det is that of F
    volumes = np.clip(volumes, limits.lower, limits.upper)
    boxes = _first_boxes(volumes, limits)
    volumes = np.clip(volumes, *boxes.volume)
    boxes = _boxes(_sweep(spread, weights, volumes, boxes).shape, volumes, limits)
    path, lowest, safe = [np.log(volumes)], np.inf, volumes
    for _ in range(MAX_SWEEPS):
        trial = _sweep(spread, weights, volumes, boxes)
        if trial.value > lowest:
            volumes, path, lowest = safe, [np.log(safe)], np.inf
            continue
        sweep = trial
        path.append(np.log(sweep.volumes))
        step, size = np.abs(path[-1] - path[-2]).max(), np.abs(path[-1]).max()
        if step <= STEP + 4 * EPS * size:
            break
        volumes, boxes = sweep.volumes, _boxes(sweep.shape, sweep.volumes, limits)
        if len(path) == 3:
            safe, lowest = volumes, sweep.value
            volumes = np.clip(np.exp(np.clip(_leap(*path), -OVERFLOW, OVERFLOW)), *boxes.volume)
            path = [np.log(volumes)]
    variances = np.clip(sweep.volumes[:, None] * sweep.shape, limits.lower, limits.upper)
    return sweep.basis, variances, sweep.held & limits.reported


class _Sweep(NamedTuple):
    """A shape from volumes and volumes from it, what was held at the limit, and the sum of the contract with the old volumes."""

    basis: Floats
    shape: Floats  # (d,)
    volumes: Floats  # (K,)
    held: Booleans  # (K,): a shape at its limit holds all components
    value: float


def _sweep(spread: _Spread, weights: Floats, volumes: Floats, boxes: _Boxes) -> _Sweep:
    basis, C = spread(volumes)
    best_shape = (weights / volumes) @ C
    shape = np.clip(best_shape, *boxes.shape)
    best_volumes = (C / shape).mean(axis=1)
    beyond = 1 - 1e-9
    held = (best_volumes < boxes.volume[0] * beyond) | (best_shape < boxes.shape[0] * beyond).any()
    value = len(shape) * float(weights @ np.log(volumes)) + float((np.log(shape) + best_shape / shape).sum())
    return _Sweep(basis, shape, np.clip(best_volumes, *boxes.volume), held, value)


def _leap(start: Floats, first: Floats, second: Floats) -> Floats:
    """Where two steps lead to."""
    step = first - start
    change = second - first - step
    size = float(np.linalg.norm(change))
    length = float(np.linalg.norm(step)) / max(size, TINY)
    length = min(max(length, 1.0), LONGEST)
    return start + 2 * length * step + length**2 * change


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
