"""Pictures of how a co-clustering was found: the bounds of fits, and ICL over numbers of clusters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from .._typing import Floats
from .canvas import INK, LINES, colour, draw_trace, panels, require_matplotlib

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SPREADS = 3.0  # bounds shown below the best, in spreads of the final values,
TOP = 0.1  # or as a share of the gain after the first sweep
COLUMNS = ("n_row_clusters", "n_column_clusters", "icl")


def plot_block_bounds(models: Mapping[str, Any]) -> Figure:
    """Draw the bound of co-clusterings by name, total, nats, after every half step (``bounds_`` (sweeps, 5)).

    Only the top of the bounds is shown, where the traces part: the gain of the first sweeps would hide the rest.

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
    figure, axes = panels(1, 1, (7.6, 4.2))
    ax = axes[0, 0]
    traces = {name: np.asarray(model.bounds_, float) for name, model in models.items()}
    ends = [sweeps[-1, -1] for sweeps in traces.values()]
    gain = max(ends) - min(sweeps[0, -1] for sweeps in traces.values())
    low = max(ends) - (max(SPREADS * (max(ends) - min(ends)), TOP * gain) or 1.0)
    entries = []
    for k, (name, sweeps) in enumerate(traces.items()):
        bounds, x = sweeps.ravel(), np.arange(1, sweeps.size + 1) / sweeps.shape[1]
        draw_trace(ax, k, x, bounds, f"{name}: {bounds[-1]:.1f}")
        entries.append(x[np.argmax(bounds >= low)])
    ax.set_ylim(low, max(ends) + 0.06 * (max(ends) - low))
    ax.set_xscale("log")
    ax.set_xlim(left=0.8 * min(entries))
    ticker = require_matplotlib("ticker")
    ax.xaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    ax.xaxis.set_major_formatter(ticker.FormatStrFormatter("%g"))
    ax.xaxis.set_minor_locator(ticker.NullLocator())
    ax.set_xlabel("sweep: rows, parameters, columns, parameters, weights")
    ax.set_ylabel("bound, nats")
    ax.ticklabel_format(axis="y", style="plain", useOffset=False)
    ax.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5), title="final value", alignment="left")
    return figure


def plot_icl(table: Any) -> Figure:
    """Draw ICL over numbers of row and column clusters: what each pair lies above the best, which is framed (lower is better).

    Of several fits of a pair the best counts; fits whose ICL is not finite are left out, and pairs without a fit are empty.
    Where the table has ``step`` (from 0 on), the way of the search is drawn: the best fit of every step that improves on
    all steps before, and where there is ``move`` the colour says what led there.

    Parameters
    ----------
    table : DataFrame, or the result of a search
        ``n_row_clusters``, ``n_column_clusters``, ``icl`` (lower is better), and maybe ``step``
        and ``move`` ("split rows", "merge columns", ...): one row a fit, as ``coclustering.search_grid`` and
        ``search_moves`` give.

    Returns
    -------
    figure : matplotlib.figure.Figure
        One axes, and the colour bar.

    Raises
    ------
    ImportError
        matplotlib is not installed.
    ValueError
        A column is missing, or no ICL is finite.
    """
    table = getattr(table, "table", table)
    absent = [name for name in COLUMNS if name not in table]
    if absent:
        raise ValueError(f"table has no column {absent}; it must have {list(COLUMNS)}, one row a fit")
    fits = table[np.isfinite(np.asarray(table["icl"], float))]
    if len(fits) == 0:
        raise ValueError("table has no finite icl; fit at least one pair of numbers of clusters")
    K, L = (np.unique(fits[name]) for name in COLUMNS[:2])  # those that were tried, whatever lies between
    grid = fits.groupby(list(COLUMNS[:2]))["icl"].min().unstack().to_numpy(float)
    best = np.nanmin(grid)
    figure, axes = panels(1, 1, (2.4 + max(2.6, 0.72 * len(L)), 1.4 + max(2.4, 0.52 * len(K))))
    ax = axes[0, 0]
    image = _draw_excess(ax, K, L, grid - best)
    if "step" in fits:
        _draw_way(ax, fits, K, L)
    row, column = np.argwhere(grid == best)[0]
    frame = require_matplotlib("patches").Rectangle
    ax.add_patch(frame((column - 0.5, row - 0.5), 1, 1, fill=False, edgecolor=INK, linewidth=2.5, zorder=4))
    ax.set_title(f"best: {K[row]} x {L[column]} clusters, ICL {best:.1f}", fontsize="medium", loc="left")
    figure.colorbar(image, ax=ax, shrink=0.8, label="ICL above the best")
    return figure


def _draw_excess(ax: Axes, K: Any, L: Any, excess: Floats) -> Any:
    """The heat map over K (up) and L (across), on a square-root scale, with numbers."""
    norm = require_matplotlib("colors").PowerNorm(0.5, 0, max(float(np.nanmax(excess)), 1e-300))
    edges = [np.arange(len(k) + 1) - 0.5 for k in (L, K)]
    image = ax.pcolormesh(*edges, np.ma.masked_invalid(excess), cmap="Blues_r", norm=norm, edgecolors="white")
    for i, j in np.argwhere(~np.isnan(excess)):
        ink = "white" if norm(excess[i, j]) < 0.5 else INK
        ax.text(j - 0.44, i - 0.42, f"{excess[i, j]:.0f}", va="bottom", color=ink, fontsize="small", zorder=5)
    ax.set_xticks(np.arange(len(L)), [str(l) for l in L])
    ax.set_yticks(np.arange(len(K)), [str(k) for k in K])
    ax.set(xlabel="column clusters", ylabel="row clusters")
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    return image


def _draw_way(ax: Axes, fits: Any, K: Any, L: Any) -> None:
    """Arrows from step to step, coloured by what led there."""
    best = fits.loc[fits.groupby("step")["icl"].idxmin()].sort_values("step")
    best = best[best["icl"] < best["icl"].cummin().shift(fill_value=np.inf)]
    points = list(zip(np.searchsorted(L, best[COLUMNS[1]]), np.searchsorted(K, best[COLUMNS[0]]), strict=True))
    moves = best["move"].astype(str).to_list() if "move" in best else ["search"] * len(best)
    ax.plot(*points[0], marker="o", color=INK, linestyle="", label="start", zorder=4)
    seen: dict[str, int] = {}
    for start, end, move in zip(points, points[1:], moves[1:], strict=False):
        k = seen.setdefault(move, len(seen))
        look = {"arrowstyle": "-|>", "color": colour(k + 1), "linestyle": LINES[k % len(LINES)], "linewidth": 1.8}
        ax.annotate("", end, start, arrowprops={**look, "shrinkA": 3, "shrinkB": 3}, zorder=4)
    for move, k in seen.items():
        ax.plot([], [], color=colour(k + 1), linestyle=LINES[k % len(LINES)], label=move)
    ax.legend(frameon=False, fontsize="small", loc="lower left", bbox_to_anchor=(0, 1.06), ncols=len(seen) + 1)
