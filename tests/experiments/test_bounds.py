"""Bounds: identities of the theory on the table of the quick run."""

import pytest


@pytest.fixture(scope="module")
def part(quick):
    return dict(list(quick("bounds").table.groupby("part")))


def test_the_transport_loss_is_the_larger_one(part):
    assert (part["gap"]["L"] > part["gap"]["l"] - 1e-9).all()
    assert part["gap"]["family"].nunique() == 6


def test_losses_are_equal_at_the_truth(part):
    assert part["population"]["L"].to_numpy() == pytest.approx(part["population"]["l"].to_numpy(), abs=1e-9)


def test_moving_a_mean_costs_the_transport_loss_and_not_the_likelihood(part):
    rows = part["mean"].groupby("shift")[["l", "L", "rate"]].mean()
    assert rows["L"].is_monotonic_increasing
    assert rows.loc[1000, "L"] == pytest.approx(rows.loc[1000, "rate"], rel=0.01)
    assert rows.loc[1000, "l"] == rows.loc[100, "l"] < 6


def test_a_shrinking_variance_is_a_trap_of_the_likelihood_alone(part):
    """Unless the component's weight is less than the mass of the point."""
    ends = part["variance"][part["variance"]["variance"].isin([1e-9, 1e-12])]
    change = ends.pivot(index=["n_weight", "repetition"], columns="variance", values=["l", "L"])
    assert (change["l"][1e-12] < change["l"][1e-9]).all()
    rises = (change["L"][1e-12] > change["L"][1e-9]).groupby("n_weight").mean()
    assert rises.to_dict() == {0.5: 0, 1.5: 1, 60.0: 1}


def test_the_transport_loss_curves_no_less_at_the_truth_and_on_the_line_more(part):
    rows = part["population"].set_index("truth")
    assert (rows["difference"] > -1e-9).all()
    assert (rows["factor_L"] <= rows["factor_l"] + 1e-9).all()
    assert rows.loc["d 1, K 3", "factor_L"] < 0.6 * rows.loc["d 1, K 3", "factor_l"]
