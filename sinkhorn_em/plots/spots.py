"""Maps of spots or cells with coordinates, coloured by cluster, beside the known labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.spatial import KDTree
from sklearn.metrics import adjusted_rand_score

from .._typing import Booleans, Floats, Integers
from ..metrics import matched_labels
from .canvas import MORE_COLOURS, panels, require_matplotlib

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PALE = "#DCDCDC"  # spots without a label
HEIGHT = 5.0  # of a map, inches
TOUCH = 1.06  # diameter of a spot, in distances to its neighbour
WIDTHS = (3.0, 7.5)  # narrowest and widest


def hexagonal_positions(array_row: Any, array_column: Any) -> Floats:
    """Coordinates (n, 2), across and down, of the spots of a hexagonal array (Visium: ``array_row``, ``array_col``).

    Neighbours in a row are two array columns apart, and rows are shifted by one: (column / 2, row sqrt(3) / 2), so that
    all six neighbours are at distance 1.
    """
    return np.column_stack([np.asarray(array_column) / 2, np.asarray(array_row) * np.sqrt(3) / 2])


def plot_spots(
    coordinates: Any,
    labels: Any,
    *,
    truth: Any = None,
    names: Sequence[str] | None = None,
    truth_names: Sequence[str] | None = None,
) -> Figure:
    """Draw spots coloured by cluster and, where it is given, by known label beside it.

    A cluster has the colour of the label that it matches best, one to one (``metrics.matched_labels``), and further
    clusters have colours of their own; beyond 13, colours come again. Spots without a label, or of a negative number,
    are pale grey in their map. The title says the adjusted Rand index, over the spots that have a label and a cluster.

    Parameters
    ----------
    coordinates : array (n, 2)
        Across and down, as in an image: ``adata.obsm["spatial"]``; of array positions, ``hexagonal_positions``.
    labels : array (n,)
        Clusters: numbers, strings or booleans; ``model.row_labels_``. None, NaN and negative numbers: no cluster.
    truth : array (n,), optional
        Known labels. None, NaN, "NA" and negative numbers: not labelled.
    names : sequence of str, optional
        Of the clusters, in sorted order. Default: the clusters themselves.
    truth_names : sequence of str, optional
        Of the known labels, in sorted order. Default: the labels themselves.

    Returns
    -------
    figure : matplotlib.figure.Figure
        The known labels at the left, the clusters at the right; clusters alone without ``truth``.

    Raises
    ------
    ImportError
        matplotlib is not installed.
    ValueError
        Lengths or shapes do not fit, coordinates are not finite, or no spot has both a label and a cluster.
    """
    xy = np.asarray(coordinates, float)
    if xy.ndim != 2 or xy.shape[1] != 2 or len(xy) == 0 or not np.isfinite(xy).all():
        raise ValueError(f"coordinates has shape {xy.shape}; it must hold two finite numbers for every spot, (n, 2)")
    found, clusters, names = _classes(labels, names, len(xy), "labels", "names")
    if truth is None:
        figure, axes = panels(1, 1, (_width(xy) + 1.2, HEIGHT))
        _draw_map(axes[0, 0], xy, found, np.arange(len(clusters)), names)
        axes[0, 0].set_title(f"{len(clusters)} clusters, {_count(found)}", fontsize="medium", loc="left")
        return figure
    known, layers, truth_names = _classes(truth, truth_names, len(xy), "truth", "truth_names")
    both = (known >= 0) & (found >= 0)
    if not both.any():
        raise ValueError("truth and labels have no spot in common: every spot lacks a label or a cluster")
    figure, axes = panels(1, 2, (2 * _width(xy) + 2.4, HEIGHT), sharex=True, sharey=True)
    _draw_map(axes[0, 0], xy, known, np.arange(len(layers)), truth_names)
    axes[0, 0].set_title(f"known labels: {len(layers)}, {_count(known)}", fontsize="medium", loc="left")
    _draw_map(axes[0, 1], xy, found, _matched_colours(known, found, both, len(layers), len(clusters)), names)
    ari = adjusted_rand_score(known[both], found[both])
    axes[0, 1].set_title(f"clusters: {len(clusters)}, adjusted Rand index {ari:.3f}", fontsize="medium", loc="left")
    return figure


def _classes(
    labels: Any, names: Sequence[str] | None, n: int, name: str, names_name: str
) -> tuple[Integers, list[Any], list[str]]:
    """Number of every spot's class among the sorted classes, negative: none; the classes; their names."""
    values = np.asarray(labels, dtype=object)
    if values.shape != (n,):
        raise ValueError(f"{name} has shape {values.shape}; coordinates has {n} spots: give one label for every spot")
    there = np.array([not _is_missing(value) for value in values])
    classes = list(set(values[there].tolist()))
    if len({isinstance(value, str) for value in classes}) > 1:
        raise ValueError(f"{name} mixes strings with numbers; let it be of one type, None where there is no label")
    classes = sorted(classes)
    number = {value: k for k, value in enumerate(classes)}
    if names is not None and len(names) != len(classes):
        raise ValueError(f"{names_name} has {len(names)} names; {name} has {len(classes)} classes: give one name each")
    codes = np.array([number[value] if here else -1 for value, here in zip(values, there, strict=True)], dtype=np.int64)
    return codes, classes, [str(c) for c in (classes if names is None else names)]


