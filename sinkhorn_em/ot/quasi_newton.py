"""Limited-memory quasi-Newton on the semi-dual, for many columns: K numbers a step, no K x K matrix.

Where K is large the overlaps W cost n K^2 multiplications a pass, the pass itself n K exponentials. The inverse Hessian is built
from the last steps s and changes y of the gradient instead (L-BFGS, Nocedal 1980), from the metric D = diag(max(t, c) + psi'')
scaled to the last pair. It takes more passes than Newton's method, each far cheaper. What it does not solve is left to Newton's
method, and so is a tolerance for F - min F, of which it knows nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np

from .._typing import Floats
from .columns import ColumnRule, FixedMass, RelaxedMass
from .newton import (
    ROUNDING,
    SMALLEST_METRIC,
    Pass,
    Point,
    Solution,
    Tolerances,
    evaluate_point,
    solution_at,
    solve_newton,
)

MANY_COLUMNS = 256  # from here on the overlaps cost more than the passes that they save
MEMORY = 20  # pairs
BUDGET = 150  # passes; then Newton's method goes on
LONGEST_STEP = 8.0  # nats
SUFFICIENT, SHORTER, TRIALS = 1e-4, 0.3, 10  # of the line search

Pairs = deque[tuple[Floats, Floats]]  # (s, y), the oldest first


def solve_quasi_newton(one_pass: Pass, rule: ColumnRule, b: Floats, g: Floats, tolerances: Tolerances) -> Solution:
    """Minimise a semi-dual without kinks from potentials ``g`` (K,)."""
    point = evaluate_point(one_pass, rule, b, rule.translate(g, b), 0.0)
    pairs: Pairs = deque(maxlen=MEMORY)
    passes, budget = 1, min(BUDGET, tolerances.max_passes)
    while passes < budget and not point.within(tolerances):
        d = _direction(point, rule, b, pairs)
        trial, used = _line_search(one_pass, rule, b, point, d, budget - passes)
        passes += used
        if trial is None:
            break
        s, y = trial.g - point.g, point.residual - trial.residual
        if s @ y > 0:
            pairs.append((s, y))
        point = trial
    if point.within(tolerances) and tolerances.gap == np.inf:
        return solution_at(point, passes, "converged")
    if passes >= tolerances.max_passes:
        return solution_at(point, passes, "max_passes")
    rest = solve_newton(one_pass, rule, b, point.g, tolerances._replace(max_passes=tolerances.max_passes - passes))
    return rest._replace(n_passes=rest.n_passes + passes)


def solver_for(rule: ColumnRule, n_columns: int) -> Callable[..., Solution]:
    """The method that is faster for so many columns, where the rule lets it be chosen."""
    smooth = isinstance(rule, FixedMass | RelaxedMass)
    return solve_quasi_newton if smooth and n_columns > MANY_COLUMNS else solve_newton


def _direction(point: Point, rule: ColumnRule, b: Floats, pairs: Pairs) -> Floats:
    """The two loops: d = B (t - c), B the inverse Hessian that the pairs speak of, at most `LONGEST_STEP` long."""
    metric = np.maximum(np.maximum(point.target, point.mass), SMALLEST_METRIC) + rule.curvature(point.g, b)
    d, shares = point.residual, []
    for s, y in reversed(pairs):
        shares.append((s @ d) / (s @ y))
        d = d - shares[-1] * y
    d = d / metric
    if pairs:
        s, y = pairs[-1]
        d = d * max(1.0, float((s @ y) / (y @ (y / metric))))  # the metric bounds the Hessian from above
    for s, y in pairs:
        d += s * (shares.pop() - (y @ d) / (s @ y))
    d = np.where(rule.movable(point.g, b, point.mass), d, 0.0)
    return d * min(1.0, LONGEST_STEP / max(rule.step_norm(d), SMALLEST_METRIC))


def _line_search(
    one_pass: Pass, rule: ColumnRule, b: Floats, point: Point, d: Floats, budget: int
) -> tuple[Point | None, int]:
    """The first point along d that is low enough, or None, and the passes taken."""
    slope = -float(point.residual @ d)
    if not slope < 0:
        return None, 0
    noise, length = ROUNDING * max(1.0, abs(point.value)), 1.0
    for used in range(1, min(TRIALS, budget) + 1):
        trial = evaluate_point(one_pass, rule, b, rule.translate(point.g + length * d, b), 0.0)
        lower = trial.value <= point.value + SUFFICIENT * length * slope
        # a decrease that cannot be seen in F is seen in its slope
        if lower or (-slope < noise and abs(trial.residual @ d) < -slope):
            return trial, used
        length *= SHORTER
    return None, used
