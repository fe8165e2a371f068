"""The trust-region Newton method of `sinkhorn_em.ot.newton` on B problems side by side, each with its own radius.

Nothing here waits for the device but one question a pass: is any problem unfinished, and does any step leave its trust region?
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from ..newton import (
    ACCEPT,
    COARSE,
    EIGEN_COLUMNS,
    EMPTY,
    FINE,
    FIRST_RADIUS,
    GOOD,
    LONGEST,
    POOR,
    ROUNDING,
    SHORTEST,
    SMALLEST_LOG_MU,
    SMALLEST_METRIC,
    SMALLEST_RADIUS,
    SMOOTHING,
    TINY,
    Tolerances,
)
from .columns import TensorRule
from .kernel import Evaluation

Pass = Callable[[Tensor, Tensor | None], Evaluation]  # (offset (B, K), temperature (B,) or None) -> sums
LARGEST_LOG_MU = 33.0  # steps are then shorter than the smallest radius
KINK_ROUNDS = 6  # potentials that stop at a kink are held, and the others solved for again
RUNNING, CONVERGED, PRECISION, MAX_PASSES = range(4)
STATUS = ("running", "converged", "precision", "max_passes")


class Solution(NamedTuple):
    """Where the solver stopped, for B problems."""

    potentials: Tensor  # (B, K) g, nats
    mass: Tensor  # (B, K) c
    value: Tensor  # (B,) F(g)
    marginal_error: Tensor  # (B,) sum |c - t|
    relative_error: Tensor  # (B,) max |log(c/t)|
    n_passes: Tensor  # (B,)
    status: Tensor  # (B,) position in STATUS


class _Point(NamedTuple):
    g: Tensor
    value: Tensor
    mass: Tensor
    gram: Tensor
    residual: Tensor  # t - c
    target: Tensor
    error: Tensor
    relative: Tensor

    def or_else(self, other: _Point, keep: Tensor) -> _Point:
        """This point where ``keep`` (B,), else the other."""
        return _Point(
            *(torch.where(keep.view(-1, *[1] * (x.ndim - 1)), x, y) for x, y in zip(self, other, strict=True))
        )


def solve_newton(
    one_pass: Pass, rule: TensorRule, b: Tensor, g: Tensor, tolerances: Tolerances, rounding: float = ROUNDING
) -> Solution:
    """Minimise the B semi-duals from potentials ``g`` (B, K); columns of mass 0 stay out.

    Decreases below ``rounding`` times |F| cannot be seen in F.
    """
    point = _evaluate(one_pass, rule, b, rule.translate(torch.where(b > 0, g, 0.0), b), None)
    B = len(b)
    status, n_passes = b.new_zeros(B, dtype=torch.int64), b.new_ones(B, dtype=torch.int64)
    if not rule.constrains:
        return _solution(point, n_passes, status + CONVERGED)
    radius, stalled, rested = b.new_full((B,), FIRST_RADIUS), b.new_zeros(B), b.new_ones(B, dtype=torch.bool)
    for passes in range(1, tolerances.max_passes + 1):
        off = rule.off_scale(point.g, b, point.mass)
        scaling = torch.zeros_like(rested) if off is None else off & rested  # every other pass at most
        step = _Step(point, rule, b, radius)
        within = (point.error <= tolerances.marginal) & (point.relative <= tolerances.relative)
        stuck = ~scaling & ((stalled >= 3) | ~(step.norm > 0))
        status = torch.where((status == RUNNING) & within, CONVERGED, status)
        status = torch.where((status == RUNNING) & stuck, PRECISION, status)
        running = status == RUNNING
        far = running & (SMOOTHING * torch.minimum(step.norm, radius) > 1)
        leaves = running & ~scaling & step.outside
        unfinished, some_leave, some_far = torch.stack([running.any(), leaves.any(), far.any()]).tolist()
        if not unfinished:
            break
        if passes == tolerances.max_passes:
            status = torch.where(running, MAX_PASSES, status)
            break
        if some_leave:
            step.shorten()
        scaled = rule.scale(point.g, b, point.mass) if off is not None else point.g
        g = rule.translate(torch.where(scaling[:, None], scaled, point.g + step.d), b)
        temperature = torch.where(scaling, 1.0, (SMOOTHING * step.norm).clamp(min=1.0)) if some_far else None
        trial = _evaluate(one_pass, rule, b, g, temperature)
        n_passes = torch.where(running, passes + 1, n_passes)
        accepted, radius, stalled = _judge(point, trial, step, radius, stalled, scaling, rounding)
        point = trial.or_else(point, running & accepted)
        rested = ~scaling
    return _solution(point, n_passes, status)


def _judge(
    point: _Point, trial: _Point, step: _Step, radius: Tensor, stalled: Tensor, scaling: Tensor, rounding: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Which trials are accepted, and the next radii and counts of stalls."""
    predicted, norm = step.predicted, step.norm
    ratio = (point.value - trial.value) / predicted.clamp(min=TINY)
    below = predicted.abs() < rounding * point.value.abs().clamp(min=1.0)
    good = torch.where(below, trial.error < point.error, (ratio > ACCEPT) & (predicted > 0))
    grown = torch.where(below | (ratio < 0.9), 2 * radius, 4 * radius)
    kept = torch.where(ratio < POOR, radius / 2, radius)
    after = torch.where(below | ((ratio > GOOD) & (norm > radius / 2)), grown, kept)
    before, behind = -(point.residual * step.d).sum(1), -(trial.residual * step.d).sum(1)
    along = torch.where(behind > before, (before / (before - behind)).clamp(SHORTEST, LONGEST), 0.25)
    shrunk = (norm * along).clamp(min=SMALLEST_RADIUS)
    slow = torch.where(below & (trial.error > 0.5 * point.error), stalled + 1, 0.0)
    stalled_next = torch.where(good, slow, stalled + below.to(stalled.dtype))
    radius_next = torch.where(good, after, shrunk)
    return good | scaling, torch.where(scaling, radius, radius_next), torch.where(scaling, stalled, stalled_next)


