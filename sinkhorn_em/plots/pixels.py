"""A matrix as it is drawn: cluster by cluster, many cells a pixel. Nothing is drawn here, and nothing sparse made dense.

Means are over the observed cells: NaN cells are left out. Every pass goes over at most SLAB cells (or nonzeros) at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from .._typing import Floats, Integers

SLAB = 1 << 20  # cells at once: some ten megabytes, whatever the matrix
FLAT = 1e-9  # share of the block means' spread below which their interaction is rounding error

Transform = Callable[[Any], Any]


class Side(NamedTuple):
    """The rows of a matrix in the order in which they are drawn, or its columns."""

    order: Integers  # (n,)
    clusters: Integers  # (K,) that are not empty, as drawn
    borders: Integers  # (K + 1,) positions at which they begin, and n
    edges: Integers  # (P + 1,) positions at which pixels begin, and n; every border is among them
    means: Floats  # (n,) of the rows in X's order; NaN: nothing is observed

    @property
    def sizes(self) -> Integers:
        """Of the clusters, (K,)."""
        return np.diff(self.borders)

    @property
    def pixel(self) -> Integers:
        """Of every row in X's order, (n,)."""
        found = np.empty(len(self.order), dtype=np.int64)
        found[self.order] = np.repeat(np.arange(len(self.edges) - 1), np.diff(self.edges))
        return found

    @property
    def pixel_means(self) -> Floats:
        """Means of the rows' means, (P,); rows without a mean are left out."""
        seen = ~np.isnan(self.means)
        sums, counts = (np.bincount(self.pixel[seen], w, len(self.edges) - 1) for w in (self.means[seen], None))
        return divided(sums, counts)


class Totals(NamedTuple):
    """Of the groups of rows and columns, (G, H) each."""

    sums: Floats  # of the observed cells
    missing: Floats  # numbers of the others


def matrix_of(X: Any) -> Any:
    """X as CSR, CSC, or a dense array of two dimensions."""
    if sparse.issparse(X):
        found = X if X.format in ("csr", "csc") else X.tocsr()
        if not found.has_canonical_format:  # a cell stored in two parts cannot be transformed
            found = found.copy()
            found.sum_duplicates()
    else:
        found = X.to_numpy(dtype=float, na_value=np.nan) if hasattr(X, "to_numpy") else np.asarray(X)
    numbers = np.issubdtype(found.dtype, np.number) or found.dtype == bool
    if found.ndim != 2 or 0 in found.shape or not numbers:
        raise ValueError(f"X has shape {found.shape} and type {found.dtype}; it must be a matrix (n, m) of numbers")
    return found


def arrange(
    X: Any, labels: tuple[Integers, Integers], transform: Transform | None, pixels: int, means: Floats | None = None
) -> tuple[Side, Side]:
    """Rows and columns of X by cluster, clusters by ``block_order`` of means (K, L), within a cluster by descending mean.

    The means are those of X's blocks unless they are given.
    """
    n, m = X.shape
    K, L = (int(l.max()) + 1 for l in labels) if means is None else means.shape
    each_row, each_column = (np.arange(n), np.zeros(m, np.int64)), (np.zeros(n, np.int64), np.arange(m))
    row_totals, column_totals, block_totals = _totals(
        X, [each_row, each_column, labels], [(n, 1), (1, m), (K, L)], transform
    )
    row_means = divided(row_totals.sums, m - row_totals.missing)[:, 0]
    column_means = divided(column_totals.sums, n - column_totals.missing)[0]
    row_sizes, column_sizes = np.bincount(labels[0], minlength=K), np.bincount(labels[1], minlength=L)
    if means is None:
        means = divided(block_totals.sums, np.outer(row_sizes, column_sizes) - block_totals.missing)
    rows, columns = block_order(means, row_sizes, column_sizes)
    return _side(labels[0], rows, row_means, pixels), _side(labels[1], columns, column_means, pixels)


def pixel_means(X: Any, rows: Side, columns: Side, transform: Transform | None) -> Floats:
    """Mean of the observed cells of every pixel, (P, Q); NaN: there is none."""
    shape = (len(rows.edges) - 1, len(columns.edges) - 1)
    [totals] = _totals(X, [(rows.pixel, columns.pixel)], [shape], transform)
    return divided(totals.sums, np.outer(np.diff(rows.edges), np.diff(columns.edges)) - totals.missing)


