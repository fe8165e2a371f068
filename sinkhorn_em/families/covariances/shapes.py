"""Each component its own shape, one volume for all: mclust's EVI and EVV; and EEV, where only orientations differ."""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq

from ..._typing import Booleans, Floats
from .base import OVERFLOW, Covariances, Limits, Regularisation, weights_and_covariances
from .factors import from_spectra, from_variances
from .separable import OwnMatrices, OwnVariances

SMALLEST = 5e-324  # positive number


class EVI(OwnVariances):
    """S_k = lambda A_k, |A_k| = 1, A_k diagonal: values (K, d)."""

    name = "EVI"

    def maximise(
        self, mass: Floats, scatter: Floats, regularisation: Regularisation, current: Covariances | None = None
    ) -> Covariances:
        weights, C, limits = weights_and_covariances(mass, scatter, regularisation)
        variances, held = equal_volumes(C, weights, limits)
        return from_variances(variances, variances, *variances.shape)._replace(held=held)

    def n_parameters(self, K: int, d: int) -> int:
        return 1 + K * (d - 1)


class EVV(OwnMatrices):
    """S_k = lambda C_k / |C_k|^(1/d): values (K, d, d)."""

    name, coordinates = "EVV", "whitened"

    def maximise(
        self, mass: Floats, scatter: Floats, regularisation: Regularisation, current: Covariances | None = None
    ) -> Covariances:
        weights, C, limits = weights_and_covariances(mass, scatter, regularisation)
        eigenvalues, U = np.linalg.eigh(C)
        return from_spectra(U, *equal_volumes(eigenvalues, weights, limits))

    def n_parameters(self, K: int, d: int) -> int:
        return K * d * (d + 1) // 2 - (K - 1)


class EEV(OwnMatrices):
    """S_k = D_k A D_k', A diagonal: values (K, d, d). D_k are the eigenvectors of W_k, in one order; A is the mean spectrum."""

    name, coordinates = "EEV", "isotropic"

    def maximise(
        self, mass: Floats, scatter: Floats, regularisation: Regularisation, current: Covariances | None = None
    ) -> Covariances:
        weights, C, limits = weights_and_covariances(mass, scatter, regularisation)
        eigenvalues, U = np.linalg.eigh(C)
        mean = weights @ eigenvalues
        held = np.full(len(C), (mean < limits.lower).any() and limits.reported)
        spectrum = np.clip(mean, limits.lower, limits.upper)
        return from_spectra(U, np.broadcast_to(spectrum, eigenvalues.shape), held)

    def n_parameters(self, K: int, d: int) -> int:
        return K * d * (d - 1) // 2 + d


def equal_volumes(variances: Floats, weights: Floats, limits: Limits) -> tuple[Floats, Booleans]:
    """Best variances (K, d) of equal products within the limits, and the components held at the lower one.

    Free: lambda c_kj / g_k with g_k the geometric mean of c_k, lambda = sum_k pi_k g_k. Within limits the Lagrangian gives
    clip(alpha_k c_kj) with a common product and sum_k pi_k / alpha_k = 1: one equation in the log volume.
    """
    # a variance of 0 counts as exp(-40) of the limit: it stays at the limit whatever its factor, and its log is finite
    log_c = np.log(np.maximum(variances, max(limits.lower * np.exp(-40.0), SMALLEST)))
    log_g = log_c.mean(axis=1)
    top = log_g.max()
    log_volume = top + np.log(weights @ np.exp(log_g - top))
    log_s = log_volume + log_c - log_g[:, None]
    low, high = np.log(limits.lower), np.log(limits.upper)
    held = np.zeros(len(weights), bool)
    if log_s.min() < low or log_s.max() > high:
        log_s = _volumes_within(log_c, weights, low, high)
        held = (log_s <= low).any(axis=1) & limits.reported
    return np.clip(np.exp(log_s), limits.lower, limits.upper), held


def _volumes_within(log_c: Floats, weights: Floats, low: float, high: float) -> Floats:
    """The logs of clip(alpha_k c_kj)."""
    d = log_c.shape[1]
    most = max(low, float(log_c.max()))  # some alpha_k <= 1, so the log volume is not above
    high = min(high, d * most - (d - 1) * low + 1.0)
    # mean_j clip(log alpha + log c_kj) is piecewise linear in log alpha: exact between these knots
    knots = np.sort(np.concatenate([low - log_c, high - log_c], axis=1), axis=1)
    means = np.clip(knots[:, :, None] + log_c[:, None, :], low, high).mean(axis=2)

    def log_alpha(log_volume: float) -> Floats:
        return np.array([np.interp(log_volume, y, x) for y, x in zip(means, knots, strict=True)])

    def excess(log_volume: float) -> float:
        return float(weights @ np.exp(np.minimum(-log_alpha(log_volume), OVERFLOW))) - 1.0

    bottom, top = low, min(most, high)
    if excess(bottom) <= 0:
        log_volume = bottom
    elif excess(top) >= 0:
        log_volume = top
    else:
        log_volume = brentq(excess, bottom, top, xtol=1e-14, rtol=1e-15)
    return np.clip(log_alpha(log_volume)[:, None] + log_c, low, high)
