"""One more component of constant density 1/V: the noise of Banfield & Raftery (1993), around any continuous family."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from .._typing import Booleans, Floats, Integers, LinearMap, RowPlan
from .base import Family, Turn
from .kernels import empty_scores

FLAT = 1e-12  # ranges below this share of the largest value have no volume to speak of


class Box(NamedTuple):
    """The parallelepiped origin + u edges, u in the unit cube: where noise comes from."""

    origin: Floats  # (d,)
    edges: Floats  # (d, d) one edge a row

    @property
    def log_volume(self) -> float:
        """log V."""
        return float(np.linalg.slogdet(self.edges)[1])

    def mapped(self, coordinates: LinearMap) -> Box:
        """The box in other coordinates."""
        A = coordinates.A
        edges = self.edges @ A.T if A.ndim == 2 else self.edges * A
        return Box(coordinates.forward(self.origin[None])[0], edges)


class RowsOfTheFamily(NamedTuple):
    """A plan without the column of the noise."""

    plan: RowPlan

    @property
    def scores(self) -> Floats:
        return self.plan.scores

    @property
    def offset(self) -> Floats:
        return self.plan.offset

    @property
    def row_mass(self) -> Floats:
        return self.plan.row_mass

    @property
    def matrix(self) -> Floats:
        return self.plan.matrix[:, :-1]

    def rows(self, rows: slice) -> RowsOfTheFamily:
        return RowsOfTheFamily(self.plan.rows(rows))


@dataclass(frozen=True)
class TurnWithNoise(Turn):
    """A turn of a family, under a plan with one more column."""

    turn: Turn

    def statistics(self, X: Floats, plan: RowPlan, params: Any) -> Any:
        return self.turn.statistics(X, RowsOfTheFamily(plan), params)

    def maximise(self, statistics: Any, params: Any) -> Any:
        return self.turn.maximise(statistics, params)


@dataclass(frozen=True)
class WithNoise(Family):
    """``family`` with the uniform density on ``box`` as its last component; its parameters are those of ``family``."""

    family: Family
    box: Box

    @property
    def coordinates(self) -> str:  # type: ignore[override]
        return self.family.coordinates

    @property
    def takes_tensors(self) -> bool:  # type: ignore[override]
        return self.family.takes_tensors

    @property
    def turns(self) -> tuple[Turn, ...]:
        return tuple(TurnWithNoise(turn) for turn in self.family.turns)

    @property
    def rough(self) -> Family:
        return self._around(self.family.rough)

    @property
    def pooled(self) -> Family:
        return self._around(self.family.pooled)

    def _around(self, family: Family) -> Family:
        return replace(self, family=family)

    @property
    def discrete(self) -> bool:  # type: ignore[override]
        return self.family.discrete

    @property
    def given_shapes(self) -> frozenset[str]:
        return self.family.given_shapes

    def start(self, n_components: int, n_features: int) -> Any:
        return self.family.start(n_components - 1, n_features)

    def log_density(self, X: Floats, params: Any, out: Floats | None = None) -> Floats:
        if out is None:
            K = self.family.log_density(X[:1], params).shape[1]
            out = empty_scores(X, K + 1)
        self.family.log_density(X, params, out[:, :-1])
        out[:, -1] = -self.box.log_volume
        return out

    def statistics(self, X: Floats, plan: RowPlan, params: Any) -> Any:
        return TurnWithNoise(self.family).statistics(X, plan, params)

    def maximise(self, statistics: Any, params: Any) -> Any:
        return self.family.maximise(statistics, params)

    def sample(self, params: Any, labels: Integers, rng: np.random.Generator) -> Floats:
        K = len(self.family.log_density(np.zeros((1, len(self.box.origin))), params)[0])
        noise = labels == K
        X = np.empty((len(labels), len(self.box.origin)))
        X[~noise] = self.family.sample(params, labels[~noise], rng)
        X[noise] = self.box.origin + rng.uniform(size=(int(noise.sum()), len(self.box.origin))) @ self.box.edges
        return X

    def n_parameters(self, params: Any) -> int:
        return self.family.n_parameters(params) + 1  # the volume, as mclust counts

    def log_prior(self, params: Any) -> float:
        return self.family.log_prior(params)

    def check(self, X: Floats) -> None:
        self.family.check(X)

    def retired(self, params: Any) -> Booleans | None:
        return self.family.retired(params)

    def collapsed(self, params: Any) -> Booleans | None:
        return self.family.collapsed(params)

    def describe(self, params: Any, coordinates: LinearMap) -> dict[str, Any]:
        return self.family.describe(params, coordinates)

    def prescribe(self, params: Any, values: dict[str, Any], coordinates: LinearMap) -> Any:
        return self.family.prescribe(params, values, coordinates)


def smallest_box(X: Floats) -> Box:
    """The smaller of the bounding box of rows X (n, d) and the box along their principal axes (mclust's hypvol)."""
    low, high, centre = X.min(axis=0), X.max(axis=0), X.mean(axis=0)
    V = np.linalg.svd((X - centre).T @ (X - centre))[0]
    scores = (X - centre) @ V
    along, extent = scores.min(axis=0), np.ptp(scores, axis=0)
    if min(np.min(high - low), extent.min()) <= FLAT * float(np.abs(X).max()):
        raise ValueError(
            "noise: the rows lie in a flat box of volume 0; remove constant or collinear features, or leave noise out"
        )
    upright, tilted = Box(low, np.diag(high - low)), Box(centre + V @ along, extent[:, None] * V.T)
    return min(upright, tilted, key=lambda box: box.log_volume)
