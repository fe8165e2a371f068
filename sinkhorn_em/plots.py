"""Pictures of fitted mixtures (needs matplotlib, the extra ``plot``).

Colours are those of Okabe and Ito, which people with colour vision deficiencies tell apart. Markers change
with them and components are numbered, so that a figure survives a black-and-white printer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ._typing import Floats, Integers

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#4D4D4D")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES = ("-", "--", "-.", ":")
GREY = "#9A9A9A"
INK = "#222222"
RADII = (1.0, 2.0)  # of the ellipses, in standard deviations
BINS = (12, 60)  # fewest and most of a histogram; between them Freedman and Diaconis decide
GRID = 400  # points of a density curve
INCHES = 2.3  # side of one panel of a pair plot


class Ellipse(NamedTuple):
    """An ellipse in the plane."""

    centre: Floats  # (2,)
    half_axes: Floats  # (2,) the longer one first
    angle: float  # of the longer one to the first coordinate, degrees in [0, 180)


class Drawing(NamedTuple):
    """What the panels of one figure share: only the features and the rows that are drawn."""

    X: Floats  # (m, d) rows drawn
    labels: Integers  # (m,) component of each, negative: none
    columns: Floats  # (n, d) all rows, for the histograms
    weights: Floats  # (K,)
    means: Floats  # (K, d)
    covariances: Floats  # (K, d, d)
    names: list[str]  # (d,)


def require_matplotlib() -> Any:
    """``matplotlib.pyplot``, or an ImportError that says how to get it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(f"plots need matplotlib ({error}): pip install 'sinkhorn-em[plot]'") from None
    return plt


