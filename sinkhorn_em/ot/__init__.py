"""Entropic transport of n rows onto K columns. The word mixture never appears here.

`solve_plan` is the entry, `solve_plans` that for many small problems (`batch`); `columns` holds the rules, `newton` the
solver (`newton_kernel`: all of it compiled), `sinkhorn` the readable reference, `kernel` the compiled pass, `plan` the result,
`feasibility` what to do about -inf.
"""

from .batch import Plans, solve_plans
from .columns import (
    RULES,
    BoundedMass,
    ColumnRule,
    FixedMass,
    FreeMass,
    RelaxedMass,
    VirtualColumn,
    rule_for_tau,
)
from .feasibility import InfeasibleMarginalsError
from .plan import Plan, RowsPlan
from .solve import log_partition, solve_plan

__all__ = [
    "RULES",
    "BoundedMass",
    "ColumnRule",
    "FixedMass",
    "FreeMass",
    "InfeasibleMarginalsError",
    "Plan",
    "Plans",
    "RelaxedMass",
    "RowsPlan",
    "VirtualColumn",
    "log_partition",
    "rule_for_tau",
    "solve_plan",
    "solve_plans",
]
