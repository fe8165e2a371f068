"""Maps show every spot once, clusters in the colours of the labels that they match, and the agreement of the two."""

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from scipy.spatial import KDTree
from sklearn.metrics import adjusted_rand_score

from sinkhorn_em.plots import hexagonal_positions, plot_spots
from sinkhorn_em.plots.canvas import MORE_COLOURS
from sinkhorn_em.plots.spots import PALE


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


def lattice(rows=9, columns=12):
    row, column = np.divmod(np.arange(rows * columns), columns)
    return hexagonal_positions(row, 2 * column + row % 2)


def colours(ax):
    """Colour of every spot that is drawn, by its coordinates."""
    return {tuple(xy): to_hex(discs.get_facecolor()[0]) for discs in ax.collections for xy in discs.get_offsets()}


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_the_six_neighbours_of_a_hexagonal_array_are_at_distance_one():
    xy = lattice()
    inner = 4 * 12 + 5
    np.testing.assert_allclose(np.sort(np.linalg.norm(xy - xy[inner], axis=1))[1:7], 1, rtol=1e-12)


def test_clusters_take_the_colours_of_the_labels_that_they_match_and_others_their_own():
    xy, truth = lattice(), np.repeat(["a", "b", "c"], 36)
    labels = np.repeat([2, 0, 1], 36)
    labels[:6] = 3  # a cluster too many
    known, found = (colours(ax) for ax in plot_spots(xy, labels, truth=truth).axes)
    assert len(known) == len(found) == len(xy)
    for k, point in enumerate(map(tuple, xy)):
        assert known[point].upper() == MORE_COLOURS["abc".index(truth[k])].upper()
        assert (found[point] == known[point]) == (labels[k] != 3)
    assert found[tuple(xy[0])].upper() == MORE_COLOURS[3].upper()


def test_legends_say_sizes_in_the_order_of_the_labels_and_the_title_says_the_agreement():
    truth, labels = np.repeat(["a", "b"], [40, 68]), np.repeat([1, 0], [50, 58])
    figure = plot_spots(lattice(), labels, truth=truth, names=["zero", "one"], truth_names=["layer a", "layer b"])
    assert legend(figure.axes[0]) == ["layer a (40)", "layer b (68)"]
    assert legend(figure.axes[1]) == ["one (50)", "zero (58)"]
    assert f"{adjusted_rand_score(truth, labels):.3f}" in figure.axes[1].get_title(loc="left")


@pytest.mark.parametrize("missing", [None, np.nan, "NA", -1, pd.NA])
def test_spots_without_a_label_are_pale_and_left_out_of_the_agreement(missing):
    truth = np.array(["a"] * 50 + ["b"] * 58 if isinstance(missing, str) else [0] * 50 + [1] * 58, dtype=object)
    labels = np.repeat([0, 1], [60, 48])
    seen = np.arange(108) % 5 > 0
    truth[~seen] = missing
    figure = plot_spots(lattice(), labels, truth=truth)
    drawn = colours(figure.axes[0])
    assert [drawn[tuple(xy)] == PALE.lower() for xy in lattice()] == (~seen).tolist()
    assert f"{adjusted_rand_score(truth[seen].tolist(), labels[seen]):.3f}" in figure.axes[1].get_title(loc="left")
    assert legend(figure.axes[0])[0] == f"none ({(~seen).sum()})"


def test_a_label_of_which_no_spot_has_a_cluster_keeps_its_colour_and_gives_it_to_nobody():
    truth, labels = np.repeat(["a", "b", "c"], 36), np.repeat([-1, 0, 1], 36)
    known, found = (colours(ax) for ax in plot_spots(lattice(), labels, truth=truth).axes)
    for k, point in enumerate(map(tuple, lattice())):
        assert found[point] == (PALE.lower() if k < 36 else known[point])


def test_without_truth_there_is_one_map_that_is_not_distorted_and_runs_downwards():
    xy = lattice()
    figure = plot_spots(xy, np.arange(108) % 3)
    [ax] = figure.axes
    assert ax.get_aspect() == 1
    assert ax.yaxis_inverted()
    size = ax.collections[0].get_widths()[0]  # neighbours touch, and hardly overlap
    assert 1 <= size / np.median(KDTree(xy).query(xy, k=2)[0][:, 1]) < 1.1


def test_more_clusters_than_colours_of_okabe_and_ito_have_colours_of_their_own():
    drawn = colours(plot_spots(lattice(), np.arange(108) % len(MORE_COLOURS)).axes[0])
    assert len(set(drawn.values())) == len(MORE_COLOURS) > 7


def test_spots_in_one_place_and_a_single_spot_are_drawn():
    plot_spots(np.zeros((4, 2)), [0, 1, 0, 1]).canvas.draw()
    plot_spots([[1.0, 2.0]], ["a"], truth=["b"]).canvas.draw()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"coordinates": np.zeros((108, 3))}, "two finite numbers for every spot"),
        ({"coordinates": np.full((108, 2), np.nan)}, "two finite numbers"),
        ({"labels": [0, 1]}, "labels has shape .2,.; coordinates has 108 spots"),
        ({"truth": np.array(["a", 1] * 54, dtype=object)}, "truth mixes strings with numbers"),
        ({"truth": ["a"]}, "truth has shape .1,."),
        ({"truth": [None] * 108}, "no spot in common"),
        ({"names": ["a"]}, "names has 1 names; labels has 3 classes"),
        ({"truth_names": ["a"], "truth": np.arange(108) % 2}, "truth_names has 1 names; truth has 2 classes"),
    ],
)
def test_what_does_not_fit_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        plot_spots(**{"coordinates": lattice(), "labels": np.arange(108) % 3} | change)


def test_a_section_of_cortex_is_drawn_with_its_layers(shared):
    data = np.load(shared / "data" / "dlpfc" / "dlpfc151510_500g.npz")
    xy = hexagonal_positions(data["row"], data["col"])
    figure = plot_spots(xy, np.argsort(np.argsort(xy[:, 1])) * 7 // len(xy), truth=data["layer"])
    figure.canvas.draw()
    assert legend(figure.axes[0]) == [
        "none (39)",
        "L1 (1180)",
        "L2 (650)",
        "L3 (1774)",
        "L4 (318)",
        "L5 (310)",
        "L6 (179)",
        "WM (184)",
    ]
