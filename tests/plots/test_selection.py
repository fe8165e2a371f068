"""Pictures of how a co-clustering was found: traces of its bounds, and ICL over numbers of clusters."""

import matplotlib

matplotlib.use("Agg")

from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from sinkhorn_em import LatentBlockModel
from sinkhorn_em.coclustering import search_moves
from sinkhorn_em.datasets import simulate_latent_blocks
from sinkhorn_em.plots import plot_block_bounds, plot_icl


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


def test_bounds_of_every_half_step_are_drawn_and_their_ends_are_in_the_legend():
    rng = np.random.default_rng(0)
    models = {
        f"start {s}": SimpleNamespace(bounds_=-np.sort(rng.exponential(50, 30))[::-1].reshape(6, 5)) for s in "ab"
    }
    ax = plot_block_bounds(models).axes[0]
    for line, model in zip(ax.lines, models.values(), strict=True):
        np.testing.assert_array_equal(line.get_ydata(), model.bounds_.ravel())
        assert line.get_xdata()[-1] == len(model.bounds_)  # sweeps
    last = models["start b"].bounds_[-1, -1]
    assert f"start b: {last:.1f}" in [text.get_text() for text in ax.get_legend().get_texts()]
    assert all(ax.get_ylim()[0] < model.bounds_[-1, -1] < ax.get_ylim()[1] for model in models.values())


def test_a_trace_of_one_sweep_without_gain_is_drawn():
    plot_block_bounds({"a": SimpleNamespace(bounds_=np.full((1, 5), -3.0))}).canvas.draw()


def test_bounds_of_no_model_are_refused():
    with pytest.raises(ValueError, match="models is empty"):
        plot_block_bounds({})


def icl_table(rows, columns=("n_row_clusters", "n_column_clusters", "icl", "step", "move")):
    return pd.DataFrame(rows, columns=list(columns[: len(rows[0])]))


def frame_of(ax):
    [best] = [patch for patch in ax.patches if isinstance(patch, plt.Rectangle)]
    columns, rows = ([int(tick.get_text()) for tick in ticks] for ticks in (ax.get_xticklabels(), ax.get_yticklabels()))
    return columns[int(best.get_x() + 0.5)], rows[int(best.get_y() + 0.5)]


def test_the_lowest_icl_is_framed_and_of_several_fits_of_a_pair_the_best_counts():
    ax = plot_icl(
        icl_table([(2, 2, 130.0), (2, 3, 90.0), (2, 2, 80.0), (4, 2, np.inf), (3, 3, np.nan), (3, 2, 85.0)])
    ).axes[0]
    assert frame_of(ax) == (2, 2)
    assert sorted(text.get_text() for text in ax.texts) == ["0", "10", "5"]  # above the best
    assert ax.collections[0].get_array().mask.sum() == 1  # 3 x 3 has no finite ICL, and no fit has 4 row clusters
    assert "2 x 2" in ax.get_title(loc="left")


def test_the_way_of_a_search_goes_from_improvement_to_improvement():
    rows = [(1, 1, 100.0, 0, "start"), (2, 1, 60.0, 1, "split rows"), (1, 2, 70.0, 1, "split columns")]
    rows += [(2, 2, 20.0, 2, "split columns"), (3, 1, 50.0, 2, "split rows"), (3, 2, 25.0, 3, "split rows")]
    ax = plot_icl(icl_table(rows)).axes[0]
    arrows = [(text.xyann, text.xy) for text in ax.texts if isinstance(text, plt.Annotation)]
    np.testing.assert_array_equal(arrows, [[(0, 0), (0, 1)], [(0, 1), (1, 1)]])  # columns across, rows up
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["start", "split rows", "split columns"]


def test_numbers_that_were_not_tried_take_no_room():
    ax = plot_icl(icl_table([(2, 2, 3.0), (64, 2, 1.0), (2, 128, 2.0)])).axes[0]
    assert ax.collections[0].get_array().shape == (2, 2)
    assert frame_of(ax) == (2, 64)


def test_a_table_of_one_fit_is_drawn():
    plot_icl(icl_table([(1, 1, 5.0, 0, "start")])).canvas.draw()


@pytest.mark.parametrize(
    ("table", "message"),
    [(icl_table([(1, 1)]), r"no column \['icl'\]"), (icl_table([(1, 1, np.inf)]), "no finite icl")],
)
def test_a_table_without_icl_is_refused(table, message):
    with pytest.raises(ValueError, match=message):
        plot_icl(table)


def test_a_search_by_moves_is_drawn_as_it_went():
    X = simulate_latent_blocks(60, 40, 4 * np.eye(3), random_state=0).data
    search = search_moves(LatentBlockModel(random_state=0), X)
    ax = plot_icl(search.table).axes[0]
    assert frame_of(ax) == (search.model.n_column_clusters, search.model.n_row_clusters)
    arrows = [text for text in ax.texts if isinstance(text, plt.Annotation)]
    assert len(arrows) == search.table["accepted"].sum() - 1  # the start is accepted too
    plot_block_bounds({"best": search.model}).canvas.draw()
