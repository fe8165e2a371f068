"""The dispersion alpha of a negative binomial given its rates: Newton's method in log alpha, kept in a bracket, never downhill."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .._typing import Floats

SMALLEST, LARGEST = 1e-8, 1e4  # of alpha
LONGEST_STEP = 3.0  # in log alpha
ROUNDING = 1e-14  # of the value: a gain below it cannot be seen
MAX_TURNS = 100

Rising = Callable[[float], Floats]  # alpha -> (3,), `rising.log_rising` of the counts
Profile = Callable[[float], Floats]


def profile(sums: Floats, exposure: Floats, rates: Floats, rising: Rising) -> Profile:
    """alpha -> (3,): the part of the bound that depends on alpha, its slope and its curvature in log alpha.

    It is the sum over blocks of -sums log(1 + alpha gamma) - exposure log(1 + alpha gamma) / alpha, plus ``rising``.
    """

    def at(alpha: float) -> Floats:
        grown = 1 + alpha * rates
        per_unit = np.log1p(alpha * rates) / alpha
        u = alpha * rates / grown
        gap = rates / grown - per_unit  # slope of per_unit
        value = -(sums * np.log1p(alpha * rates) + exposure * per_unit).sum()
        slope = -(sums * u + exposure * gap).sum()
        curvature = -(sums * u / grown - exposure * (rates / grown * u + gap)).sum()
        return np.array([value, slope, curvature]) + rising(alpha)

    return at


def best_dispersion(profile: Profile, start: float) -> float:
    """A maximum of the profile over [SMALLEST, LARGEST], uphill from the start, which comes back if nothing is above it."""
    low, high = np.log(SMALLEST), np.log(LARGEST)
    alpha = best = float(np.clip(start, SMALLEST, LARGEST))
    at, top = float(np.log(alpha)), -np.inf
    for _ in range(MAX_TURNS):
        value, slope, curvature = profile(alpha)
        if value > top:
            top, best = value, alpha
        step = -slope / curvature if curvature < 0 else np.copysign(LONGEST_STEP, slope)
        step = float(np.clip(step, -LONGEST_STEP, LONGEST_STEP))
        if slope > 0:
            low = at
        else:
            high = at
        if 0.5 * abs(slope * step) <= ROUNDING * abs(value) or high <= low:
            break
        at = _inside(at + step, at, low, high)
        alpha = float(np.clip(np.exp(at), SMALLEST, LARGEST))
    return best


def _inside(new: float, at: float, low: float, high: float) -> float:
    """The new point, or, beyond a point already seen, the middle of the bracket, or, beyond a bound of the range, the bound."""
    bottom, top = np.log(SMALLEST), np.log(LARGEST)
    if low < new < high:
        return new
    edge = low if new <= low else high
    return float(edge) if edge in (bottom, top) and edge != at else 0.5 * (low + high)
