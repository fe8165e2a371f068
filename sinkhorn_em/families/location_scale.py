"""Location-scale components: a generator of the radius times a covariance structure.

log f_k(x) = log|F_k| + h(q),  q = |F_k (x - m_k)|^2,  S_k^-1 = F_k' F_k.  The M-step has the rows' weights w(q) = -2 h'(q):

    m_k = sum_i P_ik w_ik x_i / sum_i P_ik w_ik        S_k from sum_i P_ik w_ik (x_i - m_k)(x_i - m_k)' and masses sum_i P_ik

(Lange, Little & Taylor 1989). For the Gaussian w = 1. Shape parameters have a turn of their own, in `shape`.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np

from .._kinds import like
from .._typing import Booleans, Floats, Integers, LinearMap, RowPlan
from .base import Family, Turn, empty_components
from .constraints import Constraints, LocationPrior, lengths
from .covariances import Covariances, Regularisation, Structure
from .generators.base import Generator
from .generators.gaussian import Gaussian
from .kernels import empty_scores, moments, plan_chunks, squared_radii, weighted_moments
from .shape import ShapeTurn

COINCIDENT = 1e-24  # squared radius below which a row lies at the location: nothing but rounding keeps them apart
BISECTIONS = 60


class LocationScaleParameters(NamedTuple):
    """Locations (K, d), scale matrices, components that lost all their mass, and shape parameters (K,) each."""

    means: Floats
    covariances: Covariances
    retired: Booleans  # (K,)
    shape: tuple[Floats, ...] = ()


class LocationScaleStatistics(NamedTuple):
    """Weighted moments of the plan about the locations that the parameters had. Product form: (K, d) where (K, 1) is said."""

    mass: Floats  # (K,) sum P_ik
    weight: Floats  # (K, 1) sum P_ik w_ik, rows at the location left out
    coincident: Floats  # (K, 1) sum P_ik of the rows at the location, where the weight is unbounded
    first: Floats  # (K, d) sum P_ik w_ik (x_i - m_k)
    second: Floats  # (K, d, d) sum P_ik w_ik (x_i - m_k)(x_i - m_k)'; or (K, d, 1) its diagonal


@dataclass(frozen=True)
class LocationScale(Family):
    """What the elliptical and the product form share: everything but how the radius is taken."""

    generator: Generator
    structure: Structure
    regularisation: Regularisation
    constraints: Constraints = field(default_factory=Constraints)

    @property
    def coordinates(self) -> str:  # type: ignore[override]
        return self.structure.coordinates

    @property
    def turns(self) -> tuple[Turn, ...]:
        return (self, ShapeTurn(self)) if self.generator.estimates_shape else (self,)

    @property
    def pooled(self) -> Self:
        return replace(self, structure=self.structure.pooled)

    @property
    def rough(self) -> Family:
        return replace(self, generator=Gaussian())

    @abstractmethod
    def squares(self, X: Floats, params: LocationScaleParameters, start: int, stop: int, q: Floats) -> Floats:
        """Squared radii of rows start .. stop as the generator wants them, from squared Mahalanobis distances q (K, m)."""

    @abstractmethod
    def dimension(self, d: int) -> int:
        """Of the generator's argument."""

    @property
    def given_shapes(self) -> frozenset[str]:
        names = self.generator.shape_names
        return frozenset(name for name in names if not isinstance(getattr(self.generator, name), str))

    def width(self, params: LocationScaleParameters) -> int:
        """Numbers a row to allow for in the size of a piece of rows."""
        return len(params.means)

    def columns(self, params: LocationScaleParameters) -> list[Floats]:
        """Shape parameters, so that they broadcast against squared radii."""
        return [s[:, None] for s in params.shape]

    def start(self, n_components: int, n_features: int) -> LocationScaleParameters:
        K, d = n_components, n_features
        scatter = np.repeat(np.eye(d)[None], K, axis=0) if self.structure.full else np.ones((K, d))
        unit = self.structure.maximise(np.ones(K), scatter, Regularisation(0.0))
        return LocationScaleParameters(np.zeros((K, d)), unit, np.zeros(K, bool), self.generator.start_shape(K))

    def maximise(self, statistics: LocationScaleStatistics, params: LocationScaleParameters) -> LocationScaleParameters:
        prior = self.constraints.location_prior.about(params.means)
        mass, weight, coincident, first, second = statistics
        empty = empty_components(mass)
        if empty.any():
            mass, weight, coincident, first, second = (
                np.where(empty.reshape(-1, *[1] * (a.ndim - 1)), 0.0, a) for a in statistics
            )
        target = first / np.where(weight > 0, weight, 1.0)
        shift = self._locations(prior, target, weight, coincident, params)
        scatter = second if self.structure.full else second[:, :, 0]
        scatter = self._about(scatter, target, shift, weight)
        if coincident.any():
            scatter = scatter + self._coincident_scatter(coincident, shift, params)
        mass, scatter = prior.add(mass, scatter, shift)
        if self.constraints.covariance_prior is not None:
            mass, scatter = self.constraints.covariance_prior.add(mass, scatter)
        new = self.structure.maximise(mass, scatter, self.regularisation, params.covariances)
        new = self.constraints.freeze(new, params.covariances)
        retired = empty & (not prior.proper)
        return params._replace(means=params.means + shift, covariances=new, retired=retired)

    def _locations(
        self,
        prior: LocationPrior,
        target: Floats,
        weight: Floats,
        coincident: Floats,
        params: LocationScaleParameters,
    ) -> Floats:
        """Where the locations go, relative to where they were."""
        F = params.covariances.factors
        shift, curvature = prior.locate(target, weight, F)
        cusp = self.generator.cusp(*(s[:, None] for s in params.shape))
        if cusp is not None and coincident.any():
            shift = shift * _fraction(curvature, cusp.c * coincident, lengths(F, shift, weight), cusp.power)
        frozen = self.constraints.frozen_means
        if frozen is not None:
            shift = np.where(frozen[:, None], 0.0, shift)
        return shift

    def _about(self, scatter: Floats, target: Floats, shift: Floats, weight: Floats) -> Floats:
        """Scatters about the new locations, from those about the old ones: two squares, nothing that cancels twice."""
        rest = target - shift
        if self.structure.full:
            w = weight[:, :, None]
            return scatter - w * target[:, :, None] * target[:, None, :] + w * rest[:, :, None] * rest[:, None, :]
        return np.maximum(scatter - weight * target**2, 0.0) + weight * rest**2

    def _coincident_scatter(self, coincident: Floats, shift: Floats, params: LocationScaleParameters) -> Floats:
        """What the rows at the old location add, weighted by their new distance from it."""
        q = lengths(params.covariances.factors, shift, coincident) ** 2
        shape = [s[:, None] for s in params.shape]
        w = self.generator.weight(np.maximum(q, COINCIDENT), self.dimension(shift.shape[1]), *shape)
        w = np.where(q > COINCIDENT, coincident * w, 0.0)
        return w[:, :, None] * shift[:, :, None] * shift[:, None, :] if self.structure.full else w * shift**2

    def cdf(self, x: Floats, params: LocationScaleParameters) -> Floats:
        scale = params.covariances.factors.reshape(-1)  # of one feature
        return self.generator.cdf((x[:, None] - params.means[:, 0]) * scale, *params.shape)

    def sample(self, params: LocationScaleParameters, labels: Integers, rng: np.random.Generator) -> Floats:
        K, d = params.means.shape
        noise, factors = np.empty((len(labels), d)), params.covariances.factors
        for k in range(K):
            rows = labels == k
            z = self._draw(int(rows.sum()), d, rng, [float(s[k]) for s in params.shape])
            F = factors[k]
            noise[rows] = np.linalg.solve(F, z.T).T if F.ndim == 2 else z / F
        return params.means[labels] + noise

    @abstractmethod
    def _draw(self, n: int, d: int, rng: np.random.Generator, shape: list[float]) -> Floats:
        """Standard draws (n, d)."""

    def n_parameters(self, params: LocationScaleParameters) -> int:
        K, d = params.means.shape
        frozen_means, frozen = self.constraints.frozen_means, self.constraints.frozen_covariances
        n_means = K if frozen_means is None else int((~frozen_means).sum())
        n_moving = K if frozen is None else int((~frozen).sum())
        n_scales = self.structure.n_parameters(n_moving, d) if n_moving else 0
        return n_means * d + n_scales + self.generator.n_shape_parameters(K)

    def log_prior(self, params: LocationScaleParameters) -> float:
        return self.constraints.log_prior(params.means, params.covariances)

    def collapsed(self, params: LocationScaleParameters) -> Booleans:
        return params.covariances.held

    def describe(self, params: LocationScaleParameters, coordinates: LinearMap) -> dict[str, Any]:
        A, factors = coordinates.A, params.covariances.factors
        values = coordinates.covariances_backward(
            params.covariances.values, self.structure.full, self.structure.spherical
        )
        shape = dict(zip(self.generator.shape_names, params.shape, strict=True))
        precisions = _precisions(self.structure, factors, A, values)
        return {"means": coordinates.backward(params.means), "covariances": values, **precisions, **shape}

    def prescribe(
        self, params: LocationScaleParameters, values: dict[str, Any], coordinates: LinearMap
    ) -> LocationScaleParameters:
        K, d = params.means.shape
        given = dict(values)
        if "means" in given:
            params = params._replace(means=coordinates.forward(np.asarray(given.pop("means"))))
        if "covariances" in given:
            scaled = coordinates.covariances_forward(
                np.asarray(given.pop("covariances")), self.structure.full, self.structure.spherical
            )
            params = params._replace(covariances=self.structure.from_values(scaled, K, d))
        shape = [
            np.broadcast_to(given.pop(name, old), (K,)).astype(float)
            for name, old in zip(self.generator.shape_names, params.shape, strict=True)
        ]
        return super().prescribe(params._replace(shape=tuple(shape)), given, coordinates)


