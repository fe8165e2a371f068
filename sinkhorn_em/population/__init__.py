"""Expectations under a Gaussian mixture in place of means over a sample.

`quadrature` turns a mixture into rows with masses, on which every algorithm of this package runs as on a sample; `symmetric` is
the symmetric mixture of two components, whose stationary points and thresholds it finds; `empirical` compares the plan of a
sample with that of the population.
"""

from .empirical import PlanErrors, plan_errors
from .quadrature import N_NODES, population_rows
from .symmetric import asymptotic_factor, fixed_points, population_map, spurious_threshold, tilted_weight

__all__ = [
    "N_NODES",
    "PlanErrors",
    "asymptotic_factor",
    "fixed_points",
    "plan_errors",
    "population_map",
    "population_rows",
    "spurious_threshold",
    "tilted_weight",
]
