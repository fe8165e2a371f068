"""Compiled passes of the Gaussian family: log-densities and moments, tile by tile, vectorised over rows.

Rows are feature-major, (d, n): ``X.T`` of the (n, d) matrix everybody else speaks of. Deviations are always taken from a mean
first and then squared or multiplied, so nothing cancels.
"""

from __future__ import annotations

import numpy as np

from .._compiled import add_products, kernel, mirror, n_blocks, run_blocks, softmax_tile, tile_rows
from .._typing import Floats


@kernel
def _triangular_density(X, means, factors, constants, start, stop, tile, out):
    """out[k, i] = constants[k] - |F_k (x_i - m_k)|^2 / 2 for lower triangular F_k, padded with zeros to (K, e, e), 4 | e."""
    K, e = means.shape
    d = X.shape[0]
    C, z, z2 = np.zeros((e, tile)), np.empty(tile), np.empty(tile)
    for i0 in range(start, stop, tile):
        m = min(tile, stop - i0)
        for k in range(K):
            F, target = factors[k], out[k, i0 : i0 + m]
            for q in range(d):
                c, x, mean = C[q], X[q, i0 : i0 + m], means[k, q]
                for j in range(m):
                    c[j] = x[j] - mean
            target[:] = constants[k]
            for p in range(0, d, 2):
                for q in range(0, p + 2, 4):
                    c0, c1, c2, c3 = C[q], C[q + 1], C[q + 2], C[q + 3]
                    a0, a1, a2, a3 = F[p, q], F[p, q + 1], F[p, q + 2], F[p, q + 3]
                    b0, b1, b2, b3 = F[p + 1, q], F[p + 1, q + 1], F[p + 1, q + 2], F[p + 1, q + 3]
                    if q == 0:
                        for j in range(m):
                            z[j] = a0 * c0[j] + a1 * c1[j] + a2 * c2[j] + a3 * c3[j]
                            z2[j] = b0 * c0[j] + b1 * c1[j] + b2 * c2[j] + b3 * c3[j]
                    else:
                        for j in range(m):
                            z[j] += a0 * c0[j] + a1 * c1[j] + a2 * c2[j] + a3 * c3[j]
                            z2[j] += b0 * c0[j] + b1 * c1[j] + b2 * c2[j] + b3 * c3[j]
                for j in range(m):
                    target[j] -= 0.5 * (z[j] * z[j] + z2[j] * z2[j])


@kernel
def _diagonal_density(X, means, scales, constants, start, stop, tile, out):
    """out[k, i] = constants[k] - sum_q (scales[k, q] (x_iq - m_kq))^2 / 2, padded with zero scales to (K, e), 2 | e."""
    K, d = means.shape[0], X.shape[0]
    for i0 in range(start, stop, tile):
        m = min(tile, stop - i0)
        for k in range(K):
            target = out[k, i0 : i0 + m]
            target[:] = constants[k]
            for q in range(0, d, 2):
                q1 = min(q + 1, d - 1)
                x, x1 = X[q, i0 : i0 + m], X[q1, i0 : i0 + m]
                mean, mean1, s, s1 = means[k, q], means[k, q1], scales[k, q], scales[k, q + 1]
                for j in range(m):
                    u, v = s * (x[j] - mean), s1 * (x1[j] - mean1)
                    target[j] -= 0.5 * (u * u + v * v)


@kernel
def _moments(X, scores, row_mass, offset, means, start, stop, tile, full, mass, first, second):
    """Sums over rows of P_ik times 1, (x_i - m_k), and its outer product or, unless ``full``, squares."""
    d, K = X.shape[0], means.shape[0]
    n_columns = offset.shape[0]
    R, top, total = np.empty((n_columns, tile)), np.empty(tile), np.empty(tile)
    C, Q = np.empty((d, tile)), np.empty((d, tile))
    mass[:] = 0.0
    first[:] = 0.0
    second[:] = 0.0
    for i0 in range(start, stop, tile):
        m = min(tile, stop - i0)
        softmax_tile(scores, offset, 1.0, i0, m, R, top, total)
        a = row_mass[i0 : i0 + m]
        for j in range(m):
            total[j] = a[j] / total[j] if total[j] > 0.0 else 0.0
        for k in range(K):
            p, c0 = R[k], 0.0
            for j in range(m):
                p[j] *= total[j]
                c0 += p[j]
            if c0 == 0.0:
                continue
            mass[k] += c0
            for q in range(d):
                x, c, w, mean = X[q, i0 : i0 + m], C[q], Q[q], means[k, q]
                s1, s2 = 0.0, 0.0
                for j in range(m):
                    v = x[j] - mean
                    c[j] = v
                    v2 = p[j] * v
                    w[j] = v2
                    s1 += v2
                    s2 += v * v2
                first[k, q] += s1
                if not full:
                    second[k, q, 0] += s2
            if full:
                add_products(C, Q, m, second[k], True)
    if full:
        for k in range(K):
            mirror(second[k])


def triangular_log_density(X: Floats, means: Floats, factors: Floats, constants: Floats, out: Floats) -> None:
    """``out`` (n, K) = constants_k - |F_k (x_i - m_k)|^2 / 2."""
    K, d = means.shape
    e = -(-d // 4) * 4
    F = np.zeros((K, e, e))
    F[:, :d, :d] = factors
    padded = np.zeros((K, e))
    padded[:, :d] = means
    tile = tile_rows(e + 2)
    run_blocks(
        lambda block, i0, i1: _triangular_density(X.T, padded, F, constants, i0, i1, tile, out.T),
        len(X),
        n_blocks(len(X), K * d, 1),
    )


def diagonal_log_density(X: Floats, means: Floats, scales: Floats, constants: Floats, out: Floats) -> None:
    """``out`` (n, K) = constants_k - sum_q (s_kq (x_iq - m_kq))^2 / 2."""
    K, d = means.shape
    padded = np.zeros((K, d + 1))
    padded[:, :d] = scales
    tile = tile_rows(d + K)
    run_blocks(
        lambda block, i0, i1: _diagonal_density(X.T, means, padded, constants, i0, i1, tile, out.T),
        len(X),
        n_blocks(len(X), K * d, 1),
    )


def moments(
    X: Floats, scores: Floats, row_mass: Floats, offset: Floats, means: Floats, full: bool
) -> tuple[Floats, Floats, Floats]:
    """Mass (K,), first (K, d) and second (K, d, d or 1) moments of the plan about ``means``."""
    K, d = means.shape
    width = d if full else 1
    blocks, tile = n_blocks(len(X), K * d, K * d * (width + 1)), tile_rows(len(offset) + 2 * d)
    mass, first, second = np.empty((blocks, K)), np.empty((blocks, K, d)), np.empty((blocks, K, d, width))

    def task(block: int, i0: int, i1: int) -> None:
        _moments(
            X.T,
            scores.T,
            row_mass,
            offset,
            means,
            i0,
            i1,
            tile,
            full,
            mass[block],
            first[block],
            second[block],
        )

    run_blocks(task, len(X), blocks)
    if blocks == 1:
        return mass[0], first[0], second[0]
    return mass.sum(axis=0), first.sum(axis=0), second.sum(axis=0)
