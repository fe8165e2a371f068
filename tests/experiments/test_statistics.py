"""Intervals have the right values."""

import numpy as np
import pytest
from scipy import stats

from sinkhorn_em.experiments import statistics


def test_wilson_limits_are_those_of_the_formula():
    """Wilson 1927: (p + z^2/2n -+ z sqrt(p(1-p)/n + z^2/4n^2)) / (1 + z^2/n) at 8 of 10."""
    interval = statistics.share([True] * 8 + [False] * 2)
    assert interval == pytest.approx((0.8, 0.49016, 0.94331), abs=1e-4)


def test_the_mean_has_students_interval():
    interval = statistics.mean([1.0, 2.0, 3.0, 4.0, 5.0])
    assert interval == pytest.approx((3.0, 3 - 2.7764 * np.sqrt(2.5 / 5), 3 + 2.7764 * np.sqrt(2.5 / 5)), abs=1e-4)


def test_a_mean_beside_that_of_others_has_the_pooled_interval():
    """As the two-sample t of equal deviations, with the degrees of freedom of the sample that is known."""
    x = [1.0, 2.0, 3.0, 4.0, 5.0]
    half = 2.7764 * np.sqrt(2.5 * (1 / 5 + 1 / 20))
    assert statistics.beside_mean(x, 2.5, 20) == pytest.approx((0.5, 0.5 - half, 0.5 + half), abs=1e-4)
    assert statistics.beside_mean(x, 0.0, 10**12) == pytest.approx(statistics.mean(x), abs=1e-6)
    assert statistics.beside_mean([2.0], 0.5, 15) == (1.5, -np.inf, np.inf)


def test_welchs_test_is_that_of_scipy_from_values_or_from_their_moments():
    a, b = [1.0, 2.0, 3.0, 4.5], [0.5, 1.0, 1.5, 2.0, 9.0, 2.5]
    known = stats.ttest_ind(a, b, equal_var=False)
    pair = statistics.sample(a), statistics.sample(b)
    one, two = statistics.welch_p(*pair)
    assert two == pytest.approx(known.pvalue)
    assert one == pytest.approx(stats.ttest_ind(a, b, equal_var=False, alternative="greater").pvalue)
    assert statistics.welch(*pair)[1:] == pytest.approx(known.confidence_interval())
    assert statistics.welch(statistics.sample([2.0]), pair[1])[1:] == (-np.inf, np.inf)


def test_one_value_says_nothing_about_its_error():
    assert statistics.mean([2.0])[1:] == (-np.inf, np.inf)
    assert statistics.slope_of_means([1.0, 2.0], [[1.0, 0.5]]) == pytest.approx((-1.0, -np.inf, np.inf))
    assert statistics.slope([1.0, 2.0], [1.0, 0.5]) == pytest.approx((-1.0, -np.inf, np.inf))


def test_pairs_that_agree_do_not_widen_the_difference():
    a, b = np.zeros(1000, bool), np.zeros(1000, bool)
    a[:30] = True
    difference = statistics.share_difference(a, b)
    assert difference.estimate == pytest.approx(0.03)
    assert 0.02 < difference.low < difference.high <= 0.03 + 1e-12


def test_equal_pairs_have_no_difference():
    assert statistics.share_difference([True, False], [True, False]) == (0.0, -0.5, 0.5)


def test_shares_of_different_draws_have_newcombes_interval():
    """Newcombe 1998 (Statistics in Medicine 17, 873), table II, method 10: 56/70 less 48/80 is (.0524, .3339)."""
    interval = statistics.unpaired_share_difference(np.arange(70) < 56, np.arange(80) < 48)
    assert interval == pytest.approx((0.2, 0.0524, 0.3339), abs=1e-4)


def test_limits_cover_the_truth_as_often_as_they_say():
    """2000 intervals: the standard error of the coverage is .005, the bound four of them below .95."""
    rng = np.random.default_rng(0)
    covered = [lo <= 0.3 <= hi for _, lo, hi in (statistics.share(rng.random(40) < 0.3) for _ in range(2000))]
    assert np.mean(covered) > 0.93


def test_a_power_law_has_its_slope():
    x = np.array([10.0, 100.0, 1000.0])
    assert statistics.slope(x, 3 / x).estimate == pytest.approx(-1.0)


def test_the_rate_of_an_expectation_is_that_of_the_means():
    x = np.array([10.0, 100.0, 1000.0])
    y = np.outer([0.5, 1.0, 6.0], 1 / x)
    assert statistics.slope_of_means(x, y) == pytest.approx((-1.0, -1.0, -1.0), abs=1e-12)


def test_limits_of_a_rate_cover_it_as_often_as_they_say():
    """1000 intervals of skewed errors, chi-squared with one degree of freedom as those of one potential."""
    rng, x = np.random.default_rng(0), np.array([10.0, 30.0, 100.0, 300.0, 1000.0])
    found = [statistics.slope_of_means(x, rng.chisquare(1, (40, 5)) / x) for _ in range(1000)]
    assert np.mean([low <= -1 <= high for _, low, high in found]) == pytest.approx(0.95, abs=0.03)