def _is_missing(value: Any) -> bool:
    if isinstance(value, str):
        return value in ("", "NA", "nan")
    return bool(pd.isna(value)) or value < 0


def _matched_colours(known: Integers, found: Integers, both: Booleans, n_layers: int, n_clusters: int) -> Integers:
    """Number of the colour of every cluster: its label's; clusters without one follow after the labels."""
    colours = np.full(n_clusters, -1)
    values = np.unique(known[both])  # a label may have no spot with a cluster
    matched = matched_labels(known[both], found[both])
    colours[found[both]] = np.where(matched >= 0, values[matched], -1)
    alone = colours < 0
    colours[alone] = n_layers + np.arange(alone.sum())
    return colours


def _count(codes: Integers) -> str:
    absent = int((codes < 0).sum())
    return f"{len(codes)} spots" + (f" ({absent} unlabelled)" if absent else "")


def _width(xy: Floats) -> float:
    """Of a map whose height is HEIGHT."""
    across, down = np.ptp(xy, axis=0)
    return float(np.clip(HEIGHT * across / down if down > 0 else WIDTHS[1], *WIDTHS))


def _draw_map(ax: Axes, xy: Floats, codes: Integers, colours: Integers, names: list[str]) -> None:
    """Spots as discs that touch their neighbours, the vertical axis downwards, and the legend."""
    lines, collections = require_matplotlib("lines"), require_matplotlib("collections")
    nearest = KDTree(xy).query(xy, k=2)[0][:, 1] if len(xy) > 1 else np.ones(1)
    size = TOUCH * float(np.median(nearest[nearest > 0])) if (nearest > 0).any() else 1.0
    handles = []
    for k in [-1, *np.argsort(colours, kind="stable")]:  # clusters in the order of the labels that they match
        here = xy[codes == k]
        if len(here):
            colour = PALE if k < 0 else MORE_COLOURS[colours[k] % len(MORE_COLOURS)]
            discs = collections.EllipseCollection(
                size, size, 0, units="xy", offsets=here, offset_transform=ax.transData
            )
            discs.set(facecolor=colour, linewidth=0, rasterized=len(xy) > 2000)
            ax.add_collection(discs)
            name = f"{names[k] if k >= 0 else 'none'} ({len(here)})"
            handles.append(lines.Line2D([], [], color=colour, marker="o", linestyle="", label=name))
    low, high = xy.min(axis=0) - size, xy.max(axis=0) + size
    ax.set(xlim=(low[0], high[0]), ylim=(high[1], low[1]), aspect="equal", xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
    ax.legend(handles=handles, frameon=False, fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))
