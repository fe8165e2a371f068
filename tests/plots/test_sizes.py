"""Bars of cluster sizes beside the prior: heights, marks, whiskers and names are those of the data."""

import matplotlib

matplotlib.use("Agg")

import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest

from sinkhorn_em.plots import plot_sizes


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


def title(ax):
    return ax.get_title(loc="left")


def ticks(ax):
    return [tick.get_text() for tick in ax.get_xticklabels()]


def bars(ax):
    return [patch.get_height() for patch in ax.patches]


def marks(ax):
    return ax.lines[0].get_ydata()


def test_bars_are_the_shares_and_marks_the_prior_the_largest_prior_first():
    labels, prior = np.repeat([0, 1, 2], [10, 30, 60]), [0.2, 0.5, 0.3]
    [ax] = plot_sizes(labels, prior).axes
    assert bars(ax) == [0.3, 0.6, 0.1]
    assert marks(ax).tolist() == [0.5, 0.3, 0.2]
    assert ticks(ax) == ["1\n(30)", "2\n(60)", "0\n(10)"]
    assert title(ax) == "3 clusters, 100 rows; total variation from the prior 0.300"


def test_in_the_order_of_the_prior_if_asked_and_equal_priors_by_size():
    [ax] = plot_sizes([10, 30, 60], [0.2, 0.5, 0.3], sort=False, names=["a", "b", "c"]).axes
    assert bars(ax) == [0.1, 0.3, 0.6]
    assert ticks(ax) == ["a\n(10)", "b\n(30)", "c\n(60)"]
    assert bars(plot_sizes([10, 30, 60], np.full(3, 1 / 3)).axes[0]) == [0.6, 0.3, 0.1]


def test_labels_and_their_counts_are_the_same_picture():
    labels = np.random.default_rng(0).integers(4, size=50)
    pictures = [plot_sizes(x, np.full(4, 0.25)).axes[0] for x in (labels, np.bincount(labels), np.append(labels, -1))]
    assert bars(pictures[0]) == bars(pictures[1]) == bars(pictures[2])
    assert title(pictures[0]) == title(pictures[1]) == title(pictures[2])


def test_whiskers_are_two_standard_deviations_of_a_random_count_and_masses_have_none():
    w, n = np.array([0.5, 0.3, 0.2]), 400
    counts = np.random.default_rng(0).multinomial(n, w, size=20000) / n
    ax = plot_sizes([200, 120, 80], w).axes[0]
    segments = np.array(ax.collections[0].get_segments())[:, :, 1]
    np.testing.assert_allclose(np.ptp(segments, axis=1) / 4, counts.std(axis=0), rtol=0.03)  # 1/sqrt(2 * 20000) = .005
    masses = plot_sizes([0.4, 0.4, 0.2], w).axes[0]
    assert not masses.collections
    assert ticks(masses) == ["0", "1", "2"]


def test_an_empty_cluster_has_its_place_and_the_title_counts_it():
    ax = plot_sizes([0, 0, 2, 2, 2], np.full(3, 1 / 3)).axes[0]
    assert bars(ax) == [0.6, 0.4, 0]
    assert "1 empty" in title(ax)


def test_sizes_are_drawn_into_given_axes_and_hundreds_of_clusters_have_no_names():
    figure, (_, ax) = plt.subplots(1, 2)
    assert plot_sizes(np.arange(1, 201), np.full(200, 1 / 200), ax=ax) is figure
    assert len(ax.patches) == 200
    assert ticks(ax) == []


@pytest.mark.parametrize(
    ("values", "prior", "message"),
    [
        ([1, 2], [0.5, 0.6], "prior is .* sum to 1"),
        ([0, 1, 2], [0.5, 0.5], "label 2; prior has 2 clusters"),
        ([0, 0.5, 1], [0.5, 0.5], "label 0.5"),
        ([-1, 2], [0.5, 0.5], "sizes must be finite, >= 0"),
        ([0, 0], [0.5, 0.5], "not all 0"),
        ([np.nan, 1], [0.5, 0.5], "finite"),
        ([np.nan, 1, 1], [0.5, 0.5], "label nan"),
        (["a", "b", "a"], [0.5, 0.5], "vector of numbers"),
        ([-1, -1, -1], [0.5, 0.5], "not all 0"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(values, prior, message):
    with pytest.raises(ValueError, match=message):
        plot_sizes(values, prior)


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install 'sinkhorn-em\[plot\]'"):
        plot_sizes([1, 2], [0.5, 0.5])
