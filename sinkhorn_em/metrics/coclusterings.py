"""Clusterings of the n m cells of a matrix against the truth, from the tables of the rows and of the columns alone.

A cell (i, j) belongs to the block of its row cluster and its column cluster. The table of the true against the found blocks is
the Kronecker product of the two tables, so that sums of squares multiply, and entropies add: the cells are never formed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .._typing import Floats, Integers
from .matching import label_codes

AVERAGES: dict[str, Callable[[float, float], float]] = {
    "arithmetic": lambda true, found: (true + found) / 2,
    "geometric": lambda true, found: float(np.sqrt(true * found)),
    "min": min,
    "max": max,
}


class CrossTable(NamedTuple):
    """Entries above 0 of a table of true against found clusters, and the margins that each belongs to."""

    counts: Integers  # (cells above 0,)
    true_sizes: Integers  # (K,)
    found_sizes: Integers  # (K2,)
    true_index: Integers  # of the entries, into true_sizes
    found_index: Integers

    @property
    def total(self) -> int:
        """Rows, or columns, of the matrix."""
        return int(self.counts.sum())


def coclustering_ari(row_true: Any, column_true: Any, row_labels: Any, column_labels: Any) -> float:
    r"""Adjusted Rand index of the n m cells of a matrix, the CARI.

    With S, S_true, S_found the sums of squares of the table of true against found blocks and of its margins, each the product of
    its values for rows and columns, and N = n m cells,

    .. math:: \mathrm{CARI} = \frac{P - E}{\tfrac12 (P_{true} + P_{found}) - E}, \qquad
        P = \tfrac12 (S - N), \quad E = P_{true} P_{found} \Big/ \binom{N}{2}

    P being the pairs of cells that both put together. In exact integers, for matrices of any size; time and memory are those of
    sorting n + m labels.

    Parameters
    ----------
    row_true : array (n,)
        True clusters of the rows: numbers, strings or booleans.
    column_true : array (m,)
        True clusters of the columns.
    row_labels : array (n,)
        Clusters found; names and numbers of clusters need not be the true ones.
    column_labels : array (m,)

    Returns
    -------
    index : float
        1 when the blocks are the true ones under other names, 0 on average for independent ones, negative below that; equal to
        ``sklearn.metrics.adjusted_rand_score`` of the n m labels of cells.

    Raises
    ------
    ValueError
        If lengths differ, there are no rows or columns, a label is NaN or None, or strings are mixed with numbers.

    References
    ----------
    Robert, Vasseur & Brault 2021, Journal of Classification 38 (the index); Hubert & Arabie 1985 (that of one clustering).
    """
    rows, columns = _tables(row_true, column_true, row_labels, column_labels)
    cells = rows.total * columns.total
    both, true, found = (
        (_squares(r) * _squares(c) - cells) // 2
        for r, c in zip(rows[:3], columns[:3], strict=True)  # counts, sizes of true clusters, of found ones
    )
    if both == true == found:  # the same blocks; among them, one block and blocks of one cell
        return 1.0
    pairs = cells * (cells - 1) // 2
    return 2 * (both * pairs - true * found) / ((true + found) * pairs - 2 * true * found)


def coclustering_nmi(
    row_true: Any, column_true: Any, row_labels: Any, column_labels: Any, average_method: str = "arithmetic"
) -> float:
    r"""Normalised mutual information of the n m cells of a matrix.

    .. math:: \frac{I_{rows} + I_{columns}}{\mathrm{mean}(H_{true}, H_{found})}, \qquad H = H_{rows} + H_{columns}

    since rows and columns of a cell drawn at random are independent. Not corrected for chance: many small clusters raise it.

    Parameters
    ----------
    row_true : array (n,)
        True clusters of the rows: numbers, strings or booleans.
    column_true : array (m,)
        True clusters of the columns.
    row_labels : array (n,)
        Clusters found; names and numbers of clusters need not be the true ones.
    column_labels : array (m,)
    average_method : "arithmetic", "geometric", "min" or "max"
        The mean of the two entropies.

    Returns
    -------
    information : float
        In [0, 1]; 1 when the blocks are the true ones under other names, 0 where blocks found tell nothing of the true ones;
        equal to ``sklearn.metrics.normalized_mutual_info_score`` of the n m labels of cells.

    Raises
    ------
    ValueError
        If lengths differ, there are no rows or columns, a label is NaN or None, strings are mixed with numbers, or the average is
        not one of the four.

    References
    ----------
    Strehl & Ghosh 2002, JMLR 3 (geometric mean); Vinh, Epps & Bailey 2010, JMLR 11 (the others).
    """
    if average_method not in AVERAGES:
        raise ValueError(f"average_method={average_method!r} must be one of {', '.join(AVERAGES)}.")
    tables = _tables(row_true, column_true, row_labels, column_labels)
    true = sum(_entropy(table.true_sizes) for table in tables)
    found = sum(_entropy(table.found_sizes) for table in tables)
    if true == found == 0:  # one block each, the same
        return 1.0
    information = sum(_information(table) for table in tables)
    if information <= 0:  # before the division, which may be by 0
        return 0.0
    return min(information / AVERAGES[average_method](true, found), 1.0)


def _tables(row_true: Any, column_true: Any, row_labels: Any, column_labels: Any) -> tuple[CrossTable, CrossTable]:
    """Of the rows and of the columns, checked."""
    rows = _cross_table(label_codes(row_true, "row_true"), label_codes(row_labels, "row_labels"), "row")
    columns = _cross_table(
        label_codes(column_true, "column_true"), label_codes(column_labels, "column_labels"), "column"
    )
    return rows, columns


def _cross_table(true: Integers, found: Integers, side: str) -> CrossTable:
    """Sparse, since with as many clusters as rows a full table would have n^2 entries."""
    if len(true) != len(found):
        raise ValueError(
            f"{side}_true has {len(true)} {side}s and {side}_labels {len(found)}; pass one label for every {side}."
        )
    width = int(found.max()) + 1
    entries, counts = np.unique(true * width + found, return_counts=True)
    return CrossTable(counts, np.bincount(true), np.bincount(found), *np.divmod(entries, width))


def _squares(counts: Integers) -> int:
    """Sum of squares; at most n^2, so that 64 bits are enough for n below 3e9 rows."""
    return int(counts @ counts)


def _entropy(sizes: Integers) -> float:
    """In nats."""
    shares = sizes / sizes.sum()
    return -float(shares @ np.log(shares))


def _information(table: CrossTable) -> float:
    """Mutual information in nats; exactly 0 where the table is the product of its margins."""
    n = table.total
    shares: Floats = table.counts / n
    expected = table.true_sizes[table.true_index] * table.found_sizes[table.found_index]  # times n; integers
    return float(shares @ np.log(table.counts * n / expected))
