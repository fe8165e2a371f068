"""The landscape: identities of the theory on its grid, and paths that go downhill."""

import numpy as np
import pytest

from sinkhorn_em.experiments.landscape import METHODS, SPAN


@pytest.fixture(scope="module")
def table(quick):
    return quick("landscape").table


def test_the_objectives_meet_at_the_truth_and_nowhere_else_on_the_left(table):
    line = table[table["part"] == "line"]
    gap = line["L"] - line["l"]
    left = line["theta"] < -0.5  # at 0 both components are the same, and the objectives meet as well
    assert (gap[left] > 1e-3).all()
    assert gap[np.isclose(line["theta"], line["theta_star"])].max() < 1e-9


def test_the_objective_is_larger_everywhere_in_the_plane(table):
    surface = table[table["part"] == "surface"]
    assert (surface["L"] - surface["l"]).min() > -2e-6  # values are kept with six digits


def test_every_start_in_the_plane_is_used_by_both_methods(table):
    path = table[(table["part"] == "path") & (table["iteration"] == 0)]
    starts = {method: path[path["method"] == method][["theta_1", "theta_2"]].to_numpy() for method in METHODS}
    np.testing.assert_array_equal(starts["EM"], starts["Sinkhorn-EM"])
    np.testing.assert_allclose(np.hypot(*starts["EM"].T), 0.9 * SPAN, atol=1e-5)


def test_what_em_misses_lies_at_the_published_root(table):
    """The spurious minimum of l at alpha = .7 on the line is where EM's paths in the plane end, to the digits kept."""
    line = table[(table["part"] == "line") & (table["alpha"] == 0.7)]
    left = line[line["theta"] < 0]
    lowest = float(left["theta"].iloc[left["l"].argmin()])
    path = table[(table["part"] == "path") & (table["method"] == "EM")]
    ends = path.sort_values("iteration").groupby("start").last()
    missed = ends[ends["theta_1"] < 0]
    assert len(missed) > 0
    np.testing.assert_allclose(missed["theta_1"], lowest, atol=0.02)  # grid step of the line
    np.testing.assert_allclose(missed["theta_2"], 0, atol=1e-3)
