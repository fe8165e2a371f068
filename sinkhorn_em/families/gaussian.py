"""Gaussian components with any covariance structure.

log f_k(x) = -d/2 log(2 pi) + log|F_k| - |F_k (x - m_k)|^2 / 2, with S_k^-1 = F_k' F_k.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .._typing import Booleans, Floats, Integers, RowPlan
from .base import Family
from .covariances import Covariances, Regularisation, Structure
from .kernels import diagonal_log_density, moments, triangular_log_density

SMALLEST_MASS = 1e-14  # of the total: a component with less has no parameters to estimate, and is retired


class GaussianParameters(NamedTuple):
    """Means (K, d), covariances, and components that lost all their mass and keep their last parameters."""

    means: Floats
    covariances: Covariances
    retired: Booleans  # (K,)


class GaussianStatistics(NamedTuple):
    """Moments of the plan about the means that the parameters had."""

    mass: Floats  # (K,)
    first: Floats  # (K, d) sum P_ik (x_i - m_k)
    second: Floats  # (K, d, d) sum P_ik (x_i - m_k)(x_i - m_k)'; or (K, d, 1) its diagonal


@dataclass(frozen=True)
class Gaussian(Family):
    """The Gaussian family of one covariance structure."""

    structure: Structure
    regularisation: Regularisation

    def log_density(self, X: Floats, params: GaussianParameters, out: Floats | None = None) -> Floats:
        means, covariances = params.means, params.covariances
        K, d = means.shape
        if out is None:
            out = np.empty((K, len(X))).T
        constants = covariances.log_det - 0.5 * d * math.log(2 * math.pi)
        density = triangular_log_density if covariances.factors.ndim == 3 else diagonal_log_density
        density(X, means, covariances.factors, constants, out)
        return out

    def statistics(self, X: Floats, plan: RowPlan, params: GaussianParameters) -> GaussianStatistics:
        return GaussianStatistics(
            *moments(X, plan.scores, plan.row_mass, plan.offset, params.means, self.structure.full)
        )

    def maximise(self, statistics: GaussianStatistics, params: GaussianParameters) -> GaussianParameters:
        mass, first, second = statistics
        retired = mass <= SMALLEST_MASS * mass.sum()
        if retired.any():
            mass = np.where(retired, 0.0, mass)
            first = np.where(retired[:, None], 0.0, first)
            second = np.where(retired[:, None, None], 0.0, second)
        shift = first / np.where(retired, 1.0, mass)[:, None]
        if self.structure.full:
            scatter = second - (mass[:, None] * shift)[:, :, None] * shift[:, None, :]
        else:
            scatter = np.maximum(second[:, :, 0] - mass[:, None] * shift**2, 0.0)
        covariances = self.structure.maximise(mass, scatter, self.regularisation)
        return GaussianParameters(params.means + shift, covariances, retired)

    def sample(self, params: GaussianParameters, labels: Integers, rng: np.random.Generator) -> Floats:
        K, d = params.means.shape
        noise, factors = rng.standard_normal((len(labels), d)), params.covariances.factors
        for k in range(K):
            rows = labels == k
            F = factors[k]
            noise[rows] = np.linalg.solve(F, noise[rows].T).T if F.ndim == 2 else noise[rows] / F
        return params.means[labels] + noise

    def n_parameters(self, params: GaussianParameters) -> int:
        K, d = params.means.shape
        return K * d + self.structure.n_parameters(K, d)

    def start(self, n_components: int, n_features: int) -> GaussianParameters:
        K, d = n_components, n_features
        scatter = np.repeat(np.eye(d)[None], K, axis=0) if self.structure.full else np.ones((K, d))
        unit = self.structure.maximise(np.ones(K), scatter, Regularisation(0.0))
        return GaussianParameters(np.zeros((K, d)), unit, np.zeros(K, bool))
