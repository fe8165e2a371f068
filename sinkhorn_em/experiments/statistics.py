"""Intervals: every verdict has a margin."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats


class Interval(NamedTuple):
    """An estimate and its confidence limits."""

    estimate: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.estimate:.3g} [{self.low:.3g}, {self.high:.3g}]"

    def exp(self) -> Interval:
        """Of a ratio, from that of its logarithm."""
        return Interval(*np.exp(self))


class Sample(NamedTuple):
    """What a printed table says of n independent values."""

    mean: float
    sd: float  # with n - 1
    n: int


def share(hits: ArrayLike, confidence: float = 0.95) -> Interval:
    """Share of true among booleans, with Wilson's interval."""
    values = np.asarray(hits, bool).ravel()
    limits = stats.binomtest(int(values.sum()), len(values)).proportion_ci(confidence, "wilson")
    return Interval(float(values.mean()), float(limits.low), float(limits.high))


def mean(values: ArrayLike, confidence: float = 0.95) -> Interval:
    """Mean of independent values, with Student's interval; a difference of paired values is judged by the mean of differences."""
    x = np.asarray(values, float).ravel()
    half = stats.t.ppf(0.5 + confidence / 2, len(x) - 1) * x.std(ddof=1) / np.sqrt(len(x)) if len(x) > 1 else np.inf
    return Interval(float(x.mean()), float(x.mean() - half), float(x.mean() + half))


def beside_mean(values: ArrayLike, other: float, n_other: int, confidence: float = 0.95) -> Interval:
    """Mean of ``values`` less ``other``, the mean of ``n_other`` independent draws whose own deviation is not known.

    Student's interval with the deviation of ``values`` for both, of standard error s (1 / n + 1 / n_other)^1/2.
    """
    x = np.asarray(values, float).ravel()
    difference = float(x.mean()) - other
    if len(x) == 1:
        return Interval(difference, -np.inf, np.inf)
    half = stats.t.ppf(0.5 + confidence / 2, len(x) - 1) * x.std(ddof=1) * np.sqrt(1 / len(x) + 1 / n_other)
    return Interval(difference, float(difference - half), float(difference + half))


def sample(values: ArrayLike) -> Sample:
    """Mean, standard deviation (nan for one value) and number of values."""
    x = np.asarray(values, float).ravel()
    return Sample(float(x.mean()), float(x.std(ddof=1)) if len(x) > 1 else np.nan, len(x))


def welch(a: Sample, b: Sample, confidence: float = 0.95) -> Interval:
    """Mean of ``a`` less that of ``b``, of independent samples whose variances may differ, with Welch's interval.

    Standard error s with s^2 = v_a + v_b, v = sd^2 / n, and s^4 / (v_a^2 / (n_a - 1) + v_b^2 / (n_b - 1)) degrees of freedom.
    """
    difference, error, df = _welch(a, b)
    half = stats.t.ppf(0.5 + confidence / 2, df) * error if np.isfinite(error) else np.inf
    return Interval(difference, float(difference - half), float(difference + half))


def welch_p(a: Sample, b: Sample) -> tuple[float, float]:
    """p of Welch's test that the means are the same: against a larger mean of ``a``, and against any other."""
    difference, error, df = _welch(a, b)
    t = difference / error
    return float(stats.t.sf(t, df)), float(2 * stats.t.sf(abs(t), df))


def _welch(a: Sample, b: Sample) -> tuple[float, float, float]:
    """Difference, standard error (inf where a deviation is not known) and degrees of freedom."""
    parts = [(x.sd**2 / x.n, x.n - 1) for x in (a, b)]
    squares = sum(v for v, _ in parts)
    if not np.isfinite(squares):
        return a.mean - b.mean, np.inf, np.nan
    df = squares**2 / sum(v**2 / n for v, n in parts) if squares > 0 else np.inf
    return a.mean - b.mean, float(np.sqrt(squares)), df


def share_difference(a: ArrayLike, b: ArrayLike, confidence: float = 0.95) -> Interval:
    """Share of ``a`` less that of ``b``, booleans on the same draws: Newcombe's interval for the pairs that differ.

    With m pairs that differ, of which j favour a, the difference is (m/n) (2 j/m - 1), and j is binomial; Wilson's limits of j/m
    (the sign test of McNemar) are carried over. No pair differs: from -1/n to 1/n.
    """
    first, second = np.asarray(a, bool).ravel(), np.asarray(b, bool).ravel()
    differ = first != second
    n, m = len(first), int(differ.sum())
    if m == 0:
        return Interval(0.0, -1 / n, 1 / n)
    limits = share(first[differ], confidence)
    return Interval(*(m / n * (2 * value - 1) for value in limits))


def unpaired_share_difference(a: ArrayLike, b: ArrayLike, confidence: float = 0.95) -> Interval:
    """Share of ``a`` less that of ``b``, booleans on different draws: Newcombe's interval from Wilson's limits of both."""
    first, second = share(a, confidence), share(b, confidence)
    estimate = first.estimate - second.estimate
    below = np.hypot(first.estimate - first.low, second.high - second.estimate)
    above = np.hypot(first.high - first.estimate, second.estimate - second.low)
    return Interval(estimate, float(estimate - below), float(estimate + above))


def slope(x: ArrayLike, y: ArrayLike, confidence: float = 0.95) -> Interval:
    """Slope of the least-squares line of log y on log x, one point per independent draw, with Student's interval."""
    fit = stats.linregress(np.log(np.asarray(x, float)), np.log(np.asarray(y, float)))
    half = stats.t.ppf(0.5 + confidence / 2, np.size(x) - 2) * fit.stderr if np.size(x) > 2 else np.inf
    return Interval(float(fit.slope), float(fit.slope - half), float(fit.slope + half))


def slope_of_means(x: ArrayLike, y: ArrayLike, confidence: float = 0.95) -> Interval:
    """Slope of log mean(y) on log x, for y (repetitions, len(x)): the exponent of a rate of the expectation.

    The mean over repetitions comes before the logarithm: that of one draw has another expectation. The jackknife over repetitions
    gives the standard error, so that values of one repetition may depend on each other; the limits are Student's.
    """
    log_x, values = np.log(np.asarray(x, float)), np.asarray(y, float)
    R, centred = len(values), log_x - log_x.mean()
    estimate = float(np.log(values.mean(axis=0)) @ centred / (centred @ centred))
    if R == 1:
        return Interval(estimate, -np.inf, np.inf)
    left_out = (values.sum(axis=0) - values) / (R - 1)
    slopes = np.log(left_out) @ centred / (centred @ centred)
    half = float(stats.t.ppf(0.5 + confidence / 2, R - 1) * np.sqrt((R - 1) * slopes.var()))
    return Interval(estimate, estimate - half, estimate + half)
