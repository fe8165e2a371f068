"""What the theory says of the value, its derivatives and the potentials."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp, rel_entr, softmax
from transport_problems import Problem, masses, modest, problems, problems_with_rules

from sinkhorn_em.ot import (
    BoundedMass,
    FixedMass,
    FreeMass,
    RelaxedMass,
    VirtualColumn,
    log_partition,
    solve_plan,
)

TAUS = [0, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 1]
RULES = [
    FreeMass(),
    FixedMass(),
    RelaxedMass(0.4),
    RelaxedMass(np.array([1.0, 0.0, 0.9, 0.5])),
    BoundedMass(0.2, 0.27),
    VirtualColumn(0.2),
    VirtualColumn(0.2, RelaxedMass(0.4)),
    VirtualColumn(0.2, BoundedMass(0.15, 0.22)),
    VirtualColumn(0.2, FreeMass()),
]


def example(seed=0, n=60, K=4):
    rng = np.random.default_rng(seed)
    return Problem(2 * rng.normal(size=(n, K)), rng.dirichlet(np.ones(n)), rng.dirichlet(np.full(K, 5.0)))


def mean_log_likelihood(problem, weights):
    return problem.row_mass @ logsumexp(problem.scores + np.log(weights), axis=1)


@modest
@given(problems())
def test_the_value_of_the_free_rule_is_the_mean_log_likelihood(problem):
    plan = solve_plan(*problem, tau=0)
    assert plan.value == pytest.approx(mean_log_likelihood(problem, problem.column_mass), abs=1e-14)
    assert plan.responsibilities == pytest.approx(
        softmax(problem.scores + np.log(problem.column_mass), axis=1), abs=1e-15
    )


@modest
@given(problems())
def test_the_value_falls_as_the_columns_are_held_tighter(problem):
    values = [solve_plan(*problem, tau=tau).value for tau in TAUS]
    assert (np.diff(values) <= 1e-13).all()  # rounding; errors of the solver raise the value by their square only


@modest
@given(problems(), st.data())
def test_the_loss_is_the_largest_penalised_log_likelihood_over_tilted_weights(problem, data):
    b = problem.column_mass
    plan = solve_plan(*problem)

    def tilted_loss(weights):
        return -mean_log_likelihood(problem, weights) - rel_entr(b, weights).sum()

    best = b * np.exp(plan.potentials)
    best /= best.sum()
    assert tilted_loss(best) == pytest.approx(-plan.value, abs=1e-13)
    # F is within osc(g) |c - b|_1 <= 1e-7 of its minimum, by convexity
    assert tilted_loss(data.draw(masses(len(b)))) <= -plan.value + 1e-7


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_the_gradient_of_the_value_in_the_scores_is_the_plan(rule):
    S, a, b = example()
    plan = solve_plan(S, a, b, rule=rule, tol=1e-12)
    h = 1e-4
    for seed in range(3):
        D = np.random.default_rng(seed).uniform(-1, 1, S.shape)
        up, down = (solve_plan(S + s * D, a, b, rule=rule, tol=1e-12).value for s in (h, -h))
        # the central difference is off by h^2/6 times a third derivative, itself below 100 here; rounding 1e-15/h
        assert (up - down) / (2 * h) == pytest.approx(np.sum(plan.matrix * D), abs=1e-6 / 6)


@pytest.mark.parametrize("tau", [0.3, 0.8, 1])
def test_the_derivative_of_the_value_in_the_column_masses_is_minus_the_potential_up_to_a_constant(tau):
    S, a, b = example()
    plan = solve_plan(S, a, b, tau=tau, tol=1e-12)
    # envelope theorem: 1 - g for fixed columns, (1 + rho) c/b for KL columns
    expected = 1 - plan.potentials if tau == 1 else np.exp(-plan.potentials * (1 - tau) / tau) / (1 - tau)
    h = 1e-5
    for seed in range(3):
        d = np.random.default_rng(seed).uniform(-1, 1, len(b)) * b
        d -= b * d.sum()
        up, down = (solve_plan(S, a, b + s * d, tau=tau, tol=1e-12).value for s in (h, -h))
        assert (up - down) / (2 * h) == pytest.approx(expected @ d, abs=1e-9)


@modest
@given(problems_with_rules())
def test_the_dual_gap_is_at_most_the_error_times_the_potentials(case):
    problem, rule = case
    plan = solve_plan(*problem, rule=rule)
    assert plan.converged
    # Fenchel-Young: <c - t, g> for fixed and bounded columns, rho (t - c + c log(c/t)) <= rho |c - t| for KL columns,
    # whose rho is at most 49 here
    rounding = 1e-14 * (1 + np.abs(problem.scores).max())
    assert plan.dual_gap <= plan.marginal_error * (50 + np.abs(plan.potentials).max()) + rounding


@modest
@given(problems())
def test_the_value_is_the_primal_objective_of_the_plan(problem):
    S, a, b = problem
    plan = solve_plan(*problem, tau=0.6, tol=1e-12)
    P, rho = plan.matrix, 0.6 / 0.4
    c = P.sum(axis=0)
    objective = np.sum(P * S) - rel_entr(P, np.outer(a, b)).sum() - rho * rel_entr(c, b).sum()
    assert objective == pytest.approx(plan.value, abs=1e-12)


@modest
@given(problems(columns=(2, 6)), st.floats(0.01, 0.4))
def test_bounds_meet_complementarity(problem, slack):
    K = len(problem.column_mass)
    rule = BoundedMass((1 - slack) / K, (1 + slack) / K)
    plan = solve_plan(*problem, rule=rule)
    g, c = plan.potentials, plan.column_mass
    assert plan.converged
    assert ((c >= rule.lower - 1e-9) & (c <= rule.upper + 1e-9)).all()
    assert c[g > 0] == pytest.approx(rule.lower, abs=1e-9)
    assert c[g < 0] == pytest.approx(rule.upper, abs=1e-9)


@pytest.mark.parametrize("virtual", [0.0, 0.1, 0.5])
def test_bounds_meet_complementarity_however_many_of_them_bind(virtual):
    # few rows, tight bounds: on its way the solver has to bind and release several columns at once
    for seed in range(100):
        rng = np.random.default_rng(seed)
        n, K = rng.integers(1, 8), rng.integers(2, 7)
        S = rng.integers(0, 2, (n, K)) if seed % 2 else rng.choice([1, 3, 10]) * rng.normal(size=(n, K))
        middle = (1 - virtual) * rng.dirichlet(np.full(K, 2.0))
        bounds = BoundedMass(rng.choice([0, 0.5, 0.9]) * middle, np.minimum(rng.choice([1.02, 1.2, 2]) * middle, 1))
        plan = solve_plan(S, rule=VirtualColumn(virtual, bounds) if virtual else bounds)
        g, c = plan.potentials[:K], plan.column_mass[:K]
        assert plan.converged, seed
        assert c[g > 0] == pytest.approx(bounds.lower[g > 0], abs=1e-9)
        assert c[g < 0] == pytest.approx(bounds.upper[g < 0], abs=1e-9)
        assert ((c >= bounds.lower - 1e-9) & (c <= bounds.upper + 1e-9)).all()
        assert plan.column_mass[K:] == pytest.approx([virtual] * bool(virtual), abs=1e-9)


@modest
@given(problems(), st.data())
def test_a_relaxed_column_moves_by_the_power_tau_of_the_scaling(problem, data):
    tau = np.array(data.draw(st.lists(st.sampled_from([0.0, 0.2, 0.7, 1.0]), min_size=6, max_size=6)))
    tau = tau[: len(problem.column_mass)]
    plan = solve_plan(*problem, tau=tau, tol=1e-12)
    power = tau * (plan.potentials + np.log(problem.column_mass / plan.column_mass))
    assert plan.potentials == pytest.approx(power, abs=1e-9)  # log(c/t) is within 1000 tol


def test_the_virtual_column_reproduces_the_scaling_iteration_of_progressive_partial_transport():
    rng = np.random.default_rng(0)
    n, K, epsilon, lam, m = 200, 5, 0.1, 1.0, 0.3
    logits = rng.normal(size=(n, K))
    log_softmax = logits - logsumexp(logits, axis=1, keepdims=True)
    plan = solve_plan(log_softmax / epsilon, rule=VirtualColumn(m, RelaxedMass(lam / (lam + epsilon))), tol=1e-12)
    # generalised scaling (Chizat et al. 2018) of the kernel exp(-cost/epsilon), one more column of cost 0
    Q = np.column_stack([np.exp(log_softmax / epsilon), np.ones(n)])
    b = np.append(np.full(K, (1 - m) / K), m)
    power = np.append(np.full(K, lam / (lam + epsilon)), 1.0)
    v = np.ones(K + 1)
    for _ in range(1000):
        u = 1 / (n * (Q @ (b * v)))
        v = (1 / (Q.T @ u)) ** power
    P = u[:, None] * Q * (b * v)
    assert plan.matrix == pytest.approx(P[:, :-1], abs=1e-12)
    assert plan.unassigned / n == pytest.approx(P[:, -1], abs=1e-12)
    assert plan.column_mass == pytest.approx(P.sum(axis=0), abs=1e-11)


@modest
@given(problems_with_rules())
def test_the_log_partition_is_the_row_potential(case):
    problem, rule = case
    plan = solve_plan(*problem, rule=rule)
    S = np.column_stack(
        [problem.scores, np.zeros((len(problem.scores), len(plan.potentials) - problem.scores.shape[1]))]
    )
    expected = logsumexp(S + np.log(rule.extend(problem.column_mass)) + plan.potentials, axis=1)
    assert log_partition(plan) == pytest.approx(expected, abs=1e-13)


@modest
@given(problems_with_rules())
def test_rows_of_the_plan_sum_to_the_row_masses_less_the_virtual_share(case):
    problem, rule = case
    plan = solve_plan(*problem, rule=rule)
    a = problem.row_mass
    assert plan.matrix.sum(axis=1) == pytest.approx(a * (1 - plan.unassigned), abs=1e-15)
    # the masses of the last pass are those of the plan that is handed out
    K = len(problem.column_mass)
    assert plan.matrix.sum(axis=0) == pytest.approx(plan.column_mass[:K], abs=1e-14)
