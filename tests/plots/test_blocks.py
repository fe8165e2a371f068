"""Pictures of co-clusterings show every cell in its place, never make a sparse matrix dense, and say what they leave out."""

import matplotlib

matplotlib.use("Agg")

import sys
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.cluster import SpectralBiclustering

from sinkhorn_em import LatentBlockModel
from sinkhorn_em.plots import plot_block_means, plot_blocks
from sinkhorn_em.plots.pixels import SLAB, arrange, block_order, pixel_means

MATRIX, ROWS, COLUMNS, BAR = 2, 3, 0, 4  # axes of plot_blocks
SPARSE = [sparse.csr_matrix, sparse.csc_matrix, sparse.coo_matrix, sparse.csr_array]


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


def fit(row_labels, column_labels, **parameters):
    """What a figure asks of a fitted co-clustering."""
    own = {"block_parameters_": parameters} if parameters else {}
    return SimpleNamespace(row_labels_=np.asarray(row_labels), column_labels_=np.asarray(column_labels), **own)


def problem(n=30, m=20, seed=0):
    rng = np.random.default_rng(seed)
    model = fit(np.r_[0:3, rng.integers(3, size=n - 3)], np.r_[0:4, rng.integers(4, size=m - 4)])
    X = rng.poisson(
        np.array([[9, 1, 2, 1], [1, 7, 0.2, 3], [2, 1, 1, 8.0]])[model.row_labels_][:, model.column_labels_]
    )
    return model, X.astype(float)


def image(figure):
    return figure.axes[MATRIX].images[0]


def labels_of(model):
    return model.row_labels_, model.column_labels_


def test_a_small_matrix_is_drawn_cell_by_cell_in_the_order_of_its_clusters():
    model, X = problem()
    rows, columns = arrange(X, labels_of(model), None, 600)
    drawn = image(plot_blocks(model, X)).get_array()
    np.testing.assert_array_equal(drawn, X[rows.order][:, columns.order])
    for side, labels, means in zip((rows, columns), labels_of(model), (X.mean(axis=1), X.mean(axis=0)), strict=True):
        assert sorted(side.order) == list(range(len(labels)))
        for k, start, stop in zip(side.clusters, side.borders, side.borders[1:], strict=False):
            members = side.order[start:stop]
            assert set(members) == set(np.flatnonzero(labels == k))
            assert (np.diff(means[members]) <= 1e-12).all()  # a mean may be summed in another order


def test_borders_lie_between_the_clusters_and_the_first_row_is_at_the_top():
    model, X = problem()
    ax = plot_blocks(model, X).axes[MATRIX]
    rows, columns = arrange(X, labels_of(model), None, 600)
    across = [line.get_ydata()[0] for line in ax.lines if line.get_xdata()[0] == 0 and line.get_xdata()[1] == 1]
    upright = [line.get_xdata()[0] for line in ax.lines if line.get_ydata()[0] == 0 and line.get_ydata()[1] == 1]
    assert across == rows.borders[1:-1].tolist()
    assert upright == columns.borders[1:-1].tolist()
    assert ax.get_ylim() == (30, 0)


def test_margins_are_the_means_and_every_cluster_has_its_number_and_size():
    model, X = problem()
    figure = plot_blocks(model, X)
    rows, columns = arrange(X, labels_of(model), None, 600)
    for number, side, means in ((ROWS, rows, X.mean(axis=1)), (COLUMNS, columns, X.mean(axis=0))):
        ax = figure.axes[number]
        values = np.concatenate([patch.get_data().values for patch in ax.patches])
        np.testing.assert_allclose(values, means[side.order], rtol=1e-14)
        texts = [text.get_text().replace("\n", " ") for text in ax.texts]
        assert texts == [f"{k} ({n})" for k, n in zip(side.clusters, side.sizes, strict=True)]


def test_names_of_clusters_with_few_rows_do_not_lie_on_each_other():
    model = fit(np.r_[0:9, np.full(400, 9)], np.r_[0:9, np.full(200, 9)])
    figure = plot_blocks(model, np.random.default_rng(0).random((409, 209)))
    figure.canvas.draw()
    for number in (ROWS, COLUMNS):
        texts = [plt.Text.get_window_extent(text) for text in figure.axes[number].texts]  # without the lines
        assert len(texts) == 10
        assert not any(a.overlaps(b) for i, a in enumerate(texts) for b in texts[:i])


@pytest.mark.parametrize("kind", SPARSE)
@pytest.mark.parametrize("max_cells", [6, 600])
def test_sparse_and_dense_matrices_give_the_same_pixels(kind, max_cells):
    model, X = problem()
    dense = image(plot_blocks(model, X, transform=np.log1p, max_cells=max_cells)).get_array()
    other = image(plot_blocks(model, kind(X), transform=np.log1p, max_cells=max_cells)).get_array()
    np.testing.assert_allclose(other, dense, rtol=1e-13)


