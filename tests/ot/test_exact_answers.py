"""Problems whose plan is known in closed form."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from transport_problems import (
    floats,
    least_curvature,
    masses,
    modest,
    problems,
    problems_with_rules,
    solved,
)

from sinkhorn_em.ot import BoundedMass, FixedMass, solve_plan

TOL = 1e-12
ROUNDING = 1e-12  # of a few thousand additions of numbers of order 1, and of exponents of order 50


@modest
@given(solved())
def test_a_plan_is_recovered_from_the_problem_built_around_it(known):
    S, a, b = known.problem
    plan = solve_plan(S, a, b, rule=known.rule, tol=TOL)
    assert plan.converged
    assert plan.column_mass == pytest.approx(known.mass, abs=TOL + ROUNDING)
    # rounding in b or in a bound moves g as an error in the masses does
    slope = least_curvature(known.problem, known.rule, known.responsibilities, known.potentials)
    slack = ROUNDING + 2 * TOL / slope
    assert plan.potentials == pytest.approx(known.potentials, abs=slack)
    assert plan.responsibilities == pytest.approx(known.responsibilities[:, : S.shape[1]], abs=slack)


@modest
@given(problems(), st.sampled_from([0, 0.3, 1]))
def test_the_plan_of_identical_columns_is_the_product_plan(problem, tau):
    S, a, b = problem
    S = np.repeat(S[:, :1], len(b), axis=1)
    plan = solve_plan(S, a, b, tau=tau)
    assert plan.matrix == pytest.approx(np.outer(a, b), abs=1e-15)
    assert plan.value == pytest.approx(a @ S[:, 0], abs=1e-14)
    assert plan.n_passes == 1


@modest
@given(problems())
def test_identical_rows_take_the_column_masses_if_these_are_fixed(problem):
    S, a, b = problem
    S = np.repeat(S[:1], len(a), axis=0)
    assert solve_plan(S, a, b, tol=TOL).responsibilities == pytest.approx(np.tile(b, (len(a), 1)), abs=TOL)


@modest
@given(problems())
def test_identical_rows_take_the_tilted_masses_if_these_are_free(problem):
    S, a, b = problem
    tilted = b * np.exp(S[0]) / (b @ np.exp(S[0]))
    R = solve_plan(np.repeat(S[:1], len(a), axis=0), a, b, rule="free").responsibilities
    assert pytest.approx(np.tile(tilted, (len(a), 1)), abs=1e-15) == R


@modest
@given(problems_with_rules(columns=(1, 1), virtual=False))
def test_one_column_takes_everything(case):
    (S, a, b), rule = case
    plan = solve_plan(S, a, b, rule=rule)
    assert (plan.responsibilities == 1).all()
    assert plan.value == pytest.approx(a @ S[:, 0], abs=1e-14)


@modest
@given(problems(), floats(0.05, 0.95), st.sampled_from([0, 0.3, 0.9, 1]))
def test_two_identical_columns_split_as_their_weights(problem, share, tau):
    S, a, b = problem
    twice = np.column_stack([S, S[:, 0]])
    split = np.append(b, (1 - share) * b[0])
    split[0] *= share
    plan = solve_plan(twice, a, split, tau=tau, tol=TOL)
    whole = solve_plan(S, a, b, tau=tau, tol=TOL)
    R = plan.responsibilities
    assert R[:, 0] * (1 - share) == pytest.approx(R[:, -1] * share, abs=1e-9)
    assert plan.value == pytest.approx(whole.value, abs=1e-13)


@pytest.mark.parametrize("seed", range(5))
def test_as_many_columns_as_rows_and_a_small_epsilon_give_the_optimal_assignment(seed):
    n = 6
    cost = np.random.default_rng(seed).uniform(size=(n, n))
    totals = np.sort([cost[np.arange(n), list(p)].mean() for p in permutations(range(n))])
    # Weed (2018), theorem 5: L1 distance to the vertex <= 2 exp(1 + log n - gap/epsilon), here 1e-16
    epsilon = (totals[1] - totals[0]) / 40
    plan = solve_plan(-cost / epsilon)
    assert plan.converged
    rows, columns = linear_sum_assignment(cost)
    assignment = np.zeros((n, n))
    assignment[rows, columns] = 1 / n
    assert plan.matrix == pytest.approx(assignment, abs=1e-9)  # the plan's own tolerance


@modest
@given(problems())
def test_a_large_epsilon_gives_the_product_plan(problem):
    S, a, b = problem
    epsilon = 1e6
    plan = solve_plan(S / epsilon, a, b)
    # R_ik / b_k = exp(S/epsilon + g - lse) and each of the three terms is within osc(S)/epsilon of a constant
    assert plan.responsibilities / b == pytest.approx(1.0, abs=4 * np.ptp(S) / epsilon + 1e-8)


@modest
@given(problems())
def test_wide_bounds_are_the_free_rule(problem):
    S, a, b = problem
    wide, free = solve_plan(S, a, b, rule=BoundedMass(0, 1)), solve_plan(S, a, b, rule="free")
    assert np.array_equal(wide.responsibilities, free.responsibilities)
    assert wide.value == free.value


@modest
@given(problems(), st.data())
def test_equal_bounds_are_the_fixed_rule(problem, data):
    S, a, b = problem
    target = data.draw(masses(len(b)))
    bounded = solve_plan(S, a, b, rule=BoundedMass(target, target), tol=TOL)
    fixed = solve_plan(S, a, target, tol=TOL)
    assert bounded.converged
    assert bounded.column_mass == pytest.approx(target, abs=2 * TOL)
    # log b + g is determined up to a constant, by both
    slope = least_curvature(problem._replace(column_mass=target), FixedMass(), fixed.responsibilities, fixed.potentials)
    assert bounded.responsibilities == pytest.approx(fixed.responsibilities, abs=ROUNDING + 4 * TOL / slope)
