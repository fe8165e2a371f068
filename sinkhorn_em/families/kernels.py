"""Compiled passes of the location-scale families: squared radii and moments, tile by tile, vectorised over rows.

Rows are feature-major, (d, n): ``X.T`` of the (n, d) matrix everybody else speaks of. Deviations are always taken from a mean
first and then squared or multiplied, so nothing cancels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._compiled import add_products, exact, kernel, mirror, n_blocks, run_blocks, softmax_tile, tile_rows
from .._compiled import affine_log1p as compiled_affine_log1p
from .._kinds import with_tensor_form
from .._typing import Floats, RowPlan

CHUNK_ENTRIES = 1 << 15  # of a piece of an n x K array that is worked on in the cache
TENSOR_FORM = "sinkhorn_em.families.tensors"


@kernel
def _triangular_radii(X, means, factors, start, stop, tile, base, out):
    """out[k, i - base] = |F_k (x_i - m_k)|^2 for lower triangular F_k, padded with zeros to (K, e, e), 4 | e."""
    K, e = means.shape
    d = X.shape[0]
    C, z, z2 = np.zeros((e, tile)), np.empty(tile), np.empty(tile)
    for i0 in range(start, stop, tile):
        m = min(tile, stop - i0)
        for k in range(K):
            F, target = factors[k], out[k, i0 - base : i0 - base + m]
            for q in range(d):
                c, x, mean = C[q], X[q, i0 : i0 + m], means[k, q]
                for j in range(m):
                    c[j] = x[j] - mean
            target[:] = 0.0
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
                    target[j] += z[j] * z[j] + z2[j] * z2[j]


@kernel
def _diagonal_radii(X, means, scales, start, stop, tile, base, out):
    """out[k, i - base] = sum_q (scales[k, q] (x_iq - m_kq))^2, padded with zero scales to (K, e), 2 | e."""
    K, d = means.shape[0], X.shape[0]
    for i0 in range(start, stop, tile):
        m = min(tile, stop - i0)
        for k in range(K):
            target = out[k, i0 - base : i0 - base + m]
            target[:] = 0.0
            for q in range(0, d, 2):
                q1 = min(q + 1, d - 1)
                x, x1 = X[q, i0 : i0 + m], X[q1, i0 : i0 + m]
                mean, mean1, s, s1 = means[k, q], means[k, q1], scales[k, q], scales[k, q + 1]
                for j in range(m):
                    u, v = s * (x[j] - mean), s1 * (x1[j] - mean1)
                    target[j] += u * u + v * v


@kernel
def _add_moments(X, p, mean, i0, m, full, C, Q, first, second):
    """Adds the sums over rows i0 .. i0 + m of p_i (x_i - mean) and of its outer product (lower triangle) or squares."""
    for q in range(X.shape[0]):
        x, c, w, centre = X[q, i0 : i0 + m], C[q], Q[q], mean[q]
        s1, s2 = 0.0, 0.0
        for j in range(m):
            v = x[j] - centre
            c[j] = v
            v2 = p[j] * v
            w[j] = v2
            s1 += v2
            s2 += v * v2
        first[q] += s1
        if not full:
            second[q, 0] += s2
    if full:
        add_products(C, Q, m, second, True)


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
            _add_moments(X, p, means[k], i0, m, full, C, Q, first[k], second[k])
    if full:
        for k in range(K):
            mirror(second[k])


@kernel
def _matrix_moments(X, weights, means, start, stop, tile, full, first, second):
    """Adds the sums over rows of U_ik (x_i - m_k) and of U_ik times outer product or squares; U (K, stop - start) is given.

    Of the outer products the lower triangle only.
    """
    d, K = X.shape[0], means.shape[0]
    C, Q = np.empty((d, tile)), np.empty((d, tile))
    for i0 in range(start, stop, tile):
        m = min(tile, stop - i0)
        for k in range(K):
            _add_moments(X, weights[k, i0 - start : i0 - start + m], means[k], i0, m, full, C, Q, first[k], second[k])


@exact
def _plan_rows(scores, row_mass, offset, start, stop, tile, out):
    """out[k, i - start] = P_ik for the first ``len(out)`` columns."""
    n_columns, K = offset.shape[0], out.shape[0]
    R, top, total = np.empty((n_columns, tile)), np.empty(tile), np.empty(tile)
    for i0 in range(start, stop, tile):
        m = min(tile, stop - i0)
        softmax_tile(scores, offset, 1.0, i0, m, R, top, total)
        a = row_mass[i0 : i0 + m]
        for j in range(m):
            total[j] = a[j] / total[j] if total[j] > 0.0 else 0.0
        for k in range(K):
            p, target = R[k], out[k, i0 - start : i0 - start + m]
            for j in range(m):
                target[j] = p[j] * total[j]


Transform = Callable[[int, int, Floats], None]


@with_tensor_form(TENSOR_FORM)
def empty_scores(X: Floats, n_columns: int) -> Floats:
    """Room for numbers (n, n_columns) of the rows X (n, d), column by column as the kernels like it."""
    return np.empty((n_columns, len(X))).T


@with_tensor_form(TENSOR_FORM)
def affine_log1p(A: Floats, scale: Any, factor: Any, shift: Any) -> None:
    """A = shift + factor log(1 + scale A) in place, A (..., m) >= 0; one number for each row, (..., 1), or one for all."""
    compiled_affine_log1p(A, scale, factor, shift)


@with_tensor_form(TENSOR_FORM)
def squared_radii(
    X: Floats, means: Floats, factors: Floats, out: Floats, then: Transform, width: int | None = None
) -> None:
    """``out`` (n, K) = |F_k (x_i - m_k)|^2 for lower triangular (K, d, d) or diagonal (K, d) factors.

    ``then(start, stop, out.T[:, start:stop])`` is called on pieces (K, m) while they are in the cache, and may overwrite them;
    ``width`` numbers a row are worked on there (default K).
    """
    radii, tile = _radii(means, factors)
    chunk = chunk_rows(width or len(means))

    def task(block: int, i0: int, i1: int) -> None:
        for start in range(i0, i1, chunk):
            stop = min(start + chunk, i1)
            radii(X.T, start, stop, tile, 0, out.T)
            then(start, stop, out.T[:, start:stop])

    run_blocks(task, len(X), n_blocks(len(X), means.size, 1))


def chunk_rows(K: int) -> int:
    """Rows of a piece of K columns that stays in the cache."""
    return max(CHUNK_ENTRIES // max(K, 1), 64)


@with_tensor_form(TENSOR_FORM)
def plan_chunks(
    X: Floats,
    plan: RowPlan,
    means: Floats,
    factors: Floats,
    term: Callable[..., tuple[Any, ...]],
    partial_size: int,
    width: int | None = None,
) -> tuple[Any, ...]:
    """The sum over pieces of rows of ``term(start, stop, P, q)``, P and q (K, m): plan entries and squared radii.

    ``term`` may overwrite both; its results are summed in a fixed order. No n x K array is made.
    """
    radii, tile = _radii(means, factors)
    K = len(means)
    chunk, blocks = chunk_rows(width or K), n_blocks(len(X), means.size, partial_size)
    sums: list[Any] = [None] * blocks

    def task(block: int, i0: int, i1: int) -> None:
        P, q = np.empty((K, min(chunk, i1 - i0))), np.empty((K, min(chunk, i1 - i0)))
        for start in range(i0, i1, chunk):
            stop = min(start + chunk, i1)
            _plan_rows(plan.scores.T, plan.row_mass, plan.offset, start, stop, tile, P)
            radii(X.T, start, stop, tile, start, q)
            parts = term(start, stop, P[:, : stop - start], q[:, : stop - start])
            sums[block] = (
                parts if sums[block] is None else tuple(a + b for a, b in zip(sums[block], parts, strict=True))
            )

    run_blocks(task, len(X), blocks)
    return tuple(sum(parts[1:], parts[0]) for parts in zip(*sums, strict=True))


@with_tensor_form(TENSOR_FORM)
def weighted_moments(
    X: Floats, start: int, stop: int, weights: Floats, means: Floats, full: bool
) -> tuple[Floats, Floats]:
    """First (K, d) and second (K, d, d or 1) moments of rows start .. stop about ``means``, weights (K, stop - start)."""
    K, d = means.shape
    first, second = np.zeros((K, d)), np.zeros((K, d, d if full else 1))
    _matrix_moments(X.T, weights, means, start, stop, tile_rows(2 * d), full, first, second)
    if full:
        for k in range(K):
            mirror(second[k])
    return first, second


def _radii(means: Floats, factors: Floats) -> tuple[Callable[..., None], int]:
    """The compiled pass for these factors, its padded arguments filled in, and its tile."""
    K, d = means.shape
    if factors.ndim == 3:
        e = -(-d // 4) * 4
        F, padded = np.zeros((K, e, e)), np.zeros((K, e))
        F[:, :d, :d] = factors
        padded[:, :d] = means
        return lambda X, *rest: _triangular_radii(X, padded, F, *rest), tile_rows(e + 2)
    scales = np.zeros((K, d + 1))
    scales[:, :d] = factors
    return lambda X, *rest: _diagonal_radii(X, means, scales, *rest), tile_rows(d + K)


@with_tensor_form(TENSOR_FORM)
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
