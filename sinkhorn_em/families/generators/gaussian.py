"""Gaussian: h(q) = -d/2 log(2 pi) - q/2, weight 1."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import ndtr

from ..._typing import Floats
from .base import Generator


@dataclass(frozen=True)
class Gaussian(Generator):
    r"""The Gaussian generator: :math:`f(x) = (2\pi)^{-d/2} |S|^{-1/2} e^{-q/2}`."""

    weighted: ClassVar[bool] = False
    takes_tensors: ClassVar[bool] = True

    def log_density(self, q: Floats, d: int, *shape: Floats) -> None:
        q *= -0.5
        q -= 0.5 * d * math.log(2 * math.pi)

    def weight(self, q: Floats, d: int, *shape: Floats) -> Floats:
        return np.ones_like(q)

    def draw(self, n: int, d: int, rng: np.random.Generator, *shape: float) -> Floats:
        return rng.standard_normal((n, d))

    def cdf(self, z: Floats, *shape: Floats) -> Floats:
        return ndtr(z)

    def marginal(self, d: int) -> bool:
        return True

    def conditional(self, q: Floats, given: int, *shape: Floats) -> tuple[Generator, tuple[Floats, ...], Floats]:
        return self, (), np.ones_like(q)
