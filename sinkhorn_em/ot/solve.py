"""`solve_plan`: the entropic transport problem of n rows and K columns, checked, solved and reported."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Literal

import numpy as np

from .._parameters import is_tensor
from .._typing import Booleans, Floats
from .checks import check_masses, check_rule, check_settings
from .columns import ColumnRule, FixedMass
from .feasibility import InfeasibleMarginalsError, check_feasible
from .kernel import Evaluation, evaluate, log_normalisers
from .newton import Pass, Solution, Tolerances, solve_newton
from .plan import Plan, RowsPlan
from .quasi_newton import solver_for
from .sinkhorn import solve_sinkhorn

MAX_PASSES = {"newton": 1000, "sinkhorn": 20_000}
TOLERANCE = 1e-9  # L1 error of the column masses
RELATIVE_TOLERANCE = 1e3  # times tol: the error allowed in log(c/b) when tol is allowed in the sum of |c - b|
LARGEST_POTENTIAL = 1e15


def solve_plan(
    scores: Any,
    row_mass: Any = None,
    column_mass: Any = None,
    *,
    rule: str | ColumnRule = "fixed",
    tau: Any = None,
    potentials: Any = None,
    method: Literal["newton", "sinkhorn"] = "newton",
    tol: float | None = None,
    max_passes: int | None = None,
    empty_rows: Literal["raise", "prior", "drop"] = "raise",
) -> Any:
    r"""Solve the entropic transport of n rows onto K columns.

    .. math:: \max_{P \ge 0,\ P 1 = a}\ \langle P, S\rangle - KL(P \,|\, a b^T) - \sum_k \rho_k KL(P_{.k} | b_k)

    by Newton's method on the K column potentials g; the plan is ``P_ik = a_i softmax_k(S_ik + log b_k + g_k)``.

    Parameters
    ----------
    scores : array (n, K), or torch tensor (..., n, K)
        Log-densities, or ``-cost / epsilon``. -inf forbids a pair. Arrays are worked on in float64 whatever their storage. A
        tensor is solved on its own device, all leading dimensions at once, and gives a `sinkhorn_em.ot.tensors.TensorPlan` of
        tensors; its other arguments may have the leading dimensions too.
    row_mass : array (n,), optional
        Masses a >= 0, normalised to sum 1; default uniform. A row of mass 0 does not count, but has its responsibilities.
    column_mass : array (K,), optional
        Masses b >= 0, normalised to sum 1; default uniform. A column of mass 0 is inactive (potential -inf).
    rule : "fixed", "free", "relaxed", "bounded" or a rule object
        What is asked of the column masses; the objects are in `sinkhorn_em.ot`: `FixedMass`, `FreeMass`, `RelaxedMass`,
        `BoundedMass`, `VirtualColumn`.
    tau : float or array (K,), optional
        Short for a rule: 0 free (EM), 1 fixed (Sinkhorn-EM), between them KL with ``rho = tau / (1 - tau)``.
    potentials : array (K,), optional
        Warm start g, nats (K + 1 with a virtual column).
    method : "newton" or "sinkhorn"
        Trust-region Newton (for more than 256 columns that are fixed or KL: a quasi-Newton method, without K x K matrices), or the
        plain scaling iteration.
    tol : float, optional
        Largest L1 error of the column masses; log(c/b) may be off by at most ``1000 tol`` in every column. Default 1e-9, and 1e-6
        for a float32 tensor.
    max_passes : int, optional
        Passes over the scores; default 1000 (newton), 20000 (sinkhorn).
    empty_rows : "raise", "prior" or "drop"
        A row of positive mass with no finite score: an error, or assigned in proportion to b, or left out.

    Returns
    -------
    Plan
        Or `sinkhorn_em.ot.tensors.TensorPlan`, of a tensor.

    Raises
    ------
    InfeasibleMarginalsError
        -inf scores leave some columns with too little (or too much) mass; names them.
    ValueError
        NaN or +inf scores, shapes or masses that do not fit, unknown options.

    References
    ----------
    Cuturi & Peyre 2018 (semi-dual); Chizat et al. 2018 (KL columns); Mena et al. 2020 (Sinkhorn-EM).
    """
    if is_tensor(scores):
        options = {"potentials": potentials, "method": method, "tol": tol, "max_passes": max_passes}
        tensors = import_module("sinkhorn_em.ot.tensors")
        return tensors.solve_plan(scores, row_mass, column_mass, rule=rule, tau=tau, empty_rows=empty_rows, **options)
    check_settings(method, tol, max_passes, empty_rows)
    S = _check_scores(scores)
    n, K = S.shape
    a = check_masses(row_mass, n, "row_mass", column_mass)
    b = check_masses(column_mass, K, "column_mass", row_mass)
    rule = check_rule(rule, tau, K)
    tol = TOLERANCE if tol is None else float(tol)
    b = rule.extend(b)
    active = b > 0
    if not active.all():
        rule = rule.restrict(active)
    if S.size and S.min() == -np.inf:
        S, a = _check_support(S, a, b, active, rule, empty_rows)
    tolerances = Tolerances(tol, RELATIVE_TOLERANCE * tol, max_passes=max_passes or MAX_PASSES[method])
    g = _check_potentials(potentials, active)
    solution = solve_masses(
        lambda offset, temperature: evaluate(S, a, offset, temperature),
        rule,
        b,
        g,
        tolerances,
        solve_sinkhorn if method == "sinkhorn" else solver_for(rule, len(b)),
    )
    return as_plan(RowsPlan(S, offset_of(b, solution.potentials), a), rule, b, solution)


def solve_masses(
    one_pass: Pass,
    rule: ColumnRule,
    b: Floats,
    g: Floats,
    tolerances: Tolerances,
    solver: Callable[..., Solution] = solve_newton,
) -> Solution:
    """Solve on checked input, wherever the rows live: columns of mass 0 are left out, and get potential -inf.

    ``rule`` is already restricted to the columns of positive mass; ``b`` and the result have all of them.
    """
    active = b > 0
    if active.all():
        return solver(one_pass, rule, b, g, tolerances)

    def active_pass(offset: Floats, temperature: float) -> Evaluation:
        e = one_pass(_scatter(offset, active, -np.inf), temperature)
        W = None if e.gram is None else e.gram[np.ix_(active, active)]
        return Evaluation(e.value, e.mass[active], W)

    solution = solver(active_pass, rule, b[active], g[active], tolerances)
    return solution._replace(
        potentials=_scatter(solution.potentials, active, -np.inf), mass=_scatter(solution.mass, active, 0.0)
    )


def as_plan(rows: RowsPlan, rule: ColumnRule, b: Floats, solution: Solution) -> Plan:
    """Dress a solution as a `Plan`, with the primal value of the plan it stands for."""
    active = b > 0
    g, c, b = solution.potentials[active], solution.mass[active], b[active]
    primal = solution.value - rule.penalty(g, b) - float(c @ g) - rule.divergence(b, c)
    return Plan(
        rows=rows,
        potentials=solution.potentials,
        column_mass=solution.mass,
        value=solution.value,
        marginal_error=solution.marginal_error,
        relative_error=solution.relative_error,
        n_passes=solution.n_passes,
        converged=solution.status == "converged",
        status=solution.status,
        dual_gap=abs(solution.value - primal),
    )


def offset_of(b: Floats, g: Floats) -> Floats:
    """log b + g, -inf for columns of mass 0."""
    with np.errstate(divide="ignore"):
        return np.where(b > 0, np.log(b) + g, -np.inf)


def _scatter(values: Floats, active: Booleans, fill: float) -> Floats:
    if active.all():
        return values
    out = np.full(len(active), fill)
    out[active] = values
    return out


def _check_scores(scores: Any) -> Floats:
    S = np.asarray(scores)
    if S.ndim != 2 or S.shape[0] == 0 or S.shape[1] == 0:
        raise ValueError(f"scores has shape {S.shape}; it must be (n, K) with at least one row and one column")
    if S.dtype not in (np.float32, np.float64):
        S = S.astype(np.float64)
    if not (S.flags.c_contiguous or S.flags.f_contiguous):
        S = np.asfortranarray(S)  # strided views would need kernels of their own
    top = S.max()
    if not top < np.inf:
        row, column = (int(i) for i in np.argwhere(~(np.inf > S))[0])
        raise ValueError(
            f"scores[{row}, {column}] is {S[row, column]}; scores must be finite or -inf: remove the row, or use -inf to "
            "forbid the pair"
        )
    return S


def _check_potentials(potentials: Any, active: Booleans) -> Floats:
    if potentials is None:
        return np.zeros(len(active))
    g = np.asarray(potentials, float)
    if g.shape != active.shape:
        raise ValueError(f"potentials has shape {g.shape}; it must be {active.shape}, one per column")
    if not (np.abs(g[active]) < LARGEST_POTENTIAL).all():
        raise ValueError("potentials must be finite for columns of positive mass: leave them out for a cold start")
    return g


def _check_support(
    S: Floats, a: Floats, b: Floats, active: Booleans, rule: ColumnRule, empty_rows: str
) -> tuple[Floats, Floats]:
    """Deal with rows that have no finite score, then make sure that the rule's masses can be met."""
    K = S.shape[1]
    finite = np.isfinite(S) & active[:K]
    virtual = len(b) > K
    empty = ~finite.any(axis=1) & (a > 0) & (not virtual)
    if empty.any():
        row = int(np.flatnonzero(empty)[0])
        if empty_rows == "raise":
            raise InfeasibleMarginalsError(
                [],
                f"row {row} (and {int(empty.sum()) - 1} more) has mass but no finite score: give it one, or use "
                "empty_rows='prior' or 'drop'",
            )
        if empty_rows == "drop":
            if empty.all():
                raise ValueError("no row has a finite score: nothing is left after empty_rows='drop'")
            a = np.where(empty, 0.0, a)
            a /= a.sum()
        else:
            S = S.copy()
            S[empty] = 0.0
            finite[empty] = active[:K]
    if virtual:
        finite = np.column_stack([finite, np.ones(len(S), bool)])
    lower, upper = rule.mass_bounds(b[active])
    check_feasible(finite, a, lower, upper, active)
    return S, a


def log_partition(plan: Plan) -> Floats:
    """(n,) lse_k(S_ik + log b_k + g_k): the row potentials with their sign turned."""
    return log_normalisers(plan.rows.scores, plan.rows.offset)


__all__ = ["FixedMass", "InfeasibleMarginalsError", "log_partition", "solve_plan"]
