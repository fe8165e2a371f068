"""The table of known classes against found clusters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .._typing import Floats, Integers
from ..metrics import balanced_clustering_accuracy, clustering_accuracy
from ..metrics.matching import Matching, distinct, match_clusters
from .canvas import INK, panels, require_matplotlib

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WRITTEN = 15  # rows or columns beyond which cells have no room for counts
NAMED = 60  # and tick labels for names
CELL = 0.52  # side of a written cell, inches
SIDES = (2.4, 7.8)  # smallest and largest side of the table
ROTATED = 5  # letters of the longest cluster that is written upright


def plot_confusion(
    y_true: Any, labels: Any, *, names: Sequence[str] | None = None, class_names: Sequence[str] | None = None
) -> Figure:
    """Draw how many rows of every class are in every cluster, each cluster below the class that it is matched to.

    Classes are rows, in sorted order; clusters are columns in the order of the classes that the Hungarian method gives
    them (``metrics.clustering_accuracy``), so that what is right lies on the diagonal, which is framed. Clusters without
    a class follow at the right, the largest first, and classes without a cluster at the bottom, beyond a line. The
    colour is the share of the class; up to 15 classes and clusters the cells have counts, those without rows none.

    Parameters
    ----------
    y_true : array (n,)
        Known classes: numbers, strings or booleans.
    labels : array (n,)
        Clusters, as many as they may be.
    names : sequence of str, optional
        Of the clusters, in sorted order. Default: the labels themselves.
    class_names : sequence of str, optional
        Of the classes, in sorted order. Default: the classes themselves.

    Returns
    -------
    figure : matplotlib.figure.Figure
        One axes, and the colour bar. The title has the accuracy and the balanced accuracy.

    Raises
    ------
    ImportError
        matplotlib is not installed.
    ValueError
        The lengths differ, there are no rows, a label is missing, or there is not one name for each.
    """
    matching = match_clusters(y_true, labels)
    rows, columns, matched = _order(matching)
    clusters = _names(labels, "labels", names, "names")
    classes = _names(y_true, "y_true", class_names, "class_names")
    counts = matching.counts[rows][:, columns]
    totals = matching.counts.sum(axis=1), matching.counts.sum(axis=0)
    height, width = (float(np.clip(CELL * k, *SIDES)) for k in counts.shape)
    figure, axes = panels(1, 1, (width + 2.6, height + 1.5))
    ax = axes[0, 0]
    _draw_cells(ax, counts, totals[0][rows])
    _draw_borders(ax, counts.shape, matched)
    _draw_axis(ax.yaxis, "class", [f"{classes[c]} ({totals[0][c]})" for c in rows])
    _draw_axis(ax.xaxis, "cluster", [f"{clusters[k]}\n({totals[1][k]})" for k in columns])
    if max(map(len, clusters)) > ROTATED:
        ax.tick_params(axis="x", rotation=90)
    right, balanced = clustering_accuracy(y_true, labels), balanced_clustering_accuracy(y_true, labels)
    title = f"accuracy {right:.3f}, balanced {balanced:.3f}\n{len(matching.truth)} rows, the right ones framed"
    ax.set_title(title, fontsize="medium", loc="left")
    bar = figure.colorbar(ax.collections[0], ax=ax, shrink=0.8, label="share of the class")
    bar.formatter = require_matplotlib("ticker").PercentFormatter(1)
    return figure


def _order(matching: Matching) -> tuple[Integers, Integers, int]:
    """Order of the classes and of the clusters, and how many pairs at the start of both are matched."""
    own = matching.cluster_of_class
    with_cluster = np.flatnonzero(own >= 0)
    alone = np.flatnonzero(matching.class_of_cluster < 0)
    alone = alone[np.argsort(-matching.counts.sum(axis=0)[alone], kind="stable")]
    rows = np.concatenate([with_cluster, np.flatnonzero(own < 0)])
    return rows, np.concatenate([own[with_cluster], alone]), len(with_cluster)


def _names(labels: Any, of: str, names: Sequence[str] | None, name: str) -> list[str]:
    """In the sorted order of the labels."""
    values = distinct(labels, of)[0]
    if names is not None and len(names) != len(values):
        raise ValueError(f"{name} has {len(names)} names; {of} has {len(values)} kinds: give one name each")
    return [str(value) for value in (values.tolist() if names is None else names)]


def _draw_cells(ax: Axes, counts: Integers, totals: Integers) -> None:
    """Shares of the classes as colours, the first class at the top, and counts where there is room."""
    shares: Floats = counts / totals[:, None]
    edges = [np.arange(k + 1) - 0.5 for k in counts.shape]
    written = max(counts.shape) <= WRITTEN
    lines: dict[str, Any] = {"edgecolors": "#E4E4E4", "linewidth": 0.6} if written else {"rasterized": True}
    ax.pcolormesh(edges[1], edges[0], shares, cmap="Blues", vmin=0, vmax=1, **lines)
    ax.set_ylim(len(counts) - 0.5, -0.5)
    ax.set_aspect("equal")
    if written:
        for i, j in np.argwhere(counts > 0):
            ink = "white" if shares[i, j] > 0.55 else INK
            ax.text(j, i, str(counts[i, j]), ha="center", va="center", fontsize="small", color=ink)


def _draw_borders(ax: Axes, shape: tuple[int, ...], matched: int) -> None:
    """Frames of the matched pairs, and lines before what has no partner."""
    frame = require_matplotlib("patches").Rectangle
    width = 1.6 if max(shape) <= WRITTEN else 0.5
    for k in range(matched):
        ax.add_patch(frame((k - 0.5, k - 0.5), 1, 1, fill=False, edgecolor=INK, linewidth=width))
    if shape[0] > matched:
        ax.axhline(matched - 0.5, color=INK, linewidth=1.2, linestyle="--")
    if shape[1] > matched:
        ax.axvline(matched - 0.5, color=INK, linewidth=1.2, linestyle="--")
    ax.spines[:].set_visible(False)


def _draw_axis(axis: Any, kind: str, names: list[str]) -> None:
    """Names with sizes in brackets, if they can be read."""
    if len(names) > NAMED:
        axis.set_ticks([])
        axis.set_label_text(f"{len(names)} {'classes' if kind == 'class' else 'clusters'}")
        return
    size: Any = "small" if len(names) <= WRITTEN else "x-small"
    plain = names if len(names) <= WRITTEN else [name.split("\n")[0] for name in names]
    axis.set_ticks(np.arange(len(names)), plain, fontsize=size)
    axis.set_tick_params(length=0)
    axis.set_label_text(f"{kind} (rows)" if plain is names or kind == "class" else kind)
