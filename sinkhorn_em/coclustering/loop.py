"""The loop of a latent block model: rows, parameters, columns, parameters, weights, until the bound stops rising.

Rows z_i in 1..K and columns w_j in 1..L have clusters; X_ij | z, w ~ f(.; phi_zw). With responsibilities T (n, K) and N (m, L),

    J = sum_ijkl T_ik N_jl log f(X_ij; phi_kl) - KL(T | pi) - KL(N | rho),    KL(T | pi) = sum_ik T_ik log(T_ik / pi_k),

is a lower bound of the log-likelihood, in nats. The row step is the E-step of the mixtures on the scores
S_ik = sum_jl N_jl log f(X_ij; phi_kl): free column masses are variational EM, held ones (T' 1 = n pi) variational Sinkhorn-EM.
The column step is the same on the transpose. No step lowers J (at a temperature t: J with t times the divergences).

Several states are moved side by side, which reads the matrix once for all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from .._typing import Floats, Integers
from ..block_families import BlockFamily
from ..block_families.base import Natural
from ..cells import Cells
from ..em import State, e_step
from ..engines import InMemory
from ..ot import ColumnRule
from ..ot.kernel import responsibilities
from ..ot.newton import Tolerances
from ..ot.solve import offset_of

#: of a row or column step. Potentials are sums over hundreds of cells: an error of the masses costs that many nats
TOLERANCES = Tolerances(marginal=1e-12, relative=1e-9, max_passes=200)


class Side(NamedTuple):
    """The rows of the matrix, or its columns."""

    responsibilities: Floats  # (n, K)
    weights: Floats  # (K,)
    potentials: Floats  # (K,), of the last plan
    divergence: float = 0.0  # KL(T | weights), and what the rule charges for the masses; nats
    marginal_error: float = 0.0  # of the last plan, sum |c - t|


class BlockState(NamedTuple):
    """What the loop moves."""

    rows: Side
    columns: Side
    parameters: Any


@dataclass(frozen=True)
class SideRule:
    """What is asked of one side: the column rule of its plan, and whether its weights follow the masses."""

    rule: ColumnRule
    learned: bool


@dataclass(frozen=True)
class BlockPhase:
    """One run of the loop."""

    family: BlockFamily
    rows: SideRule
    columns: SideRule
    max_iter: int
    tol: float  # stop when a sweep raises J by less, nats per observed cell
    temperature: float = 1.0


class BlockFit(NamedTuple):
    """Where the loop stopped."""

    state: BlockState
    bounds: list[tuple[float, ...]]  # J after every half step of every sweep, nats
    n_passes: int  # passes over the scores of the row and column steps
    converged: bool


def start_states(
    cells: Cells, phase: BlockPhase, labels: list[tuple[Integers, Integers]], weights: tuple[Floats, Floats]
) -> list[BlockState]:
    """States from labels of rows and columns: the parameters that fit them, and a column step, so that J is that of plans."""
    alike = phase.family.start(cells, *(len(w) for w in weights))
    states = []
    for z, w in labels:
        sides = [_labelled(*side) for side in zip((z, w), weights, strict=True)]
        states.append(BlockState(sides[0], sides[1], alike))
    products = _products(cells, states, rows=False)
    for s, sums in enumerate(products):
        state = states[s]
        state = state._replace(parameters=_parameters(phase.family, cells, state, sums, rows=False)[0])
        scores = side_scores(phase.family.natural(state.parameters), sums, rows=False)
        state = state._replace(columns=assign(scores, state.columns, phase.columns.rule, phase.temperature)[0])
        parameters, _ = _parameters(phase.family, cells, state, sums, rows=False)
        states[s] = state._replace(parameters=parameters)
    return states


def _labelled(labels: Integers, weights: Floats) -> Side:
    R = np.equal.outer(labels, np.arange(len(weights))).astype(float)
    return Side(R, weights, np.zeros(len(weights)))


def run_phase(
    cells: Cells, phase: BlockPhase, states: list[BlockState], report: Callable[[], None] | None = None
) -> list[BlockFit]:
    """Move every state to convergence, or for ``max_iter`` sweeps."""
    fits = [BlockFit(state, [], 0, False) for state in states]
    active = list(range(len(states)))
    for _ in range(phase.max_iter):
        for rows in (True, False):
            products = _products(cells, [fits[s].state for s in active], rows)
            for s, sums in zip(active, products, strict=True):
                fits[s] = _side_step(cells, phase, fits[s], sums, rows)
        for s in active:
            fits[s] = _end_sweep(phase, fits[s], cells.n_observed)
        active = [s for s in active if not fits[s].converged]
        if report is not None:
            report()
        if not active:
            break
    return fits


def side_scores(natural: Natural, sums: Floats, rows: bool) -> Floats:
    """Scores (n, K) of rows from the sums over columns (C + 1, n, L), or (m, L) of columns from those over rows."""
    coefficients = [*natural.eta, -natural.log_partition]
    S = sum((A if rows else A.T) @ part.T for A, part in zip(coefficients, sums, strict=True))
    return np.ascontiguousarray(S).T


def fit_of_blocks(natural: Natural, sums: Floats, exposure: Floats) -> float:
    """sum_kl [sum_c eta_ckl sums_ckl - exposure_kl A_kl]: the expected log-likelihood without its constant."""
    return float((natural.eta * sums).sum() - (natural.log_partition * exposure).sum())


def _products(cells: Cells, states: list[BlockState], rows: bool) -> list[Floats]:
    """Sums over columns (C + 1, n, L), or over rows (C + 1, m, K), of every state: one pass over the matrix for all."""
    given = [(state.columns if rows else state.rows).responsibilities for state in states]
    sums = (cells.over_columns if rows else cells.over_rows)(np.hstack(given))
    edges = np.cumsum([0, *(R.shape[1] for R in given)])
    return [sums[:, :, start:stop] for start, stop in pairwise(edges)]


def _side_step(cells: Cells, phase: BlockPhase, fit: BlockFit, sums: Floats, rows: bool) -> BlockFit:
    """The row step and the parameters, or the column step and the parameters."""
    family, t, state = phase.family, phase.temperature, fit.state
    side, other = (state.rows, state.columns) if rows else (state.columns, state.rows)
    scores = side_scores(family.natural(state.parameters), sums, rows)
    side, value, passes = assign(scores, side, (phase.rows if rows else phase.columns).rule, t)
    assigned = value + family.constant(cells, state.parameters) - t * other.divergence
    state = state._replace(rows=side) if rows else state._replace(columns=side)
    parameters, expected = _parameters(family, cells, state, sums, rows)
    halves = (assigned, expected - t * (side.divergence + other.divergence))
    bounds = [*fit.bounds, halves] if rows else [*fit.bounds[:-1], fit.bounds[-1] + halves]
    return BlockFit(state._replace(parameters=parameters), bounds, fit.n_passes + passes, False)


def _parameters(family: BlockFamily, cells: Cells, state: BlockState, sums: Floats, rows: bool) -> tuple[Any, float]:
    """Parameters that fit the responsibilities, and the expected log-likelihood; ``sums`` are those over columns, or rows."""
    T, N = state.rows.responsibilities, state.columns.responsibilities
    blocks = np.stack([T.T @ part if rows else part.T @ N for part in sums])  # (C + 1, K, L)
    parameters = family.maximise(blocks[:-1], blocks[-1], cells, state.parameters)
    expected = fit_of_blocks(family.natural(parameters), blocks[:-1], blocks[-1]) + family.constant(cells, parameters)
    return parameters, expected


def assign(scores: Floats, side: Side, rule: ColumnRule, temperature: float = 1.0) -> tuple[Side, float, int]:
    """The plan of ``scores`` (n, K): the new side, max over T of <T, S> - temperature KL(T | weights), nats, and its passes."""
    n = len(scores)
    top = scores.max(axis=1)
    centred = ((scores.T - top) / temperature).T  # contiguous by cluster
    engine = InMemory(centred, np.full(n, 1 / n))
    solution = e_step(engine, rule, State(None, side.weights, side.potentials), [centred], TOLERANCES)
    R = responsibilities(centred, offset_of(side.weights, solution.potentials))
    divergence = float(np.vdot(R, centred)) - n * solution.minimum
    value = float(top.sum()) + temperature * n * solution.minimum
    moved = Side(R, side.weights, solution.potentials, divergence, solution.marginal_error)
    return moved, value, solution.n_passes


def _end_sweep(phase: BlockPhase, fit: BlockFit, n_cells: int) -> BlockFit:
    """The weights follow the masses where they are learned; the sweep is compared with the last one."""
    t, state, bound = phase.temperature, fit.state, fit.bounds[-1][-1]
    rows, columns = _weighed(state.rows, phase.rows), _weighed(state.columns, phase.columns)
    gain = state.rows.divergence - rows.divergence + state.columns.divergence - columns.divergence
    bounds = [*fit.bounds[:-1], (*fit.bounds[-1], bound + t * gain)]
    converged = len(bounds) > 1 and bounds[-1][-1] - bounds[-2][-1] < phase.tol * n_cells
    return BlockFit(BlockState(rows, columns, state.parameters), bounds, fit.n_passes, converged)


def _weighed(side: Side, asked: SideRule) -> Side:
    """The side with its weights at the masses, if they are learned, and the divergence from them."""
    if not asked.learned:
        return side
    mass = side.responsibilities.mean(axis=0)
    mass /= mass.sum()
    held = mass > 0
    gain = len(side.responsibilities) * float(mass[held] @ np.log(mass[held] / side.weights[held]))
    return side._replace(weights=mass, divergence=side.divergence - gain)
