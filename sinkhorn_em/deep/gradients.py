"""How the transport value is differentiated: by the envelope theorem, by one K x K solve, or through the iterations.

With scores S = -C/epsilon, potentials g that solve r(g) = t(g, b) - c(g; S, b) = 0, P = a softmax_k(S + log b + g), the value is

    L = -epsilon F(g),   F = sum_i a_i lse_k(S_ik + log b_k + g_k) + psi(g, b).

Envelope: dF/dg = 0, so that dL/dC = P and dL/db = -epsilon (c/b + dpsi/db). Implicit: dg = H^-1 (dr at fixed g), H = diag(c) - W +
diag(psi''), W = P' diag(1/a) P, which is exact for any function of g, and may be differentiated again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ..ot.tensors import kernel
from ..ot.tensors.columns import TensorRule


class Problem(NamedTuple):
    """What is not differentiated, for B problems."""

    row_mass: Tensor  # (B, m) float64
    epsilon: Tensor  # (B,) float64
    rule: TensorRule
    n_columns: int  # virtual ones not counted


class Envelope(torch.autograd.Function):
    """(cost (B, m, K), masses b (B, K) with virtual column) -> L (B,), at potentials that are taken as optimal."""

    @staticmethod
    def forward(ctx: Any, cost: Tensor, b: Tensor, g: Tensor, value: Tensor, problem: Problem) -> Tensor:
        ctx.problem = problem
        ctx.save_for_backward(cost, b, g)
        return (-problem.epsilon * value).to(cost.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        cost, b, g = ctx.saved_tensors
        problem: Problem = ctx.problem
        S = scores(cost, problem)
        R = kernel.responsibilities(S, torch.log(b) + g)
        of_cost = R[:, :, : problem.n_columns] * (problem.row_mass * upstream[:, None])[:, :, None].to(R.dtype)
        c = torch.sum(R * problem.row_mass[:, :, None].to(R.dtype), 1, dtype=torch.float64)
        slope = torch.where(b > 0, c / b.clamp(min=torch.finfo(b.dtype).tiny) + problem.rule.slope_in_b(g, b), 0.0)
        return of_cost, -(problem.epsilon * upstream)[:, None] * slope, None, None, None


class Implicit(torch.autograd.Function):
    """(cost, masses b, potentials g found without gradient) -> g (B, K), with the derivatives of the implicit function."""

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
        P, c = plan(cost, b, g, problem)
        W = P.mT @ (P / problem.row_mass.clamp(min=torch.finfo(torch.float64).tiny)[:, :, None])
        u = _solve(W, c, b, g, upstream, problem)
        mean = (P * u[:, None]).sum(2, keepdim=True)  # a_i times the mean of u under R_i
        share = P / problem.row_mass.clamp(min=torch.finfo(torch.float64).tiny)[:, :, None]
        of_scores = -(P * u[:, None] - share * mean)
        of_b = u * problem.rule.target_in_b(g, b)
        moved = c * u - (W @ u[:, :, None])[:, :, 0]
        of_b = torch.where(b > 0, of_b - moved / torch.where(b > 0, b, 1.0), 0.0)
        of_cost = -of_scores[:, :, : problem.n_columns] / problem.epsilon[:, None, None]
        return of_cost.to(cost.dtype), of_b, None, None


def _solve(W: Tensor, c: Tensor, b: Tensor, g: Tensor, upstream: Tensor, problem: Problem) -> Tensor:
    """u = H^-1 upstream on the columns whose potential moves; the constant, where it does not matter, is left out."""
    rule = problem.rule
    free = rule.movable(g.detach(), b.detach(), c.detach())
    H = torch.diag_embed(c + rule.curvature(g, b)) - W
    if rule.invariant:
        weight = torch.where(free, c, 0.0)
        total = weight.sum(1, keepdim=True)
        upstream = torch.where(free, upstream, 0.0)
        upstream = upstream - weight / total * upstream.sum(1, keepdim=True)
        H = H + weight[:, :, None] * (weight / total)[:, None, :]
    both = free[:, :, None] & free[:, None, :]
    H = torch.where(both, H, 0.0) + torch.diag_embed((~free).to(H.dtype))
    return torch.linalg.solve(H, torch.where(free, upstream, 0.0)[:, :, None])[:, :, 0]


def unrolled(cost: Tensor, b: Tensor, g: Tensor, problem: Problem, iterations: int) -> Tensor:
    """Potentials after plain scaling iterations, differentiated through every one of them."""
    for _ in range(iterations):
        _, c = plan(cost, b, g, problem)
        g = problem.rule.translate(problem.rule.scale(g, b, c), b)
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
    """-C/epsilon, in the precision of the cost."""
    return -cost / problem.epsilon[:, None, None].to(cost.dtype)


def dual_value(cost: Tensor, b: Tensor, g: Tensor, problem: Problem) -> Tensor:
    """-epsilon F(g), (B,)."""
    lse = torch.logsumexp(log_joint(cost, b, g, problem), 2)
    smooth = torch.where(problem.row_mass > 0, problem.row_mass * lse, 0.0).sum(1)
    return -problem.epsilon * (smooth + problem.rule.penalty(g, b))


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
