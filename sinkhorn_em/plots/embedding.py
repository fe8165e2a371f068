"""Maps of an embedding in the plane, coloured by cluster, beside the known classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.decomposition import PCA

from .._typing import Floats, Integers
from ..metrics import matched_labels
from ..metrics.matching import distinct
from .canvas import GREY, INK, MORE_COLOURS, panels, require_matplotlib

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIDE = 5.2  # of a map, inches
LISTED = 24  # more groups than these make no legend
ROOM = 0.03  # beside the outermost points, as a share of their range
LETTERS = 12  # longest name that is written into a map; the legend has the whole of it


class Groups(NamedTuple):
    """Clusters, or classes, of the rows."""

    codes: Integers  # (n,) into names, negative: none
    names: list[str]
    colours: Integers  # number of the colour of each


def plot_embedding(
    Z: Any,
    labels: Any,
    *,
    centres: Any = None,
    y_true: Any = None,
    names: Sequence[str] | None = None,
    class_names: Sequence[str] | None = None,
    max_points: int = 20000,
) -> Figure:
    """Draw the rows of an embedding in the plane, coloured by cluster and, beside it, by known class.

    In more than two dimensions the plane is that of the first two principal components of all rows of Z. A cluster is
    named at its centre, or at the median of its rows where there are no centres, and has the colour of the class that
    it matches best, one to one (``metrics.matched_labels``); further clusters have colours of their own. Beyond 13
    colours come again: the names tell.

    Parameters
    ----------
    Z : array (n, d), d >= 2
        Embedded rows.
    labels : array (n,)
        Clusters: numbers, strings or booleans. Rows of a negative number belong to none and are grey.
    centres : array (K, d), optional
        Of the clusters, drawn as discs, also those without rows. Labels that are whole numbers below K are positions
        in it; other labels must be of K kinds, which follow in sorted order.
    y_true : array (n,), optional
        Known classes; they make a second map, at the left.
    names : sequence of str, optional
        Of the clusters, in sorted order. Default: the labels themselves.
    class_names : sequence of str, optional
        Of the classes, in sorted order. Default: the classes themselves.
    max_points : int, default 20000
        Of more rows, a random sample is drawn, the same at every call; the title says so.

    Returns
    -------
    figure : matplotlib.figure.Figure
        Two axes of the same scale, or one without ``y_true``. The title of the clusters has their accuracy
        (``metrics.clustering_accuracy``, rows without a cluster being wrong).

    Raises
    ------
    ImportError
        matplotlib is not installed.
    ValueError
        Shapes, lengths or numbers of names do not fit, or a value is not finite.
    """
    Z = _embedded(Z)
    rows, centres, axis_names = _in_the_plane(Z, centres)
    found = _clusters(labels, len(Z), None if centres is None else len(centres), names)
    drawn = np.arange(len(Z))
    if len(Z) > max_points:
        drawn = np.random.default_rng(0).choice(len(Z), max_points, replace=False)
    count = f"{len(Z)} rows" + (f" ({max_points} of them drawn)" if len(Z) > max_points else "")
    clusters = f"{len(found.names)} clusters" + (" and their centres" if centres is not None else "")
    if y_true is None:
        maps = [(found, centres, f"{clusters}, {count}")]
    else:
        known = _classes(y_true, len(Z), class_names)
        found = found._replace(colours=_matched_colours(known, found))
        right = (known.colours[known.codes] == np.append(found.colours, -1)[found.codes]).mean()
        maps = [
            (known, None, f"{len(known.names)} known classes, {count}"),
            (found, centres, f"{clusters}, accuracy {right:.3f}"),
        ]
    figure, axes = panels(1, len(maps), ((SIDE + 1.3) * len(maps), SIDE), sharex=True, sharey=True)
    for ax, (groups, middles, title) in zip(axes[0], maps, strict=True):
        _draw_rows(ax, rows[drawn], groups._replace(codes=groups.codes[drawn]))
        _draw_names(ax, groups, _medians(rows, groups) if middles is None else middles, middles is not None)
        _draw_legend(ax, groups, "class (rows)" if groups is not found else "cluster (rows)")
        ax.set_title(title, fontsize="medium", loc="left")
        ax.set_xlabel(axis_names[0])
    axes[0, 0].set_ylabel(axis_names[1])
    _set_limits(axes[0], rows, centres)
    return figure


def _embedded(Z: Any) -> Floats:
    Z = np.asarray(Z, dtype=np.float64)
    if Z.ndim != 2 or len(Z) == 0 or Z.shape[1] < 2 or not np.isfinite(Z).all():
        raise ValueError(f"Z has shape {Z.shape}; it must hold finite numbers, (n, d) with n >= 1 and d >= 2")
    return Z


def _in_the_plane(Z: Floats, centres: Any) -> tuple[Floats, Floats | None, tuple[str, str]]:
    """Rows and centres in two dimensions, and the names of these."""
    d = Z.shape[1]
    if centres is not None:
        centres = np.asarray(centres, dtype=np.float64)
        if centres.ndim != 2 or centres.shape[1] != d or len(centres) == 0 or not np.isfinite(centres).all():
            raise ValueError(
                f"centres has shape {centres.shape}; it must hold finite numbers, (K, {d}) as Z has d = {d}"
            )
    if d == 2 or not np.ptp(Z, axis=0).any():  # equal rows have no principal components
        return Z[:, :2], None if centres is None else centres[:, :2], ("coordinate 0", "coordinate 1")
    plane = PCA(2, random_state=0).fit(Z)
    shares = plane.explained_variance_ratio_
    first, second = (f"principal component {j + 1} ({shares[j]:.0%} of variance)" for j in range(2))
    return plane.transform(Z), None if centres is None else plane.transform(centres), (first, second)


def _clusters(labels: Any, n: int, K: int | None, names: Sequence[str] | None) -> Groups:
    """Clusters of the rows, all K of them where there are centres."""
    array = np.asarray(labels)
    values, codes = distinct(array, "labels")
    _check_length(array, n, "labels")
    whole = np.issubdtype(values.dtype, np.integer)
    if np.issubdtype(values.dtype, np.number):
        absent = int((values < 0).sum())  # sorted: they come first
        values, codes = values[absent:], np.where(codes < absent, -1, codes - absent)
    if K is not None and whole and (len(values) == 0 or values[-1] < K):
        values, codes = np.arange(K), np.where(codes < 0, -1, array)
    if K is not None and len(values) != K:
        raise ValueError(f"centres has {K} rows; labels has {len(values)} clusters: give one centre for every cluster")
    return Groups(codes, _names(values, names, "names", "labels"), np.arange(len(values)))


def _classes(y_true: Any, n: int, names: Sequence[str] | None) -> Groups:
    values, codes = distinct(y_true, "y_true")
    _check_length(codes, n, "y_true")
    return Groups(codes, _names(values, names, "class_names", "y_true"), np.arange(len(values)))


def _check_length(labels: Any, n: int, name: str) -> None:
    if len(labels) != n:
        raise ValueError(f"{name} has {len(labels)} rows and Z {n}; pass one label for every row")


def _names(values: Any, names: Sequence[str] | None, name: str, of: str) -> list[str]:
    if names is not None and len(names) != len(values):
        raise ValueError(f"{name} has {len(names)} names; {of} has {len(values)} kinds: give one name each")
    return [str(value) for value in (values.tolist() if names is None else names)]


def _matched_colours(known: Groups, found: Groups) -> Integers:
    """Number of the colour of every cluster: its class's; those of clusters without one follow after the classes."""
    colours = np.full(len(found.names), -1)
    there = found.codes >= 0
    if there.any():
        classes = np.unique(known.codes[there])  # a class may have no row in a cluster
        matched = matched_labels(known.codes[there], found.codes[there])
        colours[found.codes[there]] = np.where(matched >= 0, classes[matched], -1)
    alone = colours < 0
    colours[alone] = len(known.names) + np.arange(alone.sum())
    return colours


