"""Plain Sinkhorn, the readable reference: rows are normalised, then every column is scaled to what its rule asks.

In potentials: g <- g + log(b/c) for fixed columns, tau (g + log(b/c)) for KL columns (Chizat et al. 2018).
"""

from __future__ import annotations

import numpy as np

from .._typing import Floats
from .columns import ColumnRule
from .newton import Pass, Solution, Tolerances, relative_error


def solve_sinkhorn(one_pass: Pass, rule: ColumnRule, b: Floats, g: Floats, tolerances: Tolerances) -> Solution:
    """Iterate from potentials ``g`` (K,) until both errors are within ``tolerances``, or passes run out."""
    g = rule.translate(g, b)
    status = "max_passes"
    for n_passes in range(1, tolerances.max_passes + 1):
        e = one_pass(np.log(b) + g, 0.0)
        target = rule.target(g, b, e.mass)
        error, relative = float(np.abs(target - e.mass).sum()), relative_error(e.mass, target, b)
        if error <= tolerances.marginal and relative <= tolerances.relative:
            status = "converged"
            break
        if n_passes < tolerances.max_passes:
            g = rule.translate(rule.scale(g, b, e.mass), b)
    value = e.value + rule.penalty(g, b)
    return Solution(g, e.mass, value, np.nan, error, relative, n_passes, status)
