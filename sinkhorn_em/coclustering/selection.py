"""How many row and column clusters? The integrated completed likelihood over a grid, or along splits and merges."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.base import clone
from tqdm import tqdm

from .._compiled import single_threaded_blas
from .._parameters import check_integer
from .._typing import Floats, Integers
from .model import LatentBlockModel, Problem
from .soundness import collapsed_blocks, warn_of
from .starts import Labels, Places, places

if TYPE_CHECKING:
    import pandas as pd

TRIAL_SWEEPS = 3  # of every way to split or merge, before the best one is fitted to the end
PAIRS = 3  # that are tried of those to merge
MOVES = ("split rows", "split columns", "merge rows", "merge columns", "split both")


class BlockSearch(NamedTuple):
    """The best numbers of clusters, and all that were tried."""

    #: fitted with the numbers of the lowest criterion
    model: LatentBlockModel
    #: one row for each fit: n_row_clusters, n_column_clusters, icl (lower is better), bound (nats), n_iter, converged, collapsed
    #: (blocks whose variance is at its floor); a search by moves adds step, move and accepted
    table: pd.DataFrame

    def __repr__(self) -> str:
        model = self.model
        sizes = f"{model.n_row_clusters} x {model.n_column_clusters} clusters"
        return f"BlockSearch(model: {sizes}, ICL {model.icl():.1f}; table: {len(self.table)} fits)"


def search_grid(
    model: LatentBlockModel,
    X: Any,
    n_row_clusters: Iterable[int],
    n_column_clusters: Iterable[int],
    *,
    mask: Any = None,
    progress: bool = False,
) -> BlockSearch:
    """Fit every pair of numbers of clusters, and keep the one of the lowest `LatentBlockModel.icl`.

    Fits with a block whose variance is at its floor have a likelihood without meaning; they are kept only if all fits are such.
    Where many values are equal, as in logarithms of counts, use ``Gaussian(variance="common")`` or a family of counts.

    Parameters
    ----------
    model : LatentBlockModel
        The options of every fit; its own numbers of clusters do not matter. It is not fitted itself.
    X : array, DataFrame or sparse matrix (n, m)
    n_row_clusters, n_column_clusters : iterable of int
        Numbers to try.
    mask : boolean array (n, m), optional
        True where a cell is left out.
    progress : bool
        A progress bar.

    Returns
    -------
    BlockSearch

    Raises
    ------
    ValueError
        As `LatentBlockModel.fit`; or a number is no positive integer, or there is none; or weights are prescribed one by one.
    """
    rows, columns = _numbers("n_row_clusters", n_row_clusters), _numbers("n_column_clusters", n_column_clusters)
    _check(model, rows, columns)
    problem, base = _problem(model, X, mask, (max(rows), max(columns)))
    fits, records = [], []
    with single_threaded_blas(), tqdm(total=len(rows) * len(columns), disable=not progress, desc="ICL grid") as bar:
        at = {
            size: places(problem.cells, problem.family, size, model.init)
            for size in {max(K, L) for K, L in product(rows, columns)}
        }
        for K in rows:
            for L in columns:
                candidate = _candidate(base, K, L)
                candidate._fit(problem, candidate._labels(problem, (None, None), at[max(K, L)]))
                fits.append(candidate)
                records.append(_record(candidate))
                bar.update()
    table = _frame(records)
    best = min(fits, key=_criterion)
    warn_of(best, stacklevel=3)
    return BlockSearch(best, table)


def search_moves(
    model: LatentBlockModel,
    X: Any,
    *,
    start: tuple[int, int] = (2, 2),
    largest: tuple[int, int] = (20, 20),
    mask: Any = None,
    progress: bool = False,
) -> BlockSearch:
    """From ``start``, split or merge the row or column clusters that lower `LatentBlockModel.icl` most, until none does.

    A cluster is split in two by k-means, on the means of its rows (columns) over the clusters of the other side, and on its leading
    singular coordinates, which see what these means hide; merged are the three pairs that lose least of the sum of squares
    between the means. All ways to split, or to merge, run for 3 sweeps side by side, without a burn-in, and the best of them to
    the end. Of the (at most) four candidates the one of the lowest criterion is the next model; where none is better, rows and
    columns are split at once. The last model is fitted once more, burn-in and all, from its labels, and the better of the two is
    returned. No move leads to more blocks whose variance is at its floor (`search_grid`).

    Parameters
    ----------
    model : LatentBlockModel
        The options of every fit; its own numbers of clusters do not matter, nor does ``n_init`` after the first fit. It is not
        fitted itself.
    X : array, DataFrame or sparse matrix (n, m)
    start : (int, int)
        Numbers of row and column clusters to begin with. One of either would hide blocks that differ in pairs only, as on a
        chessboard.
    largest : (int, int)
        No more clusters than these.
    mask : boolean array (n, m), optional
        True where a cell is left out.
    progress : bool
        A progress bar.

    Returns
    -------
    BlockSearch
        The table has a row for each candidate: step (0 is the start), move ("start", "split rows", ...) and accepted.

    Raises
    ------
    ValueError
        As `search_grid`; or ``start`` is beyond ``largest``.
    """
    _check(model, [start[0], largest[0]], [start[1], largest[1]])
    if start[0] > largest[0] or start[1] > largest[1]:
        raise ValueError(
            f"start is {start} and largest {largest}; no number may begin beyond its largest: raise largest"
        )
    problem, base = _problem(model, X, mask, start)
    n, m = problem.cells.shape
    bounds = (min(largest[0], n), min(largest[1], m))
    with single_threaded_blas(), tqdm(disable=not progress, desc="splits and merges", unit="step") as bar:
        at = places(problem.cells, problem.family, max(bounds), "k-means")
        best = _candidate(base, *start)
        best._fit(problem, best._labels(problem, (None, None)))
        records = [{"step": 0, "move": "start", "accepted": True, **_record(best)}]
        for step in range(1, sum(bounds) * 2 + 1):
            candidates = _neighbours(base, problem, best, bounds, at)
            if not _best_move(candidates, best):
                candidates |= _double_split(base, problem, best, bounds, at)
            winner = _best_move(candidates, best)
            for move, candidate in candidates.items():
                records.append({"step": step, "move": move, "accepted": move == winner, **_record(candidate)})
            bar.update()
            if winner is None:
                break
            best = candidates[winner]
            bar.set_postfix_str(f"{best.n_row_clusters} x {best.n_column_clusters}, ICL {best.icl():.1f}")
        again = _candidate(base, best.n_row_clusters, best.n_column_clusters)
        again._fit(problem, [(best.row_labels_, best.column_labels_)])
        better = _criterion(again) < _criterion(best)
        records.append({"step": step + 1, "move": "burn-in", "accepted": better, **_record(again)})
    best = again if better else best
    warn_of(best, stacklevel=3)
    return BlockSearch(best, _frame(records))


def _best_move(candidates: dict[str, LatentBlockModel], model: LatentBlockModel) -> str | None:
    """The move to fewer variances at the floor, or to as many and the lowest criterion; None if it lowers neither."""
    if not candidates:
        return None
    order = {name: (len(collapsed_blocks(fit)), fit.icl()) for name, fit in candidates.items()}
    move = min(order, key=lambda name: order[name])
    return move if order[move] < (len(collapsed_blocks(model)), model.icl()) else None


def _criterion(model: LatentBlockModel) -> tuple[bool, float]:
    """ICL, sound fits first: at the floor of variances a likelihood is as high as the floor is low."""
    return bool(collapsed_blocks(model)), model.icl()


def _double_split(
    base: LatentBlockModel, problem: Problem, model: LatentBlockModel, largest: tuple[int, int], at: Places
) -> dict[str, LatentBlockModel]:
    """A row and a column cluster split at once: neither alone helps where rows differ in columns that are not told apart."""
    K, L = model.n_row_clusters, model.n_column_clusters
    if largest[0] == K or largest[1] == L:
        return {}
    rows, columns = _splits(model.row_labels_, K, at.rows.A), _splits(model.column_labels_, L, at.columns.A)
    return _best_fit("split both", base, problem, (K + 1, L + 1), list(product(rows, columns)))


def _neighbours(
    base: LatentBlockModel, problem: Problem, model: LatentBlockModel, largest: tuple[int, int], at: Places
) -> dict[str, LatentBlockModel]:
    """The best fit of every single move that is possible, by its name."""
    K, L = model.n_row_clusters, model.n_column_clusters
    z, w = model.row_labels_, model.column_labels_
    rows, columns = _profiles(problem, model)
    row_splits = [a for X in (rows, at.rows.A) for a in _splits(z, K, X)] if largest[0] > K else []
    column_splits = [b for X in (columns, at.columns.A) for b in _splits(w, L, X)] if largest[1] > L else []
    return {
        **_best_fit("split rows", base, problem, (K + 1, L), [(a, w) for a in row_splits]),
        **_best_fit("split columns", base, problem, (K, L + 1), [(z, b) for b in column_splits]),
        **_best_fit("merge rows", base, problem, (K - 1, L), [(a, w) for a in _merges(z, K, rows)]),
        **_best_fit("merge columns", base, problem, (K, L - 1), [(z, b) for b in _merges(w, L, columns)]),
    }


def _best_fit(
    move: str, base: LatentBlockModel, problem: Problem, sizes: tuple[int, int], labels: list[Labels]
) -> dict[str, LatentBlockModel]:
    """The fit from the most promising of the labels, under the name of the move; nothing if there are none."""
    if not labels:
        return {}
    candidate = _candidate(base, *sizes)
    candidate._fit(problem, [_most_promising(candidate, problem, labels)], burn_in=False)
    return {move: candidate}


def _most_promising(candidate: LatentBlockModel, problem: Problem, labels: list[Labels]) -> Labels:
    """The labels of the highest bound after some sweeps."""
    if len(labels) == 1:
        return labels[0]
    trial = clone(candidate).set_params(max_iter=TRIAL_SWEEPS, tol=0.0, temperatures=None)
    outcomes = trial._outcomes(problem, labels, burn_in=False)
    return labels[int(np.argmax([outcome.bound for outcome in outcomes]))]


def _profiles(problem: Problem, model: LatentBlockModel) -> tuple[Floats, Floats]:
    """Means of every row over the column clusters (n, C L), and of every column over the row clusters (m, C K)."""
    return (
        _means(problem.cells.over_columns(model.column_responsibilities_)),
        _means(problem.cells.over_rows(model.row_responsibilities_)),
    )


def _means(sums: Floats) -> Floats:
    exposure = sums[-1]
    means = np.divide(sums[:-1], exposure, out=np.zeros_like(sums[:-1]), where=exposure > 0)
    return np.hstack(list(means))


def _splits(labels: Integers, K: int, profiles: Floats) -> list[Integers]:
    """Every cluster of two distinct rows or more cut in two by k-means; the new half has label K."""
    from sklearn.cluster import KMeans  # here: it would slow `import sinkhorn_em`

    found = []
    for k in range(K):
        (members,) = np.nonzero(labels == k)
        if len(members) < 2 or (profiles[members] == profiles[members[0]]).all():
            continue
        halves = KMeans(2, n_init=1, random_state=0).fit(profiles[members]).labels_
        split = labels.copy()
        split[members[halves == 1]] = K
        found.append(split)
    return found


def _merges(labels: Integers, K: int, profiles: Floats) -> list[Integers]:
    """The pairs of clusters that are closest made one, numbered 0..K-2. Ward's distance; an empty cluster is close to all."""
    counts = np.bincount(labels, minlength=K)
    totals = np.stack([np.bincount(labels, column, K) for column in profiles.T], axis=1)
    means = totals / np.maximum(counts, 1)[:, None]
    k, j = np.tril_indices(K, -1)
    lost = counts[k] * counts[j] / np.maximum(counts[k] + counts[j], 1) * ((means[k] - means[j]) ** 2).sum(axis=1)
    found = []
    for pair in np.argsort(lost, kind="stable")[:PAIRS]:
        merged = np.where(labels == k[pair], j[pair], labels)
        found.append(np.where(merged > k[pair], merged - 1, merged))
    return found


