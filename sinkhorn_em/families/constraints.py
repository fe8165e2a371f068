"""What is known about the parameters: priors and frozen values, in the coordinates of a fit and per unit of row mass.

All of them act in the M-step of a location-scale family: the locations first, with the old scale matrices, then the scale
matrices about the new locations (a conditional maximisation each: the objective never falls).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._typing import Booleans, Floats
from .covariances import Covariances


class MeanPrior(NamedTuple):
    """m_k ~ N(means_k, precision_k^-1), its own for every component, whatever the scale matrix."""

    means: Floats  # (K, d)
    precisions: Floats  # (K, d, d), divided by the total frequency of the rows


class ScaledMeanPrior(NamedTuple):
    """m_k ~ N(mean, S_k / shrinkage): the conjugate one."""

    mean: Floats  # (d,)
    shrinkage: float  # divided by the total frequency


class CovariancePrior(NamedTuple):
    """log p(S_k) = -(mass log|S_k| + tr(scatter S_k^-1))/2: an inverse Wishart; counted once if S is shared."""

    mass: float
    scatter: Floats  # (d, d)


class Constraints(NamedTuple):
    """Priors on the parameters, and which of them are not to move."""

    mean_prior: MeanPrior | ScaledMeanPrior | None = None
    covariance_prior: CovariancePrior | None = None
    frozen_means: Booleans | None = None  # (K,)
    frozen_covariances: Booleans | None = None  # (K,)
    rows: float = 1.0  # total frequency: one row has the mass 1 / rows
    log_det: float = 0.0  # log |det A| of the coordinates: scale matrices have another density in the units of the data
    #: one scale matrix for all components in the end: its prior is counted once, in the burn-in too
    shared: bool = False


FREE = Constraints()


def locate(constraints: Constraints, target: Floats, weight: Floats, factors: Floats) -> tuple[Floats, Floats]:
    """The locations that are best under prior and smooth part, and the curvature along the way there.

    ``target`` (K, d) is the weighted mean of the rows, ``weight`` (K, 1) or (K, d) its precision in units of S_k^-1, both about
    the old locations, as is the result; the curvature is (y - t)' H (y - t) per component (K, 1), or per coordinate (K, d).
    """
    prior = constraints.mean_prior
    if isinstance(prior, MeanPrior):
        return _under_own_prior(prior, target, weight, factors)
    if isinstance(prior, ScaledMeanPrior):
        total = weight + prior.shrinkage
        target, weight = (weight * target + prior.shrinkage * prior.mean) / total, total
    return target, weight * lengths(factors, target, weight) ** 2


def _under_own_prior(prior: MeanPrior, target: Floats, weight: Floats, factors: Floats) -> tuple[Floats, Floats]:
    """`locate` for a prior that has covariances of its own (diagonal ones, in the product form)."""
    dense = factors if factors.ndim == 3 else factors[:, :, None] * np.eye(factors.shape[1])
    data = weight[:, :, None] * (np.swapaxes(dense, 1, 2) @ dense)  # of the product form: both factors are diagonal
    H = data + prior.precisions
    pull = np.einsum("kij,kj->ki", data, target) + np.einsum("kij,kj->ki", prior.precisions, prior.means)
    best = np.linalg.solve(H, pull[:, :, None])[:, :, 0]
    if weight.shape[1] > 1:
        return best, np.einsum("kii->ki", H) * best**2
    return best, np.einsum("ki,kij,kj->k", best, H, best)[:, None]


def lengths(factors: Floats, shift: Floats, weight: Floats) -> Floats:
    """|F_k shift_k|, (K, 1), or coordinate by coordinate (K, d): as ``weight`` has it."""
    if factors.ndim == 3:
        return np.linalg.norm(np.einsum("kij,kj->ki", factors, shift), axis=1)[:, None]
    z = factors * shift
    return np.abs(z) if weight.shape[1] > 1 else np.linalg.norm(z, axis=1)[:, None]


def shifted(constraints: Constraints, means: Floats) -> Constraints:
    """The same priors, told about ``means`` (K, d) instead of the origin."""
    prior = constraints.mean_prior
    if isinstance(prior, MeanPrior):
        return constraints._replace(mean_prior=prior._replace(means=prior.means - means))
    if isinstance(prior, ScaledMeanPrior):
        return constraints._replace(mean_prior=prior._replace(mean=prior.mean - means))
    return constraints


def add_prior_scatter(constraints: Constraints, mass: Floats, scatter: Floats, shift: Floats) -> tuple[Floats, Floats]:
    """Masses and scatters with what the priors add; ``shift`` is where the new locations lie, as seen from the priors' origin."""
    mean_prior, prior = constraints.mean_prior, constraints.covariance_prior
    if isinstance(mean_prior, ScaledMeanPrior):
        delta = shift - mean_prior.mean
        square = delta[:, :, None] * delta[:, None, :] if scatter.ndim == 3 else delta**2
        mass, scatter = mass + 1 / constraints.rows, scatter + mean_prior.shrinkage * square
    if prior is not None:
        share = 1 / len(mass) if constraints.shared else 1.0
        added = prior.scatter if scatter.ndim == 3 else np.diagonal(prior.scatter)
        mass, scatter = mass + share * prior.mass, scatter + share * added
    return mass, scatter


def freeze_covariances(constraints: Constraints, new: Covariances, old: Covariances) -> Covariances:
    """The new covariances with the frozen ones put back (some of them only where each is estimated on its own)."""
    frozen = constraints.frozen_covariances
    if frozen is None or not frozen.any():
        return new
    if frozen.all():
        return old
    values, factors = new.values.copy(), new.factors.copy()
    values[frozen], factors[frozen] = old.values[frozen], old.factors[frozen]
    log_det, held = np.where(frozen, old.log_det, new.log_det), np.where(frozen, old.held, new.held)
    return Covariances(values, factors, log_det, held)


def log_prior(constraints: Constraints, means: Floats, covariances: Covariances) -> float:
    """Log-density of the parameters in the units of the data, without its constants, nats per unit of row mass."""
    mean_prior, prior, F = constraints.mean_prior, constraints.covariance_prior, covariances.factors
    total = 0.0
    if isinstance(mean_prior, MeanPrior):
        delta = means - mean_prior.means
        total -= 0.5 * float(np.einsum("ki,kij,kj->", delta, mean_prior.precisions, delta))
    if isinstance(mean_prior, ScaledMeanPrior):
        radii = lengths(F, means - mean_prior.mean, np.ones((len(means), 1)))
        log_det = covariances.log_det.sum() + len(means) * constraints.log_det
        total += float(log_det) / constraints.rows - 0.5 * mean_prior.shrinkage * float((radii**2).sum())
    if prior is not None:
        share = 1 / len(means) if constraints.shared else 1.0
        trace = np.einsum("kij,jl,kil->k", F, prior.scatter, F) if F.ndim == 3 else F**2 @ np.diagonal(prior.scatter)
        total += share * float((prior.mass * (covariances.log_det + constraints.log_det) - 0.5 * trace).sum())
    return total
