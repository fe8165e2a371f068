"""The Newton of `newton` for fixed column masses, on one problem whose rows are in memory, as one compiled function.

Python's share of a small problem's time is many times that of its passes. Same mathematics, constants, trust region and stops
as `newton.solve_newton` with `FixedMass`, where everything is explained; steps come from dense Cholesky factorisations of K x K
matrices, written out. Columns of mass 0 stay where they are: their rows of the system are those of the identity.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._compiled import kernel
from . import newton
from .kernel import fused_pass
from .newton import (
    ACCEPT,
    EMPTY,
    FINE,
    FIRST_RADIUS,
    INSIDE,
    ROUNDING,
    SMALLEST_LOG_MU,
    SMALLEST_METRIC,
    SMOOTHING,
    TINY,
)

_RUNAWAY = 1e15  # nats; potentials that large come up where no plan has the masses asked for, or none of any use

_next_radius, _minimiser_along = kernel(newton.next_radius), kernel(newton.minimiser_along)


class Outcome(NamedTuple):
    """Where Newton stopped; potentials and masses are in the arrays it was given."""

    value: float  # F(g)
    gap: float  # F(g) - min F, estimated by the Newton model; nan if it was not asked for
    marginal_error: float  # sum |c - b|
    relative_error: float  # max |log(c/b)|
    n_passes: int
    converged: bool  # both errors are within the tolerances


@kernel
def _dot(x, y):
    total = 0.0
    for k in range(x.shape[0]):
        total += x[k] * y[k]
    return total


@kernel
def _translate(g, b):
    """Shift g so that sum b g = 0, in place; columns of mass 0 get 0."""
    shift = 0.0
    for k in range(b.shape[0]):
        if b[k] > 0.0:
            shift += b[k] * g[k]
    for k in range(b.shape[0]):
        g[k] = g[k] - shift if b[k] > 0.0 else 0.0


@kernel
def set_offset(b, g, offset):
    """offset = log b + g, -inf for columns of mass 0."""
    for k in range(b.shape[0]):
        offset[k] = np.log(b[k]) + g[k] if b[k] > 0.0 else -np.inf


@kernel
def _evaluate(scores, row_mass, b, g, tile, temperature, mass, gram):
    """Value, L1 error and largest |log(c/b)| at g; fills the masses c and the overlaps."""
    K, value, offset = b.shape[0], np.empty(1), np.empty(b.shape[0])
    _translate(g, b)
    set_offset(b, g, offset)
    fused_pass(scores, row_mass, offset, 0, row_mass.shape[0], tile, temperature, value, mass, gram)
    error, relative = 0.0, 0.0
    for k in range(K):
        error += abs(b[k] - mass[k])
        if b[k] > 0.0:
            relative = max(relative, abs(np.log((mass[k] + EMPTY * b[k]) / (b[k] + EMPTY * b[k]))))
    return value[0] - _dot(b, g), error, relative


@kernel
def _solve(A, r, d):
    """d = A^-1 r by Cholesky, which overwrites the lower triangle of A; False if A is not positive definite."""
    K = r.shape[0]
    for p in range(K):
        row, s = A[p], r[p]
        for q in range(p):
            other, t = A[q], row[q]
            for j in range(q):
                t -= row[j] * other[j]
            row[q] = t / other[q]
            s -= row[q] * d[q]
        pivot = row[p]
        for j in range(p):
            pivot -= row[j] * row[j]
        if not pivot > 0.0:
            return False
        row[p] = np.sqrt(pivot)
        d[p] = s / row[p]
    for p in range(K - 1, -1, -1):
        d[p] /= A[p, p]
        for q in range(p):
            d[q] -= A[p, q] * d[p]
    return True


@kernel
def _oscillation(d, b):
    """max d - min d over columns of positive mass; infinite where some entry is not finite."""
    low, high = np.inf, -np.inf
    for k in range(d.shape[0]):
        if b[k] > 0.0:
            if not abs(d[k]) < np.inf:
                return np.inf
            low, high = min(low, d[k]), max(high, d[k])
    return high - low


@kernel
def _damped(gram, metric, r, mu, b, A, d):
    """Solve (H + mu D) d = r, and return the oscillation of d; mu < 0: H D D' / sum D, which fixes the constant, instead."""
    K, whole = r.shape[0], 0.0
    for k in range(K):
        whole += metric[k]
    for p in range(K):
        diagonal = 0.0
        for q in range(K):
            A[p, q] = -gram[p, q]
            diagonal += gram[p, q]
        A[p, p] = diagonal if b[p] > 0.0 else 1.0
        if mu < 0.0:
            for q in range(K):
                A[p, q] += metric[p] * (metric[q] / whole)
        else:
            A[p, p] += mu * metric[p]
    return _oscillation(d, b) if _solve(A, r, d) else np.inf


