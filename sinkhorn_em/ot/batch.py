"""`solve_plans`: many small independent transport problems of one shape, one problem per turn of a thread."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np

from .._compiled import kernel, n_blocks, run_blocks, tile_rows
from .._typing import Booleans, Floats, Integers
from .kernel import fused_pass
from .newton import Tolerances
from .newton_kernel import newton_on_one
from .solve import LARGEST_POTENTIAL, RELATIVE_TOLERANCE

TURNS = 10  # passes that a problem is reckoned to take, when work is shared out


class Plans(NamedTuple):
    """The plans of B problems, from `solve_plans`: K numbers each."""

    #: (B, K) column potentials g in nats, sum b g = 0; -inf for columns of mass 0
    potentials: Floats
    #: (B, K) mass that each column receives
    column_mass: Floats
    #: (B,) optimal value, nats per unit of row mass; -inf where a row with mass has no finite score
    value: Floats
    #: (B,) sum |c - b|
    marginal_error: Floats
    #: (B,) max |log(c/b)|
    relative_error: Floats
    #: (B,) passes over the scores
    n_passes: Integers
    #: (B,) both errors are within the tolerance
    converged: Booleans


def solve_plans(
    scores: Any,
    row_mass: Any = None,
    column_mass: Any = None,
    *,
    tau: float = 1.0,
    potentials: Any = None,
    tol: float = 1e-9,
    max_passes: int = 1000,
) -> Plans:
    r"""Solve B entropic transport problems of n rows and K columns each.

    .. math:: \max_{P \ge 0,\ P 1 = a,\ P' 1 = b}\ \langle P, S\rangle - KL(P \,|\, a b^T)

    for every problem, as `solve_plan` does (the same Newton iteration, conventions and stops), with nothing between the passes
    but compiled code: for problems so small that `solve_plan` would spend its time in Python. The plan of problem ``j`` is
    ``P_ik = a_i softmax_k(S_ik + log b_k + g_k)``.

    Parameters
    ----------
    scores : array (B, n, K)
        Log-densities, or ``-cost / epsilon``. -inf forbids a pair.
    row_mass : array (n,) or (B, n), optional
        Masses a >= 0, each normalised to sum 1; default uniform.
    column_mass : array (K,) or (B, K), optional
        Masses b >= 0, each normalised to sum 1; default uniform. A column of mass 0 is inactive (potential -inf).
    tau : 0 or 1
        0: column masses free (EM, g = 0, the value is the mean log-likelihood); 1: fixed at b (Sinkhorn-EM).
    potentials : array (B, K), optional
        Warm starts g, nats; entries that are not finite start at 0.
    tol : float
        Largest L1 error of the column masses; log(c/b) may be off by at most ``1000 tol`` in every column.
    max_passes : int
        Passes over the scores of one problem.

    Returns
    -------
    Plans
        Problems that could not be solved have ``converged`` False: too few passes, or -inf scores that leave some columns with
        too little or too much mass, or a row with mass but no finite score. The other fields then tell where Newton stopped,
        and are never NaN. No exception is raised for them: one bad problem does not stop the others.

    Raises
    ------
    ValueError
        NaN or +inf scores, shapes or masses that do not fit, unknown options, any other ``tau``.

    References
    ----------
    Cuturi & Peyre 2018 (semi-dual); Mena, Nejatbakhsh, Varol, Niles-Weed 2020, arXiv:2006.16548 (Sinkhorn-EM).

    Examples
    --------
    >>> import numpy as np
    >>> from sinkhorn_em.ot import solve_plans
    >>> scores = np.log([[[0.9, 0.1], [0.8, 0.2]], [[0.5, 0.5], [0.1, 0.9]]])
    >>> solve_plans(scores).column_mass.round(6)
    array([[0.5, 0.5],
           [0.5, 0.5]])
    """
    S = _check_scores(scores)
    B, n, K = S.shape
    a = check_masses(row_mass, B, n, "row_mass")
    b = np.array(np.broadcast_to(check_masses(column_mass, B, K, "column_mass"), (B, K)), order="C")
    check_tau(tau)
    if not isinstance(tol, Real) or not float(tol) > 0:
        raise ValueError(f"tol is {tol}; it must be positive: 1e-9 is the default")
    if not (isinstance(max_passes, Integral) and max_passes >= 1):
        raise ValueError(f"max_passes is {max_passes!r}; it must be an integer of at least 1")
    g = _check_potentials(potentials, b)
    return solve_checked(S, a, b, g, bool(tau == 1), float(tol), int(max_passes))


def solve_checked(S: Floats, a: Floats, b: Floats, g: Floats, held: bool, tol: float, max_passes: int) -> Plans:
    """`solve_plans` for contiguous S (B, n, K), a (1 or B, n), b (B, K) and finite g (B, K), which is overwritten."""
    B, n, K = S.shape
    tolerances = Tolerances(tol, RELATIVE_TOLERANCE * tol, np.inf, max_passes)
    numbers, mass, blocks = np.empty((B, 5)), np.empty((B, K)), n_blocks(B, n * K * TURNS, 1)
    tile = min(tile_rows(K), n)
    run_blocks(
        lambda block, start, stop: _solve_block(S, a, b, held, tolerances, tile, start, stop, g, mass, numbers),
        B,
        blocks,
    )
    g[b == 0] = -np.inf
    stuck = _has_stuck_row(S, a, b)
    value = np.where(stuck, -np.inf, numbers[:, 0])
    converged = (numbers[:, 4] > 0) & ~stuck
    return Plans(g, mass, value, numbers[:, 1], numbers[:, 2], numbers[:, 3].astype(np.int64), converged)


@kernel
def _solve_block(scores, row_mass, b, held, tolerances, tile, start, stop, g, mass, numbers):
    """Problems start..stop of ``scores`` (B, n, K); g is overwritten, numbers are the fields of `Plans` behind the masses."""
    n, K = scores.shape[1:]
    S, gram = np.empty((K, n)), np.empty((K, K))
    for j in range(start, stop):
        a = row_mass[j if row_mass.shape[0] > 1 else 0]
        for i in range(n):
            for k in range(K):
                S[k, i] = scores[j, i, k]
        if held:
            outcome = newton_on_one(S, a, b[j], g[j], mass[j], tile, tolerances)
            numbers[j, 0], numbers[j, 1], numbers[j, 2] = outcome.value, outcome.marginal_error, outcome.relative_error
            numbers[j, 3], numbers[j, 4] = outcome.n_passes, outcome.converged
        else:
            g[j] = 0.0
            fused_pass(S, a, np.log(b[j]), 0, n, tile, 0.0, numbers[j], mass[j], gram)
            numbers[j, 1:] = (0.0, 0.0, 1.0, 1.0)


def _has_stuck_row(S: Floats, a: Floats, b: Floats) -> Booleans:
    """(B,) some row with mass has no finite score in a column with mass: no plan exists."""
    if S.min() > -np.inf:
        return np.zeros(len(S), bool)
    supported = np.any((-np.inf < S) & (b > 0)[:, None], axis=2)
    return np.asarray(np.any(~supported & (a > 0), axis=1))


def check_tau(tau: Any) -> None:
    """Raise ValueError unless the column masses are free (0) or fixed (1)."""
    if np.ndim(tau) != 0 or tau not in (0, 1):
        raise ValueError(
            f"tau is {tau}; it must be 0 (EM) or 1 (Sinkhorn-EM) here: for others use solve_plan, one at a time"
        )


def check_masses(mass: Any, B: int, size: int, name: str) -> Floats:
    """Masses of B problems, (1, size) where they are common or (B, size), each of sum 1."""
    if mass is None:
        return np.full((1, size), 1 / size)
    m = np.ascontiguousarray(mass, float)
    if m.shape not in ((size,), (B, size)):
        raise ValueError(
            f"{name} has shape {m.shape}; it must be ({size},), or ({B}, {size}) with one row for each problem"
        )
    m = m.reshape(-1, size)
    good = (m >= 0) & (m < np.inf)
    if not good.all():
        row, column = (int(i) for i in np.argwhere(~good)[0])
        raise ValueError(f"{name}[{row}, {column}] is {m[row, column]}; masses must be finite and not negative")
    with np.errstate(over="ignore"):
        total = m.sum(axis=1, keepdims=True)
    good = (total > 0) & (total < np.inf)
    if not good.all():
        row = int(np.flatnonzero(~good)[0])
        raise ValueError(
            f"{name}[{row}] sums to {total[row, 0]}; at least one mass must be positive, and the sum finite: shares will do"
        )
    return m / total


def _check_scores(scores: Any) -> Floats:
    S = np.asarray(scores, float)
    if S.ndim != 3 or 0 in S.shape:
        raise ValueError(
            f"scores has shape {S.shape}; it must be (B, n, K) with at least one problem, row and column: scores[None] is "
            "one problem"
        )
    if not S.max() < np.inf:
        where = tuple(int(i) for i in np.argwhere(~(np.inf > S))[0])
        raise ValueError(
            f"scores{list(where)} is {S[where]}; scores must be finite or -inf: remove the row, or use -inf to forbid the pair"
        )
    return S


def _check_potentials(potentials: Any, b: Floats) -> Floats:
    """Warm starts, a copy."""
    if potentials is None:
        return np.zeros(b.shape)
    g = np.array(potentials, float, order="C")
    if g.shape != b.shape:
        raise ValueError(
            f"potentials has shape {g.shape}; it must be {b.shape}, one row for each problem: leave it out to start at 0"
        )
    g[~(np.abs(g) < LARGEST_POTENTIAL)] = 0.0
    return g
