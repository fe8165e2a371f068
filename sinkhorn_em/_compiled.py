"""What every compiled kernel shares: compiler flags, a vectorisable exponential, and blocks of rows run by threads.

Kernels are numba functions that release the GIL and work on rows ``start .. stop``. :func:`run_blocks` cuts the rows into
blocks whose number depends on the problem's shape only, so a sum over blocks in block order has the same bits for any
number of threads. Threads are ordinary Python threads: a kernel may be called from any thread, by several at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic
from threadpoolctl import ThreadpoolController

# Everything fast but `nnan` and `ninf`: those two license the compiler to delete NaN and infinity handling.
SAFE = {"reassoc", "contract", "arcp", "nsz", "afn"}
EXACT = {"contract", "nsz"}  # fused multiply-add, but no re-association: for error-free transformations


def _compiler(flags: set[str]) -> Callable[[Any], Any]:
    """A decorator that compiles without the GIL, and keeps the machine code on disk where there is a folder to write to."""

    def compiler(function: Any) -> Any:
        options: Any = {"nogil": True, "fastmath": flags, "error_model": "numpy"}
        try:
            return njit(cache=True, **options)(function)
        except RuntimeError:  # numba: no locator available
            return njit(**options)(function)

    return compiler


exact, kernel = _compiler(EXACT), _compiler(SAFE)
inlined = njit(inline="always", fastmath=SAFE, error_model="numpy")

LARGEST = 1e300  # stands for infinity where infinity less infinity would be NaN
TILE_BYTES = 1 << 18  # one tile of responsibilities stays in the L2 cache
SMALL = 40_000  # entries below which starting threads costs more than they save
MAX_BLOCKS = 64
PARTIAL_BYTES = 1 << 26  # room for the partial sums of all blocks

_LOG2E, _LN2_HIGH, _LN2_LOW = 1.4426950408889634, 6.93147180369123816490e-01, 1.90821492927058770002e-10
_UNDERFLOW = -709.0  # here the exponent bits of the result are all zero, so it is exactly 0
_ROUND_TO_INTEGER = 6755399441055744.0  # 1.5 * 2^52: adding it rounds to an integer kept in the low bits
_SQRT_HALF_BITS = 0x3FE6A09E667F3BCD  # the bits of sqrt(1/2)


@intrinsic
def _from_bits(typingctx: Any, x: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.int64), codegen


@intrinsic
def _to_bits(typingctx: Any, x: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.IntType(64))

    return types.int64(types.float64), codegen


@inlined
def _power_of_two(t):
    """2^k from t = k + 1.5 * 2^52, whose low bits are those of k; k = -1023 gives exactly 0."""
    return _from_bits((_to_bits(t) + 1023) << 52)  # type: ignore[call-arg]


@inlined
def exp_nonpositive(x):
    """exp(x) for x <= 0, relative error 4e-16 in an `exact` kernel; exactly 0 below -708.8 and at -inf.

    Cody-Waite reduction to |r| <= log(2)/2, then a degree-11 minimax polynomial (error 1.6e-17) by Estrin's scheme.
    """
    y = x if x > _UNDERFLOW else _UNDERFLOW
    t = y * _LOG2E + _ROUND_TO_INTEGER
    k = t - _ROUND_TO_INTEGER
    r = (y - k * _LN2_HIGH) - k * _LN2_LOW
    r2 = r * r
    r4 = r2 * r2
    low = (1.0 + r) + r2 * (0.5000000000000001 + r * 0.16666666666666669)
    middle = (0.04166666666662413 + r * 0.008333333333330062) + r2 * (
        0.0013888888917213717 + r * 0.00019841269863053618
    )
    high = (2.4801521295954376e-05 + r * 2.7557268459997064e-06) + r2 * (
        2.7620088445409746e-07 + r * 2.510038549551032e-08
    )
    return (low + r4 * (middle + r4 * high)) * _power_of_two(t)


@inlined
def log_positive(x):
    """log(x) for normal x > 0, absolute error 3e-16 max(1, |log x|): exponent bits plus 2 atanh((m - 1)/(m + 1))."""
    shifted = _to_bits(x) - _SQRT_HALF_BITS  # type: ignore[call-arg]
    k = shifted >> 52
    m = _from_bits(_to_bits(x) - (k << 52))  # in [sqrt(1/2), sqrt(2))
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    z2 = z * z
    p = (1 / 3 + z / 5) + z2 * ((1 / 7 + z / 9) + z2 * ((1 / 11 + z / 13) + z2 * ((1 / 15 + z / 17) + z2 / 19)))
    return np.float64(np.int32(k)) * 0.6931471805599453 + (2.0 * s + 2.0 * s * z * p)


@kernel
def mirror(lower):
    """Copy the lower triangle of a square array to its upper one, in place."""
    for p in range(lower.shape[0]):
        for q in range(p):
            lower[q, p] = lower[p, q]


@kernel
def add_products(A, B, m, out, lower):
    """out[p, q] += sum over j < m of A[p, j] B[q, j], in 2 x 4 register blocks; ``lower``: only what reaches q <= p."""
    P, Q = A.shape[0], B.shape[0]
    zero = A.dtype.type(0)
    for p in range(0, P, 2):
        p1 = min(p + 1, P - 1)
        a0, a1 = A[p], A[p1]
        for q in range(0, min(p + 2, Q) if lower else Q, 4):
            q1, q2, q3 = min(q + 1, Q - 1), min(q + 2, Q - 1), min(q + 3, Q - 1)
            b0, b1, b2, b3 = B[q], B[q1], B[q2], B[q3]
            s00, s01, s02, s03, s10, s11, s12, s13 = zero, zero, zero, zero, zero, zero, zero, zero
            for j in range(m):
                s00 += a0[j] * b0[j]
                s01 += a0[j] * b1[j]
                s02 += a0[j] * b2[j]
                s03 += a0[j] * b3[j]
                s10 += a1[j] * b0[j]
                s11 += a1[j] * b1[j]
                s12 += a1[j] * b2[j]
                s13 += a1[j] * b3[j]
            out[p, q] += s00
            if q1 > q:
                out[p, q1] += s01
            if q2 > q1:
                out[p, q2] += s02
            if q3 > q2:
                out[p, q3] += s03
            if p1 > p:
                out[p1, q] += s10
                if q1 > q:
                    out[p1, q1] += s11
                if q2 > q1:
                    out[p1, q2] += s12
                if q3 > q2:
                    out[p1, q3] += s13


@exact
def softmax_tile(scores, offset, scale, i0, m, R, top, total):
    """R[k, :m] = exp(scale (S + offset) - top) for rows i0 .. i0 + m, ``total`` its sum over k.

    ``scores`` is (K, n). Offsets beyond its columns belong to virtual columns, whose score is 0 for every row. A row without
    any finite score is left with R = 0, top = 0, total = 0.
    """
    K, n_scored = offset.shape[0], scores.shape[0]
    top[:m] = -np.inf
    total[:m] = 0.0
    for k in range(n_scored, K):
        R[k, :m] = scale * offset[k]
        for j in range(m):
            top[j] = max(top[j], R[k, j])
    for k in range(0, n_scored, 2):  # two columns a turn: half the traffic on top and total
        k2 = min(k + 1, n_scored - 1)
        row, s, o = R[k], scores[k, i0 : i0 + m], offset[k]
        row2, s2, o2 = R[k2], scores[k2, i0 : i0 + m], offset[k2]
        for j in range(m):
            v, v2, t = scale * (s[j] + o), scale * (s2[j] + o2), top[j]
            row[j] = v
            row2[j] = v2
            t = v if v > t else t
            top[j] = v2 if v2 > t else t
    for j in range(m):
        top[j] = top[j] if top[j] > -np.inf else 0.0
    for k in range(0, K - 1, 2):
        row, row2 = R[k], R[k + 1]
        for j in range(m):
            e, e2 = exp_nonpositive(row[j] - top[j]), exp_nonpositive(row2[j] - top[j])
            row[j] = e
            row2[j] = e2
            total[j] += e + e2
    if K % 2:
        row = R[K - 1]
        for j in range(m):
            e = exp_nonpositive(row[j] - top[j])
            row[j] = e
            total[j] += e


@exact
def log_normaliser(top, total, m, out):
    """out = top + log(total); 0 where total is 0 (a row without any finite score)."""
    for j in range(m):
        t = total[j] if total[j] > 0.0 else 1.0
        out[j] = top[j] + log_positive(t)


@exact
def _affine_log1p(x, scale, factor, shift):
    """x = shift + factor log(1 + scale x) in place, for scale x >= 0, infinity too; what 1 + y loses of y is put back."""
    for j in range(x.shape[0]):
        y = min(scale * x[j], LARGEST)
        u = 1.0 + y
        x[j] = shift + factor * (log_positive(u) + (y - (u - 1.0)) / u)


@exact
def _exp_nonpositive(x):
    for j in range(x.shape[0]):
        x[j] = exp_nonpositive(x[j])


def affine_log1p(A: Any, scale: Any, factor: Any, shift: Any) -> None:
    """A = shift + factor log(1 + scale A) in place, A (..., m) >= 0; one number for each row, (..., 1), or one for all."""
    rows = A.shape[:-1]
    scale, factor, shift = (np.broadcast_to(value, (*rows, 1))[..., 0] for value in (scale, factor, shift))
    for row in np.ndindex(rows):
        _affine_log1p(A[row], scale[row], factor[row], shift[row])


def exp_in_place(A: Any) -> None:
    """A = exp(A) in place for A (..., m) <= 0: several times as fast as NumPy where it has no vectorised exponential."""
    for row in np.ndindex(A.shape[:-1]):
        _exp_nonpositive(A[row])


@cache
def _pool(n_threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(n_threads, thread_name_prefix="sinkhorn_em")


_n_threads = 0


def set_num_threads(n_threads: int | None) -> None:
    """Number of threads for all kernels; None: numba's (NUMBA_NUM_THREADS, or the cores this process may use).

    The results have the same bits for every number of threads.
    """
    global _n_threads
    if n_threads is not None and n_threads < 1:
        raise ValueError(f"n_threads is {n_threads}; it must be at least 1, or None for the default")
    _n_threads = n_threads or 0


def get_num_threads() -> int:
    """Number of threads that kernels use."""
    return _n_threads or int(numba.config.NUMBA_NUM_THREADS)  # type: ignore[attr-defined]


def tile_rows(n_columns: int) -> int:
    """Rows in a tile: a multiple of 32, so that ``n_columns`` float64 columns of a tile stay in the L2 cache."""
    return int(min(512, max(64, TILE_BYTES // (8 * max(n_columns, 1)) // 32 * 32)))


def n_blocks(n_rows: int, n_columns: int, partial_size: int) -> int:
    """Number of blocks: a function of the shape only (never of the threads)."""
    by_work = n_rows * max(n_columns, 1) // SMALL + 1
    by_memory = max(PARTIAL_BYTES // (8 * max(partial_size, 1)), 1)
    return int(max(1, min(by_work, by_memory, MAX_BLOCKS, n_rows)))


def run_blocks(task: Callable[[int, int, int], None], n_rows: int, blocks: int) -> None:
    """Call ``task(block, start, stop)`` for all blocks of rows, on several threads."""
    if blocks == 1:
        task(0, 0, n_rows)
        return
    edges = np.linspace(0, n_rows, blocks + 1).astype(np.int64)
    n_threads = min(get_num_threads(), blocks)

    def share(thread: int) -> None:
        for block in range(thread, blocks, n_threads):
            task(block, int(edges[block]), int(edges[block + 1]))

    if n_threads == 1:
        share(0)
        return
    done = [_pool(n_threads).submit(share, thread) for thread in range(1, n_threads)]
    share(0)
    wait(done)
    for future in done:
        future.result()


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()


def single_threaded_blas() -> AbstractContextManager[Any]:
    """Within it matrix products use one thread each: several would sum in an order that depends on their number."""
    return _blas().limit(limits=1)


def forget_threads() -> None:
    """Drop the thread pools: they do not survive a fork."""
    _pool.cache_clear()


os.register_at_fork(after_in_child=forget_threads)
