"""Pictures of fitted mixtures and co-clusterings (needs matplotlib, the extra ``plot``).

Colours are those of Okabe and Ito, which people with colour vision deficiencies tell apart. Markers change
with them and components are numbered, so that a figure survives a black-and-white printer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._typing import Floats, Integers
from .blocks import plot_block_means, plot_blocks
from .canvas import (
    COLOURS,
    GREY,
    INK,
    LINES,
    MARKERS,
    colour,
    draw_trace,
    line,
    marker,
    panels,
    require_matplotlib,
    without_frame,
)
from .confusion import plot_confusion
from .embedding import plot_embedding
from .geometry import (
    centres,
    component_covariances,
    component_densities,
    ellipse,
    ellipse_radii,
    has_counts,
    informative_features,
)
from .history import plot_history
from .selection import plot_block_bounds, plot_icl
from .sizes import plot_sizes
from .spots import hexagonal_positions, plot_spots

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "COLOURS",
    "GREY",
    "INK",
    "LINES",
    "MARKERS",
    "hexagonal_positions",
    "panels",
    "plot_block_bounds",
    "plot_block_means",
    "plot_blocks",
    "plot_bounds",
    "plot_confusion",
    "plot_embedding",
    "plot_history",
    "plot_icl",
    "plot_mixture",
    "plot_sizes",
    "plot_spots",
    "require_matplotlib",
]

MIXTURE: Any = (0, (4, 1.5))  # dashes of the sum of the components
JITTER = 0.25  # counts are moved at most by it in pair plots, so that equal rows do not hide each other
BINS = (12, 60)  # fewest and most of a histogram; between them Freedman and Diaconis decide
GRID = 400  # points of a density curve
INCHES = 2.3  # side of one panel of a pair plot


class Drawing(NamedTuple):
    """What the panels of one figure share: only the features and the rows that are drawn."""

    X: Floats  # (m, d) rows drawn
    labels: Integers  # (m,) component of each, negative: none
    columns: Floats  # (n, d) all rows, for the histograms
    weights: Floats  # (K,)
    noise: float | None  # weight of the noise
    means: Floats  # (K, d)
    covariances: Floats | None  # (K, d, d)
    radii: Floats  # (K, 2) of the ellipses
    densities: Callable[[int, Floats], Floats | None]  # w_k f_k of drawn feature j at t (m,), (m, K)
    counts: bool
    names: list[str]  # (d,)


def plot_mixture(
    model: Any,
    X: Any,
    labels: Any = None,
    feature_names: Sequence[str] | None = None,
    *,
    max_features: int = 6,
    max_points: int = 5000,
) -> Figure:
    """Draw the rows of X (n, d), coloured by component, and the components of a fitted mixture of any family.

    Below the diagonal: pairs of features, with ellipses that hold 39 % and 86 % of a component in the plane
    (1 and 2 standard deviations of a Gaussian), numbered at their centres. In the product form, whose contours
    are no ellipses, they are at radius 1 and 2 of the scale matrix; families without a scale matrix have none.
    On the diagonal: the histogram of one feature, the marginal densities w_k f_k of the components, and their
    sum, noise left out. A multinomial, and a family of your own, have no such curves. One feature gives that
    one panel. Rows of noise are small grey crosses; counts are moved a little, at random, in pairs.

    Parameters
    ----------
    model : fitted mixture
        Has ``weights_``, ``means_``, ``covariances_`` and ``covariance_type``; scikit-learn's will do.
    X : array or DataFrame (n, d)
    labels : array (n,) of int, optional
        Group of every row, instead of ``model.predict(X)``; rows of negative label are drawn as noise.
    feature_names : sequence of d str, optional
        Default: the columns of a DataFrame, else the names that the model was fitted with.
    max_features : int, default 6
        Of more features, only those are drawn whose variance lies between components by the largest share;
        the title says so.
    max_points : int, default 5000
        Of more rows, a random sample is drawn, the same at every call. Histograms use all rows.

    Returns
    -------
    figure : matplotlib.figure.Figure
        d (d + 1) / 2 axes. Made by pyplot: close it with ``plt.close(figure)``.

    Raises
    ------
    ImportError
        matplotlib is not installed.
    ValueError
        X, labels or feature_names do not fit the model.
    """
    plt = require_matplotlib()
    drawing, title = _prepare(model, X, labels, feature_names, max_features, max_points)
    d = drawing.means.shape[1]
    side = 6.4 if d == 1 else max(2 * INCHES + 1, INCHES * d)
    figure = plt.figure(figsize=(side, 4.2 if d == 1 else side), layout="constrained")
    axes = np.full((d, d), None, dtype=object)
    for i in range(d):
        axes[i, i] = figure.add_subplot(d, d, i * d + i + 1, sharex=None)
        _draw_marginal(axes[i, i], drawing, i)
    for i in range(d):
        for j in range(i):
            axes[i, j] = figure.add_subplot(d, d, i * d + j + 1, sharex=axes[j, j])
            _draw_pair(axes[i, j], drawing, i, j)
    _label_edges(axes, drawing.names)
    _draw_legend(figure, axes, drawing)
    figure.suptitle(title, fontsize="medium", x=0.01, ha="left")
    return figure


def plot_bounds(models: Mapping[str, Any]) -> Figure:
    """Draw the lower bound of every iteration, nats per row, of fitted models by name (``lower_bounds_``).

    Returns
    -------
    figure : matplotlib.figure.Figure
        One axes. The last value of every trace is marked and written in the legend.

    Raises
    ------
    ImportError
        matplotlib is not installed.
    ValueError
        There is no model.
    """
    if not models:
        raise ValueError("models is empty; it must map at least one name to a fitted model")
    plt = require_matplotlib()
    figure = plt.figure(figsize=(6.4, 4.2), layout="constrained")
    ax = figure.add_subplot()
    for k, (name, model) in enumerate(models.items()):
        bounds = np.asarray(model.lower_bounds_, float)
        draw_trace(ax, k, np.arange(len(bounds)), bounds, f"{name}: {bounds[-1]:.4f}")
    ax.set_xlabel("iteration")
    ax.set_ylabel("lower bound, nats per row")
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.legend(frameon=False, loc="lower right", title="final value", alignment="left")
    without_frame(ax)
    return figure


def _prepare(
    model: Any, X: Any, labels: Any, feature_names: Any, max_features: int, max_points: int
) -> tuple[Drawing, str]:
    """Check, choose features and rows, and say in a title what was left out."""
    if not hasattr(model, "means_"):
        raise ValueError("model has no means_; only a fitted mixture that has them can be drawn")
    n, d = X.shape if hasattr(X, "shape") and len(X.shape) == 2 else np.atleast_2d(np.asarray(X)).shape
    if d != model.means_.shape[1]:
        raise ValueError(f"X has {d} features; the model was fitted to {model.means_.shape[1]}")
    names = _names(model, X, feature_names, d)
    rows = np.arange(n)
    if n > max_points:
        rows = np.sort(np.random.default_rng(0).choice(n, max_points, replace=False))
    drawn = X.iloc[rows] if hasattr(X, "iloc") else np.asarray(X)[rows]
    group = model.predict(drawn) if labels is None else _check_labels(labels, n)[rows]
    weights, means, covariances = np.asarray(model.weights_, float), centres(model, X), component_covariances(model)
    within = np.diag(np.var(np.asarray(X, float), axis=0))[None] if covariances is None else covariances
    keep = np.arange(d) if d <= max_features else informative_features(weights, means, within, max_features)
    columns = np.asarray(X.iloc[:, keep] if hasattr(X, "iloc") else np.asarray(X)[:, keep], float)
    title = f"{len(weights)} components, {n} rows"
    if n > max_points:
        title += f" ({max_points} of them drawn)"
    if d > max_features:
        title += f"; {max_features} of {d} features, those that differ most between components"
    drawing = Drawing(
        columns[rows],
        group,
        columns,
        weights,
        getattr(model, "noise_weight_", None),
        means[:, keep],
        None if covariances is None else covariances[:, keep[:, None], keep],
        ellipse_radii(model),
        lambda j, t: component_densities(model, int(keep[j]), t),
        has_counts(model),
        [names[j] for j in keep],
    )
    return drawing, title


def _names(model: Any, X: Any, feature_names: Sequence[str] | None, d: int) -> list[str]:
    if feature_names is None:
        feature_names = getattr(X, "columns", getattr(model, "feature_names_in_", None))
    if feature_names is None:
        return [f"feature {j}" for j in range(d)] if d > 1 else ["x"]
    if len(feature_names) != d:
        raise ValueError(f"feature_names has {len(feature_names)} names; X has {d} features: give one name each")
    return [str(name) for name in feature_names]


def _check_labels(labels: Any, n: int) -> Integers:
    group = np.asarray(labels)
    if group.shape != (n,) or not np.issubdtype(group.dtype, np.integer):
        raise ValueError(
            f"labels has shape {group.shape} and type {group.dtype}; it must hold one integer for each of the {n} rows"
        )
    return group


def _draw_marginal(ax: Axes, drawing: Drawing, j: int) -> None:
    """Histogram of feature j with the densities of the components and of the mixture."""
    x = drawing.columns[:, j]
    low, high = _limits(x, drawing.counts)
    ax.hist(x, bins=_bins(x, drawing.counts), density=True, color="#E4E4E4", edgecolor="white", linewidth=0.4)
    t = np.linspace(low, high, GRID)
    if drawing.counts:
        t = np.unique(np.round(np.linspace(x.min(), x.max(), GRID)))
    elif drawing.covariances is not None:
        scales = np.sqrt(drawing.covariances[:, j, j])
        peaks = (drawing.means[:, j] + np.linspace(-3, 3, 25)[:, None] * scales).ravel()  # narrow ones are not missed
        t = np.sort(np.concatenate([t, peaks[(peaks > low) & (peaks < high)]]))
    densities = drawing.densities(j, t)
    if densities is not None:
        points: dict[str, Any] = {"marker": ".", "markersize": 4} if drawing.counts and len(t) < GRID / 4 else {}
        for k, density in enumerate(densities.T):
            ax.plot(t, density, color=colour(k), linewidth=1.3, linestyle=line(k), **points)
        ax.plot(t, densities.sum(axis=1), color=INK, linewidth=1.0, linestyle=MIXTURE)
    ax.set_xlim(low, high)
    ax.set_yticks([])
    without_frame(ax)
    ax.spines["left"].set_visible(False)


def _draw_pair(ax: Axes, drawing: Drawing, i: int, j: int) -> None:
    """Rows and ellipses in the plane of feature j (across) and feature i (up)."""
    pair = np.array([j, i])
    X = drawing.X[:, pair]
    if drawing.counts:
        X = X + np.random.default_rng(0).uniform(-JITTER, JITTER, X.shape)
    size = float(np.clip(6000 / max(len(X), 1), 2, 18))
    for k in np.unique(drawing.labels):
        x, y = X[drawing.labels == k].T
        many = len(X) > 2000  # a vector graphic of so many points is slow to show
        look: dict[str, Any] = {"alpha": 0.55, "linewidths": 0} if k >= 0 else {"alpha": 0.9, "linewidths": 0.8}
        ax.scatter(x, y, size, colour(k), marker=marker(k), rasterized=many, **look)
    for k in np.flatnonzero(drawing.weights > 0).tolist():
        if drawing.covariances is not None:
            _draw_ellipses(ax, k, drawing.means[k][pair], drawing.covariances[k][np.ix_(pair, pair)], drawing.radii[k])
        _number(ax, k, drawing.means[k][pair])
    ax.set_ylim(*_limits(drawing.columns[:, i], drawing.counts))
    without_frame(ax)


def _draw_ellipses(ax: Axes, k: int, mean: Floats, covariance: Floats, radii: Floats) -> None:
    """Ellipses of component k."""
    from matplotlib import patches

    for number, radius in enumerate(radii.tolist()):
        shape = ellipse(mean, covariance, radius)
        a, b = shape.half_axes
        look = {"linewidth": (1.6, 1.1)[number], "linestyle": ("-", "--")[number]}
        ax.add_patch(
            patches.Ellipse(tuple(mean), 2 * a, 2 * b, angle=shape.angle, fill=False, edgecolor=colour(k), **look)
        )


def _number(ax: Axes, k: int, centre: Floats) -> None:
    """The number of component k at its centre."""
    from matplotlib.patheffects import withStroke

    halo = [withStroke(linewidth=2, foreground="white")]
    look: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": "small", "fontweight": "bold", "clip_on": True}
    ax.text(centre[0], centre[1], str(k), color=colour(k), path_effects=halo, **look)


def _bins(x: Floats, counts: bool) -> Any:
    """Bins by Freedman and Diaconis, kept in BINS whatever the outliers; one for every count if they are few."""
    if counts and np.ptp(x) < BINS[1]:
        return np.arange(x.min(), x.max() + 2) - 0.5
    first, third = np.percentile(x, [25, 75])
    width = 2 * (third - first) / len(x) ** (1 / 3)
    return int(np.clip(np.ptp(x) / width, *BINS)) if width > 0 else BINS[0]


def _limits(x: Floats, counts: bool) -> tuple[float, float]:
    low, high = float(x.min()), float(x.max())
    room = max(0.04 * (high - low) or 0.5, 0.6 * counts)
    return low - room, high + room


def _label_edges(axes: Any, names: list[str]) -> None:
    """Names and tick labels only at the left and at the bottom."""
    d = len(names)
    for i in range(d):
        for j in range(i + 1):
            ax = axes[i, j]
            ax.tick_params(labelsize="x-small", length=2, labelbottom=i == d - 1, labelleft=j == 0)
            if i == d - 1:
                ax.set_xlabel(names[j])
            if j == 0 and i > 0:
                ax.set_ylabel(names[i])
    if d == 1:
        axes[0, 0].set_ylabel("density")


def _draw_legend(figure: Figure, axes: Any, drawing: Drawing) -> None:
    """Component, marker and weight, in the empty upper triangle; beside the panel if there is one feature."""
    from matplotlib.lines import Line2D

    K, d = drawing.means.shape
    handles = []
    for k, weight in enumerate(drawing.weights):
        look: dict[str, Any] = {"marker": marker(k), "linestyle": ""} if d > 1 else {"linestyle": line(k)}
        handles.append(Line2D([], [], color=colour(k), label=f"{k}: {weight:.3g}", **look))
    noisy = drawing.noise is not None
    if noisy or (drawing.labels < 0).any():
        label = f"noise: {drawing.noise:.3g}" if noisy else "noise"
        handles.append(Line2D([], [], color=GREY, marker=marker(-1), linestyle="", markersize=4, label=label))
    sum_of = "mixture without noise" if noisy else "mixture"
    handles.append(Line2D([], [], color=INK, linewidth=1.0, linestyle=MIXTURE, label=sum_of))
    options: dict[str, Any] = {
        "handles": handles,
        "title": "component: weight",
        "frameon": False,
        "fontsize": "small",
    }
    columns = 1 + K // 12
    if d == 1:
        axes[0, 0].legend(ncols=columns, **options)
    else:
        figure.legend(loc="upper right", bbox_to_anchor=(0.99, 0.95), ncols=columns, **options)
