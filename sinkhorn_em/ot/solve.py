"""`solve_plan`: the entropic transport problem of n rows and K columns, checked, solved and reported."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np

from .._typing import Booleans, Floats
from .columns import RULES, ColumnRule, FixedMass, rule_for_tau
from .feasibility import InfeasibleMarginalsError, check_feasible
from .kernel import Evaluation, evaluate, log_normalisers
from .newton import Pass, Solution, Tolerances, solve_newton
from .plan import Plan, RowsPlan
from .sinkhorn import solve_sinkhorn

EMPTY_ROWS = ("raise", "prior", "drop")
SOLVERS = {"newton": solve_newton, "sinkhorn": solve_sinkhorn}
MAX_PASSES = {"newton": 1000, "sinkhorn": 20_000}
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
    tol: float = 1e-9,
    max_passes: int | None = None,
    empty_rows: Literal["raise", "prior", "drop"] = "raise",
) -> Plan:
    r"""Solve the entropic transport of n rows onto K columns.

    .. math:: \max_{P \ge 0,\ P 1 = a}\ \langle P, S\rangle - KL(P \,|\, a b^T) - \sum_k \rho_k KL(P_{.k} | b_k)

    by Newton's method on the K column potentials g; the plan is ``P_ik = a_i softmax_k(S_ik + log b_k + g_k)``.

    Parameters
    ----------
    scores : array (n, K), float32 or float64
        Log-densities, or ``-cost / epsilon``. -inf forbids a pair. Work is in float64 whatever the storage.
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
        Trust-region Newton, or the plain scaling iteration.
    tol : float
        Largest L1 error of the column masses; log(c/b) may be off by at most ``1000 tol`` in every column.
    max_passes : int, optional
        Passes over the scores; default 1000 (newton), 20000 (sinkhorn).
    empty_rows : "raise", "prior" or "drop"
        A row of positive mass with no finite score: an error, or assigned in proportion to b, or left out.

    Returns
    -------
    Plan

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
    S = _check_scores(scores)
    n, K = S.shape
    a = _check_mass(row_mass, n, "row_mass", column_mass)
    b = _check_mass(column_mass, K, "column_mass", row_mass)
    rule = _check_rule(rule, tau, K)
    if not isinstance(method, str) or method not in SOLVERS:
        raise ValueError(f"method is {method!r}; it must be one of {sorted(SOLVERS)}")
    if empty_rows not in EMPTY_ROWS:
        raise ValueError(f"empty_rows is {empty_rows!r}; it must be 'raise', 'prior' or 'drop'")
    if max_passes is not None and not (isinstance(max_passes, Integral) and max_passes >= 1):
        raise ValueError(f"max_passes is {max_passes!r}; it must be an integer of at least 1, or None")
    if not isinstance(tol, Real) or not float(tol) > 0:
        raise ValueError(f"tol is {tol}; it must be positive: 1e-9 is the default")
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
        SOLVERS[method],
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


def _check_mass(mass: Any, size: int, name: str, other: Any) -> Floats:
    if mass is None:
        return np.full(size, 1 / size)
    m = np.asarray(mass, float)
    if m.shape != (size,):
        raise ValueError(f"{name} has shape {m.shape}; it must be ({size},), one mass for each of the scores' axis")
    if not (m >= 0).all() or not np.isfinite(m).all():
        bad = int(np.flatnonzero(~((m >= 0) & np.isfinite(m)))[0])
        raise ValueError(f"{name}[{bad}] is {m[bad]}; masses must be finite and not negative")
    total = float(m.sum())
    if not total > 0:
        raise ValueError(f"{name} sums to {total}; at least one mass must be positive")
    if other is not None and np.sum(other) > 0 and abs(float(np.sum(other)) - total) > 1e-6 * total:
        raise ValueError(
            f"{name} sums to {total:.6g} and the other marginal to {float(np.sum(other)):.6g}; both must have the same total: "
            "divide each by its sum"
        )
    return m / total


def _check_rule(rule: str | ColumnRule, tau: Any, K: int) -> ColumnRule:
    if tau is not None:
        if rule != "fixed":
            raise ValueError(f"tau is {tau} and rule is {rule!r}; tau is short for a rule: give only one of them")
        chosen = rule_for_tau(np.asarray(tau, float) if np.ndim(tau) else float(tau))
    elif isinstance(rule, ColumnRule):
        chosen = rule
    elif isinstance(rule, str) and rule in RULES:
        chosen = RULES[rule]()
    else:
        raise ValueError(f"rule is {rule!r}; it must be one of {sorted(RULES)} or a rule object")
    chosen.check(K)
    return chosen


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
    check_feasible(finite[:, active], a, lower, upper)
    return S, a


def log_partition(plan: Plan) -> Floats:
    """(n,) lse_k(S_ik + log b_k + g_k): the row potentials with their sign turned."""
    return log_normalisers(plan.rows.scores, plan.rows.offset)


__all__ = ["FixedMass", "InfeasibleMarginalsError", "log_partition", "solve_plan"]
