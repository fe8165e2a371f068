"""The fused pass over the scores (value, column masses, Gram matrix at one offset) and the responsibilities.

Scores are read once per pass, component-major: ``scores.T`` of the (n, K) matrix everybody else speaks of. A tile of
K x ``tile_rows(K)`` entries is worked on in the cache, vectorised over rows.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .._compiled import (
    add_products,
    kernel,
    log_normaliser,
    mirror,
    n_blocks,
    run_blocks,
    softmax_tile,
    tile_rows,
)
from .._kinds import with_tensor_form
from .._typing import Floats

TENSOR_FORM = "sinkhorn_em.ot.tensors.rows"


class Evaluation(NamedTuple):
    """The smooth part of the semi-dual at one offset, sum_i a_i lse_k(S_ik + offset_k), with its derivatives."""

    value: float
    mass: Floats  # (K,) the gradient c = R' a
    gram: Floats | None  # (K, K) W = R' diag(a) R without its diagonal; the Hessian is diag(W 1) - W


@kernel
def fused_pass(scores, row_mass, offset, start, stop, tile, temperature, value, mass, gram):
    """Rows start..stop: value[0] = sum_i a_i lse_k(S_ik + offset_k), mass = sum_i a_i R_i, gram = sum_i a_i R_i' R_i.

    The Gram matrix is accumulated in single precision within a tile: it steers the Newton step, whose acceptance uses the exact
    value and masses. Its diagonal is not needed, and set to 0. At a ``temperature`` above 1 it is that of
    softmax((S + offset) / temperature), over the temperature: the curvature of F averaged over steps of that size. At temperature
    0 it is left out.
    """
    K = offset.shape[0]
    R = np.empty((K, tile))
    V = np.empty((K if temperature > 0.0 else 0, tile), np.float32)
    top, total, lse = np.empty(tile), np.empty(tile), np.empty(tile)
    mass[:] = 0.0
    gram[:] = 0.0
    accumulated = 0.0
    scale = row_mass.shape[0]  # single precision is kept away from underflow: masses are about 1/n
    for i0 in range(start, stop, tile):
        m = min(tile, stop - i0)
        softmax_tile(scores, offset, 1.0, i0, m, R, top, total)
        log_normaliser(top, total, m, lse)
        a = row_mass[i0 : i0 + m]
        for j in range(m):
            accumulated += a[j] * lse[j]
            total[j] = 1.0 / total[j] if total[j] > 0.0 else 0.0
            lse[j] = a[j] * total[j]
        for k in range(K):
            row, c = R[k], 0.0
            for j in range(m):
                c += row[j] * lse[j]
            mass[k] += c
        if temperature > 1.0:
            softmax_tile(scores, offset, 1.0 / temperature, i0, m, R, top, total)
            for j in range(m):
                total[j] = 1.0 / total[j] if total[j] > 0.0 else 0.0
        if temperature > 0.0:
            for j in range(m):
                total[j] *= math.sqrt(scale * a[j])
            for k in range(K):
                row, v = R[k], V[k]
                for j in range(m):
                    v[j] = row[j] * total[j]
            add_products(V, V, m, gram, True)
    value[0] = accumulated
    if temperature > 0.0:
        gram /= scale * max(temperature, 1.0)
        mirror(gram)
        for k in range(K):
            gram[k, k] = 0.0


@kernel
def responsibilities_pass(scores, offset, start, stop, tile, out):
    """out[i, k] = softmax_k(S_ik + offset_k); rows without any finite score are left at 0."""
    K = offset.shape[0]
    R, top, total = np.empty((K, tile)), np.empty(tile), np.empty(tile)
    for i0 in range(start, stop, tile):
        m = min(tile, stop - i0)
        softmax_tile(scores, offset, 1.0, i0, m, R, top, total)
        for j in range(m):
            inverse = 1.0 / total[j] if total[j] > 0.0 else 0.0
            for k in range(K):
                out[i0 + j, k] = R[k, j] * inverse


@kernel
def normaliser_pass(scores, offset, start, stop, tile, out):
    """out[i] = lse_k(S_ik + offset_k)."""
    K = offset.shape[0]
    R, top, total = np.empty((K, tile)), np.empty(tile), np.empty(tile)
    for i0 in range(start, stop, tile):
        m = min(tile, stop - i0)
        softmax_tile(scores, offset, 1.0, i0, m, R, top, total)
        log_normaliser(top, total, m, out[i0 : i0 + m])
        for j in range(m):
            if total[j] == 0.0:
                out[i0 + j] = -np.inf


@with_tensor_form(TENSOR_FORM)
def evaluate(scores: Floats, row_mass: Floats, offset: Floats, temperature: float = 1.0) -> Evaluation:
    """One pass over ``scores`` (n, K) at ``offset`` (K,): a sum over rows, so evaluations of tiles of rows may be added.

    ``temperature`` >= 1 is that of the Gram matrix; 0 leaves it out.
    """
    n, K = scores.shape[0], len(offset)
    m = K if temperature else 0  # columns of the Gram matrix
    blocks, tile = n_blocks(n, K, m * m + K + 1), tile_rows(K)
    value, mass, W = np.empty((blocks, 1)), np.empty((blocks, K)), np.empty((blocks, m, m))

    def task(block: int, start: int, stop: int) -> None:
        fused_pass(
            scores.T,
            row_mass,
            offset,
            start,
            stop,
            tile,
            temperature,
            value[block],
            mass[block],
            W[block],
        )

    run_blocks(task, n, blocks)
    if blocks == 1:
        return Evaluation(float(value[0, 0]), mass[0], W[0] if temperature else None)
    return Evaluation(float(value.sum()), mass.sum(axis=0), W.sum(axis=0) if temperature else None)


@with_tensor_form(TENSOR_FORM)
def responsibilities(scores: Floats, offset: Floats) -> Floats:
    """softmax_k(S_ik + offset_k), a new (n, K) array."""
    n, K = scores.shape[0], len(offset)
    out, tile = np.empty((n, K)), tile_rows(K)
    run_blocks(lambda block, i0, i1: responsibilities_pass(scores.T, offset, i0, i1, tile, out), n, n_blocks(n, K, 1))
    return out


@with_tensor_form(TENSOR_FORM)
def log_normalisers(scores: Floats, offset: Floats) -> Floats:
    """lse_k(S_ik + offset_k), a new (n,) array."""
    n, K = scores.shape[0], len(offset)
    out, tile = np.empty(n), tile_rows(K)
    run_blocks(lambda block, i0, i1: normaliser_pass(scores.T, offset, i0, i1, tile, out), n, n_blocks(n, K, 1))
    return out
