"""A user's own family, in plain NumPy."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sinkhorn_em.families.base import Family


class UnitMoments(NamedTuple):
    mass: np.ndarray
    first: np.ndarray


@dataclass(frozen=True)
class UnitGaussian(Family):
    """Unit variance, one feature, only the means (K, 1) move."""

    def start(self, n_components, n_features):
        return np.zeros((n_components, n_features))

    def log_density(self, X, params, out=None):
        return -0.5 * (X - params.T) ** 2 - 0.5 * np.log(2 * np.pi)

    def statistics(self, X, plan, params):
        P = plan.matrix
        return UnitMoments(P.sum(axis=0), P.T @ X)

    def maximise(self, statistics, params):
        return statistics.first / statistics.mass[:, None]

    def sample(self, params, labels, rng):
        return params[labels] + rng.standard_normal((len(labels), 1))

    def n_parameters(self, params):
        return params.size
