"""From starting labels to the best fit: high temperatures, burn-in, main phase, several starts side by side.

With tau > 0 every start first runs at most 30 sweeps of variational Sinkhorn-EM with weights held, uniform or those given, and
dispersions in common. Sides whose weights are prescribed stay held after it; those whose weights are learned are released:
variational EM from there, and from the start itself as well, and the better of the two. With temperatures, the annealed path is one
more, and the best of them counts. Before weights that differ are held, the
clusters of a drawn start are matched to them by size, after a fit that learns them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from .._typing import Floats, Integers
from ..block_families import BlockFamily
from ..cells import Cells
from ..ot import ColumnRule
from .loop import BlockFit, BlockPhase, BlockState, Side, SideRule, run_phase, start_states
from .starts import Labels

BURN_IN_SWEEPS, BURN_IN_TOL = 30, 1e-6
WARM_SWEEPS = 10  # at every temperature above 1
SIDE_BY_SIDE = 64  # columns of responsibilities moved at once: more would leave the cache


@dataclass(frozen=True)
class BlockSchedule:
    """The phases of one fit."""

    family: BlockFamily
    rules: tuple[ColumnRule, ColumnRule]  # what tau asks of rows and of columns
    learned: tuple[bool, bool]
    weights: tuple[Floats, Floats]  # prescribed, or uniform; what the burn-in holds
    temperatures: tuple[float, ...]  # above 1, falling
    max_iter: int
    tol: float
    burn_in: bool = True

    @property
    def released(self) -> bool:
        """Some side is held in the burn-in and let go after it."""
        return any(learned and rule.constrains for learned, rule in zip(self.learned, self.rules, strict=True))

    @property
    def main(self) -> BlockPhase:
        """The phase that decides the fit: learned weights are free."""
        rows, columns = (
            SideRule(rule.released if learned else rule, learned)
            for rule, learned in zip(self.rules, self.learned, strict=True)
        )
        return BlockPhase(self.family, rows, columns, self.max_iter, self.tol)

    @property
    def first(self) -> BlockPhase:
        """The burn-in: weights held, dispersions in common. The main phase itself where that is the same."""
        if not (self.burn_in and any(rule.constrains for rule in self.rules)):
            return self.main
        rows, columns = (SideRule(rule, learned=False) for rule in self.rules)
        sweeps = min(BURN_IN_SWEEPS, self.max_iter)
        return BlockPhase(self.family.pooled, rows, columns, sweeps, max(self.tol, BURN_IN_TOL))


class BlockOutcome(NamedTuple):
    """A finished run: its last phase, and the trace over all its phases at temperature 1."""

    fit: BlockFit
    bounds: list[tuple[float, ...]]
    n_passes: int

    @property
    def bound(self) -> float:
        return self.bounds[-1][-1]


def run_starts(
    cells: Cells, schedule: BlockSchedule, labels: list[Labels], report: Callable[[], None] | None = None
) -> list[BlockOutcome]:
    """Every start to its end; as many side by side as stay in the cache."""
    widest = max(len(w) for w in schedule.weights)
    paths = 1 + schedule.released + bool(schedule.temperatures)
    together = max(1, SIDE_BY_SIDE // (widest * paths))
    outcomes: list[BlockOutcome] = []
    for i in range(0, len(labels), together):
        outcomes += _run_together(cells, schedule, labels[i : i + together], report)
    return outcomes


def _run_together(
    cells: Cells, schedule: BlockSchedule, labels: list[Labels], report: Callable[[], None] | None
) -> list[BlockOutcome]:
    first, main = schedule.first, schedule.main
    plain = start_states(cells, first, labels, schedule.weights)
    states = plain
    if schedule.temperatures:  # too hot a start forgets all it knew: the plain one runs, too
        states = plain + _annealed(cells, schedule, plain, report)
    traces: list[list[tuple[float, ...]]] = [[] for _ in states]
    passes = [0] * len(states)
    if first != main:
        burnt = run_phase(cells, first, states, report)
        states, traces = [fit.state for fit in burnt], [fit.bounds for fit in burnt]
        passes = [fit.n_passes for fit in burnt]
    if schedule.released and first != main:
        rivals = start_states(cells, main, labels, schedule.weights)
        states, traces, passes = states + rivals, traces + [[] for _ in rivals], passes + [0] * len(rivals)
    fits = run_phase(cells, main, states, report)
    outcomes = [
        BlockOutcome(fit, trace + fit.bounds, before + fit.n_passes)
        for fit, trace, before in zip(fits, traces, passes, strict=True)
    ]
    return [best_of(outcomes[s :: len(labels)]) for s in range(len(labels))]


def _annealed(
    cells: Cells, schedule: BlockSchedule, states: list[BlockState], report: Callable[[], None] | None
) -> list[BlockState]:
    """States after some sweeps at every temperature."""
    for temperature in schedule.temperatures:
        warm = replace(schedule.first, temperature=temperature, max_iter=WARM_SWEEPS)
        states = [fit.state for fit in run_phase(cells, warm, states, report)]
    return states


def match_sizes(cells: Cells, schedule: BlockSchedule, labels: list[Labels], drawn: tuple[bool, bool]) -> list[Labels]:
    """Labels of ``drawn`` sides numbered so that larger clusters have larger weights, where prescribed weights differ.

    Held sizes pin a cluster to the weight that it was born with, so every start is first fitted with these weights learned.
    """
    pinned = [
        is_drawn and not learned and bool((w != w[0]).any())
        for is_drawn, learned, w in zip(drawn, schedule.learned, schedule.weights, strict=True)
    ]
    if not any(pinned):
        return labels
    rows, columns = (np.full_like(w, 1 / len(w)) if pin else w for pin, w in zip(pinned, schedule.weights, strict=True))
    learned = (schedule.learned[0] or pinned[0], schedule.learned[1] or pinned[1])
    free = replace(schedule, weights=(rows, columns), learned=learned)
    matched = []
    for outcome, (z, w) in zip(run_starts(cells, free, labels), labels, strict=True):
        state = outcome.fit.state
        matched.append(
            (
                _by_size(state.rows, schedule.weights[0]) if pinned[0] else z,
                _by_size(state.columns, schedule.weights[1]) if pinned[1] else w,
            )
        )
    return matched


def _by_size(side: Side, weights: Floats) -> Integers:
    """Labels of a side, its clusters numbered so that larger ones have larger weights."""
    labels = side.responsibilities.argmax(axis=1)
    by_count = np.argsort(-np.bincount(labels, minlength=len(weights)), kind="stable")
    number = np.empty_like(by_count)
    number[by_count] = np.argsort(-weights, kind="stable")
    return number[labels]


def best_of(outcomes: list[BlockOutcome]) -> BlockOutcome:
    """The outcome of the highest bound, the first of equals, with the passes of all."""
    best = outcomes[int(np.argmax([outcome.bound for outcome in outcomes]))]
    return best._replace(n_passes=sum(outcome.n_passes for outcome in outcomes))
