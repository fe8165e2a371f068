"""From data to a fitted state: starts, burn-in, main phase, best of several.

weights="learned", tau > 0: Sinkhorn-EM with weights held and the covariance pooled (at most 30 iterations), then EM with free
weights in the chosen structure; EM from the same start as well; the better of the two. Prescribed weights: the same burn-in, then
Sinkhorn-EM in the chosen structure. tau = 0: EM only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from .._typing import Floats, Integers
from ..em import Fit, Phase, State, run_phase, start_state
from ..engines import Engine
from ..families.covariances import Covariances
from ..families.gaussian import Gaussian
from ..initialisation import DistinctRows, draw_start, fill_log_responsibilities, nearest
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
    scratch: Floats  # (n, K), room for the scores
    n_components: int
    method: str
    means: Floats | None = None  # (K, d)
    covariances: Covariances | None = None
    weights: Floats | None = None  # (K,)

    @property
    def complete(self) -> bool:
        """Nothing needs to be drawn."""
        return self.means is not None and self.covariances is not None


class Outcome(NamedTuple):
    """A finished run: the fit of its last phase, the trace over all its phases, and the passes that it and its rivals took."""

    fit: Fit
    bounds: list[float]
    n_iter: int
    n_passes: int

    @property
    def sound(self) -> bool:
        """No component collapsed or lost its rows: its likelihood is not that of a spike."""
        parameters = self.fit.state.parameters
        return not (parameters.covariances.held.any() or parameters.retired.any())


def better(a: Outcome, b: Outcome) -> Outcome:
    """The one to keep, a sound one if there is one, with the passes of both; a on ties."""
    best = b if (b.sound, b.bounds[-1]) > (a.sound, a.bounds[-1]) else a
    return best._replace(n_passes=a.n_passes + b.n_passes)


def run_start(
    engine: Engine,
    schedule: Schedule,
    start: Start,
    rng: np.random.RandomState,
    report: Callable[[int, float], None] | None = None,
) -> Outcome:
    """Run all phases from one start; where weights are learned, EM from the same start as well: the result is never worse."""
    drawn = None if start.complete else _draw(start, rng)

    def run(phases: list[Phase], weights: Floats | None) -> Outcome:
        state = _initial_state(engine, phases[0], start, drawn, weights)
        bounds: list[float] = []
        n_iter, n_passes = 0, 0
        for phase in phases:
            fit = run_phase(engine, phase, state, report, [start.scratch])
            state, bounds = fit.state, bounds + fit.bounds
            n_iter, n_passes = n_iter + fit.n_iter, n_passes + fit.n_passes
        return Outcome(fit, bounds, n_iter, n_passes)

    if not schedule.burn_in:
        return run([schedule.main], schedule.weights)
    warm = run([schedule.first, schedule.main], schedule.burn_in_weights)
    if schedule.weights is not None:
        return warm
    return better(warm, run([schedule.main], None))


def _initial_state(
    engine: Engine, phase: Phase, start: Start, drawn: Integers | Floats | None, weights: Floats | None
) -> State:
    """Parameters from what was drawn, those given put in their place; ``weights`` overrule those of the start."""
    if drawn is None:
        K = start.n_components
        state = State(
            phase.family.start(K, start.Z.shape[1]), np.full(K, 1 / K), np.zeros(len(phase.rule.extend(np.ones(K))))
        )
    else:
        fill_log_responsibilities(drawn, start.rows.inverse, start.scratch)
        state = start_state(engine, phase.family, [start.scratch], phase.rule)
    given = {"means": start.means, "covariances": start.covariances}
    parameters = state.parameters._replace(**{name: value for name, value in given.items() if value is not None})
    state = state._replace(parameters=parameters)
    weights = start.weights if weights is None else weights
    return state if weights is None else state._replace(weights=weights)


def _draw(start: Start, rng: np.random.RandomState) -> Integers | Floats:
    """Labels or responsibilities of the distinct rows: drawn, or the nearest of the means given."""
    Z = np.empty((len(start.rows.rows), start.Z.shape[1]))  # row-major, as scikit-learn wants it
    for q in range(Z.shape[1]):
        Z[:, q] = start.Z[start.rows.rows, q]
    if start.means is not None:
        return nearest(Z, start.means)
    return draw_start(Z, start.rows.mass, start.n_components, start.method, rng)
