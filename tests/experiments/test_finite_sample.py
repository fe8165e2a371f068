"""Rates of the plan and of the iterates: constants that follow from the theory, and what the slopes say."""

import numpy as np
import pytest

from sinkhorn_em.experiments import EXPERIMENTS
from sinkhorn_em.experiments.base import Scale, generator
from sinkhorn_em.experiments.statistics import mean
from sinkhorn_em.population import population_rows


def test_the_potential_of_two_atoms_has_the_variance_of_the_delta_method(quick):
    """With r the posterior, D = g_1 - g_2 solves mean r(D) = 1/2, so n Var D -> Var r / E[r (1 - r)]^2, and g_1 = D/2."""
    rows, masses = population_rows([0.5, 0.5], [[-1.0], [1.0]])
    r = 1 / (1 + np.exp(2 * rows[:, 0]))
    constant = masses @ (r - 0.5) ** 2 / (masses @ (r * (1 - r))) ** 2 / 4
    table = quick("finite-sample").table
    plan = table[(table["part"] == "plan") & (table["K"] == 2) & (table["sigma"] == 1) & (table["n"] >= 100)]
    found = mean(plan["n"] * plan["potential"], 0.9999)
    assert found.low - 0.1 * constant < constant < found.high + 0.1 * constant  # a tenth: n = 100 is not infinite
    assert found.high < 2 * constant


def test_other_dimensions_of_two_atoms_are_means_of_noise(quick):
    """They do not enter the plan: each adds sigma^2 K^2 E[r^2] / n, less than K / n, to the forward error."""
    table = quick("finite-sample").table
    plan = table[(table["part"] == "plan") & (table["K"] == 2) & (table["sigma"] == 1) & (table["n"] == 1000)]
    by_d = plan.groupby("d")["forward"].mean()
    rows, masses = population_rows([0.5, 0.5], [[-1.0], [1.0]])
    r = 1 / (1 + np.exp(2 * rows[:, 0]))
    assert 1000 * (by_d[5] - by_d[1]) / 4 == pytest.approx(4 * masses @ r**2, rel=0.4)  # 30 repetitions, 8 numbers each


def test_far_atoms_leave_the_rate():
    """At 40 sigma the potentials stay where the realised counts put them, hundreds away from 0."""
    experiment = EXPERIMENTS["finite-sample"]
    far = [task for task in experiment.tasks(Scale(reps=6)) if task["part"] == "plan" and task["R"] == 10]
    assert len(far) == 6
    for task in far:
        errors = experiment.run(task, generator(1, task)).set_index("n")["potential"]
        assert errors[1000] > 1e4 or errors[1000] < 1  # below only where counts are balanced


def test_the_full_design_is_the_grid_of_the_paper():
    plan = [task for task in EXPERIMENTS["finite-sample"].tasks(Scale(reps=1)) if task["part"] == "plan"]
    assert {task["d"] for task in plan} == {1, 2, 5, 10, 20}
    assert {task["K"] for task in plan} == {2, 20, 200, 2000}
    assert {task["R"] for task in plan} == {0.01, 0.1, 1.0, 10.0}
    assert {task["sigma"] for task in plan} == {0.05, 0.5, 1.0, 2.0}
    assert len(plan) == 14
