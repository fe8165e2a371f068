"""Passes are counted, not timed: these hold on any machine."""

import sys

import pytest

from sinkhorn_em.experiments import timing_arms
from sinkhorn_em.experiments.timing_arms import COLD, EM, FIT, MISSING, NEWTON, POT, WARM


@pytest.fixture(scope="module")
def table(quick):
    return quick("timing").table


def test_newton_takes_few_passes_and_sinkhorn_many(table):
    tight = table[table["tolerance"] == 1e-9].pivot_table("passes", ["K", "separation"], "arm")
    assert (tight[EM] == 1).all()
    assert (tight[NEWTON] <= 12).all()
    assert (tight[NEWTON].loc[:, 4.0] * 5 <= tight[[WARM, COLD]].min(axis=1).loc[:, 4.0]).all()


def test_a_fit_asks_for_no_more_than_the_tight_tolerance(table):
    passes = table[table["tolerance"] == 1e-9].pivot_table("passes", ["K", "separation"], "arm")
    assert (passes[FIT] <= passes[NEWTON] + 1).all()  # and one for the gap of the bound


def test_pot_and_our_sinkhorn_take_the_same_iterations(table):
    """POT looks at its error every ten iterations, and at another norm of it: it stops at most a few tens later."""
    pytest.importorskip("ot")
    done = table[table["arm"].isin([COLD, POT])].pivot_table(
        "passes", ["K", "separation", "tolerance"], "arm", aggfunc="first"
    )
    done = done[(done < timing_arms.MOST_PASSES).all(axis=1)]
    assert ((done[POT] - done[COLD]).abs() <= 30 + 0.2 * done[COLD]).all()


def test_without_pot_its_rows_say_so(monkeypatch):
    import numpy as np

    monkeypatch.setitem(sys.modules, "ot", None)
    X = np.random.default_rng(0).normal(size=(60, 2))
    point = timing_arms.way(X, 2, 1, 1, 0)[0]
    record = timing_arms.measure(X, point, 1e-6, POT)
    assert record["status"] == MISSING
    assert np.isnan(record["seconds"])
