"""Compiled EM for mixtures of unit Gaussians: scores, moments, and the whole loop of one problem.

Rows are feature-major, (d, n). Deviations from a mean are taken first and then squared, so nothing cancels.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .. import em
from .._compiled import add_products, kernel, log_normaliser, softmax_tile
from ..ot.newton_kernel import newton_on_one, set_offset

_SMALLEST_MASS = 1e-300  # of a component whose mean is still a quotient of normal numbers

_tolerances_after = kernel(em.tolerances_after)
_TIGHT, _LOOSE = em.TIGHT, em.LOOSE


class Options(NamedTuple):
    """How every problem of a batch is fitted."""

    held: bool  # column masses are held at the weights: Sinkhorn-EM
    learned: bool  # weights are learned
    symmetric: bool  # means are (theta, -theta)
    max_iter: int
    tol: float
    tile: int
    constant: float  # log-density of a unit Gaussian at its mean, in the units of the data


class Path(NamedTuple):
    """What one problem leaves of every iteration; of length 0 where nothing is recorded."""

    means: np.ndarray  # (T + 1, K, d)
    weights: np.ndarray  # (T + 1, K)
    bounds: np.ndarray  # (T + 1,)


class LocationFit(NamedTuple):
    """Where the loop of one problem stopped; means, weights and potentials are in the arrays it was given."""

    bound: float
    n_iter: int
    n_passes: int
    converged: bool


@kernel
def unit_scores(X, means, out):
    """out[k, i] = -|x_i - m_k|^2 / 2 for X (d, n)."""
    for k in range(means.shape[0]):
        row = out[k]
        row[:] = 0.0
        for q in range(X.shape[0]):
            x, mean = X[q], means[k, q]
            for j in range(x.shape[0]):
                deviation = x[j] - mean
                row[j] -= 0.5 * deviation * deviation


@kernel
def moments_pass(X, scores, row_mass, offset, tile, sums, valued):
    """sums[k] = sum_i a_i r_ik (x_i, 1) at the offset; returns sum_i a_i lse_k(S_ik + offset_k) if ``valued``, else 0."""
    d, n, K = X.shape[0], X.shape[1], offset.shape[0]
    R, Z = np.empty((K, tile)), np.empty((d + 1, tile))
    top, total, lse = np.empty(tile), np.empty(tile), np.empty(tile)
    sums[:] = 0.0
    value = 0.0
    Z[d] = 1.0
    for i0 in range(0, n, tile):
        m = min(tile, n - i0)
        softmax_tile(scores, offset, 1.0, i0, m, R, top, total)
        a = row_mass[i0 : i0 + m]
        if valued:  # the logarithms take a third of the time where K = 2
            log_normaliser(top, total, m, lse)
            for j in range(m):
                value += a[j] * lse[j]
        for j in range(m):
            total[j] = a[j] / total[j] if total[j] > 0.0 else 0.0
        for k in range(K):
            row = R[k]
            for j in range(m):
                row[j] *= total[j]
        for q in range(d):
            x, z = X[q, i0 : i0 + m], Z[q]
            for j in range(m):
                z[j] = x[j]
        add_products(R, Z, m, sums, False)
    return value


@kernel
def _plan_bound(scores, row_mass, weights, g, tile, tolerances, mass):
    """The minimum of the semi-dual (its value less what is left of it), its L1 error, and passes; ``g`` is overwritten."""
    plan = newton_on_one(scores, row_mass, weights, g, mass, tile, tolerances)
    return plan.value - (plan.gap if plan.gap > 0.0 else 0.0), plan.marginal_error, plan.n_passes


@kernel
def _m_step(sums, options, means, weights):
    """Means, and weights where they are learned, that fit the plan's moments."""
    K, d = means.shape
    if options.symmetric:
        for q in range(d):
            means[0, q] = sums[0, q] - sums[1, q]
            means[1, q] = -means[0, q]
    else:
        for k in range(K):
            if sums[k, d] > _SMALLEST_MASS:
                for q in range(d):
                    means[k, q] = sums[k, q] / sums[k, d]
    if options.learned:
        total = sums[:, d].sum()
        for k in range(K):
            weights[k] = sums[k, d] / total


@kernel
def _record(path, iteration, stop, means, weights, bound):
    """Write iterations ``iteration`` .. ``stop`` where there is room for them."""
    for t in range(iteration, min(stop, path.bounds.shape[0])):
        path.means[t], path.weights[t], path.bounds[t] = means, weights, bound


@kernel
def fit_one(X, row_mass, means, weights, g, scores, options, path):
    """EM on rows X (d, n) from means (K, d), weights and potentials (K,), which are overwritten; ``scores`` is memory."""
    K, d = means.shape
    offset, mass, sums = np.empty(K), np.empty(K), np.empty((K, d + 1))
    watched = options.tol > 0.0 or path.bounds.shape[0] > 0
    passes, iteration, error, bound, previous, gain = 0, 0, 0.0, 0.0, -np.inf, np.inf
    while True:
        unit_scores(X, means, scores)
        if options.held:
            bound, error, turns = _plan_bound(scores, row_mass, weights, g, options.tile, _tolerances_after(gain), mass)
            passes += turns
        set_offset(weights, g, offset)
        valued = not options.held and (watched or iteration == options.max_iter)
        value = moments_pass(X, scores, row_mass, offset, options.tile, sums, valued)
        passes += 1
        if not options.held:
            bound = value
        bound += options.constant
        gain, previous = bound - previous, bound
        converged = abs(gain) < options.tol
        _record(path, iteration, iteration + 1, means, weights, bound)
        if converged or iteration == options.max_iter:
            break
        _m_step(sums, options, means, weights)
        iteration += 1
    if error > _TIGHT:
        bound, error, turns = _plan_bound(scores, row_mass, weights, g, options.tile, _tolerances_after(0.0), mass)
        bound, passes = bound + options.constant, passes + turns
    _record(path, iteration, options.max_iter + 1, means, weights, bound)
    return LocationFit(bound, iteration, passes, converged and error <= _LOOSE)


@kernel
def fit_block(X, row_mass, which, options, start, stop, means, weights, g, paths, numbers):
    """Problems start..stop on data sets X (G, d, n); numbers are bound, n_iter, n_passes, converged (B, 4)."""
    scores = np.empty((means.shape[1], X.shape[2]))
    for j in range(start, stop):
        data = which[j]
        a = row_mass[data if row_mass.shape[0] > 1 else 0]
        path = Path(paths.means[j], paths.weights[j], paths.bounds[j])
        fit = fit_one(X[data], a, means[j], weights[j], g[j], scores, options, path)
        numbers[j, 0], numbers[j, 1], numbers[j, 2], numbers[j, 3] = fit.bound, fit.n_iter, fit.n_passes, fit.converged
