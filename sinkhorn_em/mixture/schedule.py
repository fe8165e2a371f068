"""From data to a fitted state: starts, burn-in, main phase, best of several.

weights="learned", tau > 0: Sinkhorn-EM with weights held and the covariance pooled (at most 30 iterations), then EM with free
weights in the chosen structure; EM from the same start as well; the better of the two. Prescribed weights: the same burn-in, then
Sinkhorn-EM in the chosen structure. Exponentiated gradient: the same with weights that move, then EM. tau = 0: EM only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .._typing import Booleans, Floats, Integers
from ..coordinates import Coordinates
from ..em import Fit, Phase, State, run_phase, start_state
from ..engines import Engine
from ..families import Family
from ..families.constraints import OwnLocation
from ..initialisation import DistinctRows, draw_start, fill_log_responsibilities, nearest
from ..ot import ColumnRule
from ..weight_steps import MASSES, WeightStep
from .labels import match, match_prior, restrict_responsibilities

BURN_IN_ITERATIONS = 30
BURN_IN_TOL = 1e-4
START_NOISE = 0.05  # share of a noise component whose share is to be estimated


@dataclass(frozen=True)
class Schedule:
    """The phases of one fit."""

    family: Family
    rule: ColumnRule
    learned: Booleans  # (K,) columns whose weights are learned
    weights: Floats  # (K,) the others' weights, and what the burn-in holds all of them at
    burn_in: bool
    max_iter: int
    tol: float
    weight_step: WeightStep = MASSES

    @property
    def releases(self) -> bool:
        """Weights are learned, and the E-step lets go of them for it."""
        return bool(self.learned.any()) and not self.weight_step.holds

    @property
    def main(self) -> list[Phase]:
        """The phases that decide the fit: at the chosen rule if it holds weights, then EM (trimmed, bounded) if any are learned."""
        held = Phase(self.family, self.rule, self.learned, self.max_iter, self.tol, self.weight_step)
        free = Phase(self.family, self.rule.released, self.learned, self.max_iter, self.tol)
        return ([] if self.releases else [held]) + ([free] if self.learned.any() else [])

    @property
    def first(self) -> Phase:
        """The burn-in: weights held, covariance pooled."""
        iterations = min(BURN_IN_ITERATIONS, self.max_iter)
        return Phase(self.family.pooled, self.rule, np.zeros_like(self.learned), iterations, max(self.tol, BURN_IN_TOL))


class Start(NamedTuple):
    """What is known before the fit: rows in the fit's coordinates, in the memory of the host, and values that the user gives."""

    rows: DistinctRows
    Z: Floats  # (n, d) rows as starts are drawn among them
    row_mass: Floats  # (n,)
    scratch: Floats  # (n, K) or (n, K + 1) with noise: room for the scores
    n_components: int
    method: str
    coordinates: Coordinates  # of the parameters
    values: dict[str, Any]  # parameters given, in the units of the data
    centres: Floats | None = None  # (K, d) the means given, among the rows of Z
    weights: Floats | None = None  # (K,) given to start with
    forbidden: Booleans | None = None  # (n, K)
    prior: OwnLocation | None = None  # of the means, which tells the components apart

    @property
    def at_prior(self) -> Start:
        """The start at the means of the prior, if it tells the components apart and no means are given; else the start itself."""
        distinct = self.prior is not None and len(np.unique(self.prior.means, axis=0)) == self.n_components
        return self._replace(centres=self.prior.means) if distinct and self.prior and self.centres is None else self

    @property
    def complete(self) -> bool:
        """Nothing needs to be drawn."""
        return {"means", "covariances"} <= set(self.values)


