"""The turn of the shape parameters: degrees of freedom, powers, shares of bad rows, with locations and scales held."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from .._kinds import joined
from .._typing import Floats, RowPlan
from .base import Turn
from .generators.base import Generator
from .kernels import plan_chunks


class Radial(Protocol):
    """What the turn needs of a family: its generator, and how it takes the radius."""

    @property
    def generator(self) -> Generator:
        """The function of the radius."""
        ...

    def squares(self, X: Floats, params: Any, start: int, stop: int, q: Floats) -> Floats:
        """Squared radii of rows start .. stop, (K, m) or (K, d, m)."""
        ...

    def dimension(self, d: int) -> int:
        """Of the generator's argument."""
        ...

    def width(self, params: Any) -> int:
        """Numbers a row to allow for in the size of a piece."""
        ...

    def columns(self, params: Any) -> list[Floats]:
        """Shape parameters, so that they broadcast against squared radii."""
        ...


class ShapeStatistics(NamedTuple):
    """Sums under the plan of the functions of the radius that the generator asks for."""

    mass: Floats  # (K,)
    sums: Floats  # (J, K)


@dataclass(frozen=True)
class ShapeTurn(Turn):
    """A conditional M-step of ``family``: its generator's shape parameters."""

    family: Radial

    def statistics(self, X: Floats, plan: RowPlan, params: Any) -> ShapeStatistics:
        family, generator = self.family, self.family.generator
        K, d = params.means.shape
        shape = family.columns(params)

        def term(start: int, stop: int, P: Floats, q: Floats) -> tuple[Any, ...]:
            squares = family.squares(X, params, start, stop, q)  # (K, m) or (K, d, m)
            weights = P if squares.ndim == 2 else P[:, None, :]
            sums = joined([s[None] for s in generator.shape_sums(weights, squares, family.dimension(d), *shape)])
            return P.sum(axis=1), sums if sums.ndim == 2 else sums.sum(axis=2)

        return ShapeStatistics(
            *plan_chunks(X, plan, params.means, params.covariances.factors, term, 8 * K, family.width(params))
        )

    def maximise(self, statistics: ShapeStatistics, params: Any) -> Any:
        d = params.means.shape[1]
        width = self.family.dimension(d)
        mass = statistics.mass * (d // width)  # the product form has d members a row
        shape = self.family.generator.maximise_shape(mass, list(statistics.sums), width, *params.shape)
        return params._replace(shape=shape)
