"""Logistic: h(q) = const - r - 2 log(1 + e^-r), r = sqrt(q); weight tanh(r/2)/r."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, gammaln, zeta

from ..._compiled import affine_log1p, exp_in_place
from ..._typing import Floats
from .base import SMALLEST_RADIUS, Generator, log_sphere, rejected_gamma, spread


@dataclass(frozen=True)
class Logistic(Generator):
    r"""Logistic: :math:`f(x) \propto |S|^{-1/2} \operatorname{sech}^2(r/2)`; in one dimension ``scipy.stats.logistic``.

    The elliptical form in d dimensions has the constant of :math:`\int_0^\infty r^{d-1} e^{-r} (1+e^{-r})^{-2} dr =
    \Gamma(d)\,\eta(d-1)`, with Dirichlet's eta. Its variance is not the scale matrix (pi^2/3 of it for d = 1).
    """

    def log_density(self, q: Floats, d: int, *shape: Floats) -> None:
        r = np.sqrt(q, out=q)
        tail = -r
        exp_in_place(tail)
        affine_log1p(tail, 1.0, -2.0, -_log_integral(d))
        np.subtract(tail, r, out=r)

    def weight(self, q: Floats, d: int, *shape: Floats) -> Floats:
        r = np.maximum(np.sqrt(q), SMALLEST_RADIUS)
        e = -r
        exp_in_place(e)
        r *= 1 + e
        return np.divide(1 - e, r, out=r)

    def draw(self, n: int, d: int, rng: np.random.Generator, *shape: float) -> Floats:
        return spread(rejected_gamma(n, d, rng, lambda r: 1 / (1 + np.exp(-r)) ** 2), d, rng)

    def cdf(self, z: Floats, *shape: Floats) -> Floats:
        return expit(z)


def _log_integral(d: int) -> float:
    """log of the integral of sech^2(r/2)/4 over the space."""
    eta = {1: 0.5, 2: math.log(2.0)}.get(d) or (1 - 2.0 ** (2 - d)) * float(zeta(d - 1))
    return log_sphere(d) + float(gammaln(d)) + math.log(eta)
