"""Hard labels with exact counts: the transport linear program between rows and components."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array

from .._typing import Floats, Integers
from ..ot import solve_plan

SHARPNESS = 30.0  # the plan is solved at a temperature this many times lower: few rows stay undecided
MARGIN = 20.0  # in units of that temperature: rows closer to a tie are contested
LARGEST = 1e6  # scores are scaled down to this
FORBIDDEN = -1e300  # stands for -inf in the linear program
ROUNDING = 1e-7  # of the largest score


def sizes_from_weights(weights: Floats, n: int) -> Integers:
    """Counts that sum to n, closest to n times the weights (largest remainder)."""
    exact = weights * n
    counts = np.floor(exact).astype(np.int64)
    order = np.argsort(counts - exact, kind="stable")
    counts[order[: n - counts.sum()]] += 1
    return counts


def round_plan(scores: Floats, counts: Integers) -> Integers:
    """Labels (n,) with the given counts (K,) that maximise the sum of scores[i, label_i].

    The program's dual prices are potentials: with any prices p, label_i = argmax(S_ik - p_k) is optimal for its own counts. Only
    rows contested at the prices of a nearly hard plan enter the program, and the result is checked against its own prices; if a
    row outside would change its mind, it is let in.
    """
    n, K = scores.shape
    numbers = counts.dtype.kind in "iuf"
    if not numbers or counts.shape != (K,) or (counts < 0).any() or (counts % 1 != 0).any() or counts.sum() != n:
        raise ValueError(
            f"sizes is {counts.tolist()}; it must hold {K} whole counts >= 0 that sum to the number of rows, {n}"
        )
    counts = counts.astype(np.int64)
    S = np.where(np.isfinite(scores), scores, FORBIDDEN) - scores.max(axis=1, keepdims=True)
    largest = float(np.abs(S[S > FORBIDDEN / 2]).max())
    S = np.where(
        S > FORBIDDEN / 2, S / max(1.0, largest / LARGEST), FORBIDDEN
    )  # the program's own tolerances are absolute
    prices = _prices(S, counts)
    margin = MARGIN / SHARPNESS
    while True:
        reduced = S - prices
        labels = np.argmax(reduced, axis=1)
        ranked = np.sort(reduced, axis=1)
        contested = ranked[:, -1] - ranked[:, max(K - 2, 0)] < margin
        left = counts - np.bincount(labels[~contested], minlength=K)
        if contested.all() or ((left >= 0).all() and left.sum() == contested.sum()):
            if contested.any():
                labels[contested], inner = _assign(S[contested], left)
                prices = np.where(left > 0, inner - (inner - prices)[left > 0].mean(), prices)
            regret = (S - prices).max(axis=1) - (S - prices)[np.arange(n), labels]
            if contested.all() or regret.max() <= ROUNDING * max(1.0, float(np.abs(S[S > FORBIDDEN / 2]).max())):
                return labels
        margin *= 4.0


def _prices(S: Floats, counts: Integers) -> Floats:
    """Column prices of the nearly hard plan with these counts: its argmax has nearly these counts."""
    n = counts.sum()
    plan = solve_plan(SHARPNESS * S, None, counts / n, tol=1e-6)
    used = counts > 0
    prices = np.full(len(counts), np.inf)
    prices[used] = -(plan.potentials[used] + np.log(counts[used] / n)) / SHARPNESS
    return prices


def _assign(S: Floats, counts: Integers) -> tuple[Integers, Floats]:
    """Solve the assignment program exactly: labels and column prices."""
    n, K = S.shape
    open_columns = np.flatnonzero(counts > 0)
    k = len(open_columns)
    rows = np.repeat(np.arange(n), k)
    columns = np.tile(np.arange(k), n)
    arcs = np.arange(n * k)
    A = csr_array((np.ones(2 * n * k), (np.concatenate([rows, n + columns]), np.concatenate([arcs, arcs]))))
    b = np.concatenate([np.ones(n), counts[open_columns]])
    result = linprog(-S[:, open_columns].ravel(), A_eq=A, b_eq=b, method="highs-ds")
    if not result.success:
        raise RuntimeError(f"the assignment program was not solved: {result.message}")
    prices = np.zeros(K)
    prices[open_columns] = -result.eqlin.marginals[n:]
    return open_columns[np.argmax(result.x.reshape(n, k), axis=1)], prices
