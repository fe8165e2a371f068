"""Every column rule keeps the contract that the solver relies on, alone and beside a virtual column."""

import numpy as np
import pytest
from scipy.special import logsumexp
from transport_problems import Problem

from sinkhorn_em.ot import RULES, BoundedMass, FixedMass, FreeMass, RelaxedMass, VirtualColumn, rule_for_tau, solve_plan

K = 4
REGISTERED = [RULES[name]() for name in RULES]
CONFIGURED = [
    RelaxedMass(0.3),
    RelaxedMass(np.array([1.0, 0.0, 0.9, 0.3])),
    RelaxedMass(np.ones(K)),
    BoundedMass(0.2, 0.27),
    BoundedMass(np.array([0.3, 0, 0, 0.1]), np.array([0.3, 0.6, 0.2, 0.9])),
]
ALONE = REGISTERED + CONFIGURED
BESIDE = [VirtualColumn(0.2, rule) for rule in [*REGISTERED, *CONFIGURED[:3], BoundedMass(0.1, 0.25)]]
every_rule = pytest.mark.parametrize("rule", ALONE + BESIDE, ids=repr)


def drawn(rule, seed):
    """Masses b of all columns, potentials g, 0 where they may not move, and the masses c of a plan."""
    rng = np.random.default_rng(seed)
    b = rule.extend(rng.dirichlet(np.full(K, 5.0)))
    c = rng.dirichlet(np.full(len(b), 5.0))
    # away from a kink of the penalty at 0
    g = rng.choice([-1, 1], len(b)) * rng.uniform(0.2, 2, len(b))
    return b, np.where(rule.movable(g, b, c), g, 0.0), c


def example(seed=0, n=80):
    rng = np.random.default_rng(seed)
    return Problem(1.5 * rng.normal(size=(n, K)), rng.dirichlet(np.ones(n)), rng.dirichlet(np.full(K, 5.0)))


def central_difference(function, g, k, h):
    e = np.zeros_like(g)
    e[k] = h
    return (function(g + e) - function(g - e)) / (2 * h)


@every_rule
@pytest.mark.parametrize("seed", range(3))
def test_the_target_is_minus_the_slope_of_the_penalty(rule, seed):
    b, g, c = drawn(rule, seed)
    moves, h = rule.movable(g, b, c), 1e-5
    target = rule.target(g, b, c)
    for k in np.flatnonzero(moves):
        slope = central_difference(lambda x: rule.penalty(x, b), g, k, h)
        # h^2/6 times the third derivative t/rho^2, at most 2e3 for rho >= 0.4 and |g| <= 2; rounding 1e-15/h
        assert target[k] == pytest.approx(-slope, abs=1e-8, rel=1e-6)
    # a column that may not move has the mass it has
    assert np.array_equal(target[~moves], c[~moves])


@every_rule
@pytest.mark.parametrize("seed", range(3))
def test_the_curvature_is_minus_the_slope_of_the_target(rule, seed):
    b, g, c = drawn(rule, seed)
    curvature = rule.curvature(g, b)
    assert curvature.shape == g.shape
    assert (curvature >= 0).all()
    for k in np.flatnonzero(rule.movable(g, b, c)):
        slope = central_difference(lambda x: rule.target(x, b, c), g, k, 1e-5)
        # a column's target depends on its own potential only
        assert curvature * (np.arange(len(g)) == k) == pytest.approx(-slope, abs=1e-8, rel=1e-6)


@every_rule
@pytest.mark.parametrize("seed", range(3))
def test_the_penalty_is_convex(rule, seed):
    b, g, _ = drawn(rule, seed)
    _, other, _ = drawn(rule, seed + 100)
    other = np.where(g == 0, 0, other)
    middle = rule.penalty((g + other) / 2, b)
    assert middle <= (rule.penalty(g, b) + rule.penalty(other, b)) / 2 + 1e-14


