"""The table of classes against clusters has every count, and frames what the accuracy counts as right."""

import matplotlib

matplotlib.use("Agg")

import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest

from sinkhorn_em.metrics import balanced_clustering_accuracy, clustering_accuracy
from sinkhorn_em.plots import plot_confusion


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


def title(ax):
    return ax.get_title(loc="left")


def ticks(ax):
    return [tick.get_text() for tick in ax.get_xticklabels()]


def cells(ax):
    """Counts by row and column."""
    return {(round(y), round(x)): int(t.get_text()) for t in ax.texts for x, y in [t.get_position()]}


def framed(ax):
    return [(round(p.get_y() + 0.5), round(p.get_x() + 0.5)) for p in ax.patches]


Y = np.array(list("aaaaaabbbccc"))
LABELS = np.array([5, 5, 5, 5, 9, 7, 9, 9, 7, 1, 1, 5])  # a is 5, b is 9, c is 1; 7 is left over


def test_cells_have_the_counts_with_every_cluster_below_its_class():
    ax = plot_confusion(Y, LABELS).axes[0]
    assert ticks(ax) == ["5\n(5)", "9\n(3)", "1\n(2)", "7\n(2)"]
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["a (6)", "b (3)", "c (3)"]
    expected = {(0, 0): 4, (0, 1): 1, (0, 3): 1, (1, 1): 2, (1, 3): 1, (2, 0): 1, (2, 2): 2}
    assert cells(ax) == expected
    assert framed(ax) == [(0, 0), (1, 1), (2, 2)]


def test_colours_are_the_shares_of_the_classes():
    ax = plot_confusion(Y, LABELS).axes[0]
    shares = ax.collections[0].get_array()
    np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=1e-14)
    np.testing.assert_allclose(shares[0], [4 / 6, 1 / 6, 0, 1 / 6], rtol=1e-14)
    assert ax.collections[0].get_clim() == (0, 1)


def test_what_is_framed_is_the_accuracy_of_the_title():
    y, labels = np.random.default_rng(0).integers(6, size=(2, 80))
    ax = plot_confusion(y, labels).axes[0]
    right = sum(cells(ax).get(place, 0) for place in framed(ax)) / 80
    assert right == pytest.approx(clustering_accuracy(y, labels))
    assert title(ax).startswith(f"accuracy {right:.3f}, balanced {balanced_clustering_accuracy(y, labels):.3f}")


def test_classes_without_a_cluster_are_at_the_bottom_beyond_a_line():
    ax = plot_confusion(["a", "b", "b", "c", "c", "c"], [1, 0, 0, 1, 1, 1], class_names=["A", "B", "C"]).axes[0]
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["B (2)", "C (3)", "A (1)"]
    assert [line.get_ydata()[0] for line in ax.lines] == [1.5]
    assert cells(ax) == {(0, 0): 2, (1, 1): 3, (2, 1): 1}


def test_many_classes_are_colours_without_counts():
    y = np.arange(400) % 70
    ax = plot_confusion(y, (y + 3) % 70).axes[0]
    assert not ax.texts
    np.testing.assert_array_equal(ax.collections[0].get_array(), np.eye(70))
    assert ax.get_xlabel() == "70 clusters"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"labels": [0]}, "y_true has 12 rows and labels 1"),
        ({"labels": LABELS, "names": ["x"]}, "names has 1 names; labels has 4 kinds"),
        ({"labels": LABELS, "class_names": ["x"]}, "class_names has 1 names; y_true has 3 kinds"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        plot_confusion(Y, **options)


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install 'sinkhorn-em\[plot\]'"):
        plot_confusion(Y, LABELS)