def _evaluate(one_pass: Pass, rule: TensorRule, b: Tensor, g: Tensor, temperature: Tensor | None) -> _Point:
    e = one_pass(torch.log(b) + g, temperature)
    target = rule.target(g, b, e.mass)
    residual = target - e.mass
    nothing = EMPTY * b
    ratio = torch.log((e.mass + nothing) / (target + nothing))
    relative = torch.where(b > 0, ratio, 0.0).abs().amax(1)
    gram = e.gram if e.gram is not None else e.mass
    return _Point(g, e.value + rule.penalty(g, b), e.mass, gram, residual, target, residual.abs().sum(1), relative)


def _solution(point: _Point, passes: Tensor, status: Tensor) -> Solution:
    return Solution(point.g, point.mass, point.value, point.error, point.relative, passes, status)


class _Step:
    """The Newton step ``d``, the decrease the quadratic model predicts for it, its norm, and whether it leaves its region."""

    d: Tensor  # (B, K)
    norm: Tensor  # (B,)
    predicted: Tensor  # (B,)

    def __init__(self, point: _Point, rule: TensorRule, b: Tensor, radius: Tensor) -> None:
        self._point, self._rule, self._active, self._radius = point, rule, b > 0, radius
        self.H = torch.diag_embed(point.gram.sum(2) + rule.curvature(point.g, b)) - point.gram
        self._metric = torch.maximum(point.target, point.mass).clamp(min=SMALLEST_METRIC)
        self._free = rule.movable(point.g, b, point.mass)
        if rule.kinks:
            self._settle(self._stopping())
            self.outside = torch.zeros_like(radius, dtype=torch.bool)
        else:
            self._r = torch.where(self._free, point.residual, 0.0)
            self._system = _masked(self.H, self._free)
            d = self._full(self._system, self._r, self._free, torch.full_like(self._active[:, 0], rule.invariant))
            failed = ~torch.isfinite(d).all(1)
            self._settle(torch.where(failed[:, None], 0.0, d))
            self.norm = torch.where(failed, torch.inf, self.norm)
            self.outside = self.norm > radius

    def _settle(self, d: Tensor) -> None:
        self.d, self.norm = d, self._rule.step_norm(d, self._active)
        Hd = (self.H @ d[:, :, None])[:, :, 0]
        self.predicted = (self._point.residual * d).sum(1) - 0.5 * (d * Hd).sum(1)

    def shorten(self) -> None:
        """Steps that leave their region are replaced by the longest that stay, on the path of the Levenberg steps."""
        inside = self._longest(self._system, self._r)
        self._settle(torch.where(self.outside[:, None], inside, self.d))

    def _full(self, system: Tensor, r: Tensor, free: Tensor, singular: Tensor) -> Tensor:
        """Solve without a Levenberg term; nan where the system is not positive definite."""
        metric = torch.where(free, self._metric, 0.0)  # the constant, H's null vector, is given a curvature
        total = metric.sum(1, keepdim=True).clamp(min=TINY)
        constant = metric[:, :, None] * (metric / total)[:, None, :]
        L, info = torch.linalg.cholesky_ex(system + torch.where(singular[:, None, None], constant, 0.0))
        d = torch.cholesky_solve(r[:, :, None], L)[:, :, 0]
        return torch.where((info == 0)[:, None], d, torch.nan)

    def _longest(self, system: Tensor, r: Tensor) -> Tensor:
        """(H + mu D) d = r for the smallest mu >= 0 that keeps the norm within the radius, by bisection of log mu."""
        small = system.shape[1] <= EIGEN_COLUMNS
        solve = _eigen_solver(system, self._metric, r) if small else _cholesky_solver(system, self._metric, r)
        low, high = torch.full_like(self._radius, SMALLEST_LOG_MU), torch.full_like(self._radius, LARGEST_LOG_MU)
        width = LARGEST_LOG_MU - SMALLEST_LOG_MU
        while width > (FINE if small else COARSE):
            middle = 0.5 * (low + high)
            longer = self._rule.step_norm(solve(middle), self._active) > self._radius
            low, high = torch.where(longer, middle, low), torch.where(longer, high, middle)
            width /= 2
        return torch.nan_to_num(solve(high))

    def _stopping(self) -> Tensor:
        """A step within the region whose potentials stop at kinks; the others are solved for again, a few times."""
        point, rule = self._point, self._rule
        d, free, start = torch.zeros_like(point.g), self._free, point.g
        for _ in range(KINK_ROUNDS):
            held = torch.where(free, 0.0, d)
            r = torch.where(free, point.residual - (self.H @ held[:, :, None])[:, :, 0], 0.0)
            system = _masked(self.H, free)
            whole = self._full(system, r, free, torch.zeros_like(free[:, 0]))
            longest = self._longest(system, r)
            fits = torch.isfinite(whole).all(1) & (
                rule.step_norm(torch.where(free, whole, d), self._active) <= self._radius
            )
            trial = torch.where(free, torch.where(fits[:, None], whole, longest), d)
            stopped = rule.clip(start, trial, point.mass)
            crossing = free & (stopped != trial)
            d = torch.where(crossing, stopped, torch.where(free, trial, d))
            free = free & ~crossing
        return rule.clip(start, d, point.mass)


