"""The thresholds: more exactly than the verdicts ask, and for another grid than the full design's."""

import pytest

from sinkhorn_em.experiments.uniqueness import THRESHOLDS


@pytest.mark.parametrize("method", THRESHOLDS)
def test_thresholds_agree_with_the_independent_ones_to_four_digits(quick, method):
    """They were computed with an allowance of .002; both agree to the digits printed, within one unit of the last."""
    table = quick("uniqueness").table
    rows = table[(table["part"] == "threshold") & (table["method"] == method)].set_index("theta_star")["alpha"]
    for theta_star, alpha in THRESHOLDS[method].items():
        assert rows[theta_star] == pytest.approx(alpha, abs=1.5e-4)


def test_roots_are_sorted_and_contain_the_truth(quick):
    table = quick("uniqueness").table
    for (theta_star, _), roots in table[table["part"] == "root"].groupby(["theta_star", "method"])["theta"]:
        assert roots.is_monotonic_increasing
        assert roots.iloc[-1] == pytest.approx(theta_star, abs=1e-9)
        assert len(roots) == 3
