"""The trust-region Newton method of `sinkhorn_em.ot.newton` on B problems side by side, each with its own radius.

Nothing here waits for the device but one question a pass: does any problem go on, is any of their steps
not a full Newton step, and is any so long that the overlaps are smoothed?
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from ..newton import (
    ACCEPT,
    EMPTY,
    FIRST_RADIUS,
    GOOD,
    INSIDE,
    LONGEST,
    POOR,
    ROUNDING,
    SHORTEST,
    SMALLEST_RADIUS,
    SMOOTHING,
    TINY,
    Tolerances,
)
from .columns import TensorRule
from .kernel import Evaluation
from .step import Point, Step

Pass = Callable[[Tensor, Tensor | None], Evaluation]  # (offset (B, K), temperature (B,) or None) -> sums
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
        step = Step(point, rule, b, radius)
        stuck = ~scaling & ((stalled >= 3) | ~(step.norm > 0))
        status = torch.where((status == RUNNING) & _within(point, step, radius, tolerances), CONVERGED, status)
        status = torch.where((status == RUNNING) & stuck, PRECISION, status)
        running = status == RUNNING
        far = running & (SMOOTHING * torch.minimum(step.norm, radius) > 1)
        left = running & ~scaling & step.unfinished
        some_run, some_left, some_far = torch.stack([running.any(), left.any(), far.any()]).tolist()
        if not some_run:
            break
        if passes == tolerances.max_passes:
            status = torch.where(running, MAX_PASSES, status)
            break
        if some_left:
            step.finish()
        scaled = rule.scale(point.g, b, point.mass) if off is not None else point.g
        g = rule.translate(torch.where(scaling[:, None], scaled, point.g + step.d), b)
        temperature = torch.where(scaling, 1.0, (SMOOTHING * step.norm).clamp(min=1.0)) if some_far else None
        trial = _evaluate(one_pass, rule, b, g, temperature)
        n_passes = torch.where(running, passes + 1, n_passes)
        accepted, radius, stalled = _judge(point, trial, step, radius, stalled, scaling, rounding)
        point = trial.or_else(point, running & accepted)
        rested = ~scaling
    return _solution(point, n_passes, status)


def _within(point: Point, step: Step, radius: Tensor, tolerances: Tolerances) -> Tensor:
    """Problems (B,) that are where they should be; what is left of F is known from a full Newton step."""
    small = (point.error <= tolerances.marginal) & (point.relative <= tolerances.relative)
    if tolerances.gap == torch.inf:
        return small
    return small & (step.norm < INSIDE * radius) & (step.predicted <= tolerances.gap)


def _judge(
    point: Point, trial: Point, step: Step, radius: Tensor, stalled: Tensor, scaling: Tensor, rounding: float
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


def _evaluate(one_pass: Pass, rule: TensorRule, b: Tensor, g: Tensor, temperature: Tensor | None) -> Point:
    e = one_pass(torch.log(b) + g, temperature)
    target = rule.target(g, b, e.mass)
    residual = target - e.mass
    nothing = EMPTY * b
    ratio = torch.log((e.mass + nothing) / (target + nothing))
    relative = torch.where(b > 0, ratio, 0.0).abs().amax(1)
    gram = e.gram if e.gram is not None else e.mass
    return Point(g, e.value + rule.penalty(g, b), e.mass, gram, residual, target, residual.abs().sum(1), relative)


def _solution(point: Point, passes: Tensor, status: Tensor) -> Solution:
    return Solution(point.g, point.mass, point.value, point.error, point.relative, passes, status)