class Outcome(NamedTuple):
    """A finished run: the fit of its last phase, the trace over all its phases, and the passes that it and its rivals took."""

    fit: Fit
    bounds: list[float]
    n_iter: int
    n_passes: int
    sound: bool  # no component collapsed or lost its rows: its likelihood is not that of a spike


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
    """Run all phases from one start; where weights are released, EM from the same start as well: the result is never worse."""
    drawn = None if start.complete else _draw(start, rng)
    forbidden = None if start.forbidden is None else engine.place(start.forbidden)

    def run(phases: list[Phase], weights: Floats | None) -> Outcome:
        state, scores = _initial_state(engine, phases[0], start, drawn, weights)
        bounds: list[float] = []
        n_iter, n_passes = 0, 0
        for phase in phases:
            fit = run_phase(engine, phase, state, report, scores, forbidden)
            state, bounds = fit.state, bounds + fit.bounds
            n_iter, n_passes = n_iter + fit.n_iter, n_passes + fit.n_passes
        return Outcome(fit, bounds, n_iter, n_passes, _sound(schedule.family, fit.state.parameters))

    if not schedule.burn_in:
        return run(schedule.main, None if schedule.learned.all() else _held(schedule, start))
    warm = run([schedule.first, *schedule.main], schedule.weights)
    if not schedule.releases:
        return warm
    return better(warm, run(schedule.main, None if schedule.learned.all() else _held(schedule, start)))


def _held(schedule: Schedule, start: Start) -> Floats:
    """The weights to begin with where some are held: those, and the given ones for the others, which share what is left."""
    learned, weights = schedule.learned, schedule.weights.copy()
    if start.weights is not None and start.weights[learned].sum() > 0:
        weights[learned] = start.weights[learned] / start.weights[learned].sum() * (1 - weights[~learned].sum())
    return weights


def _sound(family: Family, parameters: Any) -> bool:
    flags = (family.collapsed(parameters), family.retired(parameters))
    return not any(flag is not None and flag.any() for flag in flags)


def _initial_state(
    engine: Engine, phase: Phase, start: Start, drawn: Integers | Floats | None, weights: Floats | None
) -> tuple[State, list[Floats]]:
    """Parameters from what was drawn, those given put in their place, and room for scores; ``weights`` overrule the start's."""
    columns = start.scratch.shape[1]
    if drawn is None:
        scratch, b = engine.place(start.scratch), np.full(columns, 1 / columns)
        state = State(phase.family.start(columns, engine.shape[1]), b, np.zeros(len(phase.rule.extend(b))))
    else:
        _fill(start, drawn)
        scratch = engine.place(start.scratch)
        state = start_state(engine, phase.family, scratch, phase.rule)
    if start.values:
        parameters = phase.family.prescribe(state.parameters, start.values, start.coordinates)
        state = state._replace(parameters=parameters)
    weights = start.weights if weights is None else weights
    return (state if weights is None else state._replace(weights=weights)), scratch


def _fill(start: Start, drawn: Integers | Floats) -> None:
    """Log responsibilities of all rows in ``start.scratch``: what was drawn, a share of noise, and what is known of the rows."""
    scratch, K = start.scratch, start.n_components
    fill_log_responsibilities(drawn, start.rows.inverse, scratch[:, :K])
    if scratch.shape[1] > K:
        scratch[:, :K] += np.log1p(-START_NOISE)
        scratch[:, K:] = np.log(START_NOISE)
    if start.forbidden is not None:
        restrict_responsibilities(scratch, start.forbidden)


def _draw(start: Start, rng: np.random.RandomState) -> Integers | Floats:
    """Labels or responsibilities of the distinct rows: drawn, or the nearest of the means given."""
    Z = np.empty((len(start.rows.rows), start.Z.shape[1]))  # row-major, as scikit-learn wants it
    for q in range(Z.shape[1]):
        Z[:, q] = start.Z[start.rows.rows, q]
    if start.centres is not None:
        return nearest(Z, start.centres)
    drawn = draw_start(Z, start.rows.mass, start.n_components, start.method, rng)
    if start.prior is not None:
        drawn = match_prior(drawn, Z, start.rows.mass, start.prior)
    if start.forbidden is None:
        return drawn
    K = start.n_components
    return match(drawn, start.rows.inverse, start.forbidden[:, :K], start.row_mass)
