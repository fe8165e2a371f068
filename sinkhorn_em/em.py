"""The loop: scores, transport plan, moments, parameters, until the bound stops rising.

It asks no family, rule, weight step or engine what it is. One iteration is

    S <- family.log_density        plan <- minimise the semi-dual of `rule` over K potentials, warm
    weights, plan <- moved together, or as they are         parameters <- family.maximise(family.statistics under the plan)
    weights <- column masses, or as they are

and the value of the plan problem, a lower bound of the mean log-likelihood (equal to it for the free rule), never falls, unless
weights move by a step that does not promise it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ._typing import Booleans, Floats
from .engines import Engine
from .families.base import Family, Turn
from .ot import ColumnRule, FreeMass, RowsPlan
from .ot.kernel import Evaluation, evaluate
from .ot.newton import Solution, Tolerances
from .ot.solve import offset_of, solve_masses
from .weight_steps import MASSES, WeightStep

TIGHT = 1e-9  # L1 error of the column masses at the end of a fit
LOOSE = 1e-4  # largest error allowed while parameters move
SHARE_OF_GAIN = 0.01  # an E-step may be off by this share of the last gain in the bound: the bound still rises
TIGHT_GAP, LOOSE_GAP = 1e-12, 1e-8  # error of the bound itself, nats per row
RELATIVE, MOST_RELATIVE = 1e3, 0.1  # error of log(c/b) allowed, as a multiple of the L1 error; at most
MAX_PASSES = 200  # of one E-step


class State(NamedTuple):
    """What EM moves."""

    parameters: Any
    weights: Floats  # (K,), one for each column of the scores
    potentials: Floats  # (K,) or (K + 1,) with a virtual column; the warm start of the next plan


@dataclass(frozen=True)
class Phase:
    """One run of the loop with one rule and one family."""

    family: Family
    rule: ColumnRule
    learned: Booleans | bool  # weights that are learned, (K,) or all; the others are held
    max_iter: int
    tol: float  # stop when the bound rises by less, nats per row
    weight_step: WeightStep = MASSES  # how those that are learned move


class Fit(NamedTuple):
    """Where the loop stopped."""

    state: State
    bounds: list[float]  # value of every E-step and log-prior, nats per unit of mass
    solution: Solution  # the last, tight one
    n_iter: int  # M-steps
    n_passes: int  # passes over the scores
    converged: bool


def start_state(engine: Engine, family: Family, log_responsibilities: list[Floats], rule: ColumnRule) -> State:
    """Parameters and weights from responsibilities, given as logarithms, (n, K) over tiles.

    The statistics are taken twice: roughly, about the family's own start, then about the parameters found.
    """
    K = log_responsibilities[0].shape[1]
    offset, parameters = np.zeros(K), family.start(K, engine.shape[1])
    for member in (family.rough, family):
        statistics = _statistics(engine, member, log_responsibilities, offset, parameters)
        parameters = member.maximise(statistics, parameters)
    state = State(parameters, np.full(K, 1 / K), np.zeros(K))
    mass = e_step(engine, FreeMass(), state, log_responsibilities, tolerances_after(0.0)).mass
    weights = mass / mass.sum()
    return State(parameters, weights, np.zeros(len(rule.extend(weights))))


def run_phase(
    engine: Engine,
    phase: Phase,
    state: State,
    report: Callable[[int, float], None] | None = None,
    scores: list[Floats] | None = None,
    forbidden: list[Booleans] | None = None,
) -> Fit:
    """Run EM from ``state`` to convergence or ``max_iter`` M-steps.

    ``report(iteration, bound)`` is called along the way; ``scores`` is memory of earlier ones that may be used again;
    ``forbidden`` (n, K) over tiles are pairs that get the score -inf.
    """
    family, rule = phase.family, phase.rule
    bounds: list[float] = []
    n_passes, converged, gain = 0, False, np.inf
    for iteration in range(phase.max_iter + 1):
        scores = score(engine, family, state.parameters, scores, forbidden)
        prior = family.log_prior(state.parameters)
        solution = e_step(engine, rule, state, scores, tolerances_after(gain))
        n_passes += solution.n_passes
        bounds.append(solution.minimum + prior)
        gain = bounds[-1] - bounds[-2] if iteration else np.inf
        if report is not None:
            report(iteration, bounds[-1])
        converged = abs(gain) < phase.tol
        if converged or iteration == phase.max_iter:
            break
        state, solution, passes = _move_weights(engine, phase, state, scores, solution, tolerances_after(gain))
        n_passes += passes
        state = m_step(engine, phase, state, scores, solution)
    assert scores is not None
    if solution.marginal_error > TIGHT:
        state = state._replace(potentials=solution.potentials)
        solution = e_step(engine, rule, state, scores, tolerances_after(0.0))
        n_passes += solution.n_passes
        bounds[-1] = solution.minimum + prior
    state = state._replace(potentials=solution.potentials)
    return Fit(state, bounds, solution, iteration, n_passes, converged)


def score(
    engine: Engine,
    family: Family,
    parameters: Any,
    into: list[Floats] | None = None,
    forbidden: list[Booleans] | None = None,
) -> list[Floats]:
    """Log-densities (n, K) of all tiles, -inf at forbidden pairs; ``into`` gives its memory back."""
    scores = engine.map(lambda X, out: family.log_density(X, parameters, out), into)
    if forbidden is not None:
        for S, pairs in zip(scores, forbidden, strict=True):
            S[pairs] = -np.inf
    return scores


def e_step(engine: Engine, rule: ColumnRule, state: State, scores: list[Floats], tolerances: Tolerances) -> Solution:
    """The plan of the current scores, as K potentials."""

    def one_pass(offset: Floats, temperature: float) -> Evaluation:
        return engine.reduce(lambda X, mass, S: evaluate(S, mass, offset, temperature), scores)

    b = rule.extend(state.weights)
    active = b > 0
    rule = rule if active.all() else rule.restrict(active)
    g = np.where(np.isfinite(state.potentials), state.potentials, 0.0)
    return solve_masses(one_pass, rule, b, g, tolerances)


def m_step(engine: Engine, phase: Phase, state: State, scores: list[Floats], solution: Solution) -> State:
    """Parameters, and weights if they are learned after them, that fit the plan."""
    offset = offset_of(phase.rule.extend(state.weights), solution.potentials)
    parameters = state.parameters
    for turn in phase.family.turns:
        statistics = _statistics(engine, turn, scores, offset, parameters)
        parameters = turn.maximise(statistics, parameters)
    weights = phase.weight_step.after(_learned(phase, state), state.weights, solution)
    return State(parameters, weights, solution.potentials)


def _move_weights(
    engine: Engine, phase: Phase, state: State, scores: list[Floats], solution: Solution, tolerances: Tolerances
) -> tuple[State, Solution, int]:
    """Weights that move before the M-step, with the plan of the same scores that goes with them."""

    def solve(weights: Floats, potentials: Floats) -> Solution:
        return e_step(engine, phase.rule, State(state.parameters, weights, potentials), scores, tolerances)

    weights, solution, passes = phase.weight_step.before(solve, _learned(phase, state), state.weights, solution)
    return state._replace(weights=weights), solution, passes


def _learned(phase: Phase, state: State) -> Booleans:
    return np.broadcast_to(phase.learned, state.weights.shape)


def _statistics(engine: Engine, turn: Turn, scores: list[Floats], offset: Floats, parameters: Any) -> Any:
    return engine.reduce(lambda X, mass, S: turn.statistics(X, RowsPlan(S, offset, mass), parameters), scores)


def tolerances_after(gain: float) -> Tolerances:
    """What an E-step may be off by, after the bound rose by ``gain`` (`locations` compiles this function, too)."""
    allowed = SHARE_OF_GAIN * gain
    marginal = min(max(allowed, TIGHT), LOOSE)
    return Tolerances(
        marginal, min(RELATIVE * marginal, MOST_RELATIVE), min(max(allowed, TIGHT_GAP), LOOSE_GAP), MAX_PASSES
    )
