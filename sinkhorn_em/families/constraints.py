"""What is known about the parameters: priors and frozen values, in the coordinates of a fit and per unit of row mass.

All of them act in the M-step of a location-scale family: the locations first, with the old scale matrices, then the scale
matrices about the new locations (a conditional maximisation each: the objective never falls).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import numpy as np

from .._typing import Booleans, Floats
from .covariances import Covariances


class LocationPrior(ABC):
    """What is known about the locations.

    ``weight`` (K, 1), or (K, d) in the product form, is the precision of the rows, in units of S^-1.
    """

    #: a component without rows still has a location
    proper: bool = True

    @abstractmethod
    def about(self, means: Floats) -> LocationPrior:
        """The same prior, told about ``means`` (K, d) instead of the origin."""

    @abstractmethod
    def locate(self, target: Floats, weight: Floats, factors: Floats) -> tuple[Floats, Floats]:
        """The best locations (K, d) under the prior and the rows, whose weighted means are ``target``, and the curvature there.

        Both are about the old locations; the curvature is y' H y along the way y to them, (K, 1) or (K, d) as ``weight`` is.
        """

    def add(self, mass: Floats, scatter: Floats, shift: Floats) -> tuple[Floats, Floats]:
        """Masses and scatters with what the prior adds, the new locations being at ``shift``."""
        return mass, scatter

    @abstractmethod
    def log_density(self, means: Floats, covariances: Covariances) -> float:
        """Of the locations, in the units of the data, without constants, nats per unit of row mass."""


@dataclass(frozen=True)
class AnyLocation(LocationPrior):
    """Nothing is known."""

    proper = False

    def about(self, means: Floats) -> LocationPrior:
        return self

    def locate(self, target: Floats, weight: Floats, factors: Floats) -> tuple[Floats, Floats]:
        return target, weight * lengths(factors, target, weight) ** 2

    def log_density(self, means: Floats, covariances: Covariances) -> float:
        return 0.0


@dataclass(frozen=True)
class OwnLocation(LocationPrior):
    """m_k ~ N(means_k, precision_k^-1), its own for every component, whatever the scale matrix."""

    means: Floats  # (K, d)
    precisions: Floats  # (K, d, d), divided by the total frequency of the rows; diagonal in the product form

    def about(self, means: Floats) -> LocationPrior:
        return replace(self, means=self.means - means)

    def locate(self, target: Floats, weight: Floats, factors: Floats) -> tuple[Floats, Floats]:
        dense = factors if factors.ndim == 3 else factors[:, :, None] * np.eye(factors.shape[1])
        rows = weight[:, :, None] * (np.swapaxes(dense, 1, 2) @ dense)
        H = rows + self.precisions
        pull = np.einsum("kij,kj->ki", rows, target) + np.einsum("kij,kj->ki", self.precisions, self.means)
        best = np.linalg.solve(H, pull[:, :, None])[:, :, 0]
        if weight.shape[1] > 1:
            return best, np.einsum("kii->ki", H) * best**2
        return best, np.einsum("ki,kij,kj->k", best, H, best)[:, None]

    def log_density(self, means: Floats, covariances: Covariances) -> float:
        delta = means - self.means
        return -0.5 * float(np.einsum("ki,kij,kj->", delta, self.precisions, delta))


@dataclass(frozen=True)
class ScaledLocation(LocationPrior):
    """m_k ~ N(mean, S_k / shrinkage): the conjugate prior."""

    mean: Floats  # (d,), or (K, d) about other origins
    shrinkage: float  # divided by the total frequency
    rows: float  # the total frequency: one row has the mass 1 / rows
    log_det: float  # log |det A| of the coordinates: scale matrices have another density in the units of the data

    def about(self, means: Floats) -> LocationPrior:
        return replace(self, mean=self.mean - means)

    def locate(self, target: Floats, weight: Floats, factors: Floats) -> tuple[Floats, Floats]:
        total = weight + self.shrinkage
        best = (weight * target + self.shrinkage * self.mean) / total
        return best, total * lengths(factors, best, total) ** 2

    def add(self, mass: Floats, scatter: Floats, shift: Floats) -> tuple[Floats, Floats]:
        delta = shift - self.mean
        square = delta[:, :, None] * delta[:, None, :] if scatter.ndim == 3 else delta**2
        return mass + 1 / self.rows, scatter + self.shrinkage * square

    def log_density(self, means: Floats, covariances: Covariances) -> float:
        radii = lengths(covariances.factors, means - self.mean, np.ones((len(means), 1)))
        log_det = float((covariances.log_det + self.log_det).sum())
        return log_det / self.rows - 0.5 * self.shrinkage * float((radii**2).sum())


@dataclass(frozen=True)
class CovariancePrior:
    """log p(S_k) = -(mass log|S_k| + tr(scatter S_k^-1))/2, an inverse Wishart, ``share`` of it on every component's matrix."""

    mass: float
    scatter: Floats  # (d, d)
    share: float  # 1, or 1/K where all share one matrix in the end (in the burn-in too, whose matrix is always shared)
    log_det: float  # log |det A| of the coordinates

    def add(self, mass: Floats, scatter: Floats) -> tuple[Floats, Floats]:
        """Masses and scatters with what the prior adds."""
        added = self.scatter if scatter.ndim == 3 else np.diagonal(self.scatter)
        return mass + self.share * self.mass, scatter + self.share * added

    def log_density(self, covariances: Covariances) -> float:
        """In the units of the data, without constants, nats per unit of row mass."""
        F = covariances.factors
        trace = np.einsum("kij,jl,kil->k", F, self.scatter, F) if F.ndim == 3 else F**2 @ np.diagonal(self.scatter)
        return self.share * float((self.mass * (covariances.log_det + self.log_det) - 0.5 * trace).sum())


@dataclass(frozen=True)
class Constraints:
    """Priors on the parameters, and which of them are not to move."""

    location_prior: LocationPrior = AnyLocation()
    covariance_prior: CovariancePrior | None = None
    frozen_means: Booleans | None = None  # (K,)
    frozen_covariances: Booleans | None = None  # (K,)

    def log_prior(self, means: Floats, covariances: Covariances) -> float:
        """Log-density of the parameters, nats per unit of row mass."""
        total = self.location_prior.log_density(means, covariances)
        return total if self.covariance_prior is None else total + self.covariance_prior.log_density(covariances)

    def freeze(self, new: Covariances, old: Covariances) -> Covariances:
        """The new covariances with the frozen ones put back (some of them only where each is estimated on its own)."""
        frozen = self.frozen_covariances
        if frozen is None or not frozen.any():
            return new
        if frozen.all():
            return old
        values, factors = new.values.copy(), new.factors.copy()
        values[frozen], factors[frozen] = old.values[frozen], old.factors[frozen]
        log_det, held = np.where(frozen, old.log_det, new.log_det), np.where(frozen, old.held, new.held)
        return Covariances(values, factors, log_det, held)


def lengths(factors: Floats, shift: Floats, weight: Floats) -> Floats:
    """|F_k shift_k|, (K, 1), or coordinate by coordinate (K, d): as ``weight`` has it."""
    if factors.ndim == 3:
        return np.linalg.norm(np.einsum("kij,kj->ki", factors, shift), axis=1)[:, None]
    z = factors * shift
    return np.abs(z) if weight.shape[1] > 1 else np.linalg.norm(z, axis=1)[:, None]
