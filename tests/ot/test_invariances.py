"""Changes of the problem that must not change the plan."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from transport_problems import least_curvature, modest, problems, problems_with_rules, vectors

from sinkhorn_em.ot import rule_for_tau, solve_plan

TOL = 1e-12


def assert_same_responsibilities(first, second, problem, rule, rows=slice(None)):
    """Equal up to the errors that TOL leaves in both, and the rounding of scores of order 100."""
    assert first.converged
    assert second.converged
    full = np.column_stack([first.responsibilities, first.unassigned])[:, : len(first.potentials)]
    slack = 1e-12 + 4 * TOL / least_curvature(problem, rule, full, first.potentials)
    assert second.responsibilities[rows] == pytest.approx(first.responsibilities, abs=slack)
    assert second.column_mass == pytest.approx(first.column_mass, abs=2 * TOL + 1e-12)


@modest
@given(problems_with_rules(virtual=False), st.data())
def test_a_constant_added_to_a_row_moves_the_value_only(case, data):
    problem, rule = case
    S, a, b = problem
    u = data.draw(vectors(len(a), -100, 100))
    plan, moved = (
        solve_plan(S, a, b, rule=rule, tol=TOL),
        solve_plan(S + u[:, None], a, b, rule=rule, tol=TOL),
    )
    assert_same_responsibilities(plan, moved, problem, rule)
    assert moved.value == pytest.approx(plan.value + a @ u, abs=1e-12)


@modest
@given(problems_with_rules(), st.randoms(use_true_random=False))
def test_permuted_rows_give_the_permuted_plan(case, random):
    problem, rule = case
    S, a, b = problem
    order = np.array(random.sample(range(len(a)), len(a)))
    plan, permuted = (
        solve_plan(S, a, b, rule=rule, tol=TOL),
        solve_plan(S[order], a[order], b, rule=rule, tol=TOL),
    )
    assert_same_responsibilities(plan, permuted, problem, rule, np.argsort(order))


@modest
@given(problems(), st.sampled_from([0, 0.4, 1]), st.randoms(use_true_random=False))
def test_permuted_columns_give_the_permuted_plan(problem, tau, random):
    S, a, b = problem
    order = np.array(random.sample(range(len(b)), len(b)))
    plan, permuted = (
        solve_plan(S, a, b, tau=tau, tol=TOL),
        solve_plan(S[:, order], a, b[order], tau=tau, tol=TOL),
    )
    assert permuted.column_mass == pytest.approx(plan.column_mass[order], abs=2 * TOL)
    assert permuted.value == pytest.approx(plan.value, abs=1e-13)
    slack = 1e-12 + 4 * TOL / least_curvature(problem, rule_for_tau(tau), plan.responsibilities, plan.potentials)
    assert permuted.responsibilities == pytest.approx(plan.responsibilities[:, order], abs=slack)


@modest
@given(problems_with_rules(rows=(1, 10)), st.data())
def test_a_row_written_twice_is_a_row_of_twice_the_mass(case, data):
    (S, _, b), rule = case
    times = data.draw(arrays(np.int64, len(S), elements=st.integers(1, 4)))
    merged = solve_plan(S, times / times.sum(), b, rule=rule, tol=TOL)
    written = solve_plan(np.repeat(S, times, axis=0), None, b, rule=rule, tol=TOL)
    first_copy = np.cumsum(times) - times
    problem = case[0]._replace(row_mass=times / times.sum())
    assert_same_responsibilities(merged, written, problem, rule, first_copy)
    assert written.value == pytest.approx(merged.value, abs=1e-13)


@modest
@given(problems_with_rules())
def test_data_joined_to_themselves_give_the_same_plan(case):
    problem, rule = case
    S, a, b = problem
    once = solve_plan(S, a, b, rule=rule, tol=TOL)
    twice = solve_plan(np.vstack([S, S]), np.append(a, a) / 2, b, rule=rule, tol=TOL)
    assert_same_responsibilities(once, twice, problem, rule, slice(len(a)))
    assert twice.value == pytest.approx(once.value, abs=1e-13)


@modest
@given(problems_with_rules(), st.floats(1e-6, 1e6))
def test_masses_need_not_be_normalised(case, total):
    (S, a, b), rule = case
    plan, scaled = solve_plan(S, a, b, rule=rule), solve_plan(S, total * a, total * b, rule=rule)
    assert scaled.column_mass == pytest.approx(plan.column_mass, abs=2e-9)
    assert scaled.value == pytest.approx(plan.value, abs=1e-13)
