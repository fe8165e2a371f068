"""Maps of an embedding show every row in its place, in the colour of its cluster, and clusters beside the classes."""

import matplotlib

matplotlib.use("Agg")

import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from sinkhorn_em.metrics import clustering_accuracy
from sinkhorn_em.plots import plot_confusion, plot_embedding, plot_sizes
from sinkhorn_em.plots.canvas import GREY, MORE_COLOURS

ROUNDING = 1e-12  # of coordinates of order 10


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


def points(n=90, d=2, K=3, seed=0):
    rng = np.random.default_rng(seed)
    centres = 10 * rng.normal(size=(K, d))
    labels = np.arange(n) % K
    return centres[labels] + rng.normal(size=(n, d)), labels, centres


def drawn(ax):
    """Rows by their coordinates, and the colour of each."""
    [cloud] = ax.collections
    return {
        tuple(xy): to_hex(c).upper() for xy, c in zip(cloud.get_offsets().data, cloud.get_facecolors(), strict=True)
    }


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def title(ax):
    return ax.get_title(loc="left")


def test_rows_lie_where_they_are_in_the_colours_of_their_clusters():
    Z, labels, _ = points()
    [ax] = plot_embedding(Z, labels).axes
    colours = drawn(ax)
    assert [colours[tuple(z)] for z in Z] == [MORE_COLOURS[k].upper() for k in labels]
    assert title(ax) == "3 clusters, 90 rows"
    assert legend(ax) == ["0 (30)", "1 (30)", "2 (30)"]


def test_names_stand_at_the_medians_and_centres_replace_them():
    Z, labels, centres = points()
    [ax] = plot_embedding(Z, labels, names=["a", "b", "c"]).axes
    for k, text in enumerate(ax.texts):
        assert text.get_text() == "abc"[k]
        np.testing.assert_allclose(text.get_position(), np.median(Z[labels == k], axis=0), rtol=ROUNDING)
    [ax] = plot_embedding(Z, labels, centres=centres).axes
    np.testing.assert_array_equal([text.get_position() for text in ax.texts], centres)


def test_more_dimensions_are_projected_on_the_first_two_principal_components_centres_too():
    Z, labels, centres = points(d=5)
    [ax] = plot_embedding(Z, labels, centres=centres).axes
    plane = PCA(2).fit(Z)
    np.testing.assert_allclose(sorted(drawn(ax)), sorted(map(tuple, plane.transform(Z))), atol=100 * ROUNDING)
    places = [text.get_position() for text in ax.texts]
    np.testing.assert_allclose(places, plane.transform(centres), atol=100 * ROUNDING)
    assert f"({plane.explained_variance_ratio_[0]:.0%} of variance)" in ax.get_xlabel()


def test_clusters_have_the_colours_of_the_classes_that_they_match_and_others_their_own():
    Z, y, _ = points()
    labels = np.array([2, 0, 1])[y]
    labels[:2] = 3  # one row each of classes 0 and 1
    known, found = plot_embedding(Z, labels, y_true=np.array(["x", "y", "z"])[y]).axes
    of_class, of_cluster = drawn(known), drawn(found)
    assert [of_class[tuple(z)] == of_cluster[tuple(z)] for z in Z] == (labels != 3).tolist()
    assert of_cluster[tuple(Z[0])] == MORE_COLOURS[3].upper()
    assert title(found) == "4 clusters, accuracy 0.978"  # 88 of 90
    assert legend(known) == ["x (30)", "y (30)", "z (30)"]
    assert legend(found) == ["2 (29)", "0 (29)", "1 (30)", "3 (2)"]  # in the order of the classes
    assert known.get_xlim() == found.get_xlim()


def test_rows_without_a_cluster_are_grey_and_never_right():
    Z, y, _ = points()
    labels = y.copy()
    labels[::3] = -1  # the whole of class 0
    known, found = plot_embedding(Z, labels, y_true=y).axes
    colours, of_class = drawn(found), drawn(known)
    assert [colours[tuple(z)] == GREY for z in Z] == (labels < 0).tolist()
    assert all(colours[tuple(z)] == of_class[tuple(z)] for z in Z[labels >= 0])
    assert title(found) == "2 clusters, accuracy 0.667"
    assert legend(found)[-1] == "none (30)"
    plot_embedding(Z, np.full(90, -1), y_true=y).canvas.draw()


