"""Traces of a training are the columns of its history, phase by phase."""

import matplotlib

matplotlib.use("Agg")

import sys

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from sinkhorn_em.plots import plot_history


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


def title(ax):
    return ax.get_title(loc="left")


def history(**changes):
    epoch = np.arange(1, 11)
    columns = {
        "epoch": epoch,
        "phase": np.repeat(["pretrain", "train"], [4, 6]),
        "loss": 3 - 0.1 * epoch,
        "reconstruction": 2 - 0.05 * epoch,
        "transport": np.where(epoch > 4, 1 / epoch, np.nan),
        "marginal_error": np.where(epoch > 4, 10.0**-epoch, np.nan),
        "plan_entropy": np.where(epoch > 4, 0.5, np.nan),
        "accuracy": np.where(epoch % 5 == 0, epoch / 20, np.nan),
    }
    return pd.DataFrame(columns | changes)


def trace(ax, run):
    """Epochs and values of a phase; after each there may be a line between phases."""
    lines = [line for line in ax.lines if line.get_linewidth() == 1.6]
    return np.array(lines[run].get_data())


def test_every_quantity_is_drawn_against_the_epoch_in_the_colour_of_its_phase():
    table = history()
    figure = plot_history(table)
    assert len(figure.axes) == 6
    for ax, name in zip(figure.axes, table.columns[2:], strict=True):
        both = np.concatenate([trace(ax, 0), trace(ax, 1)], axis=1)
        seen = table[["epoch", name]].dropna()
        np.testing.assert_array_equal(both, seen.to_numpy().T)
        assert ax.texts[0].get_text() == f"{seen[name].iloc[-1]:.3g}"
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["pretrain", "train"]
    first, second = (line for line in figure.axes[0].lines if line.get_linewidth() == 1.6)
    assert first.get_color() != second.get_color()


def test_errors_over_orders_of_magnitude_have_a_logarithmic_axis_and_accuracy_the_whole_of_its_own():
    axes = plot_history(history()).axes
    assert [ax.get_yscale() for ax in axes] == ["linear"] * 3 + ["log"] + ["linear"] * 2
    assert axes[5].get_ylim() == (0, 1)


def test_what_is_missing_has_no_panel():
    table = history(accuracy=np.nan).drop(columns=["transport", "phase", "plan_entropy"])
    figure = plot_history(table)
    titles = [title(ax) for ax in figure.axes if ax.get_visible()]
    assert titles == ["loss", "reconstruction", "marginal error (L1)"]
    assert not figure.legends


def test_epochs_that_start_again_in_a_phase_are_counted_on():
    [ax] = plot_history(history(epoch=[*range(4), *range(6)])[["epoch", "phase", "loss"]]).axes
    assert np.concatenate([trace(ax, 0)[0], trace(ax, 1)[0]]).tolist() == list(range(1, 11))


def test_a_phase_of_one_epoch_is_seen():
    [ax] = plot_history(history(phase=["start"] + ["train"] * 9)[["phase", "loss"]]).axes
    assert ax.lines[0].get_marker() == "."


@pytest.mark.parametrize(
    ("table", "message"),
    [(pd.DataFrame(), "without rows"), (pd.DataFrame({"epoch": [1], "loss": [np.nan]}), "must have numbers")],
)
def test_a_history_of_nothing_is_refused(table, message):
    with pytest.raises(ValueError, match=message):
        plot_history(table)


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install 'sinkhorn-em\[plot\]'"):
        plot_history(history())
