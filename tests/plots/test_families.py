"""Mixtures of every family are drawn: curves are the densities of the family, ellipses hold the shares that they promise."""

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.patches import Ellipse

from sinkhorn_em import LocationScaleMixture
from sinkhorn_em.families import FAMILIES, GENERATORS, Bernoulli, GeneralisedGaussian, Gumbel, Poisson, StudentT
from sinkhorn_em.plots import plot_mixture
from sinkhorn_em.plots.geometry import SHARES, component_densities, marginal_density, plane_radii

SHAPES = {
    "student_t": (3.0,),
    "cauchy": (1.0,),
    "generalised_gaussian": (0.7,),
    "laplace": (1.0,),
    "contaminated_gaussian": (0.2, 9.0),
}


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


def shape(name):
    return [np.array([[value]]) for value in SHAPES.get(name, ())]


def rows_for(name, d, seed=0):
    """60 rows of two groups that the family takes."""
    rng = np.random.default_rng(seed)
    low = np.repeat([[0.15], [0.75]], 30, axis=0)
    if name == "bernoulli":
        return (rng.random((60, d)) < low).astype(float)
    if name in ("poisson", "multinomial"):
        return rng.poisson(10 * low * np.arange(1, d + 1)).astype(float)
    return rng.normal(size=(60, d)) + 20 * low


@pytest.mark.parametrize("d", [1, 3])
@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_is_drawn(name, d):
    if name == "skew_normal" and d > 1:
        pytest.skip("it has one feature")
    X = pd.DataFrame(rows_for(name, d), columns=list("abc")[:d])
    model = LocationScaleMixture(2, family=name, random_state=0, max_iter=60, tol=1e-4).fit(X)
    figure = plot_mixture(model, X)
    figure.canvas.draw()
    assert len(figure.axes) == d * (d + 1) // 2
    ellipses = sum(isinstance(patch, Ellipse) for patch in figure.axes[-1].patches)
    assert ellipses == (4 if name in GENERATORS and d > 1 else 0)


@pytest.mark.parametrize("name", sorted(set(FAMILIES) - {"multinomial"}))
def test_the_curves_of_one_feature_add_up_to_the_density(name):
    X = rows_for(name, 1)
    model = LocationScaleMixture(2, family=name, random_state=0, max_iter=60, tol=1e-4).fit(X)
    t, density = plot_mixture(model, X).axes[0].lines[-1].get_data()
    np.testing.assert_allclose(density, model.pdf(np.asarray(t)[:, None]), rtol=1e-8)


@pytest.mark.parametrize("name", GENERATORS)
def test_marginal_densities_are_those_of_draws(name):
    """P(|z_1| < 1) of 40 000 draws in 4 dimensions has a standard error of .0025."""
    generator = FAMILIES[name]()
    draws = generator.draw(40_000, 4, np.random.default_rng(0), *SHAPES.get(name, ()))
    t = np.linspace(-1, 1, 401)
    inside = np.trapezoid(marginal_density(generator, t[None] ** 2, 4, 1, *shape(name))[0], t)
    assert inside == pytest.approx((np.abs(draws[:, 0]) < 1).mean(), abs=4 * 0.0025)


@pytest.mark.parametrize("d", [2, 5])
@pytest.mark.parametrize("name", GENERATORS)
def test_ellipses_hold_their_shares_of_draws(name, d):
    generator = FAMILIES[name]()
    draws = generator.draw(40_000, d, np.random.default_rng(0), *SHAPES.get(name, ()))
    radii = plane_radii(generator, d, *shape(name))[0]
    for share, radius in zip(SHARES, radii, strict=True):
        assert (np.hypot(*draws[:, :2].T) < radius).mean() == pytest.approx(share, abs=4 * 0.0025)


def test_ellipses_of_a_student_t_are_where_its_radius_has_the_quantiles_of_an_f_distribution():
    """q/2 has the F distribution with 2 and nu degrees of freedom: q = nu ((1 - p)^(-2/nu) - 1)."""
    expected = np.sqrt(3 * ((1 - np.array(SHARES)) ** (-2 / 3) - 1))
    np.testing.assert_allclose(
        plane_radii(StudentT(), 6, *shape("student_t"))[0], expected, rtol=1e-3
    )  # linear between radii


def test_an_integrated_marginal_is_the_exact_one_where_that_is_known():
    class Integrated(StudentT):
        def marginal(self, d):
            return False

    q = np.linspace(0, 6, 50)[None] ** 2
    exact = marginal_density(StudentT(), q, 5, 1, *shape("student_t"))
    np.testing.assert_allclose(marginal_density(Integrated(), q, 5, 1, *shape("student_t")), exact, rtol=1e-9)


@pytest.mark.parametrize(
    ("family", "options"), [(Gumbel(), {"scales": [[1.0, 2.0], [3.0, 4.0]]}), (Poisson(), {}), (Bernoulli(), {})]
)
def test_marginals_of_independent_coordinates_are_those_of_the_joint_density(family, options):
    means = np.array([[0.3, 0.6], [0.7, 0.1]])
    model = LocationScaleMixture.from_parameters([0.4, 0.6], means, family=family, **options)
    other = np.linspace(-40, 120, 8001) if options else np.arange(40.0) if family == Poisson() else np.array([0.0, 1.0])
    step = other[1] - other[0]
    joint = [model.pdf(np.column_stack([np.full_like(other, value), other])).sum() * step for value in (0.0, 1.0)]
    np.testing.assert_allclose(component_densities(model, 0, np.array([0.0, 1.0])).sum(axis=1), joint, rtol=1e-6)


def test_the_product_form_has_its_own_marginals_and_the_radii_of_the_scale_matrix():
    X = rows_for("laplace", 2)
    model = LocationScaleMixture(2, family="laplace", form="product", covariance_type="diag", random_state=0).fit(X)
    figure = plot_mixture(model, X)
    t, density = figure.axes[0].lines[-1].get_data()
    np.testing.assert_allclose(density, model.marginal(0).pdf(np.asarray(t)[:, None]), rtol=1e-9)
    drawn = sorted(patch.width / 2 for patch in figure.axes[-1].patches if isinstance(patch, Ellipse))
    longer = np.sqrt(model.covariances_).max(axis=1)
    np.testing.assert_allclose(drawn, sorted([*longer, *(2 * longer)]), rtol=1e-9)


def test_components_that_collapse_in_power_are_drawn():
    X = rows_for("laplace", 2)
    model = LocationScaleMixture(1, family=GeneralisedGaussian(power=0.3), random_state=0).fit(X)
    plot_mixture(model, X).canvas.draw()


def test_a_mixture_without_means_is_refused():
    with pytest.raises(ValueError, match="no means_"):
        plot_mixture(LocationScaleMixture(1), np.zeros((3, 2)))
