"""Entropic transport of torch tensors, on any device: the Newton method of `sinkhorn_em.ot`, many problems side by side.

`solve` is the entry, `problem` checks what it is given, `columns` holds the rules, `newton` the solver and `step` its steps,
`kernel` the pass over the rows, `precision` that of their products, `plan` the result. Nothing below `sinkhorn_em.deep` but this
package and the tensor engine imports torch, and neither is imported unless a tensor is given.
"""

from .kernel import Evaluation, Reduction, evaluate
from .newton import Solution, solve_newton
from .plan import TensorPlan
from .solve import solve_plan, solve_rows

__all__ = [
    "Evaluation",
    "Reduction",
    "Solution",
    "TensorPlan",
    "evaluate",
    "solve_newton",
    "solve_plan",
    "solve_rows",
]