def test_a_cell_stored_in_two_parts_is_one_cell():
    X = sparse.coo_matrix(([1.0, 2.0, 5.0], ([0, 0, 1], [0, 0, 1])), shape=(2, 2))
    csr = sparse.csr_matrix((X.data, [0, 0, 1], [0, 2, 3]), shape=(2, 2))
    model = fit([0, 1], [0, 1])
    for matrix in (X, csr):
        drawn = image(plot_blocks(model, matrix, transform=np.sqrt)).get_array()
        np.testing.assert_allclose(sorted(drawn.ravel()), [0, 0, np.sqrt(3), np.sqrt(5)])
    assert csr.nnz == 3  # the caller's matrix is as it was


@pytest.mark.parametrize("max_cells", [1, 7, 19])
def test_pixels_average_neighbours_of_one_cluster_and_keep_the_total(max_cells):
    model, X = problem(50, 40)
    rows, columns = arrange(X, labels_of(model), None, max_cells)
    pixels = pixel_means(X, rows, columns, None)
    assert pixels.shape[0] <= max_cells + 3 and pixels.shape[1] <= max_cells + 4
    assert set(rows.borders) <= set(rows.edges) and set(columns.borders) <= set(columns.edges)
    areas = np.outer(np.diff(rows.edges), np.diff(columns.edges))
    assert (areas * pixels).sum() == pytest.approx(X.sum(), rel=1e-13)
    first = X[rows.order[: rows.edges[1]]][:, columns.order[: columns.edges[1]]]
    assert pixels[0, 0] == pytest.approx(first.mean(), rel=1e-13)


def test_slabs_of_cells_give_the_totals_of_the_whole():
    rng = np.random.default_rng(0)
    n, m = SLAB // 1000 + 7, 1200  # more than one slab
    X = rng.integers(0, 3, (n, m)).astype(float)
    labels = (np.r_[0, 1, rng.integers(2, size=n - 2)], np.r_[0, 1, rng.integers(2, size=m - 2)])
    for matrix in (X, sparse.csr_matrix(X), sparse.csc_matrix(X)):
        pixels = pixel_means(matrix, *arrange(matrix, labels, None, 1), None)
        assert pixels.shape == (2, 2)
        expected = [X[labels[0] == k][:, labels[1] == l].mean() for k in range(2) for l in range(2)]
        np.testing.assert_allclose(sorted(pixels.ravel()), sorted(expected), rtol=1e-13)


def test_a_sparse_matrix_that_no_memory_would_hold_when_dense_is_drawn():
    """10^6 x 10^6 cells would be 8 terabytes."""
    n, rng = 1_000_000, np.random.default_rng(0)
    X = sparse.coo_matrix((np.ones(3000), rng.integers(n, size=(2, 3000))), shape=(n, n)).tocsr()
    labels = np.arange(n) % 3
    pixels = image(plot_blocks(fit(labels, labels), X, max_cells=30)).get_array()
    assert pixels.shape == (30, 30)
    assert pixels.sum() * (n / 30) ** 2 == pytest.approx(3000, rel=1e-3)  # pixels differ by a row in 30 000


def test_missing_cells_are_grey_and_left_out_of_the_means():
    model, X = problem()
    hidden = np.outer(model.row_labels_ == 1, model.column_labels_ == 2)
    hidden[np.random.default_rng(0).random(X.shape) < 0.2] = True
    hidden[4] = True
    figure = plot_blocks(model, np.where(hidden, np.nan, X))
    assert image(figure).get_array().mask.sum() == hidden.sum()
    assert matplotlib.colors.to_hex(image(figure).cmap.get_bad()) == "#9a9a9a"
    values = np.concatenate([patch.get_data().values for patch in figure.axes[COLUMNS].patches])
    np.testing.assert_allclose(sorted(values), sorted(np.nanmean(np.where(hidden, np.nan, X), axis=0)), rtol=1e-13)
    figure.canvas.draw()


def test_missing_cells_of_a_sparse_matrix_are_grey_too():
    model, X = problem()
    X[3, 4] = X[5, :7] = np.nan
    dense, other = (image(plot_blocks(model, Y)).get_array() for Y in (X, sparse.csr_matrix(X)))
    np.testing.assert_array_equal(dense.mask, other.mask)
    np.testing.assert_allclose(dense.compressed(), other.compressed(), rtol=1e-13)


