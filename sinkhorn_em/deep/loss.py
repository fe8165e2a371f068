"""The transport value of a batch as a differentiable loss."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from .._parameters import check_integer
from ..ot import ColumnRule
from ..ot.checks import check_masses, check_rule
from ..ot.newton import Tolerances
from ..ot.solve import RELATIVE_TOLERANCE
from ..ot.tensors import Reduction, evaluate, kernel, solve_rows
from ..ot.tensors.columns import tensor_rule
from ..ot.tensors.newton import CONVERGED, MAX_PASSES, Solution
from ..ot.tensors.problem import TOLERANCES, Rows, check_potentials, check_problem, host
from . import gradients
from .checks import (
    check_cost,
    check_options,
    check_positive,
    check_processes,
    column_weights,
    cost_moments,
    working_precision,
)
from .distributed import shard, together
from .gradients import Envelope, Implicit, Problem, Stationary

PASSES = 200
UNROLLED_ITERATIONS = 50


class TransportValue(NamedTuple):
    """The loss and what is known of its plan, for the leading dimensions ``...`` of the cost; all but ``value`` are detached."""

    #: (...) the loss, in the units of the cost, differentiable
    value: Tensor
    #: (..., K) column potentials g, nats (one more with a virtual column): a warm start for the next batch
    potentials: Tensor
    #: (..., K) mass that each column receives
    column_mass: Tensor
    #: (...) residual: sum |c - t|
    marginal_error: Tensor
    #: (...) passes over the scores
    n_passes: Tensor
    #: (...) mean entropy of a row of the plan, nats: 0 for hard assignments, log K for none
    plan_entropy: Tensor
    #: (...) the regularisation that was used, in the units of the cost
    epsilon: Tensor
    #: (...) the residual is within the tolerance
    converged: Tensor


def transport_loss(
    cost: Tensor,
    weights: Any = None,
    *,
    epsilon: float = 0.05,
    epsilon_mode: str = "relative",
    value: str = "entropic",
    gradient: str = "envelope",
    rule: str | ColumnRule = "fixed",
    tau: Any = None,
    row_mass: Any = None,
    potentials: Tensor | None = None,
    tol: float | None = None,
    max_passes: int = PASSES,
    iterations: int = UNROLLED_ITERATIONS,
    reduction: Reduction | None = None,
) -> TransportValue:
    r"""Entropic transport of the rows of a batch onto K columns, as a loss.

    .. math:: \min_{P \ge 0,\ P 1 = a}\ \langle P, C\rangle + \epsilon KL(P | a w^T) + \epsilon \sum_k \rho_k KL(P_{.k} | w_k)

    (``value="entropic"``) or the cost :math:`\langle P, C\rangle` of its solution ("sharp"). Under the "free" rule P is the row
    softmax: "entropic" is then the soft k-means of a mixture with derivative P, "sharp" that of deep k-means, with derivative
    :math:`P_{ik}(1 - (C_{ik} - \bar C_i)/\epsilon)`.

    Parameters
    ----------
    cost : Tensor (..., m, K)
        Costs of m rows and K columns; +inf forbids a pair. Half precision is raised to float32; where epsilon is below 1e-3 of
        the mean cost, float32 is worked on in float64; autocast is left aside.
    weights : Tensor or array (K,) or (..., K), optional
        Column masses w >= 0 of sum 1; default uniform. Differentiated on the simplex; a column of mass 0 stays out, and has
        derivative 0.
    epsilon : float
        Regularisation, times the mean finite cost of each problem (taken as a constant) if ``epsilon_mode`` is "relative", else in
        the units of the cost.
    epsilon_mode : "relative" or "absolute"
    value : "entropic" or "sharp"
    gradient : "envelope", "implicit" or "unrolled"
        "envelope" (entropic only): dL/dC = P, no second derivatives (they raise). "implicit": one K x K solve, exact for both
        values, any number of times. "unrolled": through ``iterations`` plain scaling iterations, about 2 x iterations x m x K
        numbers of memory; for comparison with earlier work only.
    rule, tau : as in `sinkhorn_em.solve_plan`
        What is asked of the column masses; rho = tau/(1 - tau) is in units of epsilon.
    row_mass : Tensor or array (m,) or (..., m), optional
        Masses of the rows, constants, divided by their sum; default uniform.
    potentials : Tensor (..., K), optional
        Warm start, nats: ``potentials`` of an earlier result. "unrolled" always starts from 0.
    tol : float, optional
        Largest residual sum |c - t|; default 1e-9 in float64, 1e-6 in float32.
    max_passes : int
        Passes over the batch; a loss that has not converged then says so in ``converged``.
    iterations : int
        Of "unrolled".
    reduction : callable, optional
        Sums a tensor over the processes that hold the other rows (`sinkhorn_em.deep.distributed.sum_over_processes`). ``value`` is
        then the part of this process: summed over the processes, values and derivatives are those of all rows in one process.
        All else is of the whole; whether forbidden pairs let the weights be met is not checked. Not for "unrolled".

    Returns
    -------
    TransportValue

    Raises
    ------
    ValueError
        NaN or -inf costs, weights that do not sum to one, options that break their rule or do not go together.
    RuntimeError
        Second derivatives of "envelope" or across processes; an error in another process.
    InfeasibleMarginalsError
        Forbidden pairs contradict the weights.

    References
    ----------
    Genevay, Dulac-Arnold & Vert 2019 (the loss); Fard, Thonet & Gaussier 2018 (deep k-means); Cuturi & Peyre 2018 (semi-dual);
    Luise et al. 2018 (derivative of the sharp value).

    Examples
    --------
    >>> import torch
    >>> from sinkhorn_em.deep import transport_loss
    >>> z = torch.tensor([[0.0], [1.0], [4.0], [5.0]], requires_grad=True)
    >>> cost = (z - torch.tensor([0.5, 4.5])) ** 2
    >>> result = transport_loss(cost, epsilon=0.1)
    >>> result.value.backward()
    >>> z.grad.T.round(decimals=3)
    tensor([[-0.2500,  0.2500, -0.2500,  0.2500]])
    """
    check_options(epsilon, epsilon_mode, value, gradient)
    check_integer("max_passes", max_passes, 1)
    check_integer("iterations", iterations, 1)
    check_processes(reduction, gradient)
    tol = None if tol is None else check_positive("tol", tol)
    C = together(lambda: check_cost(cost), reduction)
    batch, K, kept = tuple(C.shape[:-2]), C.shape[-1], C.dtype
    with torch.autocast(C.device.type, enabled=False):
        moments = together(lambda: cost_moments(C), reduction)
        moments = moments if reduction is None else reduction(moments)
        C, eps = working_precision(C, moments, float(epsilon), epsilon_mode)
        w = column_weights(weights, K, batch, C.device)
        rows, share = _rows(C, eps, row_mass, w, check_rule(rule, tau, K), reduction)
        problem = Problem(rows.row_mass, eps, rows.tensor_rule, K, share, reduction)
        C, b = C.reshape(-1, *C.shape[-2:]), problem.rule.extend(w)
        if gradient == "unrolled":
            g = gradients.unrolled(C, b, torch.zeros_like(b), problem, iterations)
            solution = _found(rows, g.detach(), iterations)
        else:
            tolerance = TOLERANCES[C.dtype] if tol is None else tol
            limit = Tolerances(tolerance, RELATIVE_TOLERANCE * tolerance, max_passes=max_passes)
            solution = solve_rows(rows, _start(potentials, rows, batch), limit, reduction)
            g = solution.potentials
        result, R = _dress(rows, solution, problem, batch)
        loss = _value(C, b, g, (value, gradient), _Found(rows, solution, R, problem))
        return result._replace(value=loss.to(kept).reshape(batch))


class _Found(NamedTuple):
    """The plans of B problems, without derivatives."""

    rows: Rows
    solution: Solution
    R: Tensor  # (B, m, K')
    problem: Problem


@torch.no_grad()
def _rows(
    C: Tensor, eps: Tensor, row_mass: Any, w: Tensor, rule: ColumnRule, reduction: Reduction | None
) -> tuple[Rows, Tensor | float]:
    """The checked problems, and the share (B,) of the row mass that is here."""
    *batch, _, K = C.shape
    S = C.detach() * (-1 / eps).to(C.dtype).reshape(*batch, 1, 1)
    masses = w.detach().reshape(*batch, K)
    if reduction is None and row_mass is None and bool((masses.min() > 0) & (S.min() > -torch.inf)):
        # nothing is left to be checked: masses are positive, and no pair is forbidden
        flat = S.reshape(-1, *S.shape[-2:])
        uniform = torch.full(flat.shape[:2], 1 / flat.shape[1], dtype=torch.float64, device=S.device)
        return Rows(flat, uniform, tensor_rule(rule, K, S.device).extend(masses.reshape(-1, K)), rule), 1.0
    if reduction is None:
        a = check_masses(host(row_mass), C.shape[-2], "row_mass", None, tuple(batch))
        return check_problem(S, a, masses, rule, empty_rows="refuse"), 1.0
    return shard(S, row_mass, masses, rule, reduction)


def _start(potentials: Tensor | None, rows: Rows, batch: tuple[int, ...]) -> Tensor:
    """Warm starts; columns that had no mass where these come from start at 0."""
    if isinstance(potentials, Tensor):
        potentials = torch.where(potentials == -torch.inf, 0.0, potentials.detach())
    return check_potentials(potentials, rows.column_mass, batch)


@torch.no_grad()
def _found(rows: Rows, g: Tensor, iterations: int) -> Solution:
    """Where the iterations have stopped."""
    b, rule = rows.column_mass, rows.tensor_rule
    e = evaluate(rows.scores, rows.row_mass, torch.log(b) + g, gram=False)
    error = (rule.target(g, b, e.mass) - e.mass).abs().sum(1)
    status = torch.where(error <= TOLERANCES[rows.scores.dtype], CONVERGED, MAX_PASSES)
    return Solution(g, e.mass, e.value + rule.penalty(g, b), error, error, torch.full_like(status, iterations), status)


def _value(C: Tensor, b: Tensor, g: Tensor, kind: tuple[str, str], found: _Found) -> Tensor:
    """The loss of every problem, (B,), of the (value, gradient) asked for."""
    value, gradient = kind
    rows, solution, R, problem = found
    if gradient == "envelope":
        with torch.no_grad():
            here = torch.sum(R * rows.row_mass[:, :, None].to(R.dtype), 1, dtype=torch.float64)
            slope = gradients.slope_in_b(b, g, here, problem)
            whole = problem.reduction is None
            known = -problem.epsilon * solution.value if whole else gradients.dual_value(C, b, g, problem)
        return Envelope.apply(C, b, R, slope, known, rows.row_mass)
    if gradient == "implicit":
        g = Implicit.apply(C, b, g, problem)
    if value == "sharp":
        return gradients.sharp_value(C, gradients.plan(C, b, g, problem)[0], problem)
    if gradient == "implicit":
        return Stationary.apply(C, b, g, problem)
    return gradients.primal_value(C, b, g, problem)


@torch.no_grad()
def _dress(rows: Rows, s: Solution, problem: Problem, batch: tuple[int, ...]) -> tuple[TransportValue, Tensor]:
    """What is known of the plans, without the loss, and R (B, m, K')."""
    R = kernel.responsibilities(rows.scores, torch.log(rows.column_mass) + s.potentials)
    entropy = (torch.special.entr(R).sum(2) * rows.row_mass).sum(1)

    def back(x: Tensor) -> Tensor:
        return x.reshape((*batch, *x.shape[1:]))

    result = TransportValue(
        value=back(s.value),
        potentials=back(torch.where(rows.column_mass > 0, s.potentials, -torch.inf)),
        column_mass=back(s.mass),
        marginal_error=back(s.marginal_error),
        n_passes=back(s.n_passes),
        plan_entropy=back(entropy if problem.reduction is None else problem.reduction(entropy)),
        epsilon=back(problem.epsilon),
        converged=back(s.status == CONVERGED),
    )
    return result, R