def _masked(H: Tensor, free: Tensor) -> Tensor:
    """H with the rows and columns that are not free replaced by those of the identity."""
    both = free[:, :, None] & free[:, None, :]
    return torch.where(both, H, 0.0) + torch.diag_embed((~free).to(H.dtype))


def _eigen_solver(H: Tensor, D: Tensor, r: Tensor) -> Callable[[Tensor], Tensor]:
    """log mu (B,) -> (H + mu D)^-1 r, by one eigendecomposition of D^-1/2 H D^-1/2."""
    half = D.rsqrt()
    eigenvalues, U = torch.linalg.eigh(half[:, :, None] * H * half[:, None, :])
    eigenvalues, projected = eigenvalues.clamp(min=0), U.mT @ (half * r)[:, :, None]

    def solve(log_mu: Tensor) -> Tensor:
        return half * (U @ (projected / (eigenvalues + torch.exp(log_mu)[:, None])[:, :, None]))[:, :, 0]

    return solve


def _cholesky_solver(H: Tensor, D: Tensor, r: Tensor) -> Callable[[Tensor], Tensor]:
    """The same by one Cholesky factorisation each; infinite where it fails."""

    def solve(log_mu: Tensor) -> Tensor:
        L, info = torch.linalg.cholesky_ex(H + torch.diag_embed(torch.exp(log_mu)[:, None] * D))
        d = torch.cholesky_solve(r[:, :, None], L)[:, :, 0]
        return torch.where((info == 0)[:, None], d, torch.inf)

    return solve
