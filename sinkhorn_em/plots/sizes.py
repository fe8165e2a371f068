"""Sizes of clusters against those that were asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._parameters import check_simplex
from .._typing import Floats, Integers
from .canvas import COLOURS, INK, panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NUMBERED = 40  # bars beyond these have no room for names and counts
LETTER = 0.085  # width of a letter of a name, inches
DEVIATIONS = 2.0  # half length of a whisker, in standard deviations of a random count


class Sizes(NamedTuple):
    """Shares of the clusters, and the rows that they are shares of."""

    shares: Floats  # (K,)
    counts: Integers | None  # (K,); None for masses that are no counts
    rows: int | None


def plot_sizes(
    labels_or_sizes: Any, prior: Any, *, names: Sequence[str] | None = None, sort: bool = True, ax: Axes | None = None
) -> Figure:
    r"""Draw the share of the rows in every cluster as a bar, and its prior weight as a mark.

    A whisker of two standard deviations, :math:`2 \sqrt{w_k (1 - w_k) / n}`, says how far from the prior w the counts of n
    independent rows lie by chance: a bar whose end lies in it agrees with its prior. The title has the total variation
    distance, the share of the rows that would have to move.

    Parameters
    ----------
    labels_or_sizes : array (K,) or (n,)
        Of length K: rows of every cluster, or masses, such as column sums of a plan. Of any other length: the cluster of
        every row, 0 to K - 1; negative ones belong to none, and are left out.
    prior : array (K,)
        Weights asked for, non-negative, sum 1.
    names : sequence of K str, optional
        Default: 0, 1, ...
    sort : bool, default True
        Largest prior first and, where it is equal, largest cluster first; else in the order of ``prior``.
    ax : Axes, optional
        Where to draw. Default: a new figure.

    Returns
    -------
    figure : matplotlib.figure.Figure
        One axes, or that of ``ax``.

    Raises
    ------
    ImportError
        matplotlib is not installed.
    ValueError
        ``prior`` does not sum to 1, sizes are negative or all 0, a label is none of 0 to K - 1, or there is not one name
        for each.
    """
    w = check_simplex("prior", prior, np.size(prior), "cluster")
    K = len(w)
    names = [str(k) for k in range(K)] if names is None else [str(name) for name in names]
    if len(names) != K:
        raise ValueError(f"names has {len(names)} names; prior has {K} clusters: give one name each")
    sizes = _sizes(labels_or_sizes, K)
    order = np.lexsort((-sizes.shares, -w)) if sort else np.arange(K)
    if ax is None:
        ax = panels(1, 1, (float(np.clip(1.8 + 0.42 * K, 4.8, 12.0)), 3.8))[1][0, 0]
    ax.bar(np.arange(K), sizes.shares[order], 0.72, color=COLOURS[5], label="cluster")
    _draw_prior(ax, w[order], sizes.rows)
    figure: Any = ax.figure
    room = figure.get_size_inches()[0] * ax.get_position().width / K
    _draw_axis(ax, [names[k] for k in order], None if sizes.counts is None else sizes.counts[order], room)
    ax.set_title(_title(sizes, w), fontsize="medium", loc="left")
    return figure


def _sizes(values: Any, K: int) -> Sizes:
    """Counted, where they are labels."""
    array = np.asarray(values)
    if array.ndim != 1 or array.size == 0 or not (array.dtype == bool or np.issubdtype(array.dtype, np.number)):
        raise ValueError(
            f"labels_or_sizes has shape {array.shape} and type {array.dtype}; it must be a vector of numbers: "
            f"{K} sizes, or the cluster of every row"
        )
    if len(array) != K:
        array = _counts(array, K)
    if not np.isfinite(array).all() or (array < 0).any() or array.sum() == 0:
        raise ValueError(f"labels_or_sizes is {array.tolist()}; sizes must be finite, >= 0, and not all 0")
    counted = np.issubdtype(array.dtype, np.integer)
    counts = array.astype(np.int64) if counted else None
    return Sizes(array / array.sum(), counts, int(array.sum()) if counted else None)


def _counts(labels: Any, K: int) -> Integers:
    wrong = (labels != np.floor(labels)) | (labels >= K)  # NaN, too, differs from itself
    if wrong.any():
        raise ValueError(
            f"labels_or_sizes has the label {labels[wrong][0]}; prior has {K} clusters: labels must be 0 to {K - 1}"
        )
    return np.bincount(labels[labels >= 0].astype(np.int64), minlength=K)


def _title(sizes: Sizes, w: Floats) -> str:
    rows = "" if sizes.rows is None else f", {sizes.rows} rows"
    empty = int((sizes.shares == 0).sum())
    return (
        f"{len(w)} clusters{rows}"
        + (f", {empty} empty" if empty else "")
        + f"; total variation from the prior {0.5 * np.abs(sizes.shares - w).sum():.3f}"
    )


def _draw_prior(ax: Axes, w: Floats, n: int | None) -> None:
    """Marks and, where the number of rows is known, what shares differ from them by chance."""
    whiskers = None if n is None else DEVIATIONS * np.sqrt(w * (1 - w) / n)
    label = "prior" if n is None else "prior ± 2 standard deviations of a count"
    few = len(w) <= NUMBERED
    look: dict[str, Any] = {
        "fmt": "D" if few else ".",
        "color": INK,
        "markersize": 4,
        "elinewidth": 1,
        "capsize": 2 * few,
    }
    ax.errorbar(np.arange(len(w)), w, whiskers, label=label, **look)


def _draw_axis(ax: Axes, names: list[str], counts: Integers | None, room: float) -> None:
    """Names of the clusters and counts, upright where ``room``, inches a bar, is too little; per cent; the legend."""
    K = len(names)
    longest = max(len(name) for name in names) if counts is None else max(map(len, [*names, f"({counts.max()})"]))
    upright = longest * LETTER > room
    if counts is not None:
        names = [f"{name}{' ' if upright else chr(10)}({n})" for name, n in zip(names, counts, strict=True)]
    few = K <= NUMBERED
    ax.set_xticks(np.arange(K) if few else [], names if few else [], fontsize="small", rotation=90 if upright else 0)
    ax.set_xlabel(("cluster" if counts is None else "cluster (rows)") if few else f"{K} clusters")
    ax.tick_params(axis="x", length=0)
    ax.set_xlim(-0.6, K - 0.4)
    ax.set_ylim(0, 1.15 * ax.get_ylim()[1])
    ax.yaxis.set_major_formatter(lambda share, _: f"{100 * share:.3g}%")
    ax.set_ylabel("share of the rows")
    ax.legend(frameon=False, fontsize="small", loc="upper right", ncols=2)
