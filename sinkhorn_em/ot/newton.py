"""Trust-region Newton on the semi-dual: K numbers, one pass over the rows per step.

F(g) = sum_i a_i lse_k(S_ik + log b_k + g_k) + sum_k psi_k(g_k) has gradient c - t and Hessian L + diag(psi''), L the graph
Laplacian of the component overlaps W. It is quasi-self-concordant in the oscillation of the step,
exp(-osc d) H(g) <= H(g + d) <= exp(osc d) H(g), hence a trust region on osc d. Each step solves

    (H + mu D) d = t - c,   D = diag(max(t, c)),   with the smallest mu >= 0 that keeps the step inside.

Where clusters are far apart F is nearly piecewise linear, and its curvature at a point says nothing about a step of many nats.
The overlaps W are then taken at a temperature proportional to the last step: the curvature averaged over steps of that size.

The rows live behind a callable ``offset -> Evaluation``: in memory, in tiles, elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dposv

from .._typing import Booleans, Floats
from .columns import ColumnRule
from .kernel import Evaluation

Pass = Callable[[Floats, float], Evaluation]  # (offset, temperature of the Gram matrix or 0)


class Solution(NamedTuple):
    """Where a solver stopped."""

    potentials: Floats  # (K,) g, nats
    mass: Floats  # (K,) c
    value: float  # F(g)
    gap: float  # F(g) - min F, estimated by the Newton model; nan if it was not asked for
    marginal_error: float  # sum |c - t|
    relative_error: float  # max |log(c/t)|
    n_passes: int
    status: str  # "converged", "precision", "max_passes"

    @property
    def minimum(self) -> float:
        """min F: its value less what the Newton model says is left of it."""
        return self.value - (self.gap if self.gap > 0 else 0.0)


class Tolerances(NamedTuple):
    """When to stop: all errors small, or out of passes."""

    marginal: float = 1e-9  # sum |c - t|
    relative: float = 1e-6  # max |log(c/t)|: small columns hide in the sum
    gap: float = np.inf  # F(g) - min F, nats; plain Sinkhorn, which has no model of F, knows nothing of it
    max_passes: int = 200


FIRST_RADIUS = 2.0  # nats
ACCEPT, GOOD, POOR = 1e-3, 0.5, 0.1  # ratios of actual to predicted decrease
EMPTY = 1e-9  # of a column's prescribed mass: as good as none
SHORTEST, LONGEST = 0.1, 0.6  # of a rejected step
INSIDE = 0.9  # a step shorter than this share of the radius is a full Newton step
SMOOTHING = 0.05  # temperature of the overlaps per nat of the last step: above 1 from 20 nats on
ROUNDING = 1e-14  # relative to |F|: predicted decreases below it cannot be seen in F
TINY = 1e-300
SMALLEST_METRIC = 1e-16  # of the total mass: emptier columns would turn rounding of the eigenvectors into steps
SMALLEST_RADIUS = 1e-12  # nats
EIGEN_COLUMNS = 200  # up to here one eigendecomposition is cheaper than a few Cholesky factorisations
SMALLEST_LOG_MU, FINE, COARSE = -34.0, 0.05, 1.0


class Point(NamedTuple):
    """Potentials, and what a pass over the rows found there."""

    g: Floats
    value: float
    mass: Floats
    gram: Floats | None
    residual: Floats  # t - c
    target: Floats
    error: float  # sum |t - c|
    relative: float  # max |log(c/t)|

    def within(self, tolerances: Tolerances) -> bool:
        return self.error <= tolerances.marginal and self.relative <= tolerances.relative


def relative_error(mass: Floats, target: Floats, b: Floats) -> float:
    """max |log(c/t)|; masses below 1e-9 b count as nothing."""
    if mass is target:
        return 0.0
    nothing = EMPTY * b
    return float(np.abs(np.log((mass + nothing) / (target + nothing))).max())


def solve_newton(one_pass: Pass, rule: ColumnRule, b: Floats, g: Floats, tolerances: Tolerances) -> Solution:
    """Minimise the semi-dual from potentials ``g`` (K,); ``one_pass(offset, temperature)`` evaluates its smooth part."""
    point = evaluate_point(one_pass, rule, b, rule.translate(g, b))
    if not rule.constrains:
        return solution_at(point, 1, "converged", 0.0)
    passes, radius, stalled, scaled, gap = 1, FIRST_RADIUS, 0, 0, np.nan
    while True:
        converged = point.within(tolerances)
        if converged and tolerances.gap == np.inf:
            return solution_at(point, passes, "converged")
        if scaled < passes and rule.off_scale(point.g, b, point.mass) and passes < tolerances.max_passes:
            point = evaluate_point(one_pass, rule, b, rule.translate(rule.scale(point.g, b, point.mass), b))
            passes, scaled = passes + 1, passes + 1  # every other pass at most
            continue
        step, predicted, norm = _step(point, rule, b, radius)
        gap = predicted if norm < INSIDE * radius else np.nan
        if converged and gap <= tolerances.gap:
            return solution_at(point, passes, "converged", gap)
        if stalled >= 3 or not norm > 0:
            return solution_at(point, passes, "precision", gap)
        if passes >= tolerances.max_passes:
            return solution_at(point, passes, "max_passes", gap)
        trial = evaluate_point(one_pass, rule, b, rule.translate(point.g + step, b), max(1.0, SMOOTHING * norm))
        passes += 1
        ratio = (point.value - trial.value) / max(predicted, TINY)
        below_noise = abs(predicted) < ROUNDING * max(1.0, abs(point.value))
        if (below_noise and trial.error < point.error) or (not below_noise and ratio > ACCEPT):
            stalled = stalled + 1 if below_noise and trial.error > 0.5 * point.error else 0
            radius = next_radius(radius, ratio, norm, below_noise)
            point = trial
        else:
            stalled += below_noise
            radius = norm * minimiser_along(-float(point.residual @ step), -float(trial.residual @ step))


def next_radius(radius: float, ratio: float, norm: float, below_noise: bool) -> float:
    """The trust radius after an accepted step (`newton_kernel` compiles this function, too)."""
    if below_noise or (ratio > GOOD and norm > radius / 2):
        return 2 * radius if ratio < 0.9 or below_noise else 4 * radius
    return radius / 2 if ratio < POOR else radius


def minimiser_along(before: float, after: float) -> float:
    """Where along a rejected step the slope vanishes, by the secant of the slopes at both ends (`newton_kernel`, too)."""
    return min(max(before / (before - after), SHORTEST), LONGEST) if after > before else 0.25


def evaluate_point(one_pass: Pass, rule: ColumnRule, b: Floats, g: Floats, temperature: float = 1.0) -> Point:
    """The point at potentials g; at temperature 0 without overlaps."""
    e = one_pass(np.log(b) + g, temperature if rule.constrains else 0.0)
    target = rule.target(g, b, e.mass)
    residual = target - e.mass
    error, relative = float(np.abs(residual).sum()), relative_error(e.mass, target, b)
    return Point(g, e.value + rule.penalty(g, b), e.mass, e.gram, residual, target, error, relative)


def solution_at(point: Point, passes: int, status: str, gap: float = np.nan) -> Solution:
    """The solution that stops at a point."""
    return Solution(point.g, point.mass, point.value, gap, point.error, point.relative, passes, status)


def _step(point: Point, rule: ColumnRule, b: Floats, radius: float) -> tuple[Floats, float, float]:
    """The step, the decrease that the quadratic model predicts for it, and its norm."""
    assert point.gram is not None
    H = -point.gram
    H.flat[:: len(H) + 1] = point.gram.sum(axis=1) + rule.curvature(point.g, b)
    while True:
        d = _model_step(H, point, rule, b, radius)
        predicted = float(point.residual @ d - 0.5 * d @ H @ d)
        if predicted >= 0 or radius < SMALLEST_RADIUS:
            return d, predicted, rule.step_norm(d)
        radius /= 4  # potentials stopped at kinks that they would leave again: shorter steps reach fewer kinks


def _model_step(H: Floats, point: Point, rule: ColumnRule, b: Floats, radius: float) -> Floats:
    """Minimise the model within the radius; potentials that would jump over a kink stop there, the others are solved for again."""
    d = np.zeros_like(point.g)
    free = rule.movable(point.g, b, point.mass)
    metric = np.maximum(np.maximum(point.target, point.mass), SMALLEST_METRIC)
    while point.error > 0 and free.any():
        if free.all():
            d = _within(H, metric, point.residual, rule.step_norm, radius, rule.invariant)
        else:
            d = _free_step(H, metric, point.residual, d, free, rule, radius)
        stopped = rule.clip(point.g, d, point.mass)
        crossing = free & (stopped != d)
        if not crossing.any():
            break
        d, free = np.where(free & ~crossing, 0.0, stopped), free & ~crossing
    return d


def _free_step(
    H: Floats, metric: Floats, r: Floats, d: Floats, free: Booleans, rule: ColumnRule, radius: float
) -> Floats:
    """d with its ``free`` entries solved for, the others held."""
    held = r - H @ np.where(free, 0.0, d)

    def full(part: Floats) -> Floats:
        whole = d.copy()
        whole[free] = part
        return whole

    inner = H[np.ix_(free, free)], metric[free], held[free]
    return full(_within(*inner, lambda part: rule.step_norm(full(part)), radius, False))


def _within(H: Floats, D: Floats, r: Floats, norm: Callable[[Floats], float], radius: float, singular: bool) -> Floats:
    """Solve (H + mu D) d = r for the smallest mu >= 0 with norm(d) <= radius."""
    # the constant, H's null vector, is given a curvature
    system = H + D[:, None] * (D / D.sum()) if singular else H
    d, info = dposv(system, r)[1:]
    if info == 0 and np.isfinite(d).all() and norm(d) <= radius:
        return d
    solve = _eigen_solver(H, D, r) if len(D) <= EIGEN_COLUMNS else _cholesky_solver(H, D, r)
    low, high = SMALLEST_LOG_MU, 0.0  # from rounding of the eigenvalues to the metric itself
    while norm(solve(high)) > radius:
        high += 3.0
    if norm(solve(low)) <= radius:
        return solve(low)
    while high - low > (FINE if len(D) <= EIGEN_COLUMNS else COARSE):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if norm(solve(middle)) > radius else (low, middle)
    return solve(high)


def _eigen_solver(H: Floats, D: Floats, r: Floats) -> Callable[[float], Floats]:
    """log mu -> (H + mu D)^-1 r, by one eigendecomposition of D^-1/2 H D^-1/2."""
    half = 1 / np.sqrt(D)
    eigenvalues, U = np.linalg.eigh(half[:, None] * H * half)
    eigenvalues, projected = np.maximum(eigenvalues, 0), U.T @ (half * r)
    return lambda log_mu: half * (U @ (projected / (eigenvalues + np.exp(log_mu))))


def _cholesky_solver(H: Floats, D: Floats, r: Floats) -> Callable[[float], Floats]:
    """The same by one Cholesky factorisation each."""

    def solve(log_mu: float) -> Floats:
        d, info = dposv(H + np.diag(np.exp(log_mu) * D), r)[1:]
        return d if info == 0 else np.full_like(r, np.inf)

    return solve
