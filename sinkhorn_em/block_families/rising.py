"""Sums over counts of log Gamma(x + s) / Gamma(s) + x log alpha, s = e / alpha: the part of a negative binomial beside its means.

For whole x it is the sum over v < x of log(e + alpha v), which tends to x log e as alpha falls to 0; the sums and their first
two derivatives in log alpha keep their digits there. Large and broken counts go by Stirling's series, from s + q >= 16.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .._compiled import inlined, kernel, log_positive, n_blocks, run_blocks
from .._typing import Floats, Integers

PRODUCT = 24  # whole counts up to it are products
SHIFT = 16.0  # Stirling's series from here on: the first term left out is 1e-14


class Nonzeros(NamedTuple):
    """The nonzero counts as rows of a sparse matrix, with their exposures; every row counts ``times`` times."""

    values: Floats  # (nnz,)
    columns: Integers  # (nnz,)
    starts: Integers  # (n + 1,)
    row_exposure: Floats  # (n,)
    column_exposure: Floats  # (m,)
    times: Floats  # (n,)


def log_rising(nonzeros: Nonzeros, alpha: float) -> Floats:
    """(3,): the sum, its slope and its curvature in log alpha; the sum is -inf if there are counts without exposure."""
    n, nnz = len(nonzeros.times), len(nonzeros.values)
    blocks = n_blocks(max(n, 1), nnz // max(n, 1), 3)
    sums = np.zeros((blocks, 3))

    def task(block: int, start: int, stop: int) -> None:
        _add_rows(*nonzeros, alpha, start, stop, sums[block])

    run_blocks(task, n, blocks)
    return sums.sum(axis=0)


@kernel
def _add_rows(values, columns, starts, row_exposure, column_exposure, times, alpha, start, stop, out):
    """Add the sums of rows start .. stop to ``out``."""
    for i in range(start, stop):
        value, slope, curvature = 0.0, 0.0, 0.0
        for at in range(starts[i], starts[i + 1]):
            x, e = values[at], row_exposure[i] * column_exposure[columns[at]]
            if x <= 0.0:
                continue
            if e <= 0.0:
                f, g, h = -math.inf, 0.0, 0.0
            elif x <= PRODUCT and x == math.floor(x):
                f, g, h = _by_product(x, e, alpha)
            else:
                f, g, h = _by_series(x, e, alpha)
            value += f
            slope += g
            curvature += h
        out[0] += times[i] * value
        out[1] += times[i] * slope
        out[2] += times[i] * curvature


@inlined
def _by_product(x, e, alpha):
    """The sum over v < x: one logarithm for four factors."""
    value, slope, curvature, product = 0.0, 0.0, 0.0, e
    for v in range(1, int(x)):
        step = alpha * v
        factor = e + step
        u = step / factor
        slope += u
        curvature += u * (1.0 - u)
        if v & 3 == 0:
            value += log_positive(product)
            product = 1.0
        product *= factor
    return value + log_positive(product), slope, curvature


@inlined
def _by_series(x, e, alpha):
    """Gamma(x + s) / Gamma(s) is the product over v < q of (s + v) / (s + x + v) times Gamma(x + t) / Gamma(t), t = s + q."""
    value, slope, curvature = 0.0, 0.0, 0.0
    s, q = e / alpha, 0.0
    while s + q < SHIFT:
        low, high = e + alpha * q, e + alpha * (x + q)
        value += math.log(low / high)
        u, w = alpha * q / low, alpha * (x + q) / high
        slope += u - w
        curvature += u * (1.0 - u) - w * (1.0 - w)
        q += 1.0
    t = s + q
    y, ratio = t + x, math.log1p(x / t)
    a, b = 1.0 / t, 1.0 / y
    a2, b2 = a * a, b * b
    apart = -x * a * b  # b - a, whose multiples by s and s^2 cancel others
    # differences of the series of log Gamma, digamma and trigamma between y and t
    tail = b * (1 / 12 - b2 * (1 / 360 - b2 * (1 / 1260 - b2 / 1680)))
    tail -= a * (1 / 12 - a2 * (1 / 360 - a2 * (1 / 1260 - a2 / 1680)))
    digamma = ratio - 0.5 * apart - b2 * (1 / 12 - b2 * (1 / 120 - b2 * (1 / 252 - b2 / 240)))
    digamma += a2 * (1 / 12 - a2 * (1 / 120 - a2 * (1 / 252 - a2 / 240)))
    trigamma = apart + 0.5 * apart * (a + b) + b * b2 * (1 / 6 - b2 * (1 / 30 - b2 * (1 / 42 - b2 / 30)))
    trigamma -= a * a2 * (1 / 6 - a2 * (1 / 30 - a2 * (1 / 42 - a2 / 30)))
    value += x * math.log(e + alpha * q) + (y - 0.5) * ratio - x + tail
    return value, slope + x - s * digamma, curvature + s * digamma + s * s * trigamma
