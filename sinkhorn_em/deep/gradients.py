"""How the transport value is differentiated: by the envelope theorem, by one K x K solve, or through the iterations.

With scores S = -C/epsilon, potentials g that solve r(g) = t(g, b) - c(g; S, b) = 0, P = a softmax_k(S + log b + g), the value is

    L = -epsilon F(g),   F = sum_i a_i lse_k(S_ik + log b_k + g_k) + psi(g, b).

Envelope: dF/dg = 0, so that dL/dC = P and dL/db = -epsilon (c/b + dpsi/db). Implicit: dg = H^-1 (dr at fixed g), H = diag(c) - W +
diag(psi''), W = P' diag(1/a) P, which is exact for any function of g, and may be differentiated again; L itself does not move with
g. K' is K, or K + 1 with a virtual column. Where rows are spread over processes, values are parts, whose sum over the processes is
the value. Rows of mass 0 are out of all sums, whatever they cost.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..ot.tensors import Reduction, kernel
from ..ot.tensors.columns import TensorRule

RIDGE = 1e-13  # of the column masses, on the Hessian: what is shared less than this moves no potential
#: of the total mass: a column that has less is empty, and where its penalty is flat, too, nothing moves it
FLAT = 1e-280


class Problem(NamedTuple):
    """What is not differentiated, for B problems."""

    row_mass: Tensor  # (B, m) float64, sum 1 over all processes
    epsilon: Tensor  # (B,) float64
    rule: TensorRule
    n_columns: int  # virtual ones not counted
    #: of the row mass that is here: this process's part of what is not a sum over rows, (B,) or 1
    share: Tensor | float = 1.0
    #: sums over the processes that hold the other rows
    reduction: Reduction | None = None


class Envelope(torch.autograd.Function):
    """(cost (B, m, K), masses b (B, K')) -> L (B,), at potentials taken as optimal; R (B, m, K') and dL/db (B, K') are given."""

    @staticmethod
    def forward(ctx: Any, cost: Tensor, b: Tensor, R: Tensor, slope: Tensor, value: Tensor, row_mass: Tensor) -> Tensor:
        of_cost, of_b = ctx.needs_input_grad[:2]
        ctx.save_for_backward(R[:, :, : cost.shape[2]] if of_cost else None, slope if of_b else None, row_mass)
        return value.clone()

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():  # a derivative that does not know the plan's own would be silently wrong
            raise RuntimeError(
                "create_graph=True with gradient='envelope', which has no second derivatives: use gradient='implicit'"
            )
        R, slope, row_mass = ctx.saved_tensors
        of_cost = None if R is None else R * (row_mass * upstream[:, None])[:, :, None].to(R.dtype)
        of_b = None if slope is None else upstream[:, None] * slope
        return of_cost, of_b, None, None, None, None


def slope_in_b(b: Tensor, g: Tensor, c: Tensor, problem: Problem) -> Tensor:
    """dL/db (B, K') at optimal potentials; c are the column masses of the rows that are here. 0 where b is."""
    psi = problem.rule.slope_in_b(g, b) * _column(problem.share)
    return -problem.epsilon[:, None] * torch.where(b > 0, c / torch.where(b > 0, b, 1.0) + psi, 0.0)


class Stationary(torch.autograd.Function):
    """(cost, masses b, optimal potentials g) -> L (B,), which does not move with g; its derivative P does, and so has its own.

    Where the solver was stopped early, dL/dg is not 0, and times the H^-1 of a column that is still nearly empty it would swamp P.
    """

    @staticmethod
    def forward(ctx: Any, cost: Tensor, b: Tensor, g: Tensor, problem: Problem) -> Tensor:
        ctx.problem = problem
        ctx.save_for_backward(cost, b, g)
        return dual_value(cost, b, g, problem)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        cost, b, g = ctx.saved_tensors
        problem: Problem = ctx.problem
        _check_processes(problem)
        P, c = plan(cost, b, g, problem)
        of_cost = (upstream[:, None, None] * P)[:, :, : problem.n_columns]
        return of_cost.to(cost.dtype), upstream[:, None] * slope_in_b(b, g, c, problem), None, None


class Implicit(torch.autograd.Function):
    """(cost, masses b, potentials g found without gradient) -> g (B, K'), with the derivatives of the implicit function."""

    @staticmethod
    def forward(ctx: Any, cost: Tensor, b: Tensor, g: Tensor, problem: Problem) -> Tensor:
        ctx.problem = problem
        found = g.clone()
        ctx.save_for_backward(cost, b, found)
        return found

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        cost, b, g = ctx.saved_tensors
        problem: Problem = ctx.problem
        R = torch.softmax(log_joint(cost, b, g, problem), 2)
        P = R * problem.row_mass[:, :, None]
        c, W = P.sum(1), P.mT @ R
        u = _solve(W, b, g, upstream, problem)
        mean = (R * u[:, None]).sum(2, keepdim=True)
        of_cost = (P * (u[:, None] - mean))[:, :, : problem.n_columns] / problem.epsilon[:, None, None]
        moved = c * u - (W @ u[:, :, None])[:, :, 0]
        of_b = u * problem.rule.target_in_b(g, b) * _column(problem.share)
        of_b = torch.where(b > 0, of_b - moved / torch.where(b > 0, b, 1.0), 0.0)
        return of_cost.to(cost.dtype), of_b, None, None


def _solve(W: Tensor, b: Tensor, g: Tensor, upstream: Tensor, problem: Problem) -> Tensor:
    """u = H^-1 upstream on the columns whose potential moves; the constant, where it does not matter, is left out."""
    rule = problem.rule
    _check_processes(problem)
    if problem.reduction is not None:
        total = problem.reduction(torch.cat([W, upstream[:, None]], 1))
        W, upstream = total[:, :-1], total[:, -1]
    c = W.sum(2)  # rows of R sum to 1
    curvature = rule.curvature(g, b)
    # a column that a solver stopped early has left empty stays where it is
    free = rule.movable(g.detach(), b.detach(), c.detach()) & (c + curvature > FLAT)
    off = W - torch.diag_embed(W.diagonal(dim1=1, dim2=2))
    # a Laplacian from its off-diagonal entries, without cancellation; where no row is shared it is 0, and so is upstream
    H = torch.diag_embed(off.sum(2) + curvature + RIDGE * c) - off
    upstream = torch.where(free, upstream, 0.0)
    if rule.invariant:
        weight = torch.where(free, c, 0.0)
        total = weight.sum(1, keepdim=True)
        upstream = upstream - weight / total * upstream.sum(1, keepdim=True)
        H = H + weight[:, :, None] * (weight / total)[:, None, :]
    both = free[:, :, None] & free[:, None, :]
    H = torch.where(both, H, 0.0) + torch.diag_embed((~free).to(H.dtype))
    # unit diagonal: else the pivots of a nearly empty column drown in the others' rounding
    scale = H.detach().diagonal(dim1=1, dim2=2).rsqrt()
    H = scale[:, :, None] * H * scale[:, None, :]
    return scale * torch.linalg.solve(H, (scale * upstream)[:, :, None])[:, :, 0]


def _check_processes(problem: Problem) -> None:
    """RuntimeError where a derivative is to be differentiated again that knows this process's rows only."""
    if problem.reduction is not None and torch.is_grad_enabled():
        raise RuntimeError("second derivatives do not cross processes: use create_graph=False, or a single process")


def _column(share: Tensor | float) -> Tensor | float:
    return share[:, None] if isinstance(share, Tensor) else share


def unrolled(cost: Tensor, b: Tensor, g: Tensor, problem: Problem, iterations: int) -> Tensor:
    """Potentials after plain scaling iterations, differentiated through every one of them."""
    S, log_b, a = scores(cost.double(), problem), log_mass(b), problem.row_mass[:, None]
    active = b > 0
    positive = torch.where(active, b, 1.0)  # log b has no derivative at 0
    for _ in range(iterations):
        R = torch.softmax(kernel.logits(S, log_b + g), 2)
        scaled = problem.rule.scale(g, positive, (a @ R)[:, 0])
        g = problem.rule.translate(torch.where(active, scaled, 0.0), b)
    return g


def plan(cost: Tensor, b: Tensor, g: Tensor, problem: Problem) -> tuple[Tensor, Tensor]:
    """P (B, m, K) with a virtual column, and its column masses (B, K), differentiable, in float64."""
    L = log_joint(cost, b, g, problem)
    P = torch.softmax(L, 2) * problem.row_mass[:, :, None]
    return P, P.sum(1)


def log_joint(cost: Tensor, b: Tensor, g: Tensor, problem: Problem) -> Tensor:
    """S + log b + g (B, m, K) in float64, -inf for columns of mass 0."""
    return kernel.logits(scores(cost.double(), problem), log_mass(b) + g)


def log_mass(b: Tensor) -> Tensor:
    """log b, -inf at 0, without an infinite derivative there."""
    return torch.where(b > 0, torch.log(torch.where(b > 0, b, 1.0)), -torch.inf)


def scores(cost: Tensor, problem: Problem) -> Tensor:
    """-C/epsilon, in the precision of the cost; 0 in rows of mass 0, which may have no finite cost."""
    S = cost * (-1 / problem.epsilon)[:, None, None].to(cost.dtype)
    return torch.where(problem.row_mass[:, :, None] > 0, S, 0.0)


def dual_value(cost: Tensor, b: Tensor, g: Tensor, problem: Problem) -> Tensor:
    """-epsilon F(g), (B,): the part of this process."""
    lse = torch.logsumexp(log_joint(cost, b, g, problem), 2)
    smooth = torch.where(problem.row_mass > 0, problem.row_mass * lse, 0.0).sum(1)
    return -problem.epsilon * (smooth + problem.share * problem.rule.penalty(g, b))


def primal_value(cost: Tensor, b: Tensor, g: Tensor, problem: Problem) -> Tensor:
    """<P, C> + epsilon KL(P | a b') + epsilon times what the column masses cost, (B,), for the plan of any g."""
    P, c = plan(cost, b, g, problem)
    L = log_joint(cost, b, g, problem)
    log_ratio = L - torch.logsumexp(L, 2, keepdim=True) - log_mass(b)[:, None]  # of P to a b'
    kl = torch.where(P > 0, P * torch.where(P > 0, log_ratio, 0.0), 0.0).sum((1, 2))
    return sharp_value(cost, P, problem) + problem.epsilon * (kl + problem.rule.divergence(b, c))


def sharp_value(cost: Tensor, P: Tensor, problem: Problem) -> Tensor:
    """<P, C>, (B,); forbidden pairs carry nothing."""
    P = P[:, :, : problem.n_columns]
    return torch.where(P > 0, P * torch.where(P > 0, cost.double(), 0.0), 0.0).sum((1, 2))
