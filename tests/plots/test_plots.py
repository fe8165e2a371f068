"""The pictures show the fitted mixture, whatever its structure, and say what they leave out."""

import sys

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.patches import Ellipse
from sklearn.mixture import GaussianMixture as ScikitMixture

from sinkhorn_em import GaussianMixture
from sinkhorn_em.datasets import load_crabs, load_galaxies
from sinkhorn_em.families.covariances import MCLUST_NAMES, STRUCTURES
from sinkhorn_em.plots import plot_bounds, plot_mixture
from sinkhorn_em.plots.geometry import component_covariances, ellipse, informative_features

KINDS = sorted({*STRUCTURES, *MCLUST_NAMES} - {"E", "V"})
BLOCKS = [{"blocks": [[0, 2], [1]], "covariance_type": kind} for kind in ("full", "tied", "VVI")]


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


def two_groups(n, d, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    X[: n // 2, 0] += 8
    return X


def fitted(X, **options):
    return GaussianMixture(2, random_state=0, **options).fit(X)


def points(figure):
    return sum(len(c.get_offsets()) for c in figure.axes[-1].collections)


@pytest.mark.parametrize("kind", KINDS)
def test_every_structure_gives_a_lower_triangle_of_panels(kind):
    X = two_groups(60, 3)
    figure = plot_mixture(fitted(X, covariance_type=kind), X)
    figure.canvas.draw()
    assert len(figure.axes) == 3 * 4 // 2


@pytest.mark.parametrize("options", [*({"covariance_type": kind} for kind in KINDS), *BLOCKS], ids=str)
def test_covariances_of_every_structure_are_those_of_the_densities(options):
    X = two_groups(60, 3)
    model = fitted(X, **options)
    centred = X[:, None] - model.means_
    S = component_covariances(model)
    distances = np.einsum("nki,kij,nkj->nk", centred, np.linalg.inv(S), centred)
    log_density = -0.5 * (distances + np.linalg.slogdet(2 * np.pi * S)[1])
    expected = np.log(np.exp(log_density) @ model.weights_)
    np.testing.assert_allclose(model.score_samples(X), expected, rtol=1e-9)


def test_an_unknown_structure_is_refused():
    model = fitted(two_groups(30, 2))
    model.covariance_type = "banana"
    with pytest.raises(ValueError, match="banana"):
        component_covariances(model)


def test_mixtures_of_scikit_learn_are_drawn_too():
    X = two_groups(60, 2)
    assert len(plot_mixture(ScikitMixture(2, random_state=0).fit(X), X).axes) == 3


def test_one_feature_is_one_panel_whose_curves_are_the_densities():
    data = load_galaxies()
    model = GaussianMixture(3, random_state=0).fit(data.data)
    figure = plot_mixture(model, data.data, feature_names=data.feature_names)
    assert len(figure.axes) == 1
    ax = figure.axes[0]
    assert ax.get_xlabel() == "velocity"
    *components, mixture = ax.lines
    assert len(components) == 3
    t, density = mixture.get_data()
    np.testing.assert_allclose(density, np.exp(model.score_samples(t[:, None])), rtol=1e-9)
    np.testing.assert_allclose(sum(line.get_ydata() for line in components), density, rtol=1e-12)


def test_histograms_and_marginals_enclose_the_same_area():
    X = two_groups(400, 2)
    ax = plot_mixture(fitted(X), X).axes[0]
    t, density = ax.lines[-1].get_data()
    assert sum(p.get_width() * p.get_height() for p in ax.patches) == pytest.approx(1)
    assert np.trapezoid(density, t) == pytest.approx(1, abs=0.03)  # the tails beyond the data are cut off


def test_the_ellipse_of_a_known_covariance_has_the_right_half_axes():
    c, s = np.cos(np.radians(30)), np.sin(np.radians(30))
    U = np.array([[c, -s], [s, c]])
    shape = ellipse(np.array([1.0, 2.0]), U @ np.diag([9.0, 4.0]) @ U.T, 2.0)
    np.testing.assert_allclose(shape.centre, [1, 2])
    np.testing.assert_allclose(shape.half_axes, [6, 4])
    assert shape.angle == pytest.approx(30)


def test_ellipses_in_the_figure_are_at_one_and_two_standard_deviations():
    X = two_groups(200, 2)
    model = fitted(X, covariance_type="diag")
    ax = plot_mixture(model, X).axes[-1]
    drawn = [p for p in ax.patches if isinstance(p, Ellipse)]
    half_axes = sorted(max(p.width, p.height) / 2 for p in drawn)
    sd = np.sqrt(model.covariances_).max(axis=1)
    np.testing.assert_allclose(half_axes, sorted([*sd, *(2 * sd)]))


def test_of_many_features_the_ones_that_separate_the_components_are_drawn_and_the_title_says_so():
    X = two_groups(80, 9)
    X[:, 4] = 3 * X[:, 0]
    model = fitted(X, covariance_type="diag")
    figure = plot_mixture(model, X, feature_names=[f"f{j}" for j in range(9)], max_features=2)
    assert {ax.get_xlabel() for ax in figure.axes} == {"", "f0", "f4"}
    assert "2 of 9 features" in figure.get_suptitle()
    chosen = informative_features(model.weights_, model.means_, component_covariances(model), 2)
    assert set(chosen.tolist()) == {0, 4}


def test_of_many_rows_the_same_sample_is_drawn_every_time_and_the_title_says_so():
    X = two_groups(500, 2)
    model = fitted(X)
    first, second = (plot_mixture(model, X, max_points=100) for _ in range(2))
    assert points(first) == 100
    assert "100 of them drawn" in first.get_suptitle()
    for a, b in zip(first.axes[-1].collections, second.axes[-1].collections, strict=True):
        np.testing.assert_array_equal(a.get_offsets(), b.get_offsets())


def test_names_come_from_the_frame_without_a_warning():
    frame = load_crabs(as_frame=True).data
    figure = plot_mixture(fitted(frame), frame)
    assert {ax.get_xlabel() for ax in figure.axes} == {"", *frame.columns}


def test_rows_of_noise_are_crosses_and_the_legend_says_how_many():
    X = two_groups(200, 2)
    X[:10] = np.random.default_rng(1).uniform(-40, 40, (10, 2))
    model = fitted(X, noise="estimate")
    figure = plot_mixture(model, X)
    crosses = figure.axes[-1].collections[0]
    assert len(crosses.get_offsets()) == (model.predict(X) == -1).sum() > 0
    assert not crosses.get_paths()[0].codes.tolist().count(79)  # open: no polygon is closed
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert f"noise: {model.noise_weight_:.3g}" in texts
    assert "mixture without noise" in texts


def test_given_labels_colour_the_rows_and_negative_ones_are_drawn_too():
    X = two_groups(60, 2)
    labels = np.arange(60) % 3 - 1
    figure = plot_mixture(fitted(X), X, labels)
    assert len(figure.axes[-1].collections) == 3
    assert points(figure) == 60


def test_a_component_of_weight_zero_is_not_drawn():
    X = two_groups(60, 2)
    model = fitted(X)
    model.weights_ = np.array([1.0, 0.0])
    ax = plot_mixture(model, X).axes[-1]
    assert sum(isinstance(p, Ellipse) for p in ax.patches) == 2
    assert len(ax.texts) == 1


def test_a_constant_feature_and_an_outlier_are_drawn():
    X = two_groups(60, 2)
    X[:, 1] = 1.0
    X[0, 0] = 1e9
    model = ScikitMixture(2, random_state=0).fit(X)
    plot_mixture(model, X).canvas.draw()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"labels": np.zeros(3, int)}, "one integer for each of the 60 rows"),
        ({"labels": np.zeros(60)}, "float64"),
        ({"feature_names": ["a"]}, "1 names"),
    ],
)
def test_what_does_not_fit_the_data_is_refused(options, message):
    X = two_groups(60, 2)
    with pytest.raises(ValueError, match=message):
        plot_mixture(fitted(X), X, **options)


def test_data_of_other_width_are_refused():
    with pytest.raises(ValueError, match="3 features"):
        plot_mixture(fitted(two_groups(60, 2)), two_groups(60, 3))


def test_bounds_of_every_model_are_drawn_and_their_ends_are_in_the_legend():
    X = two_groups(60, 2)
    models = {"Sinkhorn-EM": fitted(X), "EM": fitted(X, tau=0)}
    ax = plot_bounds(models).axes[0]
    for line, model in zip(ax.lines, models.values(), strict=True):
        np.testing.assert_array_equal(line.get_ydata(), model.lower_bounds_)
    assert f"EM: {models['EM'].lower_bound_:.4f}" in [t.get_text() for t in ax.get_legend().get_texts()]


def test_bounds_of_no_model_are_refused():
    with pytest.raises(ValueError, match="models is empty"):
        plot_bounds({})


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    X = two_groups(30, 2)
    with pytest.raises(ImportError, match=r"pip install 'sinkhorn-em\[plot\]'"):
        plot_mixture(fitted(X), X)
