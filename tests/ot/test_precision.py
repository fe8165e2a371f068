"""Storage, memory order and threads leave the answer alone, and the tolerance is kept or the status says so."""

import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from transport_problems import modest, problems_with_rules, separated_clusters

import sinkhorn_em
from sinkhorn_em.ot import BoundedMass, FixedMass, RelaxedMass, VirtualColumn, log_partition, solve_plan

RULES = [FixedMass(), RelaxedMass(0.6), BoundedMass(0.1, 0.15), VirtualColumn(0.2)]


@pytest.fixture
def threads():
    """Sets the number of threads, and puts it back."""
    before = sinkhorn_em.get_num_threads()
    yield sinkhorn_em.set_num_threads
    sinkhorn_em.set_num_threads(before)


def large(n=60_000, K=8, seed=0):
    """Enough entries for several blocks."""
    return 2 * np.random.default_rng(seed).normal(size=(n, K))


def bits(plan):
    return [plan.potentials, plan.column_mass, plan.value, plan.responsibilities, log_partition(plan)]


def assert_same_bits(first, second):
    assert all(np.array_equal(x, y) for x, y in zip(bits(first), bits(second), strict=True))


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_one_and_more_threads_give_the_same_bits(threads, rule):
    S = large()
    plans = []
    for n_threads in (1, 2, 3):
        threads(n_threads)
        plans.append(solve_plan(S, rule=rule))
    assert_same_bits(plans[0], plans[1])
    assert_same_bits(plans[0], plans[2])


def test_plans_solved_at_the_same_time_are_those_solved_in_turn(threads):
    threads(2)
    problems = [large(seed=seed) for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(solve_plan, problems))
    for S, plan in zip(problems, together, strict=True):
        assert_same_bits(plan, solve_plan(S))


@pytest.mark.parametrize("n_threads", [0, -1])
def test_the_number_of_threads_is_positive(n_threads):
    with pytest.raises(ValueError, match=f"n_threads is {n_threads}; it must be at least 1"):
        sinkhorn_em.set_num_threads(n_threads)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_rows_first_and_columns_first_give_the_same_bits(dtype, rule):
    S = large(5000).astype(dtype)
    assert_same_bits(solve_plan(np.ascontiguousarray(S), rule=rule), solve_plan(np.asfortranarray(S), rule=rule))


@pytest.mark.parametrize("rule", RULES, ids=repr)
@pytest.mark.parametrize("seed", range(3))
def test_single_precision_scores_cost_single_precision_only(rule, seed):
    S = large(2000, seed=seed)
    assert np.abs(S).max() < 16  # then rounding is below 2^-21 in a score
    double, single = solve_plan(S, rule=rule), solve_plan(S.astype(np.float32), rule=rule)
    assert single.converged
    assert single.marginal_error <= 1e-9  # of its own, rounded, problem
    # |dR| <= R (1 - R) (|dS| + |dg|) <= 2^-22 + |dg|/4; g follows S and these overlaps are not weak
    assert single.responsibilities == pytest.approx(double.responsibilities, abs=1e-5)
    assert single.value == pytest.approx(double.value, abs=2**-21)


def test_masses_of_many_rows_in_single_precision_add_up_to_one():
    # naive single-precision sums of 4e5 terms are off by 1e-3; ours by 4e5 rounding errors of the result at most
    S = large(400_000, 3).astype(np.float32)
    plan = solve_plan(S, rule="free")
    assert plan.column_mass.sum() == pytest.approx(1.0, abs=1e-12)
    assert plan.column_mass == pytest.approx(plan.responsibilities.mean(axis=0), abs=1e-12)


@modest
@given(problems_with_rules(), st.sampled_from([1e-3, 1e-6, 1e-9, 1e-12]))
def test_the_tolerance_is_kept(case, tol):
    problem, rule = case
    plan = solve_plan(*problem, rule=rule, tol=tol)
    assert plan.converged
    assert plan.marginal_error <= tol
    assert plan.relative_error <= 1e3 * tol
    c = np.append(plan.matrix.sum(axis=0), problem.row_mass @ plan.unassigned)[: len(plan.potentials)]
    target = rule.target(plan.potentials, rule.extend(problem.column_mass), c)
    assert np.abs(c - target).sum() == pytest.approx(plan.marginal_error, abs=1e-14)


@pytest.mark.parametrize("method", ["newton", "sinkhorn"])
@pytest.mark.parametrize("max_passes", [1, 2, 3])
def test_a_solver_that_runs_out_of_passes_says_so(method, max_passes):
    S, a, _ = separated_clusters(0, 8)
    plan = solve_plan(S, a, method=method, max_passes=max_passes)
    assert (plan.status, plan.converged, plan.n_passes) == ("max_passes", False, max_passes)
    assert plan.marginal_error > 1e-9
    assert plan.column_mass == pytest.approx(plan.matrix.sum(axis=0), abs=1e-14)


def test_a_tolerance_below_rounding_is_reported_as_the_end_of_precision():
    S, a, _ = separated_clusters(0, 8)
    plan = solve_plan(S, a, tol=1e-30)
    assert (plan.status, plan.converged) == ("precision", False)
    assert plan.n_passes < 100
    assert plan.marginal_error <= 1e-14


def test_scores_far_below_the_smallest_exponential_lose_nothing():
    # exp(-745) is 0: only differences within a row may matter
    S, a, b = separated_clusters(0, 2)
    assert_close(solve_plan(S, a, b), solve_plan(S - 1e5, a, b))


def assert_close(plan, moved):
    assert moved.converged
    # subtracting 1e5 rounds the scores at 2^-36
    assert moved.responsibilities == pytest.approx(plan.responsibilities, abs=1e-7)
    assert moved.value + 1e5 == pytest.approx(plan.value, abs=1e-9)


def test_no_second_matrix_of_scores_is_made():
    S = np.asfortranarray(large(200_000, 10))
    solve_plan(S[:100])  # what is allocated once
    tracemalloc.start()
    plan = solve_plan(S)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert plan.rows.scores is S
    assert peak < 0.3 * S.nbytes


def test_a_plan_keeps_no_second_matrix():
    S = np.asfortranarray(large(20_000, 10))
    plan = solve_plan(S)
    held = [plan.rows.offset, plan.rows.row_mass, plan.potentials, plan.column_mass]
    assert plan.rows.scores is S
    assert sum(x.nbytes for x in held) < 0.2 * S.nbytes
    first = plan.responsibilities
    first[:] = 0
    assert plan.responsibilities.sum() == pytest.approx(20_000)
