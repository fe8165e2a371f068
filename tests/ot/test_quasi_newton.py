"""Many columns: the quasi-Newton method finds what Newton's method does, in a number of passes that is budgeted."""

import numpy as np
import pytest

from sinkhorn_em.ot import FixedMass, RelaxedMass
from sinkhorn_em.ot import quasi_newton as method
from sinkhorn_em.ot.kernel import evaluate
from sinkhorn_em.ot.newton import Tolerances, solve_newton
from sinkhorn_em.ot.quasi_newton import solve_quasi_newton, solver_for

K = 40  # the method does not know how many columns it is meant for
RULES = {
    "fixed": FixedMass(),
    "KL": RelaxedMass(0.6),
    "free, KL and fixed columns": RelaxedMass(np.resize([0.0, 0.5, 1.0], K)),
}
# passes measured on this problem, and a third more
BUDGETS = {"fixed": (16, 44, 70), "KL": (12, 20, 22), "free, KL and fixed columns": (16, 35, 64)}


def problem(spread):
    """A pass over scores (400, K) of overlapping (0.3) to far (10) columns, and unequal masses."""
    rng = np.random.default_rng(0)
    z, mu = rng.normal(size=(400, 4)), rng.normal(size=(K, 4))
    S = -spread * ((z[:, None] - mu) ** 2).sum(2)
    a = np.full(400, 1 / 400)
    return (lambda offset, temperature: evaluate(S, a, offset, temperature)), rng.dirichlet(np.full(K, 5.0))


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize(("i", "spread"), [(0, 0.3), (1, 2.0), (2, 10.0)])
def test_it_finds_the_potentials_of_newton_within_its_budget(name, i, spread):
    one_pass, b = problem(spread)
    tolerances = Tolerances(1e-10, 1e-7)
    found = solve_quasi_newton(one_pass, RULES[name], b, np.zeros(K), tolerances)
    exact = solve_newton(one_pass, RULES[name], b, np.zeros(K), tolerances)
    assert found.status == exact.status == "converged"
    assert found.value == pytest.approx(exact.value, abs=1e-11)
    assert found.potentials == pytest.approx(exact.potentials, abs=1e-5)  # 1e-10 over the least curvature
    assert found.n_passes <= BUDGETS[name][i]


def test_it_asks_for_no_overlaps():
    one_pass, b = problem(2.0)

    def plain(offset, temperature):
        assert temperature == 0
        return one_pass(offset, temperature)

    assert solve_quasi_newton(plain, FixedMass(), b, np.zeros(K), Tolerances(1e-6, 1e-3)).status == "converged"


def test_what_it_does_not_solve_is_left_to_newton(monkeypatch):
    monkeypatch.setattr(method, "BUDGET", 5)
    one_pass, b = problem(10.0)
    found = solve_quasi_newton(one_pass, FixedMass(), b, np.zeros(K), Tolerances(1e-9, 1e-6))
    assert found.status == "converged" and 5 < found.n_passes < 60
    few = solve_quasi_newton(one_pass, FixedMass(), b, np.zeros(K), Tolerances(1e-9, 1e-6, max_passes=5))
    assert few.status == "max_passes" and few.n_passes == 5


def test_a_tolerance_of_the_value_is_left_to_newton():
    """F - min F is about |residual|^2 over the curvature: at a residual of 0.1 far above 1e-10."""
    one_pass, b = problem(2.0)
    exact = solve_newton(one_pass, FixedMass(), b, np.zeros(K), Tolerances(1e-12, 1e-9)).value
    loose = solve_quasi_newton(one_pass, FixedMass(), b, np.zeros(K), Tolerances(0.1, 10.0))
    assert loose.value - exact > 1e-5
    close = solve_quasi_newton(one_pass, FixedMass(), b, np.zeros(K), Tolerances(0.1, 10.0, 1e-10))
    assert close.status == "converged" and 0 <= close.gap <= 1e-10
    assert close.value - exact < 2e-10


def test_a_solution_is_recognised_in_one_pass():
    one_pass, b = problem(2.0)
    tolerances = Tolerances(1e-9, 1e-6)
    start = solve_newton(one_pass, FixedMass(), b, np.zeros(K), Tolerances(1e-12, 1e-9)).potentials
    assert solve_quasi_newton(one_pass, FixedMass(), b, start, tolerances).n_passes == 1


def test_it_is_chosen_for_many_columns_without_kinks():
    assert solver_for(FixedMass(), 300) is solver_for(RelaxedMass(0.5), 300) is solve_quasi_newton
    assert solver_for(FixedMass(), 256) is solve_newton
