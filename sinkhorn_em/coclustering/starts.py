"""Starting labels of rows and columns: prototypes, k-means or singular vectors, several starts from one decomposition."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array, diags_array, hstack, issparse, vstack

from .._typing import Floats, Integers
from ..block_families import BlockFamily
from ..cells import Cells

METHODS = ("k-means++", "k-means", "spectral", "random")
SPARE = 10  # singular vectors beyond the number of clusters
SMALL = 100_000  # cells of a matrix that is decomposed as a whole
OVERSAMPLED, POWER_ITERATIONS = 8, 3  # of the randomised decomposition (Halko et al. 2011)
KMEANS_RUNS = 3

Labels = tuple[Integers, Integers]


class Points(NamedTuple):
    """The rows of A - u v', which is not formed."""

    A: Any  # (n, m), dense or sparse
    u: Floats  # (n,)
    v: Floats  # (m,)

    @property
    def T(self) -> Points:
        """The columns."""
        A = self.A.T
        return Points(csr_array(A) if issparse(A) else np.ascontiguousarray(A), self.v, self.u)

    def rows(self, which: Integers) -> Floats:
        """Some rows (k, m), dense."""
        A = self.A[which]
        return (A.toarray() if issparse(A) else A) - np.outer(self.u[which], self.v)

    def times(self, Q: Floats) -> Floats:
        """(A - u v') Q, for Q (m,) or (m, q)."""
        return np.asarray(self.A @ Q) - np.multiply.outer(self.u, self.v @ Q)


class Places(NamedTuple):
    """Where rows and columns lie when starts are drawn."""

    rows: Points
    columns: Points


def places(cells: Cells, family: BlockFamily, n_clusters: int, method: str) -> Places:
    """Rows and columns as points, for starts of at most ``n_clusters`` clusters on a side.

    "random": as they are, what the margins explain subtracted. "k-means++", "k-means": their leading singular vectors times the
    singular values. "spectral": the directions of the leading singular vectors, a matrix without negative entries scaled by its
    row and column sums first (Dhillon 2001).
    """
    parts, centre = family.points(cells), family.centre(cells)
    wide = _points(_beside(parts), centre)
    if method == "random":
        return Places(wide, wide.T if len(parts) == 1 else _points(_beside(tuple(part.T for part in parts)), None))
    spectral = method == "spectral"
    rows, columns = _decompose(wide, n_clusters, spectral)
    if len(parts) > 1:
        tall = csr_array(vstack(parts)) if issparse(parts[0]) else np.vstack(parts)
        columns = _decompose(_points(tall, None), n_clusters, spectral)[1]
    return Places(_points(rows, None), _points(columns, None))


def draw_labels(
    at: Places, sizes: tuple[int, int], method: str, n_starts: int, rng: np.random.RandomState
) -> list[Labels]:
    """``n_starts`` pairs of labels of rows (n,) and columns (m,).

    "random": every row goes to the nearest of K rows drawn at random, every column to the nearest of L; "k-means++": of prototypes
    that are far apart. "k-means", "spectral": k-means.
    """
    return [(_draw(at.rows, sizes[0], method, rng), _draw(at.columns, sizes[1], method, rng)) for _ in range(n_starts)]


def _points(A: Any, centre: tuple[Floats, Floats] | None) -> Points:
    u, v = (np.zeros(size) for size in A.shape) if centre is None else centre
    return Points(A, u, v)


def _beside(parts: tuple[Any, ...]) -> Any:
    """The matrices side by side, so that a row has all that is known of it."""
    if len(parts) == 1:
        return parts[0]
    return csr_array(hstack(parts)) if issparse(parts[0]) else np.hstack(parts)


def _decompose(points: Points, n_clusters: int, spectral: bool) -> tuple[Floats, Floats]:
    """Rows and columns in the coordinates of the leading singular vectors, (n, r) and (m, r)."""
    points = _scaled(points) if spectral else points
    rank = n_clusters - 1 if spectral else n_clusters + SPARE
    U, s, V = _singular_vectors(points, max(1, min(rank, min(points.A.shape) - 1)))
    return (_directions(U), _directions(V)) if spectral else (U * s, V * s)


def _singular_vectors(points: Points, rank: int) -> tuple[Floats, Floats, Floats]:
    """The leading ``rank`` triplets U (n, r), s (r,), V (m, r) of A - u v'."""
    n, m = points.A.shape
    from sklearn.utils.extmath import randomized_range_finder  # here: it would slow `import sinkhorn_em`

    if n * m <= SMALL or min(n, m) == 1:
        A = points.A.toarray() if issparse(points.A) else points.A
        U, s, Vt = np.linalg.svd(A - np.outer(points.u, points.v), full_matrices=False)
        return U[:, :rank], s[:rank], Vt[:rank].T
    size = min(rank + OVERSAMPLED, n, m)
    Q = randomized_range_finder(points.A, size=size, n_iter=POWER_ITERATIONS, random_state=0)
    Q = np.linalg.qr(np.column_stack([Q, points.u]))[0]  # what spans the columns of A and u spans those of A - u v'
    U, s, Vt = np.linalg.svd(np.asarray(points.A.T @ Q).T - np.outer(points.u @ Q, points.v), full_matrices=False)
    return (Q @ U)[:, :rank], s[:rank], Vt[:rank].T


def _scaled(points: Points) -> Points:
    """D_r^-1/2 A D_c^-1/2 less its trivial singular vectors, for row and column sums r, c of an A without negative entries.

    What has a centre is scaled already.
    """
    A, values = points.A, points.A.data if issparse(points.A) else points.A
    if points.u.any() or (values.size and values.min() < 0):
        return points
    r, c = (np.asarray(A.sum(axis=axis), float).ravel() for axis in (1, 0))
    left, right = (np.divide(1, np.sqrt(x), out=np.zeros_like(x), where=x > 0) for x in (r, c))
    scaled = csr_array(diags_array(left) @ A @ diags_array(right)) if issparse(A) else left[:, None] * A * right
    total = r.sum()
    return Points(scaled, np.sqrt(r) / np.sqrt(total) if total > 0 else np.sqrt(r), np.sqrt(c))


def _directions(U: Floats) -> Floats:
    """Rows of length 1; rows of zeros stay."""
    length = np.linalg.norm(U, axis=1, keepdims=True)
    return U / np.where(length > 0, length, 1.0)


def _draw(points: Points, K: int, method: str, rng: np.random.RandomState) -> Integers:
    from sklearn.cluster import KMeans, kmeans_plusplus  # here, too
    from sklearn.exceptions import ConvergenceWarning

    n = points.A.shape[0]
    if method == "random":
        return _nearest(points, rng.choice(n, K, replace=False))
    if method == "k-means++":
        return _nearest(points, kmeans_plusplus(points.A, K, random_state=rng)[1])
    model = KMeans(K, n_init=KMEANS_RUNS, random_state=int(rng.randint(2**31 - 1)))
    with warnings.catch_warnings():  # fewer distinct points than clusters: the loop copes with empty ones
        warnings.simplefilter("ignore", ConvergenceWarning)
        return np.asarray(model.fit(points.A).labels_, np.int64)


def _nearest(points: Points, prototypes: Integers) -> Integers:
    """Labels (n,): which of the prototypes, rows themselves, is nearest."""
    P = points.rows(prototypes)
    return np.asarray((0.5 * np.einsum("km,km->k", P, P) - points.times(P.T)).argmin(axis=1), np.int64)