@dataclass(frozen=True)
class Elliptical(LocationScale):
    """The generator acts on the Mahalanobis radius: contours are ellipsoids."""

    @property
    def takes_tensors(self) -> bool:  # type: ignore[override]
        return self.generator.takes_tensors

    def squares(self, X: Floats, params: LocationScaleParameters, start: int, stop: int, q: Floats) -> Floats:
        return q

    def dimension(self, d: int) -> int:
        return d

    def log_density(self, X: Floats, params: LocationScaleParameters, out: Floats | None = None) -> Floats:
        means, covariances = params.means, params.covariances
        K, d = means.shape
        if out is None:
            out = empty_scores(X, K)
        shape, log_det = self.columns(params), like(X, covariances.log_det[:, None])

        def density(start: int, stop: int, q: Floats) -> None:
            self.generator.log_density(q, d, *shape)
            q += log_det

        squared_radii(X, means, covariances.factors, out, density)
        return out

    def statistics(self, X: Floats, plan: RowPlan, params: LocationScaleParameters) -> LocationScaleStatistics:
        means, full, generator = params.means, self.structure.full, self.generator
        K, d = means.shape
        shape = self.columns(params)
        if not generator.weighted:
            mass, first, second = moments(X, plan.scores, plan.row_mass, plan.offset, means, full)
            return LocationScaleStatistics(mass, mass[:, None], np.zeros((K, 1)), first, second)
        cusp = generator.cusp(*shape) is not None

        def term(start: int, stop: int, P: Floats, q: Floats) -> tuple[Any, ...]:
            mass = P.sum(axis=1)
            U = generator.weight(q, d, *shape)
            at = np.zeros((K, 1))
            if cusp:
                near = q <= COINCIDENT
                if near.any():
                    at = (P * near).sum(axis=1, keepdims=True)
                    U = np.where(near, 0.0, U)
            U = U * P
            return (mass, U.sum(axis=1, keepdims=True), at, *weighted_moments(X, start, stop, U, means, full))

        width = d if full else 1
        return LocationScaleStatistics(
            *plan_chunks(X, plan, means, params.covariances.factors, term, K * d * (width + 1))
        )

    def _draw(self, n: int, d: int, rng: np.random.Generator, shape: list[float]) -> Floats:
        return self.generator.draw(n, d, rng, *shape)


