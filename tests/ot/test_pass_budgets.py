"""Passes over the scores are counted, so that a slower solver is seen on any machine."""

import numpy as np
import pytest
from hypothesis import given
from scipy.special import log_softmax
from transport_problems import few, problems_with_rules, separated_clusters

from sinkhorn_em.em import Phase, e_step, m_step, run_phase, score, start_state
from sinkhorn_em.engines import InMemory
from sinkhorn_em.families import Elliptical, Gaussian
from sinkhorn_em.families.covariances import STRUCTURES, Regularisation
from sinkhorn_em.ot import FixedMass, RelaxedMass, VirtualColumn, solve_plan
from sinkhorn_em.ot.newton import Tolerances

#: separation in standard deviations: passes to 1e-8 with matched and with uniform column masses
BUDGETS = {2: (6, 6), 4: (8, 12), 8: (8, 20), 16: (10, 35), 30: (12, 50)}
TOL = 1e-8
CASES = [(separation, matched) for separation in BUDGETS for matched in (True, False)]


def solve(separation, matched, seed, **options):
    S, _, b = separated_clusters(seed, separation)
    return solve_plan(S, None, b if matched else None, tol=TOL, **options)


@pytest.mark.parametrize(("separation", "matched"), CASES)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_newton_keeps_its_budget_and_sinkhorn_needs_more(separation, matched, seed):
    plan = solve(separation, matched, seed)
    assert plan.converged
    assert plan.n_passes <= BUDGETS[separation][not matched]
    if plan.n_passes > 1:
        sinkhorn = solve(separation, matched, seed, method="sinkhorn", max_passes=plan.n_passes - 1)
        assert not sinkhorn.converged


@pytest.mark.parametrize(("separation", "matched"), CASES)
def test_the_median_of_twenty_problems_is_within_the_budget(separation, matched):
    plans = [solve(separation, matched, seed) for seed in range(20)]
    assert all(plan.converged for plan in plans)
    assert np.median([plan.n_passes for plan in plans]) <= BUDGETS[separation][not matched]


@pytest.mark.parametrize("matched", [True, False])
def test_sinkhorn_needs_several_times_as_many_passes_at_two_standard_deviations(matched):
    newton, sinkhorn = solve(2, matched, 0), solve(2, matched, 0, method="sinkhorn")
    assert sinkhorn.converged
    assert sinkhorn.n_passes >= 3 * newton.n_passes


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("n", "K"), [(1500, 12), (2000, 20)])
def test_progressive_partial_transport_takes_at_most_twelve_passes(seed, n, K):
    epsilon, lam = 0.1, 1.0
    S = log_softmax(np.random.default_rng(seed).normal(size=(n, K)), axis=1) / epsilon
    plan = solve_plan(S, rule=VirtualColumn(0.3, RelaxedMass(lam / (lam + epsilon))), tol=TOL)
    assert plan.converged
    assert plan.n_passes <= 12


@few
@given(problems_with_rules())
def test_a_warm_start_at_the_solution_takes_one_pass(case):
    problem, rule = case
    plan = solve_plan(*problem, rule=rule)
    again = solve_plan(*problem, rule=rule, potentials=plan.potentials)
    assert again.converged
    assert again.n_passes == 1


@pytest.mark.parametrize("structure", ["full", "tied", "spherical"])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_warm_plan_inside_em_takes_at_most_five_passes_at_full_tolerance(structure, seed):
    rng = np.random.default_rng(seed)
    n, K, d = 2000, 6, 3
    X = 3 * rng.normal(size=(K, d))[rng.integers(0, K, n)] + rng.normal(size=(n, d))
    engine = InMemory(np.asfortranarray(X), np.full(n, 1 / n))
    phase = Phase(Elliptical(Gaussian(), STRUCTURES[structure](), Regularisation(1e-6)), FixedMass(), False, 3, 0.0)
    nearest = ((X[:, None] - X[rng.choice(n, K, replace=False)]) ** 2).sum(-1)
    state = start_state(engine, phase.family, [np.asfortranarray(-0.5 * nearest)], phase.rule)
    state = run_phase(engine, phase, state._replace(weights=np.full(K, 1 / K))).state
    passes = []
    for _ in range(20):
        scores = score(engine, phase.family, state.parameters)
        solution = e_step(engine, phase.rule, state, scores, Tolerances(1e-9, 1e-6))
        assert solution.status == "converged"
        passes.append(solution.n_passes)
        state = m_step(engine, phase, state, scores, solution)
    assert max(passes) <= 5
