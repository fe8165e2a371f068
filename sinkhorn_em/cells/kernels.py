"""Compiled products of rows ``start .. stop`` of a matrix with panels: eight columns of responsibilities, (m, 8) in C order.

Responsibilities and sums are flat arrays of panels one after the other. Every sum is over one block of rows in a fixed order.
"""

from __future__ import annotations

import numpy as np

from .._compiled import exact
from .vectors import WIDTH, add, add_scaled, load, store, zeros

ROWS, COLUMNS = (
    48,
    252,
)  # of a dense tile, a sixth of the L2 cache; both multiples of 6, the sums that fill the registers
SPARSE_ROWS = 256  # of a sparse tile: one panel at a time meets them all while it is in the cache


@exact
def _convert(X, i0, r, j0, w, tile):
    for i in range(r):
        x, t = X[i0 + i, j0 : j0 + w], tile[i]
        for j in range(w):
            t[j] = np.float64(x[j])


@exact
def _square(tile, r, w):
    for i in range(r):
        t = tile[i]
        for j in range(w):
            t[j] *= t[j]


@exact
def _add_to(out, o, x):
    store(out, o, add(load(out, o), x))


@exact
def _add_rows(tile, r, w, N, start, out, o, step):
    """out[o + i step ...] += sum over j < w of tile[i, j] N[start + 8 j ...], for rows i < r, six at a time."""
    for i in range(0, r, 6):
        t0, t1, t2, t3, t4, t5 = tile[i], tile[i + 1], tile[i + 2], tile[i + 3], tile[i + 4], tile[i + 5]
        s0, s1, s2, s3, s4, s5 = zeros(), zeros(), zeros(), zeros(), zeros(), zeros()
        for j in range(w):
            x = load(N, start + WIDTH * j)
            s0, s1, s2 = add_scaled(s0, t0[j], x), add_scaled(s1, t1[j], x), add_scaled(s2, t2[j], x)
            s3, s4, s5 = add_scaled(s3, t3[j], x), add_scaled(s4, t4[j], x), add_scaled(s5, t5[j], x)
        _add_six(out, o + i * step, step, r - i, s0, s1, s2, s3, s4, s5)


@exact
def _add_columns(tile, r, w, T, start, out, o):
    """out[o + 8 j ...] += sum over i < r of tile[i, j] T[start + 8 i ...], for columns j < w, six at a time."""
    for j in range(0, w, 6):
        s0, s1, s2, s3, s4, s5 = zeros(), zeros(), zeros(), zeros(), zeros(), zeros()
        for i in range(r):
            x, t = load(T, start + WIDTH * i), tile[i]
            s0, s1, s2 = add_scaled(s0, t[j], x), add_scaled(s1, t[j + 1], x), add_scaled(s2, t[j + 2], x)
            s3, s4, s5 = add_scaled(s3, t[j + 3], x), add_scaled(s4, t[j + 4], x), add_scaled(s5, t[j + 5], x)
        _add_six(out, o + WIDTH * j, WIDTH, w - j, s0, s1, s2, s3, s4, s5)


@exact
def _add_six(out, o, step, count, s0, s1, s2, s3, s4, s5):
    """The first ``count`` of six sums go to o, o + step, ...; the others are of what an earlier tile left."""
    _add_to(out, o, s0)
    if count > 1:
        _add_to(out, o + step, s1)
    if count > 2:
        _add_to(out, o + 2 * step, s2)
    if count > 3:
        _add_to(out, o + 3 * step, s3)
    if count > 4:
        _add_to(out, o + 4 * step, s4)
    if count > 5:
        _add_to(out, o + 5 * step, s5)


@exact
def dense_times(X, powers, N, n_panels, start, stop, out):
    """out (P, n, 8 n_panels) += X^p N, tile by tile; ``powers`` ascends."""
    n, m = X.shape
    tile, step = np.zeros((ROWS, COLUMNS)), WIDTH * n_panels
    for i0 in range(start, stop, ROWS):
        r = min(ROWS, stop - i0)
        for j0 in range(0, m, COLUMNS):
            w = min(COLUMNS, m - j0)
            _convert(X, i0, r, j0, w, tile)
            for p in range(len(powers)):
                if powers[p] == 2:
                    _square(tile, r, w)
                for c in range(n_panels):
                    _add_rows(tile, r, w, N, WIDTH * (c * m + j0), out, (p * n + i0) * step + WIDTH * c, step)


@exact
def dense_transposed_times(X, powers, T, n_panels, start, stop, out):
    """out (P, n_panels, m, 8) += (X^p)' T, tile by tile; ``powers`` ascends."""
    n, m = X.shape
    tile = np.zeros((ROWS, COLUMNS))
    for i0 in range(start, stop, ROWS):
        r = min(ROWS, stop - i0)
        for j0 in range(0, m, COLUMNS):
            w = min(COLUMNS, m - j0)
            _convert(X, i0, r, j0, w, tile)
            for p in range(len(powers)):
                if powers[p] == 2:
                    _square(tile, r, w)
                for c in range(n_panels):
                    o = WIDTH * ((p * n_panels + c) * m + j0)
                    _add_columns(tile, r, w, T, WIDTH * (c * n + i0), out, o)


@exact
def sparse_times(data, indices, indptr, m, powers, N, n_panels, start, stop, out):
    """out (P, n, 8 n_panels) = X^p N: two sums a row, since one would wait for itself."""
    n = len(indptr) - 1
    for i0 in range(start, stop, SPARSE_ROWS):
        i1 = min(i0 + SPARSE_ROWS, stop)
        for p in range(len(powers)):
            squared = powers[p] == 2
            for c in range(n_panels):
                for i in range(i0, i1):
                    first, last = np.int64(indptr[i]), np.int64(indptr[i + 1])
                    even, odd = zeros(), zeros()
                    for s in range(first, last - 1, 2):
                        u, v = np.float64(data[s]), np.float64(data[s + 1])
                        if squared:
                            u, v = u * u, v * v
                        even = add_scaled(even, u, load(N, WIDTH * (c * m + np.int64(indices[s]))))
                        odd = add_scaled(odd, v, load(N, WIDTH * (c * m + np.int64(indices[s + 1]))))
                    if (last - first) % 2:
                        u = np.float64(data[last - 1])
                        if squared:
                            u *= u
                        even = add_scaled(even, u, load(N, WIDTH * (c * m + np.int64(indices[last - 1]))))
                    store(out, WIDTH * ((p * n + i) * n_panels + c), add(even, odd))


@exact
def sparse_transposed_times(data, indices, indptr, m, powers, T, n_panels, start, stop, out):
    """out (P, n_panels, m, 8) += (X^p)' T."""
    n = len(indptr) - 1
    for i0 in range(start, stop, SPARSE_ROWS):
        i1 = min(i0 + SPARSE_ROWS, stop)
        for p in range(len(powers)):
            squared = powers[p] == 2
            for c in range(n_panels):
                o = (p * n_panels + c) * m
                for i in range(i0, i1):
                    x = load(T, WIDTH * (c * n + i))
                    for s in range(np.int64(indptr[i]), np.int64(indptr[i + 1])):
                        v = np.float64(data[s])
                        if squared:
                            v *= v
                        j = WIDTH * (o + np.int64(indices[s]))
                        store(out, j, add_scaled(load(out, j), v, x))
