"""What a figure shows of the components: their matrices, ellipses and marginal densities. Nothing is drawn here."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.integrate import cumulative_trapezoid

from .._typing import Floats, Integers
from ..families import Bernoulli, Gumbel, Multinomial, Poisson, SkewNormal
from ..families.covariances import structure_named
from ..families.covariances.blocks import dense_values
from ..families.generators.base import Generator, log_sphere
from ..mixture.model import build_structure, member

RADII = (1.0, 2.0)  # of the ellipses of a Gaussian, in standard deviations
SHARES = (1 - np.exp(-0.5), 1 - np.exp(-2.0))  # that they hold in the plane, and those of other families too
LOG_RADIUS = np.linspace(-10, 25, 701)  # where densities are integrated: heavy tails in many dimensions reach far
#: attributes by which the components of one feature are told, where coordinates are independent
INDEPENDENT: dict[type, tuple[str, ...]] = {
    Gumbel: ("scales",),
    SkewNormal: ("scales", "slants"),
    Poisson: (),
    Bernoulli: (),
}
COUNTS = (Poisson, Bernoulli, Multinomial)


class Ellipse(NamedTuple):
    """An ellipse in the plane."""

    centre: Floats  # (2,)
    half_axes: Floats  # (2,) the longer one first
    angle: float  # of the longer one to the first coordinate, degrees in [0, 180)


def component_covariances(model: Any) -> Floats | None:
    """Covariances (scale matrices) of all components as matrices, (K, d, d); None: the family has none."""
    if not hasattr(model, "covariances_"):
        return None
    K, d = np.shape(model.means_)
    structure = build_structure(model, d) if hasattr(model, "blocks") else structure_named(model.covariance_type)
    return dense_values(structure, np.asarray(model.covariances_, float), K, d)


def component_densities(model: Any, j: int, t: Floats) -> Floats | None:
    """w_k f_k of feature j at t (m,), (m, K); None: not known for the family."""
    family, d = _family(model), np.shape(model.means_)[1]
    weights, means = np.asarray(model.weights_, float), np.asarray(model.means_, float)
    if isinstance(family, Generator):
        covariances = component_covariances(model)
        assert covariances is not None
        scales = np.sqrt(covariances[:, j, j])[:, None]
        q = ((t - means[:, j, None]) / scales) ** 2  # (K, m)
        density = marginal_density(family, q, 1 if _is_product(model) else d, 1, *_shape(model, family))
        return (weights[:, None] * density / scales).T
    if type(family) not in INDEPENDENT:
        return None
    own = {name: np.asarray(getattr(model, f"{name}_")) for name in INDEPENDENT[type(family)]}
    own = {name: value[:, [j]] if value.ndim == 2 else value for name, value in own.items()}
    total = weights.sum()
    one = type(model).from_parameters(weights / total, means[:, [j]], family=family, **own)
    return total * one.predict_proba(t[:, None]) * one.pdf(t[:, None])[:, None]


def marginal_density(generator: Generator, q: Floats, d: int, kept: int, *shape: Floats) -> Floats:
    """Density of ``kept`` of the d coordinates of a standard member, at their squared radii q (K, m).

    exp h(q + r^2) integrated over the other coordinates, of radius r, unless the family says what that is.
    """
    if kept == d or generator.marginal(d):
        log_density = q.copy()
        generator.log_density(log_density, kept, *shape)
        return np.exp(log_density)
    rest = d - kept
    log_density = q[:, :, None] + np.exp(2 * LOG_RADIUS)  # (K, m, radii)
    generator.log_density(log_density, d, *(s[:, :, None] for s in shape))
    log_density += log_sphere(rest) + rest * LOG_RADIUS
    return np.trapezoid(np.exp(log_density), LOG_RADIUS)


def plane_radii(generator: Generator, d: int, *shape: Floats) -> Floats:
    """Radii (K, 2) within which two of the d coordinates of a standard member lie with the probabilities SHARES."""
    q = np.repeat(np.exp(2 * LOG_RADIUS)[None], len(shape[0]) if shape else 1, axis=0)
    density = 2 * np.pi * q * marginal_density(generator, q, d, 2, *shape)
    probability = cumulative_trapezoid(density, LOG_RADIUS, initial=0)
    return np.exp([np.interp(SHARES, p, LOG_RADIUS) for p in probability])


def ellipse(mean: Floats, covariance: Floats, radius: float = 1.0) -> Ellipse:
    """The points at Mahalanobis distance ``radius`` from the mean: half axes radius * sqrt(eigenvalues)."""
    eigenvalues, U = np.linalg.eigh(np.asarray(covariance, float))
    half_axes = radius * np.sqrt(np.maximum(eigenvalues[::-1], 0.0))
    angle = float(np.degrees(np.arctan2(U[1, 1], U[0, 1])) % 180.0)
    return Ellipse(np.asarray(mean, float), half_axes, angle)


def informative_features(weights: Floats, means: Floats, covariances: Floats, size: int) -> Integers:
    """The ``size`` features whose variance lies between components by the largest share, most first."""
    between = weights @ (means - weights @ means) ** 2
    within = weights @ np.einsum("kjj->kj", covariances)
    total = between + within
    share = np.where(total > 0, between / np.where(total > 0, total, 1.0), 0.0)
    return np.argsort(-share, kind="stable")[:size]


def _family(model: Any) -> Any:
    return member(getattr(model, "family", "gaussian"))


def has_counts(model: Any) -> bool:
    """Whether its rows are whole numbers."""
    return isinstance(_family(model), COUNTS)


def _is_product(model: Any) -> bool:
    return getattr(model, "form", "elliptical") == "product"


def _shape(model: Any, generator: Generator) -> list[Floats]:
    """Shape parameters of the components, (K, 1) each."""
    return [np.asarray(getattr(model, f"{name}_"), float)[:, None] for name in generator.shape_names]


def ellipse_radii(model: Any) -> Floats:
    """Of the two ellipses of every component, (K, 2)."""
    family, (K, d) = _family(model), np.shape(model.means_)
    if d == 1 or _is_product(model) or not isinstance(family, Generator) or not family.weighted:
        return np.broadcast_to(RADII, (K, 2))
    return np.broadcast_to(plane_radii(family, d, *_shape(model, family)), (K, 2))


def centres(model: Any, X: Any) -> Floats:
    """Where components are numbered: their means_; of a multinomial, those of a row of average total."""
    means = np.asarray(model.means_, float)
    return means * np.asarray(X, float).sum(axis=1).mean() if isinstance(_family(model), Multinomial) else means
