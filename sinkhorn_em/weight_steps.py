"""How the weights of a phase move: to the column masses, or down the column potentials by exponentiated gradient.

Stateless: every method is given the weights w (K,), which of them are learned (K,), and what the E-step found.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real

import numpy as np

from ._typing import Booleans, Floats
from .ot.newton import Solution

INVISIBLE = 1e-13  # nats per row, relative to the bound: a smaller gain cannot be told from rounding
TRIALS = 10  # of one iteration: from a factor e^cap down to one of e^(cap / 512)

Solve = Callable[[Floats, Floats], Solution]  # (weights, potentials to start from) -> plan of the current scores


class WeightStep(ABC):  # noqa: B024  (a member overrides one of two)
    """The contract: move the weights before the M-step, at the price of plans, or after it."""

    #: the E-step keeps the column masses at the weights while these are learned; otherwise the rule is released
    holds: bool = False

    @property
    def monotone(self) -> bool:
        """The bound never falls."""
        return True

    def before(
        self, solve: Solve, learned: Booleans, weights: Floats, solution: Solution
    ) -> tuple[Floats, Solution, int]:
        """Weights for the M-step, their plan, and the passes that it took; the value of the plan does not fall."""
        return weights, solution, 0

    def after(self, learned: Booleans, weights: Floats, solution: Solution) -> Floats:
        """Weights for the next E-step, from the plan that the M-step used."""
        return weights

    def check(self) -> None:  # noqa: B027
        """Raise ValueError if an option breaks its rule."""


@dataclass(frozen=True)
class Masses(WeightStep):
    """w_k <- c_k, the column masses: EM's M-step. Those that are learned share what the others leave."""

    def after(self, learned: Booleans, weights: Floats, solution: Solution) -> Floats:
        mass = solution.mass[: len(weights)]
        if not mass[learned].sum() > 0:
            return weights
        share = mass[learned] / mass[learned].sum()
        new = weights.copy()
        new[learned] = share if learned.all() else share * (1 - weights[~learned].sum())
        return new


MASSES = Masses()


@dataclass(frozen=True)
class ExponentiatedGradient(WeightStep):
    r"""Weights learned under a plan that holds them, by mirror descent on the transport loss L (Mena et al. 2020).

    .. math:: w_k \leftarrow w_k e^{-\eta g_k} / Z, \qquad \partial L / \partial w_k = g_k + \text{constant},

    with the column potentials g, nats, of the last plan. The step is tried on the same scores; eta is halved until L does not rise,
    so that the bound never falls, and the weights stay after 10 trials. With 0 < tau < 1 the gradient is an increasing function
    of g_k, the same for all k, and -g a direction of descent too.

    Since ``min over w of L = min over w of l``, l minus the mean log-likelihood, g is constant at the minimum, the tilted weights
    ``w e^g`` are the weights, and a stationary point of L is one of the likelihood. Where clusters are far apart L has kinks in w
    (a row changes its cluster), at which plain descent may stop early: end with EM, as the estimators do.

    The step of the paper is ``ExponentiatedGradient(eta, cap=np.inf, backtrack=False)``: all of it, whatever L does, and no plan
    but that of the E-step. The bound may then fall, and from the first iteration on it does so for all but small eta.

    Parameters
    ----------
    eta : float > 0, default 1.0
        First step size.
    cap : float > 0, default 0.5
        Largest ``eta max |g_k - mean|``, nats: no weight changes by much more than a factor e^cap in one iteration. Where
        clusters are far apart, the potentials are many nats large for a small error of the weights. ``np.inf``: no cap.
    backtrack : bool, default True
        Halve eta until L does not rise. False: take the step as it is, after the M-step; nothing is promised of L.

    Raises
    ------
    ValueError
        eta or cap is not a positive number, eta is not finite, or backtrack is not a bool.

    References
    ----------
    Mena, Nejatbakhsh, Varol & Niles-Weed 2020, arXiv:2006.16548; Kivinen & Warmuth 1997 (exponentiated gradient).
    """

    eta: float = 1.0
    cap: float = 0.5
    backtrack: bool = True

    holds = True

    @property
    def monotone(self) -> bool:
        return self.backtrack

    def check(self) -> None:
        for name in ("eta", "cap"):
            value = getattr(self, name)
            if not isinstance(value, Real) or not float(value) > 0 or (name == "eta" and float(value) == np.inf):
                default = getattr(ExponentiatedGradient, name)
                raise ValueError(
                    f"{name} of ExponentiatedGradient is {value!r}; it must be a positive number: {default} is the default"
                )
        if not isinstance(self.backtrack, bool | np.bool_):
            raise ValueError(f"backtrack of ExponentiatedGradient is {self.backtrack!r}; it must be True or False")

    def before(
        self, solve: Solve, learned: Booleans, weights: Floats, solution: Solution
    ) -> tuple[Floats, Solution, int]:
        moving = learned & (weights > 0)
        if not self.backtrack or moving.sum() < 2:
            return weights, solution, 0
        slope = _slope(weights, moving, solution)
        decrease = float(weights[moving] @ slope**2)  # of L for eta = 1, to first order; its scale if tau < 1
        eta, passes = self._first(slope), 0
        for _ in range(TRIALS):
            if eta * decrease <= INVISIBLE * max(1.0, abs(solution.value)):
                break
            new = _moved(weights, moving, eta * slope)
            trial = solve(new, solution.potentials)
            passes += trial.n_passes
            if trial.status != "max_passes" and trial.minimum >= solution.minimum:
                return new, trial, passes
            eta /= 2
        return weights, solution, passes

    def after(self, learned: Booleans, weights: Floats, solution: Solution) -> Floats:
        moving = learned & (weights > 0)
        if self.backtrack or moving.sum() < 2:
            return weights
        slope = _slope(weights, moving, solution)
        return _moved(weights, moving, self._first(slope) * slope)

    def _first(self, slope: Floats) -> float:
        """The step size that is tried first: eta, or less under the cap."""
        largest = float(np.abs(slope).max())
        return min(self.eta, self.cap / largest) if largest > 0 else self.eta


def _slope(weights: Floats, moving: Booleans, solution: Solution) -> Floats:
    """dL/dw_k of the weights that move, less their weighted mean."""
    w, g = weights[moving], solution.potentials[: len(weights)][moving]
    return g - w @ g / w.sum()


def _moved(weights: Floats, moving: Booleans, step: Floats) -> Floats:
    """w_k e^(-step_k) / Z where they move, with the sum that those have; in logarithms, as a step may be many nats."""
    new = weights.copy()
    logs = np.log(weights[moving]) - step
    share = np.exp(logs - logs.max())
    new[moving] = weights[moving].sum() * share / share.sum()
    return new
