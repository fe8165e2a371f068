"""The contract of a covariance structure, and how eigenvalues are kept within limits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import numpy as np

from ..._typing import Booleans, Floats

TINY = float(np.finfo(float).tiny)
EPS = float(np.finfo(float).eps)
OVERFLOW = 700.0  # exp() of more is infinite


class Limits(NamedTuple):
    """Smallest and largest eigenvalue, and whether one at the lower limit counts as held (the user did not ask for it)."""

    lower: float
    upper: float
    reported: bool


class Regularisation(NamedTuple):
    """Smallest eigenvalue allowed, what is added to every covariance ((d, d), its diagonal where S is), the user's own bounds."""

    floor: float
    ridge: Floats | None = None
    bounds: tuple[float, float] = (0.0, np.inf)

    @property
    def bounded(self) -> bool:
        """Whether the user's bounds add anything to the floor."""
        return self.bounds[0] > self.floor or self.bounds[1] < np.inf

    def limits(self, precision: float = 0.0) -> Limits:
        """Floor and bounds in one; ``precision``: eigenvalues below it are rounding errors of the others."""
        floor = max(self.floor, precision, TINY)
        lower, upper = self.bounds
        return Limits(min(max(floor, lower), upper), upper, lower < floor)


class Covariances(NamedTuple):
    """Covariances in the structure's own shape, factors for the density, and which components were held at the floor."""

    values: Floats  # as scikit-learn's covariances_
    factors: Floats  # (K, d, d) lower triangular F with S^-1 = F' F; or (K, d) its diagonal
    log_det: Floats  # (K,) log |F|
    held: Booleans  # (K,)


class Structure(ABC):
    """The contract of a covariance structure. A component of mass 0 has scatter 0.

    `maximise` minimises sum_k [n_k log|S_k| + tr(W_k S_k^-1)] over the structure. Where that takes iterations they start from
    ``current``, the covariances before the M-step, each lowers the sum, and so its value at a ``current`` of the structure is never
    exceeded; covariances of any other structure are a start too.
    """

    name: str
    full: bool  # scatters are (K, d, d), else their diagonals (K, d)
    #: whose linear maps commute with the structure: "isotropic", "scaled", "whitened", or "blocks" of them
    coordinates: str
    spherical: bool = False  # values are scalars
    independent: bool = False  # every component's covariance is estimated on its own
    shared: bool = False  # one covariance for all components
    bounds_together: ClassVar[bool] = True  # whether a lower and an upper bound of eigenvalues can be kept at once

    @abstractmethod
    def maximise(
        self, mass: Floats, scatter: Floats, regularisation: Regularisation, current: Covariances | None = None
    ) -> Covariances:
        """Covariances from masses (K,) and scatters W_k, (K, d, d) or (K, d)."""

    @abstractmethod
    def from_values(self, values: Floats, K: int, d: int) -> Covariances:
        """From covariances in the structure's shape."""

    @abstractmethod
    def n_parameters(self, K: int, d: int) -> int:
        """Free covariance parameters."""

    @property
    def pooled(self) -> Structure:
        """The same shape shared by all components: what the burn-in uses."""
        return self

    def shape(self, K: int, d: int) -> tuple[int, ...]:
        """Shape of the values, and of an array of precisions."""
        one = () if self.spherical else (d, d) if self.full else (d,)
        return one if self.shared else (K, *one)

    def check(self, regularisation: Regularisation) -> None:
        """Raise ValueError if the user's bounds cannot be kept."""
        lower, upper = regularisation.bounds
        if not (0 <= lower <= upper and upper > 0):
            raise ValueError(
                f"eigenvalue_bounds is {(lower, upper)}; it must be (lower, upper) with 0 <= lower <= upper and upper > 0"
            )
        if upper < regularisation.floor:
            raise ValueError(
                f"eigenvalue_bounds is {(lower, upper)}, its upper bound below {regularisation.floor}, the smallest variance "
                "that the precision of the data allows: raise it, or leave the bounds out"
            )
        if not self.bounds_together and lower > regularisation.floor and upper < np.inf:
            raise ValueError(
                f"eigenvalue_bounds is {(lower, upper)}, but volumes and shapes of {self.name!r} are estimated in turn, which "
                "cannot keep two bounds at once: give only one, (lower, inf) or (0, upper), or choose another structure"
            )


def average(mass: Floats, scatter: Floats) -> Floats:
    """W_k / n_k; a component without mass takes the pooled covariance."""
    empty = mass == 0
    n = mass.reshape(-1, *[1] * (scatter.ndim - 1))
    if not empty.any():
        return scatter / n
    pooled = scatter.sum(axis=0) / mass.sum()
    return np.where(n > 0, scatter / np.where(n > 0, n, 1.0), pooled)


def weights_and_covariances(
    mass: Floats, scatter: Floats, regularisation: Regularisation
) -> tuple[Floats, Floats, Limits]:
    """pi_k = n_k / n, C_k = W_k / n_k with the ridge, and the limits of eigenvalues: what the M-step of a structure needs."""
    C = average(mass, scatter)
    diagonal = C.ndim == 2
    if regularisation.ridge is not None:
        C = C + (np.diagonal(regularisation.ridge) if diagonal else regularisation.ridge)
    precision = 0.0 if diagonal else EPS * float(np.abs(C).max())
    return mass / mass.sum(), C, regularisation.limits(precision)