@pytest.mark.parametrize(
    "X", [np.zeros((6, 5)), np.full((6, 5), np.nan), np.full((6, 5), 3), np.eye(6, 5) > 0], ids=str
)
def test_constant_empty_and_logical_matrices_are_drawn(X):
    plot_blocks(fit([0, 0, 1, 1, 2, 2], [0, 1, 0, 1, 0]), X).canvas.draw()


def test_high_blocks_come_to_the_diagonal_whatever_the_row_and_column_effects():
    rng = np.random.default_rng(0)
    ladder = -((np.arange(5)[:, None] - np.arange(5)) ** 2.0)
    effects = 3 * rng.normal(size=(5, 1)) + 3 * rng.normal(size=5)
    shuffled, other = rng.permutation(5), rng.permutation(5)
    rows, columns = block_order((ladder + effects)[shuffled][:, other], np.full(5, 4), np.full(5, 3))
    along = np.array([shuffled[rows], other[columns]])
    np.testing.assert_array_equal(along[0], along[1])
    assert (np.abs(np.diff(along)) == 1).all()


def test_without_interaction_clusters_are_ordered_by_their_means():
    means = np.array([1.0, 3.0, 2.0])[:, None] * np.array([4.0, 1.0]) ** 2  # square roots are no sum, but the logs are
    additive = (np.array([1.0, 3.0, 2.0])[:, None] + np.array([0.5, 4.0])) ** 2  # square roots add
    rows, columns = block_order(additive, np.ones(3, int), np.ones(2, int))
    assert rows.tolist() == [1, 2, 0] and columns.tolist() == [1, 0]
    rows, columns = block_order(means, np.ones(3, int), np.ones(2, int))
    assert rows.tolist() == [1, 2, 0] and columns.tolist() == [0, 1]


def test_empty_clusters_have_no_place():
    figure = plot_blocks(fit([0, 2, 2, 0], [1, 1, 3], means=np.arange(16.0).reshape(4, 4)), np.ones((4, 3)))
    texts = [text.get_text() for text in figure.axes[ROWS].texts]
    assert sorted(texts) == ["0 (2)", "2 (2)"]


def test_both_pictures_have_the_clusters_in_the_same_order():
    model, X = problem()
    means = np.random.default_rng(5).normal(size=(3, 4))
    model = fit(*labels_of(model), means=means)
    blocks, parameters = plot_blocks(model, X), plot_block_means(model)
    expected = [text.get_text() for text in blocks.axes[ROWS].texts]
    assert [tick.get_text() for tick in parameters.axes[0].get_yticklabels()] == expected


def test_colours_are_symmetric_about_zero_only_where_zero_lies_between():
    model, X = problem()
    assert image(plot_blocks(model, X)).get_clim()[0] == 0
    low, high = image(plot_blocks(model, X - 2)).get_clim()
    assert low == -high < 0


def test_biclusterings_of_scikit_learn_are_drawn_with_the_names_of_a_frame():
    _, X = problem()
    frame = pd.DataFrame(X, columns=[f"gene {j}" for j in range(20)])
    model = SpectralBiclustering(3, random_state=0).fit(X + 0.1)
    ax = plot_blocks(model, frame).axes[MATRIX]
    columns = arrange(X, labels_of(model), None, 600)[1]
    assert [tick.get_text() for tick in ax.get_xticklabels()] == [f"gene {j}" for j in columns.order]
    assert len(ax.get_yticks()) == 0  # a counting index is no name
    assert ax.get_ylabel() == "30 rows in 3 clusters"


@pytest.mark.parametrize("family", ["gaussian", "poisson", "bernoulli", "negative_binomial", "multinomial"])
def test_latent_block_models_of_every_family_are_drawn(family):
    _, X = problem()
    X = (
        X
        if family in ("gaussian", "poisson", "negative_binomial")
        else np.minimum(X, 1 if family == "bernoulli" else 2)
    )
    model = LatentBlockModel(2, 2, family=family, random_state=0, tol=1e-3).fit(X)
    plot_blocks(model, X).canvas.draw()
    plot_block_means(model).canvas.draw()


def test_names_that_cannot_be_read_are_not_written():
    model, X = problem(70, 20)
    ax = plot_blocks(model, X, row_names=[f"r{i}" for i in range(70)], column_names=range(20)).axes[MATRIX]
    assert len(ax.get_yticks()) == 0
    assert len(ax.get_xticks()) == 20