def _fraction(curvature: Floats, cusp: Floats, length: Floats, power: Floats) -> Floats:
    """How much of the way t in [0, 1] to go: the largest of -(1-t)^2 curvature/2 - cusp (t length)^power.

    Power 1 is the step of Vardi & Zhang (2000); below 1 a row at the location keeps it there.
    """
    pull = cusp * power * length**power
    low, high = np.zeros_like(curvature), np.ones_like(curvature)
    for _ in range(BISECTIONS):
        t = (low + high) / 2
        rising = curvature * (1 - t) > pull * t ** (power - 1)
        low, high = np.where(rising, t, low), np.where(rising, high, t)
    t = np.where(power == 1, np.maximum(1 - pull / np.where(curvature > 0, curvature, 1.0), 0.0), low)
    return np.where(pull > 0, np.where(power < 1, 0.0, t), 1.0)


def _precisions(structure: Structure, factors: Floats, A: Floats, values: Floats) -> dict[str, Floats]:
    """Precision matrices, and their Cholesky factors as scikit-learn has them: upper triangular U with S^-1 = U U'."""
    if not structure.full:
        return {"precisions": 1 / values, "precisions_cholesky": np.sqrt(1 / values)}
    U = np.swapaxes(factors @ A if A.ndim == 2 else factors * A, -1, -2)  # (K, d, d)
    if structure.shared:
        U = U[0]
    Q = np.linalg.qr(np.swapaxes(U, -1, -2)[..., ::-1])[1]
    upper = np.swapaxes(Q, -1, -2)[..., ::-1, ::-1]
    sign = np.sign(np.diagonal(upper, axis1=-2, axis2=-1))
    return {"precisions": U @ np.swapaxes(U, -1, -2), "precisions_cholesky": upper * sign[..., None, :]}
