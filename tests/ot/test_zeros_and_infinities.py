"""Masses of zero and scores of -inf are values: nothing is clamped, nothing becomes NaN."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import softmax
from transport_problems import Problem, drawn_plans, least_curvature, modest, problems, separated_clusters

from sinkhorn_em.ot import (
    BoundedMass,
    FixedMass,
    FreeMass,
    InfeasibleMarginalsError,
    RelaxedMass,
    VirtualColumn,
    solve_plan,
)

INF = np.inf
RULES = [FixedMass(), FreeMass(), RelaxedMass(0.5), BoundedMass(0, 0.5), VirtualColumn(0.2)]
METHODS = ["newton", "sinkhorn"]


def example(n=50, K=4, seed=0):
    return np.random.default_rng(seed).normal(size=(n, K))


def with_blocked(S, rows, columns):
    S = S.copy()
    S[rows, columns] = -INF
    return S


@pytest.mark.parametrize("rule", RULES, ids=repr)
@pytest.mark.parametrize("method", METHODS)
def test_a_column_of_mass_zero_is_as_if_it_were_not_there(rule, method):
    S, b = example(), np.array([0.3, 0.0, 0.3, 0.4])
    S[:, 1] = 50  # however well it fits
    plan = solve_plan(S, None, b, rule=rule, method=method)
    without = solve_plan(S[:, b > 0], None, b[b > 0], rule=rule, method=method)
    assert plan.converged
    assert plan.potentials[1] == -INF
    assert plan.column_mass[1] == 0
    assert (plan.responsibilities[:, 1] == 0).all()
    assert plan.value == pytest.approx(without.value, abs=1e-14)
    assert plan.responsibilities[:, b > 0] == pytest.approx(without.responsibilities, abs=1e-14)


def test_the_options_of_a_column_of_mass_zero_are_left_out_with_it():
    S, b = example(), np.array([0.3, 0.0, 0.3, 0.4])
    tau = np.array([0.2, 0.5, 1.0, 0.0])
    plan, without = solve_plan(S, None, b, tau=tau), solve_plan(S[:, b > 0], None, b[b > 0], tau=tau[b > 0])
    assert plan.column_mass[b > 0] == pytest.approx(without.column_mass, abs=1e-14)


def test_potentials_with_an_inactive_column_are_accepted_back():
    S, b = example(), [0.3, 0.0, 0.3, 0.4]
    potentials = solve_plan(S, None, b).potentials
    assert solve_plan(S, None, b, potentials=potentials).n_passes == 1


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_a_row_of_mass_zero_does_not_count_but_has_its_responsibilities(rule):
    S = example()
    a = np.random.default_rng(1).uniform(size=50)
    a[::3] = 0
    plan, without = solve_plan(S, a, rule=rule), solve_plan(S[a > 0], a[a > 0], rule=rule)
    assert plan.value == pytest.approx(without.value, abs=1e-14)
    assert plan.column_mass == pytest.approx(without.column_mass, abs=2e-9)  # the tolerance, twice
    offset = np.log(rule.extend(np.full(4, 0.25))) + plan.potentials
    extended = np.column_stack([S, np.zeros((50, len(offset) - 4))])
    assert plan.responsibilities == pytest.approx(softmax(extended + offset, axis=1)[:, :4], abs=1e-15)
    assert (plan.matrix[::3] == 0).all()


def test_a_row_of_mass_zero_may_have_no_finite_score():
    S, a = with_blocked(example(), 7, slice(None)), np.ones(50)
    a[7] = 0
    plan = solve_plan(S, a)
    assert plan.converged
    assert np.isfinite(plan.responsibilities).all()
    assert plan.value == pytest.approx(solve_plan(np.delete(S, 7, axis=0)).value, abs=1e-14)


@modest
@given(drawn_plans(), st.data())
def test_forbidden_pairs_get_nothing_and_the_rest_is_exact(drawn, data):
    R, a, g, u = drawn
    forbidden = data.draw(arrays(bool, R.shape))
    forbidden[0] = forbidden[:, 0] = False  # every pair of columns still shares a row: g is determined
    R = np.where(forbidden, 0, R)
    R /= R.sum(axis=1, keepdims=True)
    b = a @ R
    with np.errstate(divide="ignore"):
        S = np.log(R) - np.log(b) - g + u
    plan = solve_plan(S, a, b, tol=1e-12)
    assert plan.converged
    assert (plan.responsibilities[forbidden] == 0).all()
    slope = least_curvature(Problem(S, a, b), FixedMass(), R, g - b @ g)
    assert plan.responsibilities == pytest.approx(R, abs=1e-12 + 2e-12 / slope)


def test_masses_that_only_just_fit_are_met():
    # column 0 must take the first two rows and nothing else: the potentials run to infinity, the plan converges
    S = with_blocked(np.zeros((4, 2)), slice(2), 1)
    plan = solve_plan(S)
    assert plan.converged
    assert plan.responsibilities == pytest.approx(np.repeat(np.eye(2), 2, axis=0), abs=2e-9)
    assert plan.value == pytest.approx(-np.log(2), abs=1e-8)


def test_a_row_without_a_finite_score_is_an_error_that_names_it():
    with pytest.raises(InfeasibleMarginalsError, match=r"row 3 \(and 1 more\).*empty_rows='prior' or 'drop'"):
        solve_plan(with_blocked(example(), [[3], [9]], range(4)))


def test_a_row_that_fits_an_inactive_column_only_has_no_finite_score():
    with pytest.raises(InfeasibleMarginalsError, match="row 3 "):
        solve_plan(with_blocked(example(), 3, [0, 1, 2]), None, [1, 1, 1, 0])


def test_a_row_without_a_finite_score_can_be_dropped():
    S = with_blocked(example(), 3, slice(None))
    plan, without = solve_plan(S, empty_rows="drop"), solve_plan(np.delete(S, 3, axis=0))
    assert plan.value == pytest.approx(without.value, abs=1e-14)
    assert (plan.matrix[3] == 0).all()
    assert np.delete(plan.matrix, 3, axis=0) == pytest.approx(without.matrix, abs=2e-9)  # the tolerance, twice


def test_a_row_without_a_finite_score_can_be_spread_as_if_all_columns_fitted_it_equally():
    S = with_blocked(example(), 3, slice(None))
    level = S.copy()
    level[3] = 0
    plan, levelled = solve_plan(S, empty_rows="prior"), solve_plan(level)
    assert np.array_equal(plan.responsibilities, levelled.responsibilities)
    free = solve_plan(S, None, [0.1, 0.2, 0.3, 0.4], rule="free", empty_rows="prior")
    assert free.responsibilities[3] == pytest.approx([0.1, 0.2, 0.3, 0.4], abs=1e-15)
    assert S[3, 0] == -INF  # the user's scores are left alone


def test_a_virtual_column_takes_the_rows_without_a_finite_score():
    plan = solve_plan(with_blocked(example(), 3, slice(None)), rule=VirtualColumn(0.3))
    assert plan.converged
    assert plan.unassigned[3] == 1
    assert (plan.responsibilities[3] == 0).all()


def test_nothing_is_left_when_every_row_is_dropped():
    with pytest.raises(ValueError, match="no row has a finite score"):
        solve_plan(np.full((3, 2), -INF), empty_rows="drop")


@pytest.mark.parametrize(
    "rule", [FixedMass(), RelaxedMass(np.array([0.5, 1, 0.5, 0.5])), BoundedMass(0.1, 1), VirtualColumn(0.2)]
)
@pytest.mark.parametrize("method", METHODS)
def test_a_column_that_no_row_may_use_cannot_have_mass(rule, method):
    with pytest.raises(InfeasibleMarginalsError, match=r"columns \[1\] need mass") as error:
        solve_plan(with_blocked(example(), slice(None), 1), rule=rule, method=method)
    assert error.value.columns == [1]


@pytest.mark.parametrize(
    "rule",
    [
        FreeMass(),
        BoundedMass(0, 0.6),
        RelaxedMass(0.5),
        RelaxedMass(0.01),
        VirtualColumn(0.2, RelaxedMass(0.9)),
    ],
)
def test_a_column_that_no_row_may_use_is_empty_under_a_rule_that_allows_it(rule):
    plan = solve_plan(with_blocked(example(), slice(None), 1), rule=rule)
    assert plan.converged
    assert plan.column_mass[1] == 0
    assert np.isfinite(plan.responsibilities).all()


@pytest.mark.parametrize("tau", [0.1, 0.5, 0.9])
def test_an_unreachable_relaxed_column_costs_rho_times_its_mass(tau):
    # c = 0 there: the plan pays rho (0 - 0 + b), and the others solve the problem without it
    S, rho = example(), tau / (1 - tau)
    plan = solve_plan(with_blocked(S, slice(None), 1), tau=tau)
    others = solve_plan(S[:, [0, 2, 3]], tau=tau)
    # masses 1/4 against 1/3: KL(c|3b/4) = KL(c|b) + log(4/3) - 1/4, the entropy changes by log(3/4)
    assert plan.value == pytest.approx(others.value + np.log(3 / 4) - rho * np.log(4 / 3), abs=1e-12)
    assert plan.converged


@pytest.mark.parametrize("far", [10, 30, 60, 1000])
@pytest.mark.parametrize("tau", [0.1, 0.5, 0.9])
def test_a_far_relaxed_column_converges_in_fewer_passes_than_sinkhorn_needs(far, tau):
    S = example()
    S[:, 0] -= far
    plan = solve_plan(S, tau=tau)
    assert plan.converged
    assert not solve_plan(S, tau=tau, method="sinkhorn", max_passes=plan.n_passes - 1).converged


@pytest.mark.parametrize("rule", [RelaxedMass(0.1), VirtualColumn(0.9, RelaxedMass(0.1)), VirtualColumn(0.3)], ids=repr)
def test_columns_that_get_next_to_nothing_do_not_stall_the_others(rule):
    # scores of hundreds of nats: some columns end with 1e-80 of the mass, others must still be found
    for seed in range(60):
        rng = np.random.default_rng(seed)
        S = 300 * rng.normal(size=(rng.integers(1, 60), rng.integers(1, 9)))
        plan = solve_plan(S, None, rng.dirichlet(np.full(S.shape[1], 0.3)) + 1e-6, rule=rule)
        assert plan.converged, seed
        assert np.isfinite(plan.responsibilities).all()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("score", [-800.0, 800.0])
@pytest.mark.parametrize("inner", [FixedMass(), RelaxedMass(0.5)], ids=repr)
def test_a_virtual_column_beyond_the_smallest_exponential_still_gets_its_mass(inner, score, method):
    # at the start one of the two columns has exp(-800) = 0 of the row
    plan = solve_plan([[score]], rule=VirtualColumn(0.1, inner), method=method)
    assert plan.converged
    assert plan.responsibilities == pytest.approx(0.9, abs=1e-9)
    assert plan.unassigned == pytest.approx(0.1, abs=1e-9)


@pytest.mark.parametrize("rule", [FixedMass(), BoundedMass(0.22, 1), VirtualColumn(0.3)], ids=repr)
def test_two_columns_that_share_too_few_rows_are_named(rule):
    S = with_blocked(example(), slice(10, None), slice(1, 3))  # a fifth of the rows fit columns 1 and 2
    with pytest.raises(InfeasibleMarginalsError, match=r"columns \[1, 2\] need mass .* carry only 0\.2") as error:
        solve_plan(S, rule=rule)
    assert error.value.columns == [1, 2]


def test_columns_are_named_by_their_place_among_all_columns():
    # column 1 has no mass and is left out; column 3 is still column 3
    with pytest.raises(InfeasibleMarginalsError, match=r"columns \[3\] need mass 0\.4") as error:
        solve_plan(with_blocked(example(), slice(None), 3), None, [0.3, 0.0, 0.3, 0.4])
    assert error.value.columns == [3]


def test_columns_that_cannot_take_their_rows_are_named():
    S = with_blocked(example(), slice(10, None), slice(1, 3))
    with pytest.raises(InfeasibleMarginalsError, match=r"columns \[0, 3\] may take mass 0\.6.* 0\.8") as error:
        solve_plan(S, rule=BoundedMass(0, 0.3))
    assert error.value.columns == [0, 3]


def test_bounds_that_the_active_columns_cannot_meet_are_refused():
    with pytest.raises(ValueError, match="upper"):
        solve_plan(example(), None, [0.5, 0.5, 0, 0], rule=BoundedMass(0, 0.4))


def test_the_smallest_problem_is_solved():
    plan = solve_plan([[3.0]])
    assert (plan.value, plan.matrix.tolist(), plan.n_passes) == (3.0, [[1.0]], 1)


@modest
@given(problems(rows=(1, 3), columns=(4, 6)))
def test_fewer_rows_than_columns_are_no_special_case(problem):
    plan = solve_plan(*problem)
    assert plan.converged
    assert plan.column_mass == pytest.approx(problem.column_mass, abs=1e-9)


@pytest.mark.parametrize("separation", [1e2, 1e3, 1e4])
@pytest.mark.parametrize("rule", [*RULES, BoundedMass(0.15, 0.18)], ids=repr)
@pytest.mark.parametrize("seed", [0, 1])
def test_far_clusters_give_finite_plans_and_an_honest_status(separation, rule, seed):
    S, a, _ = separated_clusters(seed, separation, 600, 6)
    plan = solve_plan(S, a, rule=rule)
    assert np.isfinite(plan.potentials).all()
    assert np.isfinite(plan.responsibilities).all()
    assert np.isfinite([plan.value, plan.marginal_error, plan.relative_error, plan.dual_gap]).all()
    assert plan.status in ("converged", "precision", "max_passes")
    assert plan.converged == (plan.status == "converged")
    b = rule.extend(np.full(6, 1 / 6))
    c = np.append(plan.matrix.sum(axis=0), a @ plan.unassigned)[: len(b)]
    error = np.abs(rule.target(plan.potentials, b, c) - c).sum()
    assert plan.marginal_error == pytest.approx(error, abs=1e-12)
    assert error <= 1e-9 + 1e-12 or not plan.converged
