"""The turn of the shape parameters: degrees of freedom, powers, shares of bad rows, with locations and scales held."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._typing import Floats, Integers, RowPlan
from .base import Family
from .kernels import plan_chunks

if TYPE_CHECKING:
    from .location_scale import LocationScale, LocationScaleParameters


class ShapeStatistics(NamedTuple):
    """Sums under the plan of the functions of the radius that the generator asks for."""

    mass: Floats  # (K,)
    sums: Floats  # (J, K)


@dataclass(frozen=True)
class ShapeTurn(Family):
    """A conditional M-step of ``family``: its generator's shape parameters."""

    family: LocationScale

    def start(self, n_components: int, n_features: int) -> Any:
        return self.family.start(n_components, n_features)

    def log_density(self, X: Floats, params: Any, out: Floats | None = None) -> Floats:
        return self.family.log_density(X, params, out)

    def statistics(self, X: Floats, plan: RowPlan, params: LocationScaleParameters) -> ShapeStatistics:
        family, generator = self.family, self.family.generator
        K, d = params.means.shape
        shape = family.columns(params)

        def term(start: int, stop: int, P: Floats, q: Floats) -> tuple[Any, ...]:
            squares = family.squares(X, params, start, stop, q)  # (K, m) or (K, d, m)
            weights = P if squares.ndim == 2 else P[:, None, :]
            sums = np.array(generator.shape_sums(weights, squares, family.dimension(d), *shape))
            return P.sum(axis=1), sums if sums.ndim == 2 else sums.sum(axis=2)

        return ShapeStatistics(*plan_chunks(X, plan, params.means, params.covariances.factors, term, 8 * K))

    def maximise(self, statistics: ShapeStatistics, params: LocationScaleParameters) -> LocationScaleParameters:
        d = params.means.shape[1]
        width = self.family.dimension(d)
        mass = statistics.mass * (d // width)  # the product form has d members a row
        shape = self.family.generator.maximise_shape(mass, list(statistics.sums), width, *params.shape)
        return params._replace(shape=shape)

    def sample(self, params: Any, labels: Integers, rng: np.random.Generator) -> Floats:
        return self.family.sample(params, labels, rng)

    def n_parameters(self, params: Any) -> int:
        return self.family.n_parameters(params)
