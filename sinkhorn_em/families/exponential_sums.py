"""An upper bound of M(t) = sum_i w_i exp(t y_i) that touches it at t = 1, from five sums over one pass.

With d = t - 1, exp(t y) = exp(y) [1 + d y + r(d, y)], r = exp(d y) - 1 - d y. The ratio r / d^2 rises with d y: it is at most
y^2 / 2 where d y <= 0, and its value at the end of the interval where d y > 0. Hence on [lower, upper], 0 < lower < 1 < upper,

    M(t) <= U(t) = A + B d + C d^2,    A = sum w e^y,    B = sum w y e^y,
    C = C_up for d > 0:    sum over y > 0 of w e^y r(upper - 1, y) / (upper - 1)^2, plus over y <= 0 of w e^y y^2 / 2,
    C = C_down for d < 0:  sum over y < 0 of w e^y r(lower - 1, y) / (lower - 1)^2, plus over y >= 0 of w e^y y^2 / 2.

The sums add up over tiles of rows, U(1) = M(1) and U'(1) = M'(1): a minorise-maximise step for any parameter that stands in an
exponent (a Gumbel's scale, the power of a generalised Gaussian) raises the likelihood without a second pass.
"""

from __future__ import annotations

import numpy as np

from .._typing import Booleans, Floats

LOWEST, HIGHEST = -600.0, 300.0  # of y: no sum underflows to 0, nor overflows at 2 y; outside, y counts as the nearest
BISECTIONS = 40  # of an interval of length 1/2: t to 5e-13, the bound to its square


def exponential_sum_terms(weights: Floats, y: Floats, lower: float, upper: float) -> Floats:
    """A, B, C_down, C_up, stacked (4, ...): sums over the last axis of ``weights`` and ``y``. y = -inf adds 0; upper <= 2."""
    y = np.clip(y, LOWEST, HIGHEST)
    positive = y > 0
    step = np.where(positive, upper - 1, lower - 1)
    u = step * y  # >= 0
    w = weights * np.exp(y)
    first = w * y
    half = 0.5 * first * y
    # (e^u - 1 - u) / step^2 loses digits for small u, to eps / step^2 in all: no more than the rounding of A
    end = w * (np.expm1(u) - u) / step**2
    down, up = np.where(positive, half, end), np.where(positive, end, half)
    return np.stack([term.sum(axis=-1) for term in (w, first, down, up)])


def exponential_sum_bound(terms: Floats, t: Floats) -> tuple[Floats, Floats]:
    """U(t) and U'(t), elementwise, from `exponential_sum_terms`."""
    A, B, down, up = terms
    d = t - 1
    C = np.where(d > 0, up, down)
    return A + (B + C * d) * d, B + 2 * C * d


def best_exponent(mean: Floats, terms: Floats, lower: float, upper: Floats | float) -> Floats:
    """t in [lower, upper], an interval around 1, that raises log t + t mean - log U(t), as far as its derivative is followed.

    ``mean`` and ``terms`` are divided by the total weight. The derivative is bisected on the side of 1 to which it points. It may
    have a second zero, so what would not raise the value is refused.
    """

    def value(t: Floats) -> Floats:
        return np.log(t) + t * mean - np.log(exponential_sum_bound(terms, t)[0])

    def rises(t: Floats) -> Booleans:
        U, slope = exponential_sum_bound(terms, t)
        return 1 / t + mean > slope / U

    one = np.ones_like(mean)
    up = rises(one)
    lo, hi = np.where(up, 1.0, lower), np.where(up, upper, 1.0)
    for _ in range(BISECTIONS):
        middle = 0.5 * (lo + hi)
        right = rises(middle)
        lo, hi = np.where(right, middle, lo), np.where(right, hi, middle)
    t = np.where(up, lo, hi)
    t = np.where(up & (upper - t < 1e-12), upper, t)  # bisection only approaches the end
    slack = 1e-13 * (1 + np.abs(mean))  # rounding of the two values
    return np.where(value(t) >= value(one) - slack, t, 1.0)
