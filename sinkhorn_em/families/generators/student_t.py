r"""Student-t and Cauchy: h(q) = const - (nu + d)/2 log(1 + q/nu), weight (nu + d)/(nu + q).

The degrees of freedom are raised under the observed likelihood (ECME, Liu & Rubin 1994), radii held, by a bound of our own:
with x = nu/nu_0 - 1 and B = 1/(1 + q/nu_0),

    log(nu + q) <= log(nu_0 + q) + x B - (x B)^2/2 + (x B)^3/3      for every nu > 0

(the difference has the derivative y^3/(1 + y) in y = x B, of the sign of y). It is off by O(x^4) only, so a turn is almost an
exact maximisation, from four sums.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import brentq
from scipy.special import betaln, digamma, gammaln, stdtr

from ..._kinds import like
from ..._typing import Floats
from ..kernels import affine_log1p
from .base import Generator, pooled_where, positive_choice

START_DF = 10.0
SMALLEST_DF, LARGEST_DF = 1e-2, 1e7  # beyond: a Gaussian to seven digits
STRIDE = 4.0  # a turn changes the degrees of freedom by this factor at most


@dataclass(frozen=True)
class StudentT(Generator):
    r"""Student-t: :math:`f(x) = \frac{\Gamma((\nu+d)/2)}{\Gamma(\nu/2) (\nu\pi)^{d/2}} |S|^{-1/2} (1 + q/\nu)^{-(\nu+d)/2}`.

    Parameters
    ----------
    df : "common", "component", float > 0 or array (K,), default "common"
        Degrees of freedom nu: estimated (one for all components, or one each), or given.

    References
    ----------
    Peel & McLachlan 2000, Robust mixture modelling using the t distribution; Liu & Rubin 1994 (ECME).
    """

    df: Any = "common"
    shape_names: ClassVar[tuple[str, ...]] = ("df",)
    takes_tensors: ClassVar[bool] = True

    def log_density(self, q: Floats, d: int, *shape: Floats) -> None:
        (df,) = shape
        # log Gamma((nu + d)/2) - log Gamma(nu/2), which would cancel for large nu, is log Gamma(d/2) - log B(d/2, nu/2)
        constant = gammaln(d / 2) - betaln(d / 2, df / 2) - d / 2 * np.log(math.pi * df)
        affine_log1p(q, 1 / df, -(df + d) / 2, constant)

    def weight(self, q: Floats, d: int, *shape: Floats) -> Floats:
        (df,) = shape
        return like(q, df + d) / (q + like(q, df))

    def draw(self, n: int, d: int, rng: np.random.Generator, *shape: float) -> Floats:
        (df,) = shape
        return rng.standard_normal((n, d)) / np.sqrt(rng.chisquare(df, (n, 1)) / df)

    def cdf(self, z: Floats, *shape: Floats) -> Floats:
        return stdtr(shape[0], z)

    def check(self, K: int) -> None:
        positive_choice("df", self.df, ("common", "component"), K)

    def start_shape(self, K: int) -> tuple[Floats, ...]:
        return (np.full(K, START_DF) if self.estimates_shape else np.broadcast_to(self.df, (K,)).astype(float),)

    def n_shape_parameters(self, K: int) -> int:
        return {"common": 1, "component": K}[self.df] if self.estimates_shape else 0

    @property
    def estimates_shape(self) -> bool:
        return isinstance(self.df, str)

    def shape_sums(self, P: Floats, q: Floats, d: int, *shape: Floats) -> list[Floats]:
        (df,) = shape
        B = 1 / (1 + q / like(q, df))
        affine_log1p(q, 1 / df, 1.0, 0.0)
        return [(P * term).sum(axis=-1) for term in (q, B, B * B, B * B * B)]

    def maximise_shape(self, mass: Floats, sums: list[Floats], d: int, *shape: Floats) -> tuple[Floats, ...]:
        (df,) = shape
        common = self.df == "common"
        mass, *sums = pooled_where(common, mass, *sums)
        new = np.array(
            [
                _best_df(nu, d, *(total[k] / mass[k] for total in sums)) if mass[k] > 0 else nu
                for k, nu in enumerate(df[:1] if common else df)
            ]
        )
        return (np.full_like(df, new[0]) if common else new,)

    def marginal(self, d: int) -> bool:
        return True

    def conditional(self, q: Floats, given: int, *shape: Floats) -> tuple[Generator, tuple[Floats, ...], Floats]:
        (df,) = shape
        new = df + given
        return StudentT(new), (new,), (df + q) / new


@dataclass(frozen=True)
class Cauchy(StudentT):
    """Cauchy: Student-t with one degree of freedom. It has no mean: the locations are medians."""

    df: Any = 1.0

    def check(self, K: int) -> None:
        if isinstance(self.df, str) or not np.all(np.asarray(self.df) == 1):
            raise ValueError(f"df is {self.df!r}; a Cauchy has one degree of freedom: use student_t for others")

    def cdf(self, z: Floats, *shape: Floats) -> Floats:
        return np.arctan2(1.0, -z) / math.pi  # to the last digit in both tails


def _best_df(old: float, d: int, log_term: float, B1: float, B2: float, B3: float) -> float:
    """The degrees of freedom that maximise the bound, per unit of mass: the zero of its slope nearest on the rising side."""

    def slope(log_ratio: float) -> float:
        nu, x = old * math.exp(log_ratio), math.expm1(log_ratio)
        bound = log_term + x * (B1 - x * (B2 / 2 - x * B3 / 3))
        steep = B1 - x * (B2 - x * B3)
        return float(digamma((nu + d) / 2) - digamma(nu / 2) + log_ratio + 1 - bound - (nu + d) / old * steep)

    def loss(log_ratio: float) -> float:
        nu, x = old * math.exp(log_ratio), math.expm1(log_ratio)
        bound = log_term + x * (B1 - x * (B2 / 2 - x * B3 / 3))
        return float((nu + d) / 2 * bound + betaln(d / 2, nu / 2) - nu / 2 * log_ratio)

    at_old = slope(0.0)
    end = math.log(min(STRIDE, LARGEST_DF / old)) if at_old > 0 else math.log(max(1 / STRIDE, SMALLEST_DF / old))
    if end * at_old <= 0:
        return old  # at a limit, or at the maximum
    best = end if slope(end) * at_old > 0 else brentq(slope, 0.0, end, xtol=1e-12)
    # the loss, a difference of numbers of the size of nu, is compared within its rounding only
    slack = 8 * np.finfo(float).eps * max(1.0, old)
    return old * math.exp(best) if loss(best) <= loss(0.0) + slack else old
