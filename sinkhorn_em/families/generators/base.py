"""What a generator must do: the one function of the radius that tells one location-scale family from another.

A component has density |F| exp h(q), q = |F (x - m)|^2 the squared standardised radius. Where h is convex in q its tangent is a
minoriser, so the M-step is that of a Gaussian with weights w(q) = -2 h'(q), for every covariance structure, and the likelihood
never falls (Lange, Little & Taylor 1989; Green 1984). In the product form q is one squared standardised coordinate, and d = 1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.integrate import quad
from scipy.special import gammaln

from ..._typing import Floats

SMALLEST_RADIUS = 1e-6  # below it tanh(r)/r is 1 to twelve digits; (1 - e^-r)/r has ten left there


class Cusp(NamedTuple):
    """h(q) = h(0) - c r^power where the weight is unbounded at r = 0: rows at the very centre need care. (K,) each."""

    c: Floats
    power: Floats


class Generator(ABC):
    """The contract. ``q`` is (..., K, m) or (..., K, d, m); shape parameters come as arrays that broadcast against it."""

    #: names of the shape parameters, (K,) each
    shape_names: ClassVar[tuple[str, ...]] = ()
    #: some weight differs from 1
    weighted: ClassVar[bool] = True
    #: `log_density`, `weight` and `shape_sums` also take torch tensors of radii (the shape parameters stay arrays)
    takes_tensors: ClassVar[bool] = False

    @abstractmethod
    def log_density(self, q: Floats, d: int, *shape: Floats) -> None:
        """Overwrite squared radii q with h(q), the normalising constant in d dimensions included."""

    @abstractmethod
    def weight(self, q: Floats, d: int, *shape: Floats) -> Floats:
        """w(q) = -2 h'(q) >= 0, not increasing in q."""

    @abstractmethod
    def draw(self, n: int, d: int, rng: np.random.Generator, *shape: float) -> Floats:
        """Standard draws (n, d): location 0, scale matrix the identity."""

    @abstractmethod
    def cdf(self, z: Floats, *shape: Floats) -> Floats:
        """Distribution function in one dimension."""

    def cusp(self, *shape: Floats) -> Cusp | None:
        """The behaviour at 0 where the weight is unbounded there; None: it is bounded."""
        return None

    def start_shape(self, K: int) -> tuple[Floats, ...]:
        """Shape parameters to begin with, (K,) each."""
        return ()

    def n_shape_parameters(self, K: int) -> int:
        """Free shape parameters."""
        return 0

    @property
    def estimates_shape(self) -> bool:
        """The M-step has a turn for the shape parameters."""
        return False

    def shape_sums(self, P: Floats, q: Floats, d: int, *shape: Floats) -> list[Floats]:
        """Sums over the last axis, under the plan P, of the functions of q that `maximise_shape` needs.

        ``q`` may be overwritten.
        """
        raise NotImplementedError

    def maximise_shape(self, mass: Floats, sums: list[Floats], d: int, *shape: Floats) -> tuple[Floats, ...]:
        """Shape parameters (K,) that raise the expected log-likelihood, radii held; ``sums`` (K,) each."""
        raise NotImplementedError

    def check(self, K: int) -> None:  # noqa: B027
        """Raise ValueError if the options do not fit K components."""

    def marginal(self, d: int) -> bool:
        """Are the marginals of a d-dimensional member members too, with the same shape?"""
        return d == 1

    def conditional(self, q: Floats, given: int, *shape: Floats) -> tuple[Generator, tuple[Floats, ...], Floats]:
        """Generator, shape and factor of the scale matrix, given ``given`` coordinates at squared radii q (K,)."""
        raise ValueError(
            f"conditional: components of the family {type(self).__name__} have no conditional in the family"
        )


def verify(generator: Generator, d: int) -> None:
    """Raise ValueError if a generator of the user's is no density in d dimensions, or its weight not its slope."""
    name, shape = type(generator).__name__, [s[:1, None] for s in generator.start_shape(1)]
    q = np.array([[0.3, 1.0, 3.0, 10.0]])
    up, down = q * (1 + 1e-5), q * (1 - 1e-5)
    if generator.log_density(up, d, *shape) is not None or np.array_equal(up, q * (1 + 1e-5)):
        raise ValueError(f"{name}.log_density must overwrite q with h(q) and return nothing: write q[...] = ...")
    generator.log_density(down, d, *shape)
    w = generator.weight(q.copy(), d, *shape)
    if not np.allclose(w, (down - up) / (1e-5 * q), rtol=1e-3):
        raise ValueError(
            f"{name}.weight is {w[0]} at q = {q[0]}; -2 h'(q) is {((down - up) / (1e-5 * q))[0]}: mend one of them"
        )
    if (np.diff(w) > 1e-9).any():
        raise ValueError(
            f"{name}.weight rises with q, from {w[0]}: h must be convex in q, or the M-step lowers the likelihood"
        )

    def along_log_radius(u: float) -> float:
        h = np.array([[np.exp(2 * u)]])
        generator.log_density(h, d, *shape)
        return float(np.exp(log_sphere(d) + d * u + h[0, 0]))

    total = quad(along_log_radius, -20, 3, limit=200)[0] + quad(along_log_radius, 3, 40, limit=200)[0]
    if not abs(total - 1) < 1e-3:
        raise ValueError(
            f"{name}.log_density integrates to {total:.6g} in {d} dimensions; it must be normalised: subtract its log"
        )


def positive_choice(name: str, value: Any, choices: tuple[str, ...], K: int, upper: float = np.inf) -> None:
    """Check a shape option: one of ``choices``, a number or one per component, in (0, upper]."""
    if isinstance(value, str):
        if value in choices:
            return
        raise ValueError(
            f"{name} is {value!r}; it must be a positive number, one per component, or one of {list(choices)}"
        )
    try:
        numbers = np.asarray(value, float)
    except (TypeError, ValueError):
        numbers = np.full((), np.nan)
    if numbers.shape not in ((), (K,)):
        raise ValueError(
            f"{name} has shape {numbers.shape}; it must be one number, or one per component, ({K},): give {K} of them"
        )
    if isinstance(value, bool) or not ((numbers > 0) & (numbers <= upper) & (numbers < np.inf)).all():
        limit = "positive and finite" if upper == np.inf else f"in (0, {upper:g}]"
        raise ValueError(
            f"{name} is {value!r}; it must be {limit}: one number, or one per component, or {list(choices)}"
        )


def pooled_where(common: bool, *arrays: Floats) -> list[Floats]:
    """Sums over components, repeated, where a shape parameter is common to all."""
    return [np.full_like(a, a.sum()) if common else a for a in arrays]


def spread(radius: Floats, d: int, rng: np.random.Generator) -> Floats:
    """Vectors (n, d) of given lengths in random directions."""
    direction = rng.standard_normal((len(radius), d))
    return direction * (radius / np.linalg.norm(direction, axis=1))[:, None]


def rejected_gamma(n: int, d: int, rng: np.random.Generator, accept: Any) -> Floats:
    """n radii with density proportional to r^(d-1) e^-r accept(r), 0 < accept <= 1."""
    kept = np.empty(0)
    while len(kept) < n:
        r = rng.gamma(d, size=n + 64)
        kept = np.concatenate([kept, r[rng.uniform(size=len(r)) < accept(r)]])
    return kept[:n]


def log_sphere(d: int) -> float:
    """log of the surface of the unit sphere in d dimensions, 2 pi^(d/2) / Gamma(d/2)."""
    return float(np.log(2.0) + d / 2 * np.log(np.pi) - gammaln(d / 2))
