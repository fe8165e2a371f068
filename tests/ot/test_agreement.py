"""Two solvers that share no code give the same plan."""

import numpy as np
import plain_dual
import pytest
from hypothesis import given
from transport_problems import few, least_curvature, modest, problems_with_rules

from sinkhorn_em.ot import solve_plan

TOL = 1e-10


def slack(problem, rule, plan):
    """What errors of TOL in the column masses allow in the responsibilities, twice."""
    full = np.column_stack([plan.responsibilities, plan.unassigned])[:, : len(plan.potentials)]
    return 1e-12 + 4 * TOL / least_curvature(problem, rule, full, plan.potentials)


@modest
@given(problems_with_rules(largest=8.0))
def test_newton_agrees_with_a_general_optimiser_on_the_plain_dual(case):
    problem, rule = case
    plan = solve_plan(*problem, rule=rule, tol=TOL)
    g, value = plain_dual.minimise_dual(*problem, rule)
    assert plan.converged
    assert plan.value == pytest.approx(value, abs=1e-12)
    S, b, *_ = plain_dual.extended(problem.scores, problem.column_mass, rule)
    R = plain_dual.responsibilities(S, b, g)
    # both minimise to rounding: F within 1e-15 of its minimum leaves sqrt(2e-15 / curvature)
    flat = least_curvature(problem, rule, R, g)
    assert plan.responsibilities == pytest.approx(
        R[:, : problem.scores.shape[1]], abs=slack(problem, rule, plan) + np.sqrt(4e-15 / flat)
    )


@few
@given(problems_with_rules(largest=2.0))
def test_newton_agrees_with_sinkhorn(case):
    problem, rule = case
    newton = solve_plan(*problem, rule=rule, tol=TOL)
    sinkhorn = solve_plan(*problem, rule=rule, tol=TOL, method="sinkhorn")
    assert newton.converged
    assert sinkhorn.converged
    assert newton.value == pytest.approx(sinkhorn.value, abs=1e-12)
    assert newton.column_mass == pytest.approx(sinkhorn.column_mass, abs=2 * TOL)
    assert newton.responsibilities == pytest.approx(sinkhorn.responsibilities, abs=slack(problem, rule, newton))
