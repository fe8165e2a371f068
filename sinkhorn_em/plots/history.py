"""What a deep clustering did from epoch to epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .._typing import Floats
from .canvas import COLOURS, GREY, INK, marker, panels, require_matplotlib

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLES = {
    "loss": "loss",
    "reconstruction": "reconstruction",
    "transport": "transport",
    "marginal_error": "marginal error (L1)",
    "plan_entropy": "entropy of the plan, nats",
    "accuracy": "accuracy",
}
SHARES = ("accuracy",)  # drawn on the axis from 0 to 1
WIDE = 20.0  # ratio of the largest to the smallest value from which a positive quantity has a logarithmic axis
FEW = 30  # values, if there is none for some epochs, that have dots
ACROSS = 3  # panels side by side
PANEL = (3.4, 2.5)  # inches


def plot_history(history: Any) -> Figure:
    """Draw the training of a deep clustering: each quantity against the epoch in a panel of its own.

    Phases differ in colour and are parted by lines; the last value is marked and written. Quantities that are missing,
    or nowhere finite, have no panel; epochs without a value are passed over. A quantity that is positive and
    changes more than 20-fold has a logarithmic axis.

    Parameters
    ----------
    history : DataFrame
        A row for each epoch with some of the columns ``loss``, ``reconstruction``, ``transport``, ``marginal_error``,
        ``plan_entropy`` and ``accuracy``. ``epoch`` is the horizontal axis; where there is none, or where it starts again
        in a phase, epochs are counted from 1 through all phases. ``phase``: names, such as "pretrain" and "train".

    Returns
    -------
    figure : matplotlib.figure.Figure
        An axes for every quantity, three side by side.

    Raises
    ------
    ImportError
        matplotlib is not installed.
    ValueError
        There are no rows, or none of the columns has a finite number.
    """
    if not hasattr(history, "columns") or len(history) == 0:
        raise ValueError(f"history is {type(history).__name__} without rows; it must be a table, one row an epoch")
    traces = {name: np.asarray(history[name], float) for name in TITLES if name in history}
    traces = {name: values for name, values in traces.items() if np.isfinite(values).any()}
    if not traces:
        raise ValueError(
            f"history has columns {list(history.columns)}; at least one of {list(TITLES)} must have numbers"
        )
    epochs = _epochs(history)
    runs = _runs(history)
    across = min(ACROSS, len(traces))
    down = -(-len(traces) // across)
    figure, axes = panels(down, across, (PANEL[0] * across, PANEL[1] * down + 0.4), sharex=True)
    for ax, (name, values) in zip(axes.flat, traces.items(), strict=False):
        _draw_quantity(ax, epochs, values, runs)
        _scale(ax, name, values)
        ax.set_title(TITLES[name], fontsize="medium", loc="left")
    for k, ax in enumerate(axes.flat):
        ax.set_visible(k < len(traces))
        if k + across >= len(traces):  # nothing below it
            ax.set_xlabel("epoch")
            ax.tick_params(labelbottom=True)
    _draw_legend(figure, runs)
    return figure


def _epochs(history: Any) -> Floats:
    """As they are counted, or from 1 where that is not through all phases."""
    if "epoch" in history:
        epochs = np.asarray(history["epoch"], float)
        if (np.diff(epochs) > 0).all():
            return epochs
    return np.arange(1.0, len(history) + 1)


def _runs(history: Any) -> list[tuple[str, slice]]:
    """Phases in the order of the rows, and the rows of each."""
    if "phase" not in history:
        return [("", slice(0, len(history)))]
    phases = np.asarray(history["phase"]).astype(str)
    starts = np.concatenate([[0], np.flatnonzero(phases[1:] != phases[:-1]) + 1, [len(phases)]])
    return [(phases[i], slice(i, j)) for i, j in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)]


def _number(runs: list[tuple[str, slice]]) -> dict[str, int]:
    """Number of every phase, for its colour; a phase that comes again keeps it."""
    return {name: k for k, name in enumerate(dict.fromkeys(name for name, _ in runs))}


def _draw_quantity(ax: Axes, epochs: Floats, values: Floats, runs: list[tuple[str, slice]]) -> None:
    """One trace, in the colours of the phases, and its last value."""
    numbers = _number(runs)
    for name, rows in runs:
        there = np.isfinite(values[rows])
        sparse = there.sum() < min(there.size, FEW) or there.sum() == 1  # a line hides them, or there is none
        look: dict[str, Any] = {
            "color": COLOURS[numbers[name] % len(COLOURS)],
            "linewidth": 1.6,
            "marker": "." if sparse else None,
        }
        ax.plot(epochs[rows][there], values[rows][there], **look)
        if rows.start:
            ax.axvline((epochs[rows.start - 1] + epochs[rows.start]) / 2, color=GREY, linewidth=0.8, linestyle=":")
    last = np.flatnonzero(np.isfinite(values))[-1]
    name = next(name for name, rows in runs if rows.start <= last < rows.stop)
    k = numbers[name]
    ax.plot(epochs[last], values[last], color=COLOURS[k % len(COLOURS)], marker=marker(k), markersize=5)
    offset: dict[str, Any] = {"xytext": (6, 0), "textcoords": "offset points", "annotation_clip": False}
    number = f"{values[last]:.3g}"
    ax.annotate(number, (epochs[last], values[last]), va="center", fontsize="small", color=INK, **offset)


def _scale(ax: Axes, name: str, values: Floats) -> None:
    """A logarithmic axis for what changes by orders of magnitude, and all of it for shares."""
    seen = values[np.isfinite(values)]
    if name in SHARES:
        ax.set_ylim(0, 1)
    elif seen.min() > 0 and seen.max() / seen.min() > WIDE:
        ax.set_yscale("log")
    else:
        ax.margins(y=0.15)
    ax.xaxis.set_major_locator(require_matplotlib("ticker").MaxNLocator(5, integer=True))
    ax.grid(axis="y", color="#E4E4E4", linewidth=0.6)
    ax.set_axisbelow(True)


def _draw_legend(figure: Figure, runs: list[tuple[str, slice]]) -> None:
    """The phases, if they have names, above the panels."""
    numbers = _number(runs)
    if list(numbers) == [""]:
        return
    line = require_matplotlib("lines").Line2D
    handles = [line([], [], color=COLOURS[k % len(COLOURS)], label=name) for name, k in numbers.items()]
    figure.legend(handles=handles, loc="outside upper left", ncols=len(handles), frameon=False, fontsize="small")
