"""Two centres on one cluster: the numbers on the line, and who escapes from random starts."""

import numpy as np
import pytest

from sinkhorn_em.experiments import EXPERIMENTS
from sinkhorn_em.experiments.base import Scale, generator


@pytest.fixture
def line(quick):
    table = quick("many-to-one").table
    return table[table["part"] == "line"].groupby(["R", "method"]).last()


@pytest.mark.parametrize("R", [3, 5, 10])
def test_the_truth_has_the_entropy_of_three_far_clusters(line, R):
    """log 3 + log(2 pi e) / 2 where they do not overlap; at R = 3 the densities at the middle take .0026 away."""
    exact = np.log(3) + np.log(2 * np.pi * np.e) / 2
    assert line.loc[(R, "SEM"), "loss"] == pytest.approx(exact - (0.00257 if R == 3 else 0.0), abs=1e-5)


@pytest.mark.parametrize("R", [3, 5, 10])
def test_the_trap_has_its_loss_in_closed_form(line, R):
    """One component at 0 for both clusters, the pair as one at 10 R (its last split is a thousandth of a nat)."""
    at_zero = np.log(3) + np.log(2 * np.pi) / 2 + (1 + R**2) / 2
    at_pair = np.log(3 / 2) + np.log(2 * np.pi) / 2 + 1 / 2
    assert line.loc[(R, "EM"), "loss"] == pytest.approx((2 * at_zero + at_pair) / 3, abs=1e-3)


def test_paths_are_monotone(quick):
    table = quick("many-to-one").table
    for _, path in table[table["part"] == "line"].groupby(["R", "method"]):
        assert np.diff(path["loss"]).max() < 1e-8  # of the digits kept


def test_balanced_counts_leave_sinkhorn_em_no_trap(quick):
    table = quick("many-to-one").table
    balanced = table[(table["part"] == "random") & (table["counts"] == "balanced")]
    assert balanced["SEM"].mean() > 0.98
    assert balanced["EM"].mean() < 0.6


def test_em_stays_with_learned_weights_too(quick):
    table = quick("many-to-one").table
    ten = table[(table["part"] == "random") & (table["K"] == 10)]
    assert ten["EM_learned"].mean() < 0.5
    assert ten["SEM_EM"].mean() > 0.9


def test_the_largest_task_has_every_start():
    experiment = EXPERIMENTS["many-to-one"]
    task = [task for task in experiment.tasks(Scale(reps=1)) if task.get("K") == 20][-1]
    rows = experiment.run(task, generator(0, task))
    assert rows["m"].tolist() == [0, 1, 2, 10]
    assert rows[["EM", "EM_learned", "SEM", "SEM_EM"]].isin([0, 1]).all(axis=None)