def test_a_centre_without_rows_is_drawn_and_its_number_is_its_position():
    Z, labels, _ = points(K=2)
    centres = np.array([[0.0, 0.0], [50.0, 60.0], [1.0, 2.0]])
    [ax] = plot_embedding(Z, 2 * labels, centres=centres).axes  # clusters 0 and 2
    assert [text.get_text() for text in ax.texts] == ["0", "1", "2"]
    assert legend(ax) == ["0 (45)", "1 (0)", "2 (45)"]
    assert ax.get_xlim()[1] > 50 and ax.get_ylim()[1] > 60


def test_a_unit_is_as_long_across_as_up():
    Z, labels, _ = points()
    figure = plot_embedding(Z * [1, 20], labels)
    figure.canvas.draw()
    [ax] = figure.axes
    (x0, y0), (x1, y1) = ax.transData.transform([[0, 0], [1, 1]])
    assert x1 - x0 == pytest.approx(y1 - y0, rel=1e-6)  # the layout is solved to less than a pixel


def test_of_many_rows_a_sample_is_drawn_the_same_every_time_and_as_pixels():
    Z, labels, _ = points(n=5000)
    first, second = (plot_embedding(Z, labels, max_points=3000).axes[0] for _ in range(2))
    assert drawn(first) == drawn(second)
    assert len(drawn(first)) == 3000
    assert first.collections[0].get_rasterized()
    assert title(first) == "3 clusters, 5000 rows (3000 of them drawn)"


def test_one_row_and_equal_rows_are_drawn():
    plot_embedding([[1.0, 2.0, 3.0]], ["a"]).canvas.draw()
    plot_embedding(np.ones((6, 4)), [0, 1] * 3, y_true=[0, 0, 0, 1, 1, 1]).canvas.draw()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"Z": np.ones((90, 1))}, r"Z has shape \(90, 1\)"),
        ({"Z": np.full((90, 2), np.nan)}, "finite numbers"),
        ({"labels": [0, 1]}, "labels has 2 rows and Z 90"),
        ({"labels": np.full(90, np.nan)}, "labels has NaN in 90 rows"),
        ({"y_true": [0, 1]}, "y_true has 2 rows and Z 90"),
        ({"centres": np.ones((3, 5))}, r"centres has shape \(3, 5\)"),
        ({"centres": np.ones((2, 2))}, "centres has 2 rows; labels has 3 clusters"),
        ({"names": ["a"]}, "names has 1 names; labels has 3 kinds"),
        ({"y_true": np.arange(90) % 2, "class_names": "a"}, "class_names has 1 names; y_true has 2 kinds"),
    ],
)
def test_an_embedding_that_does_not_fit_is_refused(change, message):
    Z, labels, _ = points()
    with pytest.raises(ValueError, match=message):
        plot_embedding(**{"Z": Z, "labels": labels} | change)


def test_digits_are_drawn_in_all_ways():
    X, y = load_digits(return_X_y=True)
    Z = PCA(8, random_state=0).fit_transform(X)
    model = KMeans(10, n_init=1, random_state=0).fit(Z)
    right = f"accuracy {clustering_accuracy(y, model.labels_):.3f}"
    embedding = plot_embedding(Z, model.labels_, centres=model.cluster_centers_, y_true=y)
    sizes, confusion = plot_sizes(model.labels_, np.full(10, 0.1)), plot_confusion(y, model.labels_)
    for figure in (embedding, sizes, confusion):
        figure.canvas.draw()
    assert title(embedding.axes[1]) == f"10 clusters and their centres, {right}"
    assert title(confusion.axes[0]).startswith(right)
    assert sorted(bar.get_height() for bar in sizes.axes[0].patches) == sorted(np.bincount(model.labels_) / len(y))


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install 'sinkhorn-em\[plot\]'"):
        plot_embedding(np.eye(3), [0, 1, 1])
