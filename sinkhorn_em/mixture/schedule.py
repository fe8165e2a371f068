"""From data to a fitted state: starts, burn-in, main phase, best of several.

weights="learned", tau > 0:  Sinkhorn-EM with weights held and the covariance pooled (at most 30 iterations), then EM with free
weights in the chosen structure. Prescribed weights: the same burn-in, then Sinkhorn-EM in the chosen structure. tau = 0: EM only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from .._typing import Floats
from ..em import Fit, Phase, State, run_phase, start_state
from ..engines import Engine
from ..families.gaussian import Gaussian, GaussianParameters
from ..initialisation import DistinctRows, nearest, start_responsibilities
from ..ot import ColumnRule

BURN_IN_ITERATIONS = 30
BURN_IN_TOL = 1e-4


@dataclass(frozen=True)
class Schedule:
    """The phases of one fit."""

    family: Gaussian
    rule: ColumnRule
    weights: Floats | None  # (K,) prescribed, or None: learned
    burn_in_weights: Floats  # (K,) held during the burn-in
    burn_in: bool
    max_iter: int
    tol: float

    @property
    def main(self) -> Phase:
        """The phase that decides the fit: at the chosen rule for prescribed weights, else EM (trimmed or bounded as asked)."""
        learn = self.weights is None
        rule = self.rule.released if learn else self.rule
        return Phase(self.family, rule, learn, self.max_iter, self.tol)

    @property
    def first(self) -> Phase:
        """The burn-in: weights held, covariance pooled."""
        family = replace(self.family, structure=self.family.structure.pooled)
        iterations = min(BURN_IN_ITERATIONS, self.max_iter)
        return Phase(family, self.rule, False, iterations, max(self.tol, BURN_IN_TOL))


class Start(NamedTuple):
    """What is known before the fit: rows in the fit's coordinates, and values that the user prescribes."""

    rows: DistinctRows
    Z: Floats  # (n, d)
    n_components: int
    method: str
    means: Floats | None = None  # (K, d)
    given: GaussianParameters | None = None  # all parameters, then no responsibilities are drawn
    weights: Floats | None = None  # (K,)


class Outcome(NamedTuple):
    """A finished start: the fit of its last phase, and the trace over all phases."""

    fit: Fit
    bounds: list[float]
    n_iter: int
    n_passes: int


def run_start(
    engine: Engine,
    schedule: Schedule,
    start: Start,
    rng: np.random.RandomState,
    report: Callable[[int, float], None] | None = None,
) -> Outcome:
    """Run all phases from one start."""
    first = schedule.first if schedule.burn_in else schedule.main
    state = _initial_state(engine, first, start, rng)
    held = schedule.burn_in_weights if schedule.burn_in else schedule.weights
    if held is not None:
        state = state._replace(weights=held)
    elif start.weights is not None:
        state = state._replace(weights=start.weights)
    if not schedule.burn_in:
        fit = run_phase(engine, first, state, report)
        return Outcome(fit, fit.bounds, fit.n_iter, fit.n_passes)
    warm = run_phase(engine, first, state, report)
    fit = run_phase(engine, schedule.main, warm.state, report)
    bounds = warm.bounds + fit.bounds
    return Outcome(fit, bounds, warm.n_iter + fit.n_iter, warm.n_passes + fit.n_passes)


def _initial_state(engine: Engine, phase: Phase, start: Start, rng: np.random.RandomState) -> State:
    K = start.n_components
    if start.given is not None:
        weights = np.full(K, 1 / K) if start.weights is None else start.weights
        return State(start.given, weights, np.zeros(len(phase.rule.extend(weights))))
    rows = start.rows
    if start.means is not None:
        R = nearest(start.Z[rows.index], start.means)
    else:
        R = start_responsibilities(start.Z[rows.index], rows.mass, K, start.method, rng)
    with np.errstate(divide="ignore"):
        log_R = np.log(R)
    spread = np.empty((K, len(start.Z)))
    np.take(log_R.T, rows.inverse, axis=1, out=spread)
    state = start_state(engine, phase.family, [spread.T], phase.rule)
    if start.means is None:
        return state
    return state._replace(parameters=state.parameters._replace(means=start.means))
