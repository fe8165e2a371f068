"""What a component family must do; it knows nothing of transport."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from .._typing import Booleans, Floats, Integers, LinearMap, RowPlan

SMALLEST_MASS = 1e-14  # of the total: a component with less has no parameters to estimate, and is retired
TILE = 8192  # rows of temporaries


class Turn(ABC):
    """One conditional M-step: sums over the rows, and the parameters that they say."""

    @abstractmethod
    def statistics(self, X: Floats, plan: RowPlan, params: Any) -> Any:
        """A NamedTuple of sums over the rows of X, weighted by ``plan.matrix`` (n, K): summable over tiles of rows.

        Its field ``mass`` (K,) is the mass of every component.
        """

    @abstractmethod
    def maximise(self, statistics: Any, params: Any) -> Any:
        """The parameters that maximise (or at least raise) the expected complete-data log-likelihood (plus `Family.log_prior`)."""


class Family(Turn):
    """Stateless: options are fields, parameters are NamedTuples. ``params`` is whatever `maximise` returned.

    Six methods are needed; the others have defaults that a family overrides where it has something to say.
    """

    #: coordinates to be fitted in: "none" (the data as they are), "isotropic", "scaled" or "whitened"
    coordinates: ClassVar[str] = "none"
    #: its values are counts: there is no uniform density, and quantiles are counts
    discrete: ClassVar[bool] = False
    #: scores and statistics are also taken of torch tensors, on their device
    takes_tensors: ClassVar[bool] = False

    @abstractmethod
    def start(self, n_components: int, n_features: int) -> Any:
        """Any valid parameters: what the first `statistics` are taken about."""

    @abstractmethod
    def log_density(self, X: Floats, params: Any, out: Floats | None = None) -> Floats:
        """log f_k(x_i), (n, K); ``out``, an earlier result of the same shape, may be overwritten and returned."""

    @abstractmethod
    def sample(self, params: Any, labels: Integers, rng: np.random.Generator) -> Floats:
        """One draw per label, (n, d)."""

    @abstractmethod
    def n_parameters(self, params: Any) -> int:
        """Free parameters of the components (weights excluded)."""

    @property
    def turns(self) -> tuple[Turn, ...]:
        """Conditional M-steps that are taken in turn under one plan, each with its own statistics (ECM, Meng & Rubin 1993)."""
        return (self,)

    @property
    def rough(self) -> Family:
        """What the first M-step of a start uses, before there are any parameters to speak of."""
        return self

    @property
    def pooled(self) -> Family:
        """The family with scales shared by all components: what the burn-in uses."""
        return self

    @property
    def given_shapes(self) -> frozenset[str]:
        """Names of shape parameters that the options give: no start overrules them."""
        return frozenset()

    def check(self, X: Floats) -> None:
        """Raise ValueError if rows X (n, d) cannot come from this family."""

    def log_prior(self, params: Any) -> float:
        """What a prior adds to the objective, nats per unit of row mass."""
        return 0.0

    def retired(self, params: Any) -> Booleans | None:
        """Components (K,) that lost all their mass; None: the family does not say."""
        return getattr(params, "retired", None)

    def collapsed(self, params: Any) -> Booleans | None:
        """Components (K,) whose scale is held at its floor; None: the family does not say."""
        return None

    def cdf(self, x: Floats, params: Any) -> Floats:
        """Distribution functions F_k(x_i) of one feature, (m, K), of values x (m,)."""
        raise ValueError(f"cdf: the family {type(self).__name__} has no distribution function")

    def describe(self, params: Any, coordinates: LinearMap) -> dict[str, Any]:
        """The parameters in the units of the data, by name: fitted attributes without their underscore."""
        return {"parameters": params}

    def prescribe(self, params: Any, values: dict[str, Any], coordinates: LinearMap) -> Any:
        """``params`` with the user's ``values``, named as in `describe` and in the units of the data, put in their place."""
        fields = getattr(params, "_fields", ())
        unknown = sorted(set(values) - set(fields))
        if unknown:
            raise ValueError(
                f"{', '.join(unknown)}: {type(self).__name__} has no such parameter to prescribe; it has {sorted(fields)}"
            )
        return params._replace(**values)


def empty_components(mass: Floats) -> Booleans:
    """Components (K,) without enough mass to estimate anything from."""
    return mass <= SMALLEST_MASS * mass.sum()


def tiles(X: Floats, plan: RowPlan) -> Iterator[tuple[Floats, Floats]]:
    """Rows x (m, d) and plan entries (m, K) of some rows at a time: no n x K array is made."""
    for start in range(0, len(X), TILE):
        rows = slice(start, start + TILE)
        yield np.asarray(X[rows]), plan.rows(rows).matrix


def prescribed_means(family: Family, values: dict[str, Any], shape: tuple[int, ...]) -> Floats:
    """The user's means, which are all that may be prescribed, once they are found finite and of the right shape."""
    name = type(family).__name__
    unknown = sorted(set(values) - {"means"})
    if unknown:
        raise ValueError(f"{', '.join(unknown)}: {name} has no such parameter to prescribe; it has 'means'")
    return finite("means", values["means"], shape)


def finite(name: str, value: Any, shape: tuple[int, ...]) -> Floats:
    """An array of finite numbers, one number for all if need be."""
    array = (
        np.broadcast_to(np.asarray(value, np.float64), shape) if np.ndim(value) == 0 else np.asarray(value, np.float64)
    )
    if array.shape != shape:
        raise ValueError(
            f"{name} has shape {array.shape}; it must be {shape}: (n_components, n_features) or (n_components,)"
        )
    if not np.isfinite(array).all():
        raise ValueError(f"{name} is {array.tolist()}; its numbers must be finite")
    return array


def positive(name: str, value: Any, shape: tuple[int, ...]) -> Floats:
    """An array of finite positive numbers, one number for all if need be."""
    array = finite(name, value, shape)
    if not (array > 0).all():
        raise ValueError(f"{name} is {array.tolist()}; its numbers must be positive")
    return array