def _numbers(name: str, numbers: Iterable[int]) -> list[int]:
    """The numbers to try, as a list."""
    if not isinstance(numbers, Iterable):
        raise ValueError(f"{name} is {numbers!r}; it must be several numbers to try, such as range(2, 8)")
    return list(numbers)


def _check(model: LatentBlockModel, rows: list[int], columns: list[int]) -> None:
    for name, numbers in (("n_row_clusters", rows), ("n_column_clusters", columns)):
        if not numbers:
            raise ValueError(f"{name} is empty; it must have at least one number of clusters to try")
        for number in numbers:
            check_integer(name, number, 1)
    for name in ("row_weights", "column_weights"):
        if not isinstance(getattr(model, name), str):
            raise ValueError(
                f"{name} of model is an array, for one number of clusters; it must be 'learned' or 'uniform' where numbers vary"
            )


def _problem(model: LatentBlockModel, X: Any, mask: Any, sizes: tuple[int, int]) -> tuple[Problem, LatentBlockModel]:
    """The checked data, which all fits share, and an estimator that knows their features."""
    base = clone(model).set_params(n_row_clusters=sizes[0], n_column_clusters=sizes[1])
    return base._problem(X, mask), base


def _candidate(base: LatentBlockModel, K: int, L: int) -> LatentBlockModel:
    candidate = clone(base).set_params(n_row_clusters=K, n_column_clusters=L, verbose=0)
    for name in ("n_features_in_", "feature_names_in_"):
        if hasattr(base, name):
            setattr(candidate, name, getattr(base, name))
    return candidate


def _frame(records: list[dict[str, Any]]) -> pd.DataFrame:
    import pandas as pd  # here: it would slow `import sinkhorn_em`

    return pd.DataFrame(records)


def _record(model: LatentBlockModel) -> dict[str, Any]:
    return {
        "n_row_clusters": model.n_row_clusters,
        "n_column_clusters": model.n_column_clusters,
        "icl": model.icl(),
        "bound": model.bound_,
        "n_iter": model.n_iter_,
        "converged": model.converged_,
        "collapsed": len(collapsed_blocks(model)),
    }