@every_rule
@pytest.mark.parametrize("seed", range(3))
def test_translating_moves_a_constant_and_never_raises_the_objective(rule, seed):
    b, g, _ = drawn(rule, seed)
    moved = rule.translate(g, b)
    free = g != 0
    shift = moved - g
    # the smooth part of the objective rises by the constant, exactly; columns that are held keep their potential
    assert (shift[~free] == 0).all() or np.ptp(shift) < 1e-12
    if free.all():
        assert np.ptp(shift) < 1e-12
        assert shift.mean() + rule.penalty(moved, b) <= rule.penalty(g, b) + 1e-12
    assert rule.translate(moved, b) == pytest.approx(moved, abs=1e-9)


@every_rule
@pytest.mark.parametrize("seed", range(3))
def test_no_other_constant_is_better_than_the_one_that_a_rule_with_a_best_constant_chooses(rule, seed):
    b, g, c = drawn(rule, seed)
    moved = rule.translate(g, b)
    if not rule.movable(g, b, c).all() or isinstance(rule, VirtualColumn):
        return  # a held column leaves no constant; beside a virtual column Newton finds it
    best = rule.penalty(moved, b)
    for s in (-1, -1e-3, 1e-3, 1):
        assert s + rule.penalty(moved + s, b) >= best - 1e-12


@every_rule
def test_only_an_invariant_rule_ignores_a_constant(rule):
    b, g, _ = drawn(rule, 0)
    if rule.invariant:
        assert 1.7 + rule.penalty(g + 1.7, b) == pytest.approx(rule.penalty(g, b), abs=1e-14)


@every_rule
@pytest.mark.parametrize("seed", range(3))
def test_the_scaling_update_stays_at_the_solution(rule, seed):
    S, a, mass = example(seed)
    plan = solve_plan(S, a, mass, rule=rule, tol=1e-12)
    b = rule.extend(mass)
    assert plan.converged
    scaled = rule.scale(plan.potentials, b, plan.column_mass)
    assert scaled == pytest.approx(plan.potentials, abs=1e-9)  # log(c/t) is within 1000 tol


@every_rule
@pytest.mark.parametrize("seed", range(3))
def test_the_scaling_update_lowers_the_objective(rule, seed):
    S, a, mass = example(seed)
    b = rule.extend(mass)
    S = np.column_stack([S, np.zeros((len(S), len(b) - K))])

    def objective(g):
        return a @ logsumexp(S + np.log(b) + g, axis=1) + rule.penalty(g, b)

    g = np.zeros(len(b))
    for _ in range(5):
        logits = S + np.log(b) + g
        c = a @ np.exp(logits - logsumexp(logits, axis=1, keepdims=True))
        scaled = rule.scale(g, b, c)
        assert objective(scaled) <= objective(g) + 1e-14
        g = scaled


@every_rule
def test_a_step_has_a_norm_that_grows_with_it(rule):
    b, g, c = drawn(rule, 0)
    d = np.where(rule.movable(g, b, c), np.linspace(-1, 1, len(g)), 0.0)
    assert rule.step_norm(np.zeros_like(d)) == 0
    assert rule.step_norm(2 * d) == pytest.approx(2 * rule.step_norm(d))
    assert rule.step_norm(d) >= np.ptp(d) - 1e-15


@every_rule
@pytest.mark.parametrize("seed", range(3))
def test_a_clipped_step_crosses_no_kink(rule, seed):
    b, g, c = drawn(rule, seed)
    d = np.where(rule.movable(g, b, c), np.random.default_rng(seed).normal(size=len(g)) * 5, 0.0)
    clipped = rule.clip(g, d, c)
    assert (np.abs(clipped) <= np.abs(d)).all()
    assert (clipped * d >= 0).all()
    # along what is left of it the penalty is smooth: its slope at the start is the limit from this side
    h = 1e-6
    slope = (rule.penalty(g + h * clipped, b) - rule.penalty(g, b)) / h
    assert slope == pytest.approx(-rule.target(g, b, c) @ clipped, abs=1e-3)


@every_rule
def test_the_mass_of_a_solution_is_within_the_rule_s_bounds(rule):
    S, a, mass = example()
    plan = solve_plan(S, a, mass, rule=rule)
    lower, upper = rule.mass_bounds(rule.extend(mass))
    assert (plan.column_mass >= lower - 1e-9).all()
    assert (plan.column_mass <= upper + 1e-9).all()


