"""One orientation for all components: mclust's EVE and VVE, S_k = D Lambda_k D'.

Given D the spectra are those of EVI and VVI along its axes. Given the spectra, the sum of the contract changes under a rotation by
t in the plane of two axes as const + alpha cos 2t + beta sin 2t, so the best angle is known: every rotation lowers the sum, as in
Flury & Gautschi (1986); the update of Browne & McNicholas (2014) lowers a bound of it. The minimum is local: a first call, with
nothing to start from, tries the eigenvectors of the pooled covariance and of every component's.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

import numpy as np

from ..._compiled import exact
from ..._typing import Booleans, Floats
from .base import EPS, Covariances, Limits, Regularisation, weights_and_covariances
from .factors import from_spectra
from .separable import OwnMatrices
from .shapes import equal_volumes

MAX_CYCLES = 200
TRIAL_CYCLES = 8  # for every start but the best
GAIN = 1e-28  # of the sum, per feature, in one sweep: angles are then of order 1e-14
COMMON = 1e-6  # correlation along shared axes up to which covariances count as having the same axes


class _Oriented(NamedTuple):
    """An orientation, the covariances and the best spectra along its axes, components held, and the sum of the contract over n."""

    D: Floats  # (d, d)
    rotated: Floats  # (K, d, d)
    spectra: Floats  # (K, d)
    held: Booleans  # (K,)
    value: float


class CommonOrientation(OwnMatrices):
    """S_k = D Lambda_k D': values (K, d, d)."""

    full, coordinates = True, "isotropic"

    @abstractmethod
    def spectra(self, variances: Floats, weights: Floats, limits: Limits) -> tuple[Floats, Booleans]:
        """The best spectra (K, d) within the limits for variances along the axes, and the components held."""

    def maximise(
        self, mass: Floats, scatter: Floats, regularisation: Regularisation, current: Covariances | None = None
    ) -> Covariances:
        weights, C, limits = weights_and_covariances(mass, scatter, regularisation)
        D = None if current is None else common_axes(current)
        if D is None:
            D = self._first(C, weights, limits)
        best = self._orient(C, weights, limits, D, MAX_CYCLES)
        return from_spectra(best.D, best.spectra, best.held)

    def _first(self, C: Floats, weights: Floats, limits: Limits) -> Floats:
        """The best of several orientations after a few sweeps."""
        starts = np.linalg.eigh(np.concatenate([np.tensordot(weights, C, 1)[None], C[weights > 0]]))[1]
        trials = [self._orient(C, weights, limits, D, TRIAL_CYCLES) for D in starts]
        return min(trials, key=lambda trial: trial.value).D

    def _along(self, C: Floats, weights: Floats, limits: Limits, D: Floats) -> _Oriented:
        rotated = np.ascontiguousarray(D.T @ C @ D)
        variances = _variances(rotated)
        spectra, held = self.spectra(variances, weights, limits)
        return _Oriented(D, rotated, spectra, held, float((weights @ (np.log(spectra) + variances / spectra)).sum()))

    def _orient(self, C: Floats, weights: Floats, limits: Limits, D: Floats, cycles: int) -> _Oriented:
        """Spectra and rotations in turn from D, in cycles of two sweeps and a leap (SQUAREM, Varadhan & Roland 2008)."""
        here, last = self._along(C, weights, limits, D), np.inf
        for _ in range(cycles):
            turns = []
            for _ in range(2):
                slopes, turned = weights[:, None] / here.spectra, here.D.copy()
                # terms of this size cancel: gains within their rounding that no longer shrink are noise
                rounding = 10 * EPS * float(slopes.max(axis=1) @ np.abs(here.rotated).max(axis=(1, 2)))
                gain = rotate(here.rotated, slopes, turned)
                turn = here.D.T @ turned
                turns.append((turn - turn.T) / 2)
                here = self._along(C, weights, limits, turned)
                if gain <= GAIN * len(D) or last <= gain <= rounding:
                    return here
                last = gain
            leap = self._along(C, weights, limits, _orthogonal(here.D @ _leap(*turns)))
            if leap.value < here.value:
                here, last = leap, np.inf
        return here


class EVE(CommonOrientation):
    """One orientation and one volume, own shapes: S_k = lambda D A_k D', |A_k| = 1."""

    name = "EVE"

    def spectra(self, variances: Floats, weights: Floats, limits: Limits) -> tuple[Floats, Booleans]:
        return equal_volumes(variances, weights, limits)

    def n_parameters(self, K: int, d: int) -> int:
        return d * (d + 1) // 2 + (K - 1) * (d - 1)


