"""Pictures of co-clusterings: the matrix by blocks, and the parameters of the blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import isotonic_regression

from .._typing import Floats, Integers
from .canvas import GREY, INK, MORE_COLOURS, panels, require_matplotlib
from .pixels import Side, arrange, block_order, matrix_of, pixel_means

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAMED = 60  # more names than these cannot be read along an axis
ROUNDING = 1e-12  # of the largest parameter: less is 0, and no sign
FAINT = 0.05  # share of the colour scale below which bars of means are left short: standardised columns are no news
TAILS = (1, 99)  # percentiles of the pixels between which colours change
LETTER, LINE = 0.016, 0.035  # width and height of a letter of a label, as shares of the axis
NARROWEST = 0.09  # a block is drawn at least this wide, so that its number can be read


def plot_blocks(
    model: Any,
    X: Any,
    *,
    row_names: Sequence[str] | None = None,
    column_names: Sequence[str] | None = None,
    transform: Callable[[Any], Any] | None = None,
    max_cells: int = 600,
) -> Figure:
    """Draw the matrix X (n, m) with the rows and columns of a cluster side by side, and borders between blocks.

    Clusters are in an order that brings high blocks to the diagonal, rows and columns of a cluster by descending mean.
    At the top are the means of the columns and at the right those of the rows, in the colours of their clusters, with
    the number of every cluster and, in brackets, its size. Empty clusters have no place. Missing cells (NaN) are grey.
    Colours change between the 1st and the 99th percentile of what is drawn; they are symmetric about zero where that
    lies between.

    Parameters
    ----------
    model : fitted co-clustering
        Has ``row_labels_`` and ``column_labels_``; scikit-learn's will do. Where it has ``block_parameters_``, the first
        of them decides the order of the clusters, as in ``plot_block_means``; else the block means of X do.
    X : array, DataFrame or sparse matrix (n, m)
        What the model was fitted to. A sparse matrix is never made dense.
    row_names, column_names : sequences of n and m str, optional
        Written where there are at most 60. Default: those of a DataFrame.
    transform : function, optional
        Of the cells, elementwise, for example ``numpy.log1p``; means are those of transformed cells. It must map 0 to 0
        if X is sparse.
    max_cells : int, default 600
        Of more rows (columns), neighbours in a cluster are averaged to about so many.

    Returns
    -------
    figure : matplotlib.figure.Figure
        Its axes: means of columns, an empty corner, the matrix, means of rows, the colour bar.

    Raises
    ------
    ImportError
        matplotlib is not installed.
    ValueError
        Labels or names do not fit X; X is no matrix of numbers, or has infinite cells; transform gives other than finite
        numbers, or other than 0 at the zeros of a sparse matrix.
    """
    if max_cells < 1:
        raise ValueError(f"max_cells={max_cells} must be at least 1; 600 fills a screen")
    matrix = matrix_of(X)
    labels = (_labels(model, "row", matrix.shape[0]), _labels(model, "column", matrix.shape[1]))
    names = tuple(_names(given, X, matrix.shape, axis) for axis, given in enumerate((row_names, column_names)))
    rows, columns = arrange(matrix, labels, transform, max_cells, _first_means(model, labels))
    figure, axes = panels(2, 2, (8.2, 6.8), width_ratios=(6, 1), height_ratios=(1, 6), sharex="col", sharey="row")
    _draw_pixels(axes[1, 0], pixel_means(matrix, rows, columns, transform), rows, columns)
    _draw_colour_bar(figure, axes, "mean cell" if transform is None else f"mean of {_name(transform)} of a cell")
    _draw_margin(axes[1, 1], rows, upright=False, span=np.ptp(axes[1, 0].images[0].get_clim()))
    _draw_margin(axes[0, 0], columns, upright=True, span=np.ptp(axes[1, 0].images[0].get_clim()))
    axes[0, 1].axis("off")
    axes[0, 1].text(0.1, 0.02, "cluster\n(size)", fontsize="small", transform=axes[0, 1].transAxes)
    _draw_names(axes[1, 0].yaxis, rows, names[0], "row")
    _draw_names(axes[1, 0].xaxis, columns, names[1], "column")
    return figure


def plot_block_means(model: Any, parameter: str | None = None) -> Figure:
    """Draw a parameter of every block of a co-clustering as a heat map (K, L) with numbers.

    Clusters are in the order of ``plot_blocks``, labelled by their numbers and, in brackets, sizes; empty ones are left
    out. Heights and widths are proportional to the sizes, except that a narrow block is widened so that its number can be
    read. Numbers have three digits; where some are negative, the decimals of the largest.

    Parameters
    ----------
    model : fitted co-clustering
        Has ``block_parameters_``, ``row_labels_`` and ``column_labels_``.
    parameter : str, optional
        A name in ``block_parameters_``. Default: the first.

    Returns
    -------
    figure : matplotlib.figure.Figure
        One axes, and the colour bar. A parameter (K, L, C), as of a multinomial, has C axes side by side.

    Raises
    ------
    ImportError
        matplotlib is not installed.
    ValueError
        The model has no such parameter, or it is not one number (or C numbers) a block.
    """
    parameters = getattr(model, "block_parameters_", {})
    parameter = next(iter(parameters), None) if parameter is None else parameter
    if parameter not in parameters:
        raise ValueError(
            f"parameter={parameter!r} is none of the model's block parameters; choose from {list(parameters)}"
        )
    values = np.asarray(parameters[parameter], float)
    if values.ndim not in (2, 3):
        raise ValueError(
            f"parameter={parameter!r} has shape {values.shape}; it must be (K, L) or (K, L, C) to be drawn"
        )
    sizes = tuple(
        np.bincount(getattr(model, f"{side}_labels_"), minlength=k)
        for side, k in zip(("row", "column"), values.shape, strict=False)
    )
    first = np.asarray(next(iter(parameters.values())), float)
    order = block_order(_flat(first if first.shape[:2] == values.shape[:2] else values), *sizes)
    layers = np.moveaxis(values[:, :, None] if values.ndim == 2 else values, 2, 0)[:, order[0]][:, :, order[1]]
    width = 1.6 + max(3.4, 0.75 * len(order[1]))
    figure, axes = panels(1, len(layers), (len(layers) * width, 1.4 + max(2.6, 0.5 * len(order[0]))), sharey=True)
    for c, (ax, layer) in enumerate(zip(axes[0], layers, strict=True)):
        image = _draw_means(ax, layer, layers, order, sizes)
        ax.set_title(parameter if values.ndim == 2 else f"{parameter}: category {c}", fontsize="medium")
    axes[0, 0].set_ylabel("row cluster (size)")
    figure.colorbar(image, ax=axes, shrink=0.8)
    return figure


def _labels(model: Any, side: str, size: int) -> Integers:
    labels = np.asarray(getattr(model, f"{side}_labels_", None))
    if labels.shape != (size,) or not np.issubdtype(labels.dtype, np.integer) or labels.min() < 0:
        raise ValueError(
            f"{side}_labels_ of the model has shape {labels.shape} and type {labels.dtype}; X has {size} {side}s: "
            "pass a fitted co-clustering and the matrix that it was fitted to"
        )
    return labels.astype(np.int64)


def _names(given: Sequence[str] | None, X: Any, shape: tuple[int, int], axis: int) -> list[str] | None:
    """Names of rows (axis 0) or columns: the given ones, or those of a DataFrame unless it only counts."""
    side = ("row", "column")[axis]
    if given is None and hasattr(X, "iloc") and X.axes[axis].inferred_type not in ("integer", "floating"):
        given = X.axes[axis]
    if given is not None and len(given) != shape[axis]:
        raise ValueError(f"{side}_names has {len(given)} names; X has {shape[axis]} {side}s: give one name each")
    return None if given is None else [str(name) for name in given]


def _first_means(model: Any, labels: tuple[Integers, ...]) -> Floats | None:
    """What orders the clusters: the first block parameter if it covers all labels."""
    first = next(iter(getattr(model, "block_parameters_", {}).values()), None)
    if first is None or np.ndim(first) not in (2, 3):
        return None
    covered = all(l.max() < k for l, k in zip(labels, np.shape(first), strict=False))
    return _flat(np.asarray(first, float)) if covered else None


def _flat(values: Floats) -> Floats:
    """One number a block, (K, L): of probabilities (K, L, C) the mean category."""
    return values if values.ndim == 2 else values @ np.arange(values.shape[2])


def _look(values: Floats, tails: tuple[int, int]) -> dict[str, Any]:
    """Colour map and limits, percentiles of the finite values: symmetric about zero where it lies between."""
    seen = values[~np.isnan(values)]
    low, high = np.percentile(seen, tails) if len(seen) else (0.0, 1.0)
    if low == high:
        low, high = (seen.min(), seen.max()) if np.ptp(seen) > 0 else (low - 0.5, high + 0.5)
    both = low < 0 < high
    high = max(-low, high) if both else high
    colours = require_matplotlib().get_cmap("RdBu_r" if both else "OrRd").with_extremes(bad=GREY)
    return {"cmap": colours, "vmin": -high if both else low, "vmax": high}


def _name(transform: Any) -> str:
    return getattr(transform, "__name__", "a transform")


def _draw_colour_bar(figure: Figure, axes: Any, label: str) -> None:
    """Beside the matrix, with a pointed end where pixels lie beyond the scale."""
    image = axes[1, 0].images[0]
    low, high = image.get_clim()
    seen = image.get_array().compressed()
    beyond = (bool(seen.min(initial=low) < low), bool(seen.max(initial=high) > high))
    extend = {(True, True): "both", (True, False): "min", (False, True): "max", (False, False): "neither"}[beyond]
    figure.colorbar(image, ax=axes, shrink=0.6, aspect=30, extend=extend, label=label)


def _draw_pixels(ax: Axes, pixels: Floats, rows: Side, columns: Side) -> None:
    """The matrix, the first row at the top, and the borders of its blocks."""
    ax.pcolorfast(columns.edges, rows.edges, np.ma.masked_invalid(pixels), **_look(pixels, TAILS))
    for border in rows.borders[1:-1]:
        ax.axhline(border, color=INK, linewidth=0.9)
    for border in columns.borders[1:-1]:
        ax.axvline(border, color=INK, linewidth=0.9)
    ax.set_xlim(0, columns.edges[-1])
    ax.set_ylim(rows.edges[-1], 0)
    ax.spines[:].set_visible(True)


def _draw_margin(ax: Axes, side: Side, upright: bool, span: float) -> None:
    """Means of columns (upright bars) or rows, and beyond them the numbers of the clusters and their sizes."""
    means = side.pixel_means
    orientation: Any = "vertical" if upright else "horizontal"
    names = [f"{k}\n({n})" if upright else f"{k} ({n})" for k, n in zip(side.clusters, side.sizes, strict=True)]
    room = [LETTER * (len(name) - name.index("(")) if upright else LINE for name in names]
    for c, (name, ends) in enumerate(zip(names, zip(*_label_places(side, room), strict=True), strict=True)):
        first, last = np.searchsorted(side.edges, side.borders[c : c + 2])
        colour = MORE_COLOURS[side.clusters[c] % len(MORE_COLOURS)]
        ax.stairs(means[first:last], side.edges[first : last + 1], orientation=orientation, fill=True, color=colour)
        _draw_label(ax, name, ends, colour, upright)
    if np.abs(means).max(initial=0, where=~np.isnan(means)) < FAINT * span:
        (ax.set_ylim if upright else ax.set_xlim)(-FAINT * span, FAINT * span)
    (ax.set_ylabel if upright else ax.set_xlabel)("mean", fontsize="small")
    ax.tick_params(labelsize="x-small", labelbottom=not upright, labelleft=upright)
    ax.tick_params(axis="x" if upright else "y", length=0)


def _draw_label(ax: Axes, name: str, ends: tuple[float, float], colour: str, upright: bool) -> None:
    """A name outside the axes, and the line to it from ends[0], the centre of its cluster, to ends[1], its place."""
    where = ax.get_xaxis_transform() if upright else ax.get_yaxis_transform()
    points = list(zip(ends, (1.03, 1.22), strict=True))  # along the matrix, and away from it in lengths of these axes
    centre, place = points if upright else [point[::-1] for point in points]
    line = {"arrowstyle": "-", "color": colour, "shrinkA": 0, "shrinkB": 0, "relpos": (0.5, 0) if upright else (0, 0.5)}
    look: dict[str, Any] = {"ha": "center", "va": "bottom"} if upright else {"ha": "left", "va": "center"}
    ax.annotate(name, centre, place, where, where, fontsize="small", arrowprops=line, **look)


def _label_places(side: Side, room: list[float]) -> tuple[Floats, Floats]:
    """Centres of the clusters, and the places of their labels: as near as may be, each with its room (share of the axis)."""
    n = side.borders[-1]
    centres = (side.borders[:-1] + side.borders[1:]) / 2
    before = n * np.concatenate([[0.0], np.cumsum((np.array(room[:-1]) + room[1:]) / 2)])
    return centres, np.clip(isotonic_regression(centres - before).x, 0, max(n - before[-1], 0)) + before


def _draw_names(axis: Any, side: Side, names: list[str] | None, kind: str) -> None:
    """Names of rows or columns if they can be read, and how many there are."""
    n = len(side.order)
    if names is not None and n <= NAMED:
        axis.set_ticks(np.arange(n) + 0.5, [names[i] for i in side.order], fontsize="x-small")
    else:
        axis.set_ticks([])
    if kind == "column":
        axis.set_tick_params(rotation=90)
    clusters = len(side.clusters)
    axis.set_label_text(f"{n} {kind}s in {clusters} cluster{'s' * (clusters > 1)}")


def _draw_means(ax: Axes, layer: Floats, everything: Floats, order: Any, sizes: Any) -> Any:
    """One heat map with numbers, and the names of the clusters."""
    edges = [_widths(s[o]) for s, o in zip(sizes, order, strict=True)]
    largest = max(float(np.nanmax(np.abs(everything))), 1e-300)
    everything, layer = (np.where(np.abs(v) < ROUNDING * largest, 0.0, v) for v in (everything, layer))
    look = _look(everything, (0, 100))
    image = ax.pcolormesh(edges[1], edges[0], layer, edgecolors="white", linewidth=1.5, **look)
    middles = [(e[1:] + e[:-1]) / 2 for e in edges]
    signed = np.nanmin(everything) < 0
    decimals = max(
        0, 2 - int(np.floor(np.log10(largest)))
    )  # three digits of the largest: small negative ones are short
    for i, j in np.ndindex(*layer.shape):
        value = layer[i, j]
        number = f"{np.round(value, decimals) + 0.0:.{decimals}f}" if signed else f"{value:.3g}"  # + 0: no minus zero
        dark = np.dot(image.to_rgba(value)[:3], (0.3, 0.59, 0.11)) < 0.5  # luminance
        place: dict[str, Any] = {"ha": "center", "va": "center", "color": "white" if dark else INK}
        ax.text(float(middles[1][j]), float(middles[0][i]), number, fontsize="small", **place)
    ax.set_xticks(middles[1], [f"{l}\n({sizes[1][l]})" for l in order[1]], fontsize="small")
    ax.set_yticks(middles[0], [f"{k} ({sizes[0][k]})" for k in order[0]], fontsize="small")
    ax.tick_params(length=0)
    ax.set_ylim(1, 0)
    ax.spines[:].set_visible(False)
    ax.set_xlabel("column cluster (size)")
    return image


def _widths(sizes: Integers) -> Floats:
    """Borders in [0, 1] of bands proportional to the sizes, none below NARROWEST."""
    least = min(NARROWEST, 1 / len(sizes))
    shares = sizes / sizes.sum()
    free = np.maximum(shares - least, 0)
    widths = least + free / free.sum() * (1 - least * len(sizes)) if free.sum() > 0 else np.full(len(sizes), least)
    return np.concatenate([[0], np.cumsum(widths)])