def block_order(means: Floats, row_sizes: Integers, column_sizes: Integers) -> tuple[Integers, Integers]:
    """Non-empty row and column clusters in an order that brings high blocks (K, L) to the diagonal.

    By the first singular vectors of the block means less row and column effects, weighted by sizes; of non-negative means
    the square roots. Without such an interaction, by descending mean.
    """
    a, b = row_sizes / row_sizes.sum(), column_sizes / column_sizes.sum()
    M = np.where(np.isnan(means), np.nanmean(means) if not np.isnan(means).all() else 0.0, means)
    M = np.sqrt(M) if M.min() >= 0 else M
    effects = (M @ b, a @ M)
    centred = M - effects[0][:, None] - effects[1] + a @ M @ b
    U, values, Vt = np.linalg.svd(np.sqrt(np.outer(a, b)) * centred)
    if values[0] > FLAT * np.abs(M).max():
        u, v = divided(U[:, 0], np.sqrt(a)), divided(Vt[0], np.sqrt(b))
        sign = -1.0 if np.nansum(a * u * effects[0]) < 0 else 1.0  # the half with the higher mean comes first
        effects = (sign * u, sign * v)
    keys = (np.where(sizes > 0, -effect, np.inf) for sizes, effect in zip((a, b), effects, strict=True))
    rows, columns = (np.argsort(key, kind="stable") for key in keys)
    return rows[row_sizes[rows] > 0], columns[column_sizes[columns] > 0]


def _side(labels: Integers, clusters: Integers, means: Floats, pixels: int) -> Side:
    """Rows by cluster, then by descending mean, in at most about ``pixels`` pixels: at least one a cluster."""
    rank = np.zeros(labels.max() + 1, dtype=np.int64)
    rank[clusters] = np.arange(len(clusters))
    order = np.lexsort((np.where(np.isnan(means), np.inf, -means), rank[labels]))
    sizes = np.bincount(labels)[clusters]
    share = min(1.0, pixels / len(labels))
    parts = [np.linspace(0, s, max(1, round(share * s)) + 1).round().astype(np.int64)[1:] for s in sizes]
    borders = np.concatenate([[0], np.cumsum(sizes)])
    edges = np.concatenate([[0], *(part + start for part, start in zip(parts, borders, strict=False))])
    return Side(order, clusters, borders, edges, means)


def _totals(
    X: Any, groups: list[tuple[Integers, Integers]], shapes: list[tuple[int, int]], transform: Transform | None
) -> list[Totals]:
    """In one pass, for each pair of groups of rows and groups of columns."""
    totals = [Totals(np.zeros(shape), np.zeros(shape)) for shape in shapes]
    for i, j, values in _cells(X, transform):
        absent = np.isnan(values)
        some_absent, observed = bool(absent.any()), np.where(absent, 0.0, values)
        for (of_row, of_column), total in zip(groups, totals, strict=True):
            into = of_row[i] * total.sums.shape[1] + of_column[j]
            total.sums.ravel()[:] += np.bincount(into, observed, total.sums.size)
            if some_absent:
                total.missing.ravel()[:] += np.bincount(into[absent], minlength=total.missing.size)
    return totals


def _cells(X: Any, transform: Transform | None) -> Iterator[tuple[Integers, Integers, Floats]]:
    """Rows, columns and transformed values of the cells (of a sparse matrix: the stored ones), a slab at a time."""
    if sparse.issparse(X):
        if transform is not None and _apply(transform, np.zeros(1))[0] != 0:
            raise ValueError("transform(0) is not 0: zeros of a sparse X would no longer be; use np.log1p or np.sqrt")
        major = np.arange(len(X.indptr) - 1)
        for start in range(0, X.nnz, SLAB):
            here = slice(start, min(start + SLAB, X.nnz))
            ends = np.clip(X.indptr, here.start, here.stop)
            outer, inner = np.repeat(major, np.diff(ends)), X.indices[here]
            i, j = (outer, inner) if X.format == "csr" else (inner, outer)
            yield i, j, _apply(transform, X.data[here])
        return
    n, m = X.shape
    step = max(1, SLAB // m)
    for start in range(0, n, step):
        part = X[start : start + step]
        i = np.repeat(np.arange(start, start + len(part)), m)
        yield i, np.tile(np.arange(m), len(part)), _apply(transform, part.ravel())


def _apply(transform: Transform | None, values: Any) -> Floats:
    """Transformed values, checked: finite, except where a cell is missing."""
    x = np.asarray(values, dtype=np.float64)
    if np.isinf(x).any():
        raise ValueError("X has infinite cells; mark what is missing by NaN")
    if transform is None:
        return x
    y = np.asarray(transform(x), dtype=np.float64)
    finite = np.isfinite(y) if y.shape == x.shape else np.zeros(x.shape, bool)
    if not finite.all():
        absent = np.isnan(x)
        if not finite[~absent].all():
            raise ValueError(
                "transform must give one finite number for every cell of X; for counts use np.log1p or np.sqrt"
            )
        y = np.where(absent, np.nan, y)
    return y


def divided(sums: Any, counts: Any) -> Floats:
    """sums / counts, NaN where the count is zero."""
    some = counts > 0
    return np.where(some, sums / np.where(some, counts, 1), np.nan)