@kernel
def _step(gram, metric, r, radius, b, A, d):
    """The step d with the smallest mu >= 0 inside the radius: the decrease predicted for it, and its oscillation."""
    norm = _damped(gram, metric, r, -1.0, b, A, d)
    if not norm <= radius:
        low, high = SMALLEST_LOG_MU, 0.0
        while _damped(gram, metric, r, np.exp(high), b, A, d) > radius:
            high += 3.0
        if _damped(gram, metric, r, np.exp(low), b, A, d) <= radius:
            high = low
        while high - low > FINE:
            middle = 0.5 * (low + high)
            if _damped(gram, metric, r, np.exp(middle), b, A, d) > radius:
                low = middle
            else:
                high = middle
        norm = _damped(gram, metric, r, np.exp(high), b, A, d)
    bend = 0.0  # d' H d, by the differences that the Laplacian sees
    for p in range(d.shape[0]):
        for q in range(p):
            bend += gram[p, q] * (d[p] - d[q]) ** 2
    return _dot(r, d) - 0.5 * bend, norm


@kernel
def _set_model(b, mass, residual, metric):
    """What is missing of the masses, and the metric of the trust region."""
    for k in range(b.shape[0]):
        residual[k] = b[k] - mass[k]
        metric[k] = max(b[k], mass[k], SMALLEST_METRIC) if b[k] > 0.0 else 0.0


@kernel
def newton_on_one(scores, row_mass, b, g, mass, tile, tolerances):
    """Minimise the semi-dual of ``scores`` (K, n) with column masses b from potentials g; overwrites ``g`` and ``mass`` (K,)."""
    K = b.shape[0]
    gram, trial_gram, system = np.empty((K, K)), np.empty((K, K)), np.empty((K, K))
    r, metric, d, trial_g, trial_mass = np.empty(K), np.empty(K), np.zeros(K), np.empty(K), np.empty(K)
    value, error, relative = _evaluate(scores, row_mass, b, g, tile, 1.0, mass, gram)
    passes, radius, stalled, gap = 1, FIRST_RADIUS, 0, np.nan
    while True:
        converged = error <= tolerances.marginal and relative <= tolerances.relative
        if converged and tolerances.gap == np.inf:
            break
        _set_model(b, mass, r, metric)
        predicted, norm = _step(gram, metric, r, radius, b, system, d)
        gap = predicted if norm < INSIDE * radius else np.nan
        trial_g[:] = g + d
        out_of_reach = stalled >= 3 or not norm > 0.0 or not np.abs(trial_g).max() < _RUNAWAY
        if (converged and gap <= tolerances.gap) or out_of_reach or passes >= tolerances.max_passes:
            break
        trial, trial_error, trial_relative = _evaluate(
            scores, row_mass, b, trial_g, tile, max(1.0, SMOOTHING * norm), trial_mass, trial_gram
        )
        passes += 1
        ratio = (value - trial) / max(predicted, TINY)
        below_noise = abs(predicted) < ROUNDING * max(1.0, abs(value))
        if (below_noise and trial_error < error) or (not below_noise and ratio > ACCEPT):
            stalled = stalled + 1 if below_noise and trial_error > 0.5 * error else 0
            radius = _next_radius(radius, ratio, norm, below_noise)
            g[:], mass[:], gram[:] = trial_g, trial_mass, trial_gram
            value, error, relative = trial, trial_error, trial_relative
        else:
            stalled += below_noise
            radius = norm * _minimiser_along(-_dot(r, d), _dot(trial_mass, d) - _dot(b, d))
    return Outcome(value, gap, error, relative, passes, converged)
