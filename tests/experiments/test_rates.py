"""Rates: the factors computed independently, and where Sinkhorn-EM is and is not the nearer one."""

import numpy as np
import pytest


@pytest.fixture(scope="module")
def table(quick):
    return quick("rates").table


def test_asymptotic_factors_have_the_right_values(table):
    """Two digits were given: within half of the second."""
    rows = table[(table["part"] == "factor") & (table["theta_star"] == 1)].set_index(["alpha", "method"])["factor"]
    expected = {(0.7, "EM"): 0.25, (0.7, "Sinkhorn-EM"): 0.24, (0.9, "EM"): 0.18, (0.9, "Sinkhorn-EM"): 0.14}
    assert {pair: round(rows[pair], 2) for pair in expected} == expected


def test_from_half_the_truth_on_sinkhorn_em_is_never_further_away(table):
    rows = table[(table["part"] == "region") & (table["start"] >= 0.5)]
    assert set(rows["alpha"]) == {0.5, 0.55, 0.7, 0.9}
    assert not rows["last_worse"].any()


def test_near_zero_it_is_further_away_in_the_first_iterations(table):
    rows = table[(table["part"] == "region") & (table["alpha"] == 0.7) & table["start"].between(0.05, 0.15)]
    assert len(rows) == 2  # theta* 1 and 2
    assert rows["last_worse"].between(1, 5).all()


def test_errors_fall_by_the_asymptotic_factor(table):
    """The last errors above rounding: the factor of the step is within 1 % of its limit."""
    path = table[(table["part"] == "path") & (table["start"] == 2)]
    factors = table[(table["part"] == "factor") & (table["theta_star"] == 1) & (table["alpha"] == 0.9)]
    for method, factor in factors.set_index("method")["factor"].items():
        error = path[path["method"] == method].sort_values("iteration")["error"].to_numpy()
        last = np.flatnonzero(error > 1e-8)[-1]
        assert error[last] / error[last - 1] == pytest.approx(factor, rel=0.01)