def infinite(X):
    return np.where(X.max() == X, np.inf, X)


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (lambda X: X[1:], {}, "row_labels_ of the model has shape .30,.* X has 29 rows"),
        (lambda X: X[:, 1:], {}, "column_labels_ of the model has shape .20,.* X has 19 columns"),
        (lambda X: X, {"row_names": ["a"]}, "row_names has 1 names; X has 30 rows"),
        (lambda X: X, {"column_names": ["a"]}, "column_names has 1 names"),
        (lambda X: X, {"max_cells": 0}, "max_cells=0"),
        (lambda X: X, {"transform": lambda x: 1 / (x - x)}, "one finite number"),
        (lambda X: X, {"transform": np.sum}, "one finite number"),
        (sparse.csr_matrix, {"transform": np.cos}, "transform.0. is not 0"),
        (infinite, {}, "infinite cells"),
        (lambda X: X[0], {}, "must be a matrix"),
        (lambda X: X.astype(str), {}, "of numbers"),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning", "ignore:invalid value:RuntimeWarning")
def test_what_does_not_fit_is_refused(change, options, message):
    model, X = problem()
    with pytest.raises(ValueError, match=message):
        plot_blocks(model, change(X), **options)


def test_a_model_without_labels_is_refused():
    with pytest.raises(ValueError, match="row_labels_ of the model has shape"):
        plot_blocks(SimpleNamespace(), np.ones((3, 3)))


def test_every_block_has_its_number_and_bands_follow_the_sizes():
    means = np.array([[1.25, -2.0], [0.5, 3.0], [7.0, 8.0]])
    figure = plot_block_means(fit([0] * 60 + [1] * 30 + [2] * 10, [0] * 30 + [1] * 30, means=means, variances=means**2))
    ax = figure.axes[0]
    assert sorted(float(text.get_text()) for text in ax.texts) == sorted(means.ravel())
    edges = ax.collections[0].get_coordinates()[:, 0, 1]
    order = [int(tick.get_text()[0]) for tick in ax.get_yticklabels()]
    assert np.argsort(np.diff(edges)).tolist() == np.argsort(np.array([60, 30, 10])[order]).tolist()
    values = ax.collections[0].get_array()
    columns = [int(tick.get_text()[0]) for tick in ax.get_xticklabels()]
    np.testing.assert_array_equal(values, means[order][:, columns])


def test_a_block_of_one_row_in_ten_thousand_can_still_be_read():
    ax = plot_block_means(fit([0] * 9999 + [1], [0, 1], rates=np.ones((2, 2)))).axes[0]
    assert np.diff(ax.collections[0].get_coordinates()[:, 0, 1]).min() >= 0.09 - 1e-12


def test_signed_numbers_have_the_decimals_of_the_largest():
    ax = plot_block_means(fit([0, 1], [0, 1], means=np.array([[12.345, -0.04321], [-0.1234, 3.0]]))).axes[0]
    assert sorted(text.get_text() for text in ax.texts) == ["-0.1", "0.0", "12.3", "3.0"]


def test_standardised_columns_have_no_bars_of_rounding_errors():
    model, X = problem()
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    figure = plot_blocks(model, Z)
    assert figure.axes[COLUMNS].get_ylim()[1] == 0.05 * np.ptp(image(figure).get_clim())


def test_another_parameter_is_drawn_by_name_in_the_same_order():
    rng = np.random.default_rng(0)
    model = fit([0, 1, 2], [0, 1], means=rng.normal(size=(3, 2)), variances=rng.random((3, 2)))
    first, second = (plot_block_means(model, name).axes[0] for name in ("means", "variances"))
    assert second.get_title() == "variances"
    assert [t.get_text() for t in first.get_yticklabels()] == [t.get_text() for t in second.get_yticklabels()]


def test_probabilities_of_categories_have_an_axes_each():
    p = np.random.default_rng(0).dirichlet(np.ones(3), (2, 4))
    figure = plot_block_means(fit([0, 1], [0, 1, 2, 3], probabilities=p))
    assert len(figure.axes) == 3 + 1
    assert figure.axes[2].get_title() == "probabilities: category 2"


@pytest.mark.parametrize(
    ("parameters", "name", "message"),
    [
        ({}, None, "none of the model's block parameters"),
        ({"means": np.ones((2, 2))}, "rates", r"parameter='rates' .* \['means'\]"),
        ({"means": np.ones((2, 2)), "variance": 1.0}, "variance", r"shape \(\)"),
    ],
)
def test_a_parameter_that_is_no_number_a_block_is_refused(parameters, name, message):
    with pytest.raises(ValueError, match=message):
        plot_block_means(fit([0, 1], [0, 1], **parameters), name)


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    for draw in (lambda: plot_blocks(*problem()), lambda: plot_block_means(fit([0], [0], means=np.ones((1, 1))))):
        with pytest.raises(ImportError, match=r"pip install 'sinkhorn-em\[plot\]'"):
            draw()
