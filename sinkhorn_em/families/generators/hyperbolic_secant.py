"""Hyperbolic secant: h(q) = const - log(2 cosh(pi r/2)), r = sqrt(q); weight (pi/2) tanh(pi r/2)/r."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, zeta

from ..._compiled import affine_log1p, exp_in_place
from ..._typing import Floats
from .base import SMALLEST_RADIUS, Generator, log_sphere, rejected_gamma, spread


@dataclass(frozen=True)
class HyperbolicSecant(Generator):
    r"""Hyperbolic secant: :math:`f(x) \propto |S|^{-1/2} \operatorname{sech}(\pi r/2)`; d = 1: :math:`\frac{1}{2s}
    \operatorname{sech}(\pi z/2)`, of variance s^2.

    The elliptical form has the constant of :math:`\int_0^\infty r^{d-1} \operatorname{sech}(\pi r/2) dr =
    2\,\Gamma(d) (2/\pi)^d \beta(d)`, with Dirichlet's beta.
    """

    def log_density(self, q: Floats, d: int, *shape: Floats) -> None:
        r = np.sqrt(q, out=q)
        r *= math.pi / 2
        tail = -2 * r
        exp_in_place(tail)
        affine_log1p(tail, 1.0, -1.0, -_log_integral(d))
        np.subtract(tail, r, out=r)

    def weight(self, q: Floats, d: int, *shape: Floats) -> Floats:
        r = np.maximum(np.sqrt(q), SMALLEST_RADIUS)
        e = -math.pi * r
        exp_in_place(e)
        r *= 1 + e
        e -= 1
        return np.divide(e, r, out=e) * (-math.pi / 2)

    def draw(self, n: int, d: int, rng: np.random.Generator, *shape: float) -> Floats:
        radius = rejected_gamma(n, d, rng, lambda r: 1 / (1 + np.exp(-2 * r)))
        return spread(2 / math.pi * radius, d, rng)

    def cdf(self, z: Floats, *shape: Floats) -> Floats:
        small = np.arctan(np.exp(-math.pi / 2 * np.abs(z))) * 2 / math.pi
        return np.where(z < 0, small, 1 - small)


def _log_integral(d: int) -> float:
    """log of the integral of sech(pi r/2)/2 over the space."""
    beta = math.pi / 4 if d == 1 else float(zeta(d, 0.25) - zeta(d, 0.75)) / 4.0**d
    return log_sphere(d) + float(gammaln(d)) + d * math.log(2 / math.pi) + math.log(beta)
