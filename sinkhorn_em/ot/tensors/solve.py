"""`solve_plan` for tensors: checked, solved on the tensor's own device, many problems at once.

In the memory of the host the compiled kernels of `sinkhorn_em.ot` work on the tensors as they lie, without a copy: for small
problems they are ten times faster than torch, which takes over on any other device, and where rows are spread over processes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..._parameters import check_choice
from ..batch import solve_plans
from ..checks import check_masses, check_rule, check_settings
from ..columns import ColumnRule, FixedMass
from ..feasibility import InfeasibleMarginalsError, check_feasible
from ..kernel import evaluate as compiled_pass
from ..newton import ROUNDING, Tolerances
from ..solve import LARGEST_POTENTIAL, RELATIVE_TOLERANCE, solve_masses
from ..solve import MAX_PASSES as PASSES
from .columns import TensorRule, tensor_rule
from .kernel import Evaluation, Reduction, evaluate
from .newton import CONVERGED, MAX_PASSES, PRECISION, STATUS, Solution, solve_newton
from .plan import TensorPlan

KERNELS = ("auto", "compiled", "torch")
#: L1 error of the column masses asked for where none is: scores in single precision cannot promise more than 1e-6
TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-6}
#: of F, relative to |F|
ROUNDINGS = {torch.float64: ROUNDING, torch.float32: 1e-7}


class Rows(NamedTuple):
    """B checked problems: what the solver is given."""

    scores: Tensor  # (B, n, K)
    row_mass: Tensor  # (B, n) float64, sum 1 (over all processes)
    column_mass: Tensor  # (B, K) float64, virtual column included, sum 1
    rule: ColumnRule

    @property
    def tensor_rule(self) -> TensorRule:
        """The rule for all problems at once."""
        return tensor_rule(self.rule, self.scores.shape[2], self.scores.device)


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
    if len(S) > 1 and isinstance(rows.rule, FixedMass):
        plans = solve_plans(S, a, b, potentials=start, tol=tolerances.marginal, max_passes=tolerances.max_passes)
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
    s = solve_masses(lambda offset, temperature: compiled_pass(S, a, offset, temperature), kept, b, g, tolerances)
    potentials = np.where(active, s.potentials, 0.0)
    return potentials, s.mass, s.value, s.marginal_error, s.relative_error, s.n_passes, STATUS.index(s.status)


def check_scores(scores: Tensor) -> Tensor:
    """Scores in float32 or float64, without NaN or +inf, with at least one row and one column."""
    if scores.ndim < 2 or 0 in scores.shape:
        raise ValueError(
            f"scores has shape {tuple(scores.shape)}; it must be (..., n, K) with at least one row and one column"
        )
    S = scores.detach()
    if S.dtype not in TOLERANCES:
        S = S.float() if S.dtype in (torch.float16, torch.bfloat16) else S.double()
    if not bool(S.max() < torch.inf):  # NaN fails, too
        where = tuple(int(i) for i in torch.nonzero(~(torch.inf > S))[0])
        raise ValueError(
            f"scores{list(where)} is {float(S[where])}; scores must be finite or -inf: remove the row, or use -inf to forbid "
            "the pair"
        )
    return S


def check_problem(S: Tensor, row_mass: Any, column_mass: Any, rule: ColumnRule, empty_rows: str = "raise") -> Rows:
    """Masses and support of scores (..., n, K), flattened to B problems."""
    *batch, n, K = S.shape
    a = check_masses(host(row_mass), n, "row_mass", host(column_mass), tuple(batch))
    b = check_masses(host(column_mass), K, "column_mass", host(row_mass), tuple(batch))
    flat = S.reshape(-1, n, K)
    B = len(flat)
    a, b = np.broadcast_to(a, (*batch, n)).reshape(B, n), np.broadcast_to(b, (*batch, K)).reshape(B, K)
    extended = np.stack([rule.extend(row) for row in b])
    for active in extended > 0:
        if not active.all():
            rule.restrict(active)  # raises where the bounds of the other columns cannot be met
    if bool(flat.min() == -torch.inf):
        flat, a = _check_support(flat, a, extended, rule, empty_rows)
    mass, masses = (torch.tensor(np.array(m), dtype=torch.float64, device=S.device) for m in (a, extended))
    return Rows(flat, mass, masses, rule)


def _check_support(
    S: Tensor, a: np.ndarray, b: np.ndarray, rule: ColumnRule, empty_rows: str
) -> tuple[Tensor, np.ndarray]:
    """Deal with rows that have no finite score, then make sure that the rule's masses can be met, problem by problem."""
    K = S.shape[2]
    finite = torch.isfinite(S).cpu().numpy() & (b[:, None, :K] > 0)
    empty = ~finite.any(axis=2) & (a > 0) & (b.shape[1] == K)
    a = a.copy()
    if empty.any():
        if empty_rows == "raise":
            where = np.argwhere(empty)[0].tolist()
            raise InfeasibleMarginalsError(
                [],
                f"row {where} (problem, row; and {int(empty.sum()) - 1} more) has mass but no finite score: give it one, or "
                "use empty_rows='prior' or 'drop'",
            )
        if empty_rows == "drop":
            a[empty] = 0.0
            if not (a.sum(axis=1) > 0).all():
                raise ValueError("no row has a finite score: nothing is left after empty_rows='drop'")
            a /= a.sum(axis=1, keepdims=True)
        else:
            S = torch.where(torch.as_tensor(empty, device=S.device)[:, :, None], 0.0, S)
            finite |= empty[:, :, None] & (b[:, None, :K] > 0)
    for j in range(len(S)):
        support, active = finite[j], b[j] > 0
        if b.shape[1] > K:
            support = np.column_stack([support, np.ones(len(support), bool)])
        kept = rule if active.all() else rule.restrict(active)
        check_feasible(support[:, active], a[j], *kept.mass_bounds(b[j][active]))
    return S, a


def check_potentials(potentials: Any, b: Tensor, batch: tuple[int, ...] | torch.Size) -> Tensor:
    """Warm starts (B, K)."""
    if potentials is None:
        return torch.zeros_like(b)
    shape = (*batch, b.shape[1])
    g = torch.as_tensor(potentials, dtype=torch.float64, device=b.device).detach()
    if tuple(g.shape) not in (shape, shape[-1:]):
        raise ValueError(f"potentials has shape {tuple(g.shape)}; it must be {shape}, one per column of every problem")
    g = g.expand(shape).reshape(b.shape)
    if not bool((torch.where(b > 0, g, 0.0).abs() < LARGEST_POTENTIAL).all()):
        raise ValueError("potentials must be finite for columns of positive mass: leave them out for a cold start")
    return torch.where(b > 0, g, 0.0)


def host(mass: Any) -> Any:
    """A small array on the host."""
    return mass.detach().cpu().double().numpy() if isinstance(mass, Tensor) else mass


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
