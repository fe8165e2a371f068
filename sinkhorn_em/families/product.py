"""The product form: the generator acts on every standardised coordinate, log f_k(x) = sum_j [log s_kj + h(z_j^2)].

Coordinates are independent within a component, each with its own weights: outliers in one do not cost the row its others. For
the Gaussian this is the elliptical form with a diagonal structure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._typing import Floats, RowPlan
from .kernels import plan_chunks, squared_radii
from .location_scale import COINCIDENT, LocationScale, LocationScaleParameters, LocationScaleStatistics

LARGER = 8  # times the usual piece: a call for each row of it costs as much as a hundred numbers


@dataclass(frozen=True)
class Product(LocationScale):
    """A product of one-dimensional members; the structure is a diagonal one."""

    def columns(self, params: LocationScaleParameters) -> list[Floats]:
        return [s[:, None, None] for s in params.shape]

    def width(self, params: LocationScaleParameters) -> int:
        return max(params.means.size // LARGER, 1)

    def dimension(self, d: int) -> int:
        return 1

    def squares(self, X: Floats, params: LocationScaleParameters, start: int, stop: int, q: Floats) -> Floats:
        z = X.T[None, :, start:stop] - params.means[:, :, None]  # (K, d, m)
        z *= params.covariances.factors[:, :, None]
        return np.square(z, out=z)

    def log_density(self, X: Floats, params: LocationScaleParameters, out: Floats | None = None) -> Floats:
        if out is None:
            out = np.empty((len(params.means), len(X))).T
        shape, log_det = self.columns(params), params.covariances.log_det[:, None]

        def density(start: int, stop: int, piece: Floats) -> None:
            z2 = self.squares(X, params, start, stop, piece)
            self.generator.log_density(z2, 1, *shape)
            z2.sum(axis=1, out=piece)
            piece += log_det

        squared_radii(X, params.means, params.covariances.factors, out, density, self.width(params))
        return out

    def statistics(self, X: Floats, plan: RowPlan, params: LocationScaleParameters) -> LocationScaleStatistics:
        K, d = params.means.shape
        shape = self.columns(params)
        cusp = self.generator.cusp(*shape) is not None

        def term(start: int, stop: int, P: Floats, q: Floats) -> tuple[Any, ...]:
            z2 = self.squares(X, params, start, stop, q)
            U = self.generator.weight(z2, 1, *shape)
            at = np.zeros((K, d))
            if cusp:
                near = z2 <= COINCIDENT
                at = np.einsum("kdm,km->kd", near, P)
                U = np.where(near, 0.0, U)
            U *= P[:, None, :]
            weight = U.sum(axis=2)
            C = X.T[None, :, start:stop] - params.means[:, :, None]
            first = np.einsum("kdm,kdm->kd", U, C)
            U *= C
            return P.sum(axis=1), weight, at, first, np.einsum("kdm,kdm->kd", U, C)[:, :, None]

        return LocationScaleStatistics(
            *plan_chunks(X, plan, params.means, params.covariances.factors, term, 4 * K * d, self.width(params))
        )

    def _draw(self, n: int, d: int, rng: np.random.Generator, shape: list[float]) -> Floats:
        return self.generator.draw(n * d, 1, rng, *shape).reshape(n, d)