class VVE(CommonOrientation):
    """One orientation, own spectra: common principal components."""

    name = "VVE"

    def spectra(self, variances: Floats, weights: Floats, limits: Limits) -> tuple[Floats, Booleans]:
        held = np.asarray((variances < limits.lower).any(axis=1) & limits.reported)
        return np.clip(variances, limits.lower, limits.upper), held

    def n_parameters(self, K: int, d: int) -> int:
        return d * (d - 1) // 2 + K * d


def common_axes(covariances: Covariances) -> Floats | None:
    """The eigenvectors that all covariances share, (d, d); None if they share none."""
    F = covariances.factors
    K, d = F.shape[:2]
    if F.ndim == 2:
        return np.eye(d)
    F = F / np.abs(F).max(axis=(1, 2), keepdims=True)  # units do not matter, and could overflow
    precisions = F.transpose(0, 2, 1) @ F
    # shares that are in no ratio of small numbers: two axes with the same eigenvalues in every covariance only have them in the sum
    shares = (1 + np.modf(np.arange(1, K + 1) * 0.6180339887498949)[0]) / precisions.trace(axis1=1, axis2=2)
    D = np.linalg.eigh(np.tensordot(shares, precisions, 1))[1]
    for _ in range(
        10
    ):  # where eigenvalues of the sum are close its eigenvectors are inexact: two or three sweeps mend it
        rotated = np.ascontiguousarray(D.T @ precisions @ D)
        variances = _variances(rotated)
        if rotate(rotated, 1 / np.maximum(variances, np.finfo(float).tiny), D) <= GAIN:
            break
    scale = np.sqrt(np.abs(rotated.diagonal(axis1=1, axis2=2)))
    off = np.abs(rotated - rotated.diagonal(axis1=1, axis2=2)[:, :, None] * np.eye(d))
    return D if (off <= COMMON * scale[:, :, None] * scale[:, None, :]).all() else None


def _leap(first: Floats, second: Floats) -> Floats:
    """The rotation that two turns in a row, skew-symmetric, promise beyond them."""
    change = second - first
    size = float(np.linalg.norm(change))
    length = max(float(np.linalg.norm(first)) / size, 1.0) if size > 0 else 1.0
    turn = 2 * (length - 1) * first + (length**2 - 1) * change
    eye = np.eye(len(turn))
    return np.asarray(np.linalg.solve(eye - turn / 2, eye + turn / 2), float)  # Cayley's


def _orthogonal(D: Floats) -> Floats:
    """Without the rounding of many rotations."""
    Q, R = np.linalg.qr(D)
    return Q * np.sign(np.diagonal(R))


def _variances(rotated: Floats) -> Floats:
    return np.maximum(rotated.diagonal(axis1=1, axis2=2), 0.0)


@exact
def rotate(C, weights, D):
    """One rotation in every plane of two axes, in place, each lowering sum_kj weights_kj (D' C_k D)_jj the most.

    ``C`` (K, d, d) are the covariances in the axes D. Returns how much lower the sum is.
    """
    K, d = weights.shape
    total = 0.0
    for j in range(d):
        for l in range(j + 1, d):
            alpha, beta = 0.0, 0.0
            for k in range(K):
                w = weights[k, j] - weights[k, l]
                alpha += w * 0.5 * (C[k, j, j] - C[k, l, l])
                beta += w * C[k, j, l]
            amplitude = np.hypot(alpha, beta)
            gain = beta * beta / (amplitude - alpha) if alpha < 0.0 else amplitude + alpha
            if not gain > 0.0:
                continue
            total += gain
            t = 0.5 * np.arctan2(-beta, -alpha)
            c, s = np.cos(t), np.sin(t)
            for i in range(d):
                a, b = D[i, j], D[i, l]
                D[i, j], D[i, l] = c * a + s * b, c * b - s * a
            for k in range(K):
                for i in range(d):
                    a, b = C[k, i, j], C[k, i, l]
                    C[k, i, j], C[k, i, l] = c * a + s * b, c * b - s * a
                for i in range(d):
                    a, b = C[k, j, i], C[k, l, i]
                    C[k, j, i], C[k, l, i] = c * a + s * b, c * b - s * a
    return total