def _colours(groups: Groups) -> Any:
    """Colour of every group, and grey at the end, for the code -1."""
    return np.array([*(MORE_COLOURS[c % len(MORE_COLOURS)] for c in groups.colours), GREY])


def _draw_rows(ax: Axes, rows: Floats, groups: Groups) -> None:
    """Points in random order, so that no group lies upon the others."""
    order = np.random.default_rng(0).permutation(len(rows))
    size = float(np.clip(16000 / len(rows), 2, 18))
    x, y = rows[order].T
    many = len(rows) > 2000  # a vector graphic of so many points is slow to show
    ax.scatter(x, y, size, _colours(groups)[groups.codes[order]], alpha=0.6, linewidths=0, rasterized=many)


def _medians(rows: Floats, groups: Groups) -> Floats:
    """Of every group, coordinate by coordinate; NaN for one without rows."""
    middles = np.full((len(groups.names), 2), np.nan)
    for k in np.unique(groups.codes[groups.codes >= 0]):
        middles[k] = np.median(rows[groups.codes == k], axis=0)
    return middles


def _draw_names(ax: Axes, groups: Groups, places: Floats, discs: bool) -> None:
    """The name of every group at its place: in a disc where that is a centre."""
    for name, colour, place in zip(groups.names, _colours(groups), places, strict=False):  # the last colour is spare
        if not np.isnan(place).any():
            shape = "circle,pad=0.25" if discs else "round,pad=0.15"
            box = {"boxstyle": shape, "facecolor": "white", "edgecolor": colour, "linewidth": 2 if discs else 1}
            short = name if len(name) <= LETTERS else name[: LETTERS - 1] + "…"
            look: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": "small", "fontweight": "bold"}
            ax.text(
                float(place[0]), float(place[1]), short, color=INK, bbox={**box, "alpha": 0.9}, clip_on=True, **look
            )


def _draw_legend(ax: Axes, groups: Groups, title: str) -> None:
    """Names and sizes, in the order of the colours."""
    sizes = np.bincount(groups.codes[groups.codes >= 0], minlength=len(groups.names))
    without = int((groups.codes < 0).sum())
    if len(groups.names) > LISTED:
        return
    entries = [(f"{groups.names[k]} ({sizes[k]})", k) for k in np.argsort(groups.colours, kind="stable")]
    entries += [(f"none ({without})", -1)] * (without > 0)
    line = require_matplotlib("lines").Line2D
    colours = _colours(groups)
    handles = [line([], [], color=colours[k], marker="o", linestyle="", label=label) for label, k in entries]
    place: dict[str, Any] = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)}
    ax.legend(handles=handles, title=title, frameon=False, fontsize="small", alignment="left", **place)


def _set_limits(axes: Any, rows: Floats, centres: Floats | None) -> None:
    """One unit is as long across as up, in squares, so that distances can be compared."""
    shown = rows if centres is None else np.concatenate([rows, centres])
    low, high = shown.min(axis=0), shown.max(axis=0)
    middle, half = (low + high) / 2, (0.5 + ROOM) * (float((high - low).max()) or 1.0)
    for ax in axes:
        ax.set(xlim=(middle[0] - half, middle[0] + half), ylim=(middle[1] - half, middle[1] + half), box_aspect=1)
