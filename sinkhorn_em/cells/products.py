"""Products of a matrix, dense or sparse, with a few columns of responsibilities: the work of a co-clustering sweep.

Blocks of rows depend on the matrix only and are summed in a fixed order: the same bits for any number of threads. BLAS, whose
bits depend on its threads, is not called: where there are few responsibilities it copies the matrix to no purpose.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import issparse

from .._compiled import n_blocks, run_blocks
from .._typing import Floats
from .kernels import dense_times, dense_transposed_times, sparse_times, sparse_transposed_times
from .vectors import WIDTH

POWERS = ((1,), (2,), (1, 2))
ROWS_A_PARTIAL = 256  # dense rows in a block, at the least: sums of fewer cost more to set up than to compute
NONZEROS_A_PARTIAL = 32  # nonzeros for every column in a block, likewise


def times(values: Any, powers: tuple[int, ...], N: Floats) -> Floats:
    """(P, n, q): values ** power times N (m, q), for each of ``powers``: (1,), (2,) or (1, 2).

    ``values`` (n, m) is an array, best in C order, or CSR; float32 and integers are converted tile by tile, and all sums are
    in float64. Raises ValueError where the shapes do not fit, for other sparse formats, and for the square of a CSR matrix
    with cells that are stored twice.
    """
    n, m = values.shape
    q, channels = N.shape[1], np.array(powers)
    matrix, per_row = _checked(values, powers, N, m)
    panels = _panels(N)
    out = np.zeros((len(powers), n, WIDTH * len(panels)))
    flat_panels, flat = panels.reshape(-1), out.reshape(-1)

    def task(block: int, start: int, stop: int) -> None:
        if len(matrix) == 1:
            dense_times(*matrix, channels, flat_panels, len(panels), start, stop, flat)
        else:
            sparse_times(*matrix, m, channels, flat_panels, len(panels), start, stop, flat)

    run_blocks(task, n, n_blocks(n, per_row * len(panels), 1))  # an entry takes its eight multiply-adds at once
    return out[..., :q]


def transposed_times(values: Any, powers: tuple[int, ...], T: Floats) -> Floats:
    """(P, m, q): the transpose of values ** power times T (n, q), for each of ``powers``; otherwise as :func:`times`."""
    n, m = values.shape
    q, channels = T.shape[1], np.array(powers)
    matrix, per_row = _checked(values, powers, T, n)
    panels = _panels(T)
    shape = len(powers), len(panels), m, WIDTH
    most = n // ROWS_A_PARTIAL if len(matrix) == 1 else n * per_row // (NONZEROS_A_PARTIAL * max(m, 1))
    blocks = max(1, min(n_blocks(n, per_row * len(panels), int(np.prod(shape))), most))
    partial, flat_panels = np.zeros((blocks, *shape)), panels.reshape(-1)

    def task(block: int, start: int, stop: int) -> None:
        flat = partial[block].reshape(-1)
        if len(matrix) == 1:
            dense_transposed_times(*matrix, channels, flat_panels, len(panels), start, stop, flat)
        else:
            sparse_transposed_times(*matrix, m, channels, flat_panels, len(panels), start, stop, flat)

    run_blocks(task, n, blocks)
    total = partial[0] if blocks == 1 else partial.sum(axis=0)
    sums = total.transpose(0, 2, 1, 3).reshape(len(powers), m, WIDTH * len(panels))
    return sums[..., :q]


def _checked(values: Any, powers: tuple[int, ...], R: Floats, n_rows: int) -> tuple[tuple[Any, ...], int]:
    """The arrays of ``values`` (one if dense, three if CSR), and its mean number of entries in a row."""
    if powers not in POWERS:
        raise ValueError(f"powers is {powers}; it must be one of {POWERS}")
    if len(R) != n_rows:
        raise ValueError(f"the responsibilities have {len(R)} rows; a matrix {values.shape} needs {n_rows}")
    n, m = values.shape
    if not issparse(values):
        return (values,), m
    if values.format != "csr":
        raise ValueError(f"the matrix is in {values.format!r} format; give it in CSR, by X.tocsr()")
    if 2 in powers and not values.has_canonical_format:
        raise ValueError(
            "a CSR matrix is squared entry by entry, and this one is not in canonical format; call X.sum_duplicates() first"
        )
    return (values.data, values.indices, values.indptr), -(-values.nnz // max(n, 1))


def _panels(R: Floats) -> Floats:
    """(ceil(q / 8), rows, 8): eight columns of R at a time, the last ones filled up with zeros."""
    n_rows, q = R.shape
    panels = np.zeros((-(-q // WIDTH), n_rows, WIDTH))
    for c, panel in enumerate(panels):
        columns = R[:, WIDTH * c : WIDTH * (c + 1)]
        panel[:, : columns.shape[1]] = columns
    return panels
