"""`solve_plan` for tensors: checked, solved on the tensor's own device, many problems at once.

In the memory of the host the compiled kernels of `sinkhorn_em.ot` work on the tensors as they lie, without a copy: for small
problems they are ten times faster than torch, which takes over on any other device, and where rows are spread over processes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..._compiled import SMALL
from ..._parameters import check_choice
from ..batch import solve_checked
from ..checks import check_rule, check_settings
from ..columns import ColumnRule, FixedMass
from ..kernel import evaluate as compiled_pass
from ..newton import ROUNDING, Tolerances
from ..quasi_newton import solver_for
from ..solve import MAX_PASSES as PASSES
from ..solve import RELATIVE_TOLERANCE, solve_masses
from .kernel import Evaluation, Reduction, evaluate
from .newton import CONVERGED, MAX_PASSES, PRECISION, STATUS, Solution, solve_newton
from .plan import TensorPlan
from .problem import TOLERANCES, Rows, check_potentials, check_problem, check_scores

KERNELS = ("auto", "compiled", "torch")
#: of F, relative to |F|
ROUNDINGS = {torch.float64: ROUNDING, torch.float32: 1e-7}


def solve_plan(
    scores: Tensor,
    row_mass: Any = None,
    column_mass: Any = None,
    *,
    rule: str | ColumnRule = "fixed",
    tau: Any = None,
    potentials: Any = None,
    method: str = "newton",
    tol: float | None = None,
    max_passes: int | None = None,
    empty_rows: str = "raise",
    kernel: str = "auto",
) -> TensorPlan:
    r"""`sinkhorn_em.solve_plan` for a tensor of scores (..., n, K): the plans of all leading dimensions at once, on its device.

    What differs: ``row_mass`` is (n,) or (..., n), ``column_mass`` (K,) or (..., K), ``potentials`` (..., K); half precision is
    raised to float32; ``tol`` is 1e-9 for float64 and 1e-6 for float32 if it is None; ``method`` "newton" only; nothing is
    differentiated (`sinkhorn_em.deep.transport_loss` is). ``kernel`` is "compiled" (host memory only), "torch" (any device; it
    waits for the device once a pass) or "auto".

    Returns
    -------
    TensorPlan

    Raises
    ------
    InfeasibleMarginalsError, ValueError
        As `sinkhorn_em.solve_plan`.
    """
    check_settings(method, tol, max_passes, empty_rows)
    check_choice("kernel", kernel, KERNELS)
    if kernel == "compiled" and scores.device.type != "cpu":
        raise ValueError(f"kernel is 'compiled' and scores are on {scores.device}; use kernel='torch' there")
    if method != "newton":
        raise ValueError(f"method is {method!r}; for tensors it must be 'newton': pass scores.numpy() for {method!r}")
    with torch.no_grad(), torch.autocast(scores.device.type, enabled=False):
        S = check_scores(scores)
        rows = check_problem(S, row_mass, column_mass, check_rule(rule, tau, S.shape[-1]), empty_rows)
        g = check_potentials(potentials, rows.column_mass, S.shape[:-2])
        tol = TOLERANCES[S.dtype] if tol is None else float(tol)
        limit = Tolerances(tol, RELATIVE_TOLERANCE * tol, max_passes=max_passes or PASSES["newton"])
        return _dress(S, rows, solve_rows(rows, g, limit, kernel=kernel))


def solve_rows(
    rows: Rows, g: Tensor, tolerances: Tolerances, reduction: Reduction | None = None, kernel: str = "auto"
) -> Solution:
    """Solve checked problems from potentials g (B, K); ``reduction`` sums over processes that hold other rows."""
    on_host = rows.scores.device.type == "cpu" and reduction is None
    if kernel == "compiled" or (kernel == "auto" and on_host):
        return _solve_compiled(rows, g, tolerances)
    rule = rows.tensor_rule

    def one_pass(offset: Tensor, temperature: Tensor | None) -> Evaluation:
        return evaluate(rows.scores, rows.row_mass, offset, temperature, gram=rule.constrains, reduction=reduction)

    return solve_newton(one_pass, rule, rows.column_mass, g, tolerances, ROUNDINGS[rows.scores.dtype])


def _solve_compiled(rows: Rows, g: Tensor, tolerances: Tolerances) -> Solution:
    """The same by the compiled kernels: problem by problem, or side by side where they know the rule."""
    S, a, b, start = (x.numpy() for x in (rows.scores, rows.row_mass, rows.column_mass, g))
    plain = tolerances[1:3] == (RELATIVE_TOLERANCE * tolerances.marginal, np.inf)  # those of `solve_checked`
    if plain and isinstance(rows.rule, FixedMass) and (len(S) > 1 or S.size <= SMALL):
        S, a, b = np.ascontiguousarray(S), np.ascontiguousarray(a), np.ascontiguousarray(b)
        plans = solve_checked(S, a, b, start.copy(), True, tolerances.marginal, tolerances.max_passes)
        status = np.where(
            plans.converged, CONVERGED, np.where(plans.n_passes < tolerances.max_passes, PRECISION, MAX_PASSES)
        )
        potentials = np.where(b > 0, plans.potentials, 0.0)
        errors = plans.marginal_error, plans.relative_error
        return Solution(
            *map(torch.as_tensor, (potentials, plans.column_mass, plans.value, *errors, plans.n_passes, status))
        )
    solved = [_solve_one(*problem, rows.rule, tolerances) for problem in zip(S, a, b, start, strict=True)]
    return Solution(*(torch.as_tensor(np.array(field)) for field in zip(*solved, strict=True)))


def _solve_one(
    S: np.ndarray, a: np.ndarray, b: np.ndarray, g: np.ndarray, rule: ColumnRule, tolerances: Tolerances
) -> tuple[Any, ...]:
    """One problem by the compiled kernels: the fields of its `Solution`."""
    S = S if S.flags.c_contiguous or S.flags.f_contiguous else np.ascontiguousarray(S)
    active = b > 0
    kept = rule if active.all() else rule.restrict(active)
    solver = solver_for(rule, len(b))
    s = solve_masses(lambda offset, heat: compiled_pass(S, a, offset, heat), kept, b, g, tolerances, solver)
    potentials = np.where(active, s.potentials, 0.0)
    return potentials, s.mass, s.value, s.marginal_error, s.relative_error, s.n_passes, STATUS.index(s.status)


def _dress(S: Tensor, rows: Rows, s: Solution) -> TensorPlan:
    """A solution with the leading dimensions of the scores, and the primal value of the plan it stands for."""
    batch, b, rule = S.shape[:-2], rows.column_mass, rows.tensor_rule
    active = b > 0
    primal = s.value - rule.penalty(s.potentials, b) - (s.mass * s.potentials).sum(1) - rule.divergence(b, s.mass)
    g = torch.where(active, s.potentials, -torch.inf)
    worst = STATUS[int(s.status.max())]

    def back(x: Tensor) -> Tensor:
        return x.reshape((*batch, *x.shape[1:]))

    return TensorPlan(
        scores=rows.scores.reshape(S.shape),
        row_mass=back(rows.row_mass),
        offset=back(torch.log(b) + s.potentials),
        potentials=back(g),
        column_mass=back(s.mass),
        value=back(s.value),
        marginal_error=back(s.marginal_error),
        relative_error=back(s.relative_error),
        n_passes=back(s.n_passes),
        converged=back(s.status == CONVERGED),
        status=worst,
        dual_gap=back((s.value - primal).abs()),
    )
