"""Starts: labels or responsibilities of distinct rows, drawn so that they do not depend on the order of the rows.

Random choices are made over the distinct rows in a canonical order, with their total weights (inverse CDF): permuting the rows,
writing a row twice instead of giving it weight 2, or changing units changes nothing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ._compiled import single_threaded_blas
from ._typing import Booleans, Floats, Integers

KMEANS_RUNS, SMALL = 5, 50_000  # k-means is run several times where that takes milliseconds (rows times components)
METHODS = ("kmeans", "k-means++", "random", "random_from_data")


class DistinctRows(NamedTuple):
    """The distinct rows of positive mass, in an order that is a function of the data alone."""

    rows: Integers  # (m,) one row each
    inverse: Integers  # (n,) where every row went; rows of mass 0 went to 0
    mass: Floats  # (m,)


def distinct_rows(X: Any, Z: Floats, row_mass: Floats) -> DistinctRows:
    """Distinct rows of X, ordered by the length of their image z (which an affine map of X leaves alone), then by value."""
    rows = np.flatnonzero(row_mass > 0)
    order, new = _sorted(X, rows)
    rows = rows[order]  # sorted; rows[i] starts a new group where new[i]
    group = np.cumsum(new) - 1
    index = rows[new]
    del order, new  # at a million rows every one of these counts
    by_length = np.argsort(np.einsum("ij,ij->i", Z, Z)[index], kind="stable")
    rank = np.empty_like(by_length)
    rank[by_length] = np.arange(len(by_length))
    group = rank[group]
    index = index[by_length]
    del rank, by_length
    inverse = np.zeros(len(X), np.int64)
    inverse[rows] = group
    return DistinctRows(index, inverse, np.bincount(group, row_mass[rows]).astype(np.float64, copy=False))


def _sorted(X: Any, rows: Integers) -> tuple[Integers, Booleans]:
    """The order that sorts ``rows`` of X lexicographically, and which of the sorted rows differ from the one before."""
    first = X[rows, 0]
    order = np.argsort(first, kind="stable")
    first = first[order]
    new = np.concatenate([[True], first[1:] != first[:-1]])
    if not new.all():  # ties in the first feature: sort on all of them
        order = np.lexsort(X[rows].T[::-1])
        same = np.flatnonzero(~new)
        new[same] = (X[rows[order[same]]] != X[rows[order[same - 1]]]).any(axis=1)
    return order, new


def draw_start(
    Z: Floats, mass: Floats, n_components: int, method: str, rng: np.random.RandomState
) -> Integers | Floats:
    """Labels (m,) of distinct rows ``Z`` (m, d) of masses ``mass`` (m,), or responsibilities (m, K) if method is "random"."""
    m, K = len(Z), n_components
    if method == "random":
        R = rng.uniform(size=(m, K))
        return R / R.sum(axis=1, keepdims=True)
    if m <= K:
        return np.arange(m)
    from sklearn.cluster import KMeans, kmeans_plusplus  # here: it would be a fifth of the time of `import sinkhorn_em`

    with single_threaded_blas():
        if method == "kmeans":
            runs = KMEANS_RUNS if m * K <= SMALL else 1
            return KMeans(K, n_init=runs, random_state=rng, copy_x=False).fit(Z, sample_weight=mass * m).labels_
        if method == "k-means++":
            centres = kmeans_plusplus(Z, K, sample_weight=mass * m, random_state=rng)[0]
        else:
            centres = Z[_draw_without_replacement(mass, K, rng)]
        return nearest(Z, centres)


def nearest(Z: Floats, centres: Floats) -> Integers:
    """Labels of the nearest centre."""
    from sklearn.metrics import pairwise_distances_argmin

    return pairwise_distances_argmin(Z, centres)


def fill_log_responsibilities(start: Integers | Floats, inverse: Integers, out: Floats) -> None:
    """``out`` (n, K) = log responsibilities of all rows, from those (or the labels) of distinct rows that ``inverse`` points to."""
    with np.errstate(divide="ignore"):
        for k in range(out.shape[1]):
            of_distinct = np.log(start[:, k]) if start.ndim == 2 else np.where(start == k, 0.0, -np.inf)
            np.take(of_distinct, inverse, out=out[:, k])


def _draw_without_replacement(mass: Floats, size: int, rng: np.random.RandomState) -> Integers:
    chosen: list[int] = []
    left = mass.copy()
    for _ in range(size):
        total = np.cumsum(left)
        chosen.append(int(np.searchsorted(total, rng.uniform() * total[-1], side="right")))
        left[chosen[-1]] = 0.0
    return np.asarray(chosen, np.int64)
