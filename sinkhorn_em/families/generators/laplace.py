"""Laplace: the generalised Gaussian of power 1, h(q) = const - r."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .generalised_gaussian import GeneralisedGaussian


@dataclass(frozen=True)
class Laplace(GeneralisedGaussian):
    r"""Laplace: :math:`f(x) \propto |S|^{-1/2} e^{-r}`; in one dimension ``scipy.stats.laplace``.

    The elliptical form in d dimensions is that of Kotz type, not the Gaussian scale mixture with a Bessel function, which
    has a pole at its centre for d > 1.
    """

    power: Any = 1.0

    def check(self, K: int) -> None:
        if isinstance(self.power, str) or not np.all(np.asarray(self.power) == 1):
            raise ValueError(f"power is {self.power!r}; a Laplace has power 1: use generalised_gaussian for others")