@every_rule
def test_columns_without_mass_leave_a_rule_for_the_others(rule):
    extended = rule.extend(np.array([0.3, 0.0, 0.3, 0.4]))
    active = extended > 0
    inner = rule.rule if isinstance(rule, VirtualColumn) else rule
    if isinstance(inner, BoundedMass) and np.broadcast_to(inner.lower, K)[1] > 0:
        with pytest.raises(ValueError, match="lower is positive for a column whose mass is 0"):
            rule.restrict(active)
        return
    restricted, b = rule.restrict(active), extended[active]
    c = np.full(len(b), 1 / len(b))
    g = np.where(restricted.movable(np.full(len(b), 0.5), b, c), 0.5, 0.0)
    for vector in (restricted.target(g, b, c), restricted.curvature(g, b), restricted.scale(g, b, c)):
        assert vector.shape == b.shape
        assert np.isfinite(vector).all()
    assert np.isfinite(restricted.penalty(g, b))
    assert restricted.divergence(b, c) >= 0


@every_rule
def test_all_columns_have_the_mass_of_the_rows(rule):
    b = rule.extend(np.full(K, 1 / K))
    assert b.sum() == pytest.approx(1, abs=1e-15)
    assert len(b) - K in (0, 1)


@every_rule
def test_a_rule_equals_another_with_the_same_options_only(rule):
    assert rule == type(rule)(**vars(rule))
    assert rule != VirtualColumn(0.3, rule)


@every_rule
def test_a_released_rule_does_not_pull_towards_the_masses(rule):
    b, g, c = drawn(rule, 0)
    released = rule.released
    n_scored = K
    other = b.copy()
    other[:n_scored] = other[:n_scored][::-1]
    g = np.where(released.movable(g, b, c), g, 0.0)
    assert np.array_equal(released.target(g, b, c), released.target(g, other, c))


@every_rule
def test_a_rule_refuses_options_for_another_number_of_columns(rule):
    rule.check(K)
    inner = rule.rule if isinstance(rule, VirtualColumn) else rule
    per_column = [v for v in vars(inner).values() if np.ndim(v) == 1]
    if per_column:
        with pytest.raises(ValueError):
            rule.check(K + 1)


@pytest.mark.parametrize(("tau", "name"), [(0, "free"), (1, "fixed"), (0.5, "relaxed"), (np.array([0, 1]), "relaxed")])
def test_tau_is_short_for_a_rule(tau, name):
    assert isinstance(rule_for_tau(tau), RULES[name])


@pytest.mark.parametrize(("tau", "name"), [(0.0, "free"), (1.0, "fixed")])
def test_the_ends_of_the_relaxed_rule_are_the_free_and_the_fixed_rule(tau, name):
    problem = example()
    relaxed = solve_plan(*problem, rule=RelaxedMass(tau), tol=1e-12)
    end = solve_plan(*problem, rule=name, tol=1e-12)
    assert relaxed.value == pytest.approx(end.value, abs=1e-13)
    assert relaxed.responsibilities == pytest.approx(end.responsibilities, abs=1e-10)


@pytest.mark.parametrize(
    "inner", [FreeMass(), FixedMass(), RelaxedMass(0.5), RelaxedMass(np.array([0.0, 0.4, 1.0]))], ids=str
)
def test_a_warm_start_of_another_rule_changes_no_answer_under_a_virtual_column(inner):
    scores, b = 3 * np.random.default_rng(0).normal(size=(50, 3)), np.array([0.2, 0.3, 0.5])
    rule = VirtualColumn(0.1, inner)
    cold = solve_plan(scores, None, b, rule=rule, tol=1e-11)
    warm = solve_plan(scores, None, b, rule=rule, tol=1e-11, potentials=[1, -2, 3, 0.5])
    assert warm.value == pytest.approx(cold.value, abs=1e-10)
    np.testing.assert_allclose(warm.matrix, cold.matrix, atol=1e-8)
