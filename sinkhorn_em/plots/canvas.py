"""What all figures share: matplotlib when it is there, colours, markers, lines, empty panels.

Colours are those of Okabe and Ito, which people with colour vision deficiencies tell apart; where there are more groups,
those of Tol's scheme "muted" follow that differ enough from them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#4D4D4D")
MORE_COLOURS = (*COLOURS, "#882255", "#DDCC77", "#332288", "#999933", "#CC6677", "#117733")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES = ("-", "--", "-.", ":")
GREY = "#9A9A9A"
INK = "#222222"


def require_matplotlib(module: str = "pyplot") -> Any:
    """``matplotlib.pyplot``, or another module of matplotlib, or an ImportError that says how to get it."""
    try:
        return import_module(f"matplotlib.{module}")
    except ImportError as error:
        raise ImportError(f"plots need matplotlib ({error}): pip install 'sinkhorn-em[plot]'") from None


def panels(n_rows: int, n_columns: int, size: tuple[float, float], **options: Any) -> tuple[Figure, Any]:
    """An empty figure of ``size`` inches, and its axes (n_rows, n_columns); ``options`` are those of ``pyplot.subplots``."""
    plt = require_matplotlib()
    figure, axes = plt.subplots(n_rows, n_columns, figsize=size, layout="constrained", squeeze=False, **options)
    for ax in axes.flat:
        without_frame(ax)
    return figure, axes


def draw_trace(ax: Axes, k: int, x: Any, bounds: Any, label: str) -> None:
    """The k-th trace of bounds, its end marked."""
    look: dict[str, Any] = {"color": colour(k), "linestyle": LINES[k % len(LINES)], "linewidth": 1.8}
    end: dict[str, Any] = {"marker": marker(k), "markevery": [len(bounds) - 1], "markersize": 7}
    ax.plot(x, bounds, label=label, **look, **end)


def without_frame(ax: Axes) -> None:
    ax.spines[["top", "right"]].set_visible(False)


def colour(k: int) -> str:
    return GREY if k < 0 else COLOURS[k % len(COLOURS)]


def marker(k: int) -> str:
    return "x" if k < 0 else MARKERS[(k + k // len(COLOURS)) % len(MARKERS)]


def line(k: int) -> str:
    return LINES[k // len(COLOURS) % len(LINES)]