def plot_mixture(
    model: Any,
    X: Any,
    labels: Any = None,
    feature_names: Sequence[str] | None = None,
    *,
    max_features: int = 6,
    max_points: int = 5000,
) -> Figure:
    """Draw the rows of X (n, d), coloured by component, and the components of a fitted Gaussian mixture.

    Below the diagonal: pairs of features, with the ellipses of the components at 1 and 2 standard deviations
    (they hold 39 % and 86 % of a Gaussian in the plane), numbered at their centres. On the diagonal: the
    histogram of one feature, the marginal densities w_k f_k of the components, and their sum. One feature
    gives that one panel.

    Parameters
    ----------
    model : fitted mixture
        Has ``weights_``, ``means_``, ``covariances_`` and ``covariance_type``; scikit-learn's will do.
    X : array or DataFrame (n, d)
    labels : array (n,) of int, optional
        Group of every row, instead of ``model.predict(X)``; rows of negative label are drawn in grey.
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
        look = {"color": _colour(k), "linestyle": LINES[k % len(LINES)], "linewidth": 1.8}
        end = {"marker": _marker(k), "markevery": [len(bounds) - 1], "markersize": 7}
        ax.plot(np.arange(len(bounds)), bounds, label=f"{name}: {bounds[-1]:.4f}", **look, **end)
    ax.set_xlabel("iteration")
    ax.set_ylabel("lower bound, nats per row")
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.legend(frameon=False, loc="lower right", title="final value", alignment="left")
    _open(ax)
    return figure


def component_covariances(model: Any) -> Floats:
    """Covariances of all components as matrices, (K, d, d), whatever the ``covariance_type``."""
    K, d = np.shape(model.means_)
    values, kind = np.asarray(model.covariances_, float), model.covariance_type
    if kind in ("full", "tied"):
        return np.broadcast_to(values, (K, d, d))
    if kind in ("diag", "tied_diag"):
        variances = np.broadcast_to(values, (K, d))
    elif kind in ("spherical", "tied_spherical"):
        variances = np.repeat(np.broadcast_to(values, (K,))[:, None], d, axis=1)
    else:
        raise ValueError(f"covariance_type is {kind!r}; its covariances are not known to this function")
    return variances[:, :, None] * np.eye(d)


def ellipse(mean: Floats, covariance: Floats, radius: float = 1.0) -> Ellipse:
    """The points at Mahalanobis distance ``radius`` from the mean: half axes radius * sqrt(eigenvalues)."""
    eigenvalues, U = np.linalg.eigh(np.asarray(covariance, float))
    half_axes = radius * np.sqrt(np.maximum(eigenvalues[::-1], 0.0))
    angle = float(np.degrees(np.arctan2(U[1, 1], U[0, 1])) % 180.0)
    return Ellipse(np.asarray(mean, float), half_axes, angle)


def informative_features(weights: Floats, means: Floats, covariances: Floats, size: int) -> Integers:
    """The ``size`` features whose variance lies between components by the largest share, most first."""
    between = weights @ (means - weights @ means) ** 2
    within = weights @ np.einsum("kjj->kj", covariances)
    total = between + within
    share = np.where(total > 0, between / np.where(total > 0, total, 1.0), 0.0)
    return np.argsort(-share, kind="stable")[:size]


def _prepare(
    model: Any, X: Any, labels: Any, feature_names: Any, max_features: int, max_points: int
) -> tuple[Drawing, str]:
    """Check, choose features and rows, and say in a title what was left out."""
    n, d = X.shape if hasattr(X, "shape") and len(X.shape) == 2 else np.atleast_2d(np.asarray(X)).shape
    if d != model.means_.shape[1]:
        raise ValueError(f"X has {d} features; the model was fitted to {model.means_.shape[1]}")
    names = _names(model, X, feature_names, d)
    rows = np.arange(n)
    if n > max_points:
        rows = np.sort(np.random.default_rng(0).choice(n, max_points, replace=False))
    drawn = X.iloc[rows] if hasattr(X, "iloc") else np.asarray(X)[rows]
    group = model.predict(drawn) if labels is None else _check_labels(labels, n)[rows]
    weights, means = np.asarray(model.weights_, float), np.asarray(model.means_, float)
    covariances = component_covariances(model)
    keep = np.arange(d) if d <= max_features else informative_features(weights, means, covariances, max_features)
    columns = np.asarray(X.iloc[:, keep] if hasattr(X, "iloc") else np.asarray(X)[:, keep], float)
    title = f"{len(weights)} components, {n} rows"
    if n > max_points:
        title += f" ({max_points} of them drawn)"
    if d > max_features:
        title += f"; {max_features} of {d} features, those that differ most between components"
    chosen = [names[j] for j in keep]
    inner = covariances[:, keep[:, None], keep]
    return Drawing(columns[rows], group, columns, weights, means[:, keep], inner, chosen), title


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
    low, high = _limits(x)
    ax.hist(x, bins=_bins(x), density=True, color="#E4E4E4", edgecolor="white", linewidth=0.4)
    means, scales = drawing.means[:, j], np.sqrt(drawing.covariances[:, j, j])
    peaks = (means + np.linspace(-3, 3, 25)[:, None] * scales).ravel()  # a narrow component is not missed
    t = np.sort(np.concatenate([np.linspace(low, high, GRID), peaks[(peaks > low) & (peaks < high)]]))
    z = (t[:, None] - means) / scales  # (len(t), K)
    densities = drawing.weights * np.exp(-0.5 * z**2) / (np.sqrt(2 * np.pi) * scales)
    for k, density in enumerate(densities.T):
        ax.plot(t, density, color=_colour(k), linewidth=1.3, linestyle=_line(k))
    ax.plot(t, densities.sum(axis=1), color=INK, linewidth=1.0, linestyle=(0, (4, 1.5)))
    ax.set_xlim(low, high)
    ax.set_yticks([])
    _open(ax)
    ax.spines["left"].set_visible(False)


def _draw_pair(ax: Axes, drawing: Drawing, i: int, j: int) -> None:
    """Rows and ellipses in the plane of feature j (across) and feature i (up)."""
    pair = np.array([j, i])
    size = float(np.clip(6000 / max(len(drawing.X), 1), 2, 18))
    for k in np.unique(drawing.labels):
        x, y = drawing.X[drawing.labels == k][:, pair].T
        many = len(drawing.X) > 2000  # a vector graphic of so many points is slow to show
        ax.scatter(x, y, size, _colour(k), marker=_marker(k), alpha=0.55, linewidths=0, rasterized=many)
    for k in np.flatnonzero(drawing.weights > 0).tolist():
        _draw_component(ax, k, drawing.means[k][pair], drawing.covariances[k][np.ix_(pair, pair)])
    ax.set_ylim(*_limits(drawing.columns[:, i]))
    _open(ax)


def _draw_component(ax: Axes, k: int, mean: Floats, covariance: Floats) -> None:
    """Ellipses of component k, and its number at the centre."""
    from matplotlib import patches
    from matplotlib.patheffects import withStroke

    for radius in RADII:
        shape = ellipse(mean, covariance, radius)
        (x, y), (a, b) = shape.centre, shape.half_axes
        style = "-" if radius == min(RADII) else "--"
        look = {"fill": False, "edgecolor": _colour(k), "linewidth": 1.6 / radius**0.5, "linestyle": style}
        ax.add_patch(patches.Ellipse((x, y), 2 * a, 2 * b, angle=shape.angle, **look))
    halo = [withStroke(linewidth=2, foreground="white")]
    look = {"ha": "center", "va": "center", "fontsize": "small", "fontweight": "bold", "clip_on": True}
    ax.text(x, y, str(k), color=_colour(k), path_effects=halo, **look)


def _bins(x: Floats) -> int:
    """Number of bins by Freedman and Diaconis, kept in BINS whatever the outliers."""
    first, third = np.percentile(x, [25, 75])
    width = 2 * (third - first) / len(x) ** (1 / 3)
    return int(np.clip(np.ptp(x) / width, *BINS)) if width > 0 else BINS[0]


def _limits(x: Floats) -> tuple[float, float]:
    low, high = float(x.min()), float(x.max())
    room = 0.04 * (high - low) or 0.5
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
        look: dict[str, Any] = {"marker": _marker(k), "linestyle": ""} if d > 1 else {"linestyle": _line(k)}
        handles.append(Line2D([], [], color=_colour(k), label=f"{k}: {weight:.3g}", **look))
    handles.append(Line2D([], [], color=INK, linewidth=1.0, linestyle=(0, (4, 1.5)), label="mixture"))
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


def _open(ax: Axes) -> None:
    ax.spines[["top", "right"]].set_visible(False)


def _colour(k: int) -> str:
    return GREY if k < 0 else COLOURS[k % len(COLOURS)]


def _marker(k: int) -> str:
    return "." if k < 0 else MARKERS[(k + k // len(COLOURS)) % len(MARKERS)]


def _line(k: int) -> str:
    return LINES[k // len(COLOURS) % len(LINES)]
