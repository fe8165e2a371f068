"""Starting labels of rows and columns: prototypes, k-means or singular vectors, several starts from one decomposition."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array, diags_array, hstack, issparse, vstack

from .._typing import Floats, Integers
from ..block_families import BlockFamily
from ..cells import Cells

METHODS = ("k-means++", "k-means", "spectral", "random")
SPARE = 10  # singular vectors beyond the number of clusters
POWER_ITERATIONS = 4  # of the randomised decomposition
KMEANS_RUNS = 3

Labels = tuple[Integers, Integers]


class Places(NamedTuple):
    """Where rows and columns lie when starts are drawn."""

    rows: Any  # (n, p)
    columns: Any  # (m, q)


def places(cells: Cells, family: BlockFamily, n_clusters: int, method: str) -> Places:
    """Rows and columns as points, for starts of at most ``n_clusters`` clusters on a side.

    "random": as they are. "k-means++", "k-means": the leading singular vectors times their values. "spectral": the directions of
    the leading singular vectors, the matrix scaled by its row and column sums first if it has no negative entry.
    """
    points = family.points(cells)
    if method == "random":
        return Places(_beside(points), _beside(tuple(part.T for part in points)))
    return Places(*_coordinates(points, n_clusters, normalised=method == "spectral"))


def draw_labels(
    at: Places, sizes: tuple[int, int], method: str, n_starts: int, rng: np.random.RandomState
) -> list[Labels]:
    """``n_starts`` pairs of labels of rows (n,) and columns (m,).

    "random": every row goes to the nearest of K rows drawn at random, every column to the nearest of L; "k-means++": of prototypes
    that are far apart. "k-means", "spectral": k-means.
    """
    return [(_draw(at.rows, sizes[0], method, rng), _draw(at.columns, sizes[1], method, rng)) for _ in range(n_starts)]


def _beside(parts: tuple[Any, ...]) -> Any:
    """The matrices side by side, so that a row has all that is known of it."""
    if len(parts) == 1:
        part = parts[0]
        return csr_array(part) if issparse(part) else np.ascontiguousarray(part)
    return csr_array(hstack(parts)) if issparse(parts[0]) else np.hstack(parts)


def _coordinates(points: tuple[Any, ...], n_clusters: int, normalised: bool) -> tuple[Floats, Floats]:
    """Rows and columns in the coordinates of the leading singular vectors of the matrices, (n, r) and (m, r)."""
    wide = _decompose(_beside(points), n_clusters, normalised)
    if len(points) == 1:
        return wide
    tall = csr_array(vstack(points)) if issparse(points[0]) else np.vstack(points)
    return wide[0], _decompose(tall, n_clusters, normalised)[1]


def _decompose(A: Any, n_clusters: int, normalised: bool) -> tuple[Floats, Floats]:
    from sklearn.utils.extmath import randomized_svd  # here: scikit-learn's imports would slow `import sinkhorn_em`

    if normalised:
        A = _scaled(A)
    rank = min(n_clusters + SPARE, *A.shape)
    U, s, Vt = randomized_svd(A, rank, n_iter=POWER_ITERATIONS, random_state=0)
    if not normalised:
        return U * s, Vt.T * s
    rank = min(n_clusters, len(s))
    return _directions(U[:, :rank]), _directions(Vt[:rank].T)


def _scaled(A: Any) -> Any:
    """D_r^-1/2 A D_c^-1/2 with row and column sums, as in spectral co-clustering; A itself if some entry is negative."""
    values = A.data if issparse(A) else A
    if values.size and values.min() < 0:
        return A
    halves = []
    for axis in (1, 0):
        total = np.asarray(A.sum(axis=axis), float).ravel()
        halves.append(np.divide(1, np.sqrt(total), out=np.zeros_like(total), where=total > 0))
    left, right = halves
    return diags_array(left) @ A @ diags_array(right) if issparse(A) else left[:, None] * A * right


def _directions(U: Floats) -> Floats:
    """Rows of length 1; rows of zeros stay."""
    length = np.linalg.norm(U, axis=1, keepdims=True)
    return U / np.where(length > 0, length, 1.0)


def _draw(X: Any, K: int, method: str, rng: np.random.RandomState) -> Integers:
    from sklearn.cluster import KMeans, kmeans_plusplus
    from sklearn.metrics import pairwise_distances_argmin

    if method == "random":
        centres = X[rng.choice(X.shape[0], K, replace=False)]
    elif method == "k-means++":
        centres = kmeans_plusplus(X, K, random_state=rng)[0]
    else:
        seed = int(rng.randint(2**31 - 1))
        model = KMeans(K, n_init=KMEANS_RUNS, random_state=seed)
        return np.asarray(_quiet(model, X).labels_, np.int64)
    return np.asarray(pairwise_distances_argmin(X, centres), np.int64)


def _quiet(model: Any, X: Any) -> Any:
    """Fitted without the warning that there are fewer distinct points than clusters: the loop copes with empty ones."""
    import warnings

    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X)
