"""What a component family must do; it knows nothing of transport."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from .._typing import Floats, Integers, RowPlan


class Family(ABC):
    """Stateless: options are fields, parameters are NamedTuples. ``params`` is whatever `maximise` returned."""

    @abstractmethod
    def start(self, n_components: int, n_features: int) -> Any:
        """Any valid parameters: what the first `statistics` are taken about."""

    @abstractmethod
    def log_density(self, X: Floats, params: Any, out: Floats | None = None) -> Floats:
        """log f_k(x_i), (n, K); ``out``, an earlier result of the same shape, may be overwritten and returned."""

    @abstractmethod
    def statistics(self, X: Floats, plan: RowPlan, params: Any) -> Any:
        """A NamedTuple of sums over the rows of X, weighted by ``plan.matrix`` (n, K): summable over tiles of rows.

        Its field ``mass`` (K,) is the mass of every component.
        """

    @abstractmethod
    def maximise(self, statistics: Any, params: Any) -> Any:
        """The parameters that maximise (or at least raise) the expected complete-data log-likelihood."""

    @abstractmethod
    def sample(self, params: Any, labels: Integers, rng: np.random.Generator) -> Floats:
        """One draw per label, (n, d)."""

    @abstractmethod
    def n_parameters(self, params: Any) -> int:
        """Free parameters of the components (weights excluded)."""
