"""A mixture as a distribution: from parameters, marginals, conditionals, distribution function, quantiles, entropy."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.integrate import quad

from sinkhorn_em import GaussianMixture, LocationScaleMixture
from sinkhorn_em.datasets import load_faithful
from sinkhorn_em.families import FAMILIES, ContaminatedGaussian, Gumbel, StudentT
from sinkhorn_em.families.covariances import MCLUST_NAMES, STRUCTURES

RNG = np.random.default_rng(0)
K, D = 2, 3
WEIGHTS = np.array([0.3, 0.7])
MEANS = np.array([[0.0, 1.0, -1.0], [2.0, -1.0, 3.0]])
A = RNG.normal(size=(K, D, D))
FULL = A @ np.swapaxes(A, 1, 2) + 0.5 * np.eye(D)
VARIANCES = np.diagonal(FULL, axis1=1, axis2=2)
POINTS = RNG.normal(size=(12, D)) * 2 + 1
VALUES = {"full": FULL, "tied": FULL[0], "diag": VARIANCES, "tied_diag": VARIANCES[0]}
VALUES |= {"spherical": np.array([2.0, 0.5]), "tied_spherical": np.array(2.0)}


def mixture(family="gaussian", covariance_type="full", **options):
    return LocationScaleMixture.from_parameters(
        WEIGHTS, MEANS, VALUES[covariance_type], family=family, covariance_type=covariance_type, **options
    )


#: families whose marginals and conditionals are of the same kind
CLOSED = {
    "gaussian": lambda: mixture(),
    "gaussian tied": lambda: mixture(covariance_type="tied"),
    "gaussian spherical": lambda: mixture(covariance_type="spherical"),
    "t, one df": lambda: mixture(StudentT(df=4.0)),
    "t, df of each": lambda: mixture("student_t", df=[1.5, 6.0]),
    "t diag": lambda: mixture("student_t", "diag", df=[3.0, 5.0]),
    "cauchy": lambda: mixture("cauchy"),
    "contaminated": lambda: mixture("contaminated_gaussian", contamination=[0.1, 0.3], inflation=[10.0, 30.0]),
    "contaminated, given": lambda: mixture(ContaminatedGaussian(contamination=0.2, inflation=9.0)),
    "product laplace": lambda: mixture("laplace", "diag", form="product"),
    "product logistic tied": lambda: mixture("logistic", "tied_diag", form="product"),
    "product t": lambda: mixture("student_t", "diag", form="product", df=[2.0, 7.0]),
}
every_closed = pytest.mark.parametrize("case", CLOSED)


def dense(values, name):
    """(K, D, D) scale matrices."""
    values = np.asarray(values)
    if name.startswith("tied"):
        values = np.broadcast_to(values, (K, *values.shape))
    if "spherical" in name:
        values = values[:, None] * np.ones(D)
    return values if values.ndim == 3 else values[:, :, None] * np.eye(D)


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("kind", [GaussianMixture, LocationScaleMixture])
def test_given_parameters_give_scipys_density(kind, name):
    family = {} if kind is GaussianMixture else {"family": "gaussian"}
    model = kind.from_parameters(WEIGHTS, MEANS, VALUES[name], covariance_type=name, **family)
    each = [stats.multivariate_normal(m, S).pdf(POINTS) for m, S in zip(MEANS, dense(VALUES[name], name), strict=True)]
    np.testing.assert_allclose(model.score_samples(POINTS), np.log(WEIGHTS @ each), rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(model.logpdf(POINTS), model.score_samples(POINTS))
    np.testing.assert_array_equal(model.pdf(POINTS), np.exp(model.logpdf(POINTS)))
    np.testing.assert_array_equal(model.predict(POINTS), np.argmax(WEIGHTS * np.transpose(each), axis=1))
    np.testing.assert_allclose(model.covariances_, VALUES[name], rtol=1e-14)
    np.testing.assert_allclose(dense(model.precisions_, name), np.linalg.inv(dense(VALUES[name], name)), rtol=1e-10)


@pytest.mark.parametrize("name", [*STRUCTURES, *(n for n in MCLUST_NAMES if len(n) > 1)])
def test_the_parameters_of_a_fit_give_the_fit_back(name):
    X = load_faithful().data
    fit = GaussianMixture(2, covariance_type=name, random_state=0).fit(X)
    again = GaussianMixture.from_parameters(fit.weights_, fit.means_, fit.covariances_, covariance_type=name)
    # the scale matrices' condition, about 1e3, is what rounding in the units of the data costs
    np.testing.assert_allclose(again.score_samples(X), fit.score_samples(X), atol=1e-10)
    assert again.bic(X) == pytest.approx(fit.bic(X), rel=1e-12)


def test_given_student_t_parameters_give_scipys_density():
    model = mixture("student_t", df=[1.5, 6.0])
    each = [stats.multivariate_t(m, S, df=v).pdf(POINTS) for m, S, v in zip(MEANS, FULL, [1.5, 6.0], strict=True)]
    np.testing.assert_allclose(model.pdf(POINTS), WEIGHTS @ each, rtol=1e-11)


def test_counts_need_no_scale_matrices():
    model = LocationScaleMixture.from_parameters(WEIGHTS, [[2.0], [9.0]], family="poisson")
    x = np.arange(30)
    pmf = WEIGHTS @ [stats.poisson(2).pmf(x), stats.poisson(9).pmf(x)]
    np.testing.assert_allclose(model.pdf(x[:, None]), pmf, rtol=1e-12)
    np.testing.assert_allclose(model.cdf(x), pmf.cumsum(), rtol=1e-12)


@every_closed
def test_a_mixture_that_was_not_fitted_samples_predicts_and_is_stored(case, tmp_path):
    model = CLOSED[case]().set_params(random_state=0)
    X, labels = model.sample(4000)
    # five standard errors of a share
    share = labels.mean()
    assert abs(share - WEIGHTS[1]) < 5 * np.sqrt(WEIGHTS[0] * WEIGHTS[1] / 4000)
    for k in range(K):  # locations are medians: standard error sqrt(1/4n)/f(m), in ranks sqrt(1/4n)
        rows = X[labels == k]
        assert (np.abs((rows < MEANS[k]).mean(axis=0) - 0.5) < 5 * 0.5 / np.sqrt(len(rows))).all()
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    assert set(model.predict(X)) == {0, 1}
    np.testing.assert_allclose(model.transport_plan(X).column_mass, WEIGHTS, atol=1e-8)
    model.set_params(family=model.get_params()["family"] if isinstance(model.family, str) else "student_t")
    model.save(tmp_path / "mixture.json")
    again = LocationScaleMixture.load(tmp_path / "mixture.json")
    np.testing.assert_array_equal(again.score_samples(X), model.score_samples(X))


@pytest.mark.parametrize(
    "arguments,message",
    [
        (([0.5, 0.6], MEANS, FULL), "weights must be >= 0 and sum to 1"),
        (([1.5, -0.5], MEANS, FULL), "weights must be >= 0 and sum to 1"),
        (([1.0], MEANS, FULL), r"means has shape \(2, 3\); it must be \(K, d\) with K = 1"),
        ((WEIGHTS, MEANS[0], FULL), r"means has shape \(3,\)"),
        ((WEIGHTS, MEANS * np.nan, FULL), "means has values that are not finite"),
        ((WEIGHTS, MEANS, FULL[0]), r"covariances has shape \(3, 3\); it must be \(2, 3, 3\)"),
        ((WEIGHTS, MEANS, -FULL), "covariances must be symmetric and positive definite"),
        ((WEIGHTS, MEANS, FULL + np.triu(np.ones((3, 3)), 1)), "covariances must be symmetric"),
        ((WEIGHTS, MEANS), "covariances is None; give the scale matrices"),
    ],
)
def test_parameters_that_do_not_fit_raise(arguments, message):
    with pytest.raises(ValueError, match=message):
        GaussianMixture.from_parameters(*arguments)


@pytest.mark.parametrize(
    "options,message",
    [
        ({"taus": 1}, "taus is neither an option of the class nor a shape parameter"),
        ({"df": [3.0, 4.0]}, "df is neither an option of the class nor a shape parameter"),
        ({"covariance_type": "round"}, "covariance_type is 'round'"),
        ({"noise": 0.1}, "noise is 0.1; a noise component needs rows"),
    ],
)
def test_options_that_do_not_fit_raise(options, message):
    with pytest.raises(ValueError, match=message):
        GaussianMixture.from_parameters(WEIGHTS, MEANS, FULL, **options)


def pieces(f, centres):
    """Integral over the line, to about 1e-10: heavy tails in t = 1/x."""
    cuts = [-60.0, *sorted(centres), 60.0]
    middle = sum(quad(f, a, b, limit=200, epsabs=1e-12)[0] for a, b in pairwise(cuts))
    tails = sum(quad(lambda t, s=s: f(s / t) / t**2, 0, 1 / 60, limit=200, epsabs=1e-12)[0] for s in (-1, 1))
    return middle + tails


@every_closed
@pytest.mark.parametrize("left_out", [0, 2])
def test_a_marginal_is_the_joint_density_integrated(case, left_out):
    model = CLOSED[case]()
    kept = [j for j in range(D) if j != left_out]
    marginal = model.marginal(kept)
    assert type(marginal) is type(model) and marginal.n_features_in_ == D - 1
    for x in POINTS[:2]:

        def joint(t, x=x):
            row = x.copy()
            row[left_out] = t
            return float(model.pdf(row[None])[0])

        total = pieces(joint, MEANS[:, left_out])
        assert total == pytest.approx(float(marginal.pdf(x[None, kept])[0]), rel=1e-7)


@every_closed
def test_marginals_of_marginals_are_marginals_in_the_order_asked_for(case):
    model = CLOSED[case]()
    swapped = model.marginal([2, 0])
    np.testing.assert_allclose(swapped.means_, MEANS[:, [2, 0]], rtol=1e-15)
    np.testing.assert_allclose(swapped.marginal(1).pdf(POINTS[:, [0]]), model.marginal(0).pdf(POINTS[:, [0]]))
    np.testing.assert_allclose(model.marginal([0, 1, 2]).pdf(POINTS), model.pdf(POINTS), rtol=1e-12)


@pytest.mark.parametrize("case", CLOSED)
@pytest.mark.parametrize("known", [[0], [1], [2, 0], [1, 2]])
def test_a_conditional_density_is_joint_over_marginal(case, known):
    model = CLOSED[case]()
    free = [j for j in range(D) if j not in known]
    other = model.marginal(known)
    for x in POINTS[:6]:
        conditional = model.conditional({j: x[j] for j in known})
        expected = model.logpdf(x[None]) - other.logpdf(x[None, known])
        np.testing.assert_allclose(conditional.logpdf(x[None, free]), expected, atol=1e-10)


def test_a_contaminated_gaussian_learns_its_contamination_from_what_is_known():
    model = LocationScaleMixture.from_parameters(
        [1.0], MEANS[:1], FULL[:1], family="contaminated_gaussian", contamination=[0.2], inflation=[9.0]
    )
    for x in MEANS[0] + 0.3 * POINTS:
        given = model.conditional({0: x[0]})
        good, bad = (np.array([0.8, 0.2]) * stats.norm(0, np.sqrt(FULL[0, 0, 0] * np.array([1.0, 9.0]))).pdf(x[0])).T
        np.testing.assert_allclose(given.contamination_, bad / (good + bad), rtol=1e-12)
        expected = model.logpdf(x[None]) - model.marginal(0).logpdf(x[None, [0]])
        np.testing.assert_allclose(given.logpdf(x[None, 1:]), expected, atol=1e-10)


@pytest.mark.parametrize("case", CLOSED)
def test_conditionals_taken_one_after_another_are_the_joint_conditional(case):
    model, x = CLOSED[case](), POINTS[3]
    at_once = model.conditional({0: x[0], 2: x[2]})
    in_turn = model.conditional({2: x[2]}).conditional({0: x[0]})
    grid = np.linspace(-5, 5, 7)[:, None]
    np.testing.assert_allclose(in_turn.logpdf(grid), at_once.logpdf(grid), atol=1e-10)
    np.testing.assert_allclose(in_turn.weights_, at_once.weights_, rtol=1e-10)


@pytest.mark.parametrize("name", STRUCTURES)
def test_conditionals_of_every_structure_are_joint_over_marginal(name):
    X = load_faithful().data
    model = GaussianMixture(2, covariance_type=name, random_state=0).fit(X)
    for x in X[:3]:
        conditional = model.conditional({1: x[1]})
        expected = model.logpdf(x[None]) - model.marginal(1).logpdf(x[None, [1]])
        np.testing.assert_allclose(conditional.logpdf(x[None, [0]]), expected, atol=1e-9)


def test_a_student_t_gains_degrees_of_freedom_with_what_is_known():
    given = mixture("student_t", df=[1.5, 6.0]).conditional({0: 1.0, 1: 2.0})
    np.testing.assert_allclose(given.df_, [3.5, 8.0])


@pytest.mark.parametrize("family", ["laplace", "logistic", "hyperbolic_secant", "generalised_gaussian"])
def test_elliptical_families_without_marginals_of_their_own_say_so(family):
    model = mixture(family, **({"power": 1.3} if family == "generalised_gaussian" else {}))
    for method, argument in (("marginal", 0), ("marginal", [0, 2]), ("conditional", {0: 1.0})):
        with pytest.raises(ValueError, match="marginal: marginals of the elliptical family"):
            getattr(model, method)(argument)
    np.testing.assert_allclose(model.marginal([2, 1, 0]).pdf(POINTS[:, ::-1]), model.pdf(POINTS), rtol=1e-11)


def test_families_of_their_own_and_noise_have_no_marginals_or_conditionals():
    gumbel = LocationScaleMixture.from_parameters(WEIGHTS, MEANS, family="gumbel", scales=np.ones((K, D)))
    noisy = GaussianMixture(2, noise=0.05, random_state=0).fit(load_faithful().data)
    for model in (gumbel, noisy):
        for method, argument in (("marginal", 0), ("conditional", {0: 1.0})):
            with pytest.raises(ValueError, match=f"{method}: it is for location-scale families"):
                getattr(model, method)(argument)
    with pytest.raises(ValueError, match="cdf is for one feature, but the mixture has 2"):
        noisy.cdf(0.0)


@pytest.mark.parametrize("features", [[], [0, 0], [3], [-1], ["a"], [0.0], 5])
def test_features_that_are_not_there_raise(features):
    with pytest.raises(ValueError, match=r"features is .* it must name some of the 3 features once"):
        mixture().marginal(features)


def test_at_least_one_feature_stays_free_and_given_values_are_numbers():
    with pytest.raises(ValueError, match="given has all 3 features"):
        mixture().conditional({0: 1.0, 1: 1.0, 2: 1.0})
    with pytest.raises(ValueError, match="given has values that are not finite"):
        mixture().conditional({0: np.nan})


def test_features_of_a_data_frame_go_by_name():
    frame = pd.DataFrame(load_faithful().data, columns=["eruptions", "waiting"])
    model = GaussianMixture(2, random_state=0).fit(frame)
    for by_name, by_number in (
        (model.marginal("waiting"), model.marginal(1)),
        (model.marginal(["waiting", "eruptions"]), model.marginal([1, 0])),
        (model.conditional({"eruptions": 3.0}), model.conditional({0: 3.0})),
    ):
        np.testing.assert_array_equal(by_name.means_, by_number.means_)
        np.testing.assert_array_equal(by_name.covariances_, by_number.covariances_)
    with pytest.raises(ValueError, match="'waiting'"):
        model.marginal("length")


ONE = {  # one component at 1.5 of scale 2, and the same of scipy's
    "gaussian": ({}, stats.norm(1.5, 2)),
    "student_t": ({"df": [3.3]}, stats.t(3.3, 1.5, 2)),
    "cauchy": ({}, stats.cauchy(1.5, 2)),
    "laplace": ({}, stats.laplace(1.5, 2)),
    "logistic": ({}, stats.logistic(1.5, 2)),
    "hyperbolic_secant": ({}, stats.hypsecant(1.5, 4 / np.pi)),
    "generalised_gaussian": ({"power": [0.7]}, stats.gennorm(0.7, 1.5, 2)),
    "gumbel": ({"scales": [[2.0]]}, stats.gumbel_r(1.5, 2)),
    "skew_normal": ({"scales": [2.0], "slants": [3.0]}, stats.skewnorm(3.0, 1.5, 2)),
}
DEEP = [
    "gaussian",
    "student_t",
    "logistic",
    "hyperbolic_secant",
    "gumbel",
    "laplace",
    "generalised_gaussian",
]  # their lower tails lose no digits


def one_component(family):
    scale = None if family in ("gumbel", "skew_normal") else [[[4.0]]]
    return LocationScaleMixture.from_parameters([1.0], [[1.5]], scale, family=family, **ONE[family][0])


def two_components(family):
    """Of different scales, far apart enough that the distribution function has a shelf."""
    shape = {name: np.repeat(value, 2, axis=0) for name, value in ONE[family][0].items()}
    scale = None if family in ("gumbel", "skew_normal") else [[[4.0]], [[0.01]]]
    return LocationScaleMixture.from_parameters(WEIGHTS, [[1.5], [40.0]], scale, family=family, **shape)


@pytest.mark.parametrize("family", ONE)
def test_one_component_has_scipys_distribution_function_and_quantiles(family):
    model, exact = one_component(family), ONE[family][1]
    x = np.linspace(-8, 12, 41)
    # skew-normal: a difference of two numbers of order 1
    np.testing.assert_allclose(model.cdf(x), exact.cdf(x), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(model.pdf(x[:, None]), exact.pdf(x), rtol=1e-12)
    p = np.array([0.01, 0.3, 0.5, 0.77, 0.999])
    np.testing.assert_allclose(model.quantile(p), exact.ppf(p), rtol=1e-9)


def test_a_contaminated_gaussian_has_the_mixed_distribution_function():
    model = LocationScaleMixture.from_parameters(
        [1.0], [[1.5]], [[[4.0]]], family="contaminated_gaussian", contamination=[0.2], inflation=[9.0]
    )
    x = np.linspace(-30, 30, 31)
    exact = 0.8 * stats.norm(1.5, 2).cdf(x) + 0.2 * stats.norm(1.5, 6).cdf(x)
    np.testing.assert_allclose(model.cdf(x), exact, rtol=1e-13)


def test_a_gumbel_with_its_tail_on_the_left_is_the_mirror_image():
    left = LocationScaleMixture.from_parameters([1.0], [[1.5]], family=Gumbel(tail="left"), scales=[[2.0]])
    x = np.linspace(-20, 10, 31)
    np.testing.assert_allclose(left.cdf(x), stats.gumbel_l(1.5, 2).cdf(x), rtol=1e-13)


@pytest.mark.parametrize("make", [one_component, two_components])
@pytest.mark.parametrize("family", ONE)
def test_quantiles_and_distribution_function_are_inverse(family, make):
    model = make(family)
    p = np.array([[1e-6, 1e-3, 0.1], [0.25, 0.4999, 0.5], [0.9, 0.999, 1 - 1e-9]])
    x = model.quantile(p)
    assert x.shape == p.shape and (np.diff(x.ravel()) > 0).all()
    # a last digit of x moves the cdf by f(x) x eps: 1e-13 of p where the tail falls by e^-50 in one x
    np.testing.assert_allclose(model.cdf(x), p, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("make", [one_component, two_components])
@pytest.mark.parametrize("family", DEEP)
def test_far_lower_tails_keep_their_digits(family, make):
    model = make(family)
    p = np.array([1e-250, 1e-100, 1e-30, 1e-12])
    x = model.quantile(p)
    assert (np.diff(x) > 0).all()
    # the relative condition |x| f(x) / F(x) is at most 2 * 250 log(10), about 1200
    np.testing.assert_allclose(model.cdf(x), p, rtol=1e-12)


@pytest.mark.parametrize("family", ONE)
def test_the_distribution_function_rises_from_0_to_1(family):
    x = np.concatenate([[-np.inf, -1e10], np.linspace(-80, 120, 2001), [1e10, np.inf]])
    F = two_components(family).cdf(x)
    assert F[0] == 0 and F[-1] == 1
    assert (np.diff(F) >= -2e-16).all()  # one rounding


@pytest.mark.parametrize("family", ["gaussian", "gumbel", "skew_normal", "student_t"])
def test_the_distribution_function_of_a_fit_is_the_integral_of_its_density(family):
    x = load_faithful().data[:, [1]]
    model = LocationScaleMixture(2, family=family, random_state=0).fit(x)
    for t in (50.0, 70.0, 90.0):
        part = quad(lambda s: float(model.pdf([[s]])[0]), 45.0, t, points=[60.0], epsabs=1e-11, limit=200)[0]
        assert float(model.cdf(t) - model.cdf(45.0)) == pytest.approx(part, abs=1e-9)
    p = np.array([0.05, 0.5, 0.95])
    np.testing.assert_allclose(model.cdf(model.quantile(p)), p, rtol=1e-12)


@pytest.mark.parametrize("p", [0.0, 1.0, -0.1, 1.1, np.nan, [0.5, 2.0]])
def test_probabilities_outside_0_1_raise(p):
    with pytest.raises(ValueError, match="probabilities must lie strictly between 0 and 1"):
        one_component("gaussian").quantile(p)


@pytest.mark.parametrize("method", ["cdf", "quantile"])
def test_several_features_have_no_distribution_function(method):
    with pytest.raises(ValueError, match=f"{method} is for one feature, but the mixture has 3: take a marginal first"):
        getattr(mixture(), method)(0.5)


@pytest.mark.parametrize("seed", [0, 1])
def test_the_entropy_of_one_gaussian_is_the_closed_form(seed):
    model = GaussianMixture.from_parameters([1.0], MEANS[:1], FULL[:1])
    estimate = model.entropy(20_000, random_state=seed)
    exact = stats.multivariate_normal(MEANS[0], FULL[0]).entropy()
    assert abs(estimate.value - exact) < 5 * estimate.standard_error
    # -log f is half a chi-square with d degrees of freedom: variance d/2
    assert estimate.standard_error == pytest.approx(np.sqrt(D / 2 / 20_000), rel=0.1)
    assert estimate == model.entropy(20_000, random_state=seed)


@pytest.mark.parametrize("family", ["student_t", "cauchy", "laplace", "logistic", "gumbel", "skew_normal"])
def test_the_entropy_of_one_component_is_scipys(family):
    estimate = one_component(family).entropy(20_000, random_state=0)
    assert abs(estimate.value - float(ONE[family][1].entropy())) < 5 * estimate.standard_error


def test_far_components_add_the_entropy_of_their_weights():
    model = GaussianMixture.from_parameters(WEIGHTS, [[0.0], [1e6]], [[[1.0]], [[4.0]]])
    exact = stats.entropy(WEIGHTS) + WEIGHTS @ [stats.norm(0, 1).entropy(), stats.norm(0, 2).entropy()]
    estimate = model.entropy(20_000, random_state=3)
    assert abs(estimate.value - exact) < 5 * estimate.standard_error


def test_noise_alone_has_the_entropy_of_its_box():
    """As the share of noise goes to 1 the mixture is uniform: entropy log V."""
    X = np.random.default_rng(0).uniform(0, 5, size=(400, 2))
    model = GaussianMixture(1, noise=0.999, random_state=0).fit(X)
    estimate = model.entropy(5000, random_state=0)
    log_volume = np.log(np.ptp(X, axis=0)).sum()
    # the Gaussian share of 0.001 over the same rows changes the density by a few thousandths
    assert estimate.value == pytest.approx(log_volume, abs=0.005 + 5 * estimate.standard_error)


def test_the_entropy_of_counts_is_the_sum_over_the_support():
    model = LocationScaleMixture.from_parameters(WEIGHTS, [[2.0], [9.0]], family="poisson")
    pmf = model.pdf(np.arange(100)[:, None])
    estimate = model.entropy(20_000, random_state=0)
    assert abs(estimate.value - stats.entropy(pmf)) < 5 * estimate.standard_error


def test_an_entropy_needs_two_draws_for_its_standard_error():
    with pytest.raises(ValueError, match="n_samples is 1; it must be a whole number of at least 2"):
        one_component("gaussian").entropy(1)


@pytest.mark.parametrize("family", [f for f in FAMILIES if f not in ("skew_normal", "bernoulli", "multinomial")])
def test_every_family_is_a_distribution_of_one_feature_after_a_fit(family):
    x = np.round(load_faithful().data[:, [1]])
    model = LocationScaleMixture(2, family=family, random_state=0, tol=1e-4).fit(x)
    F = model.cdf(np.arange(30, 110))
    assert F[0] < 0.05 and F[-1] > 0.95 and (np.diff(F) >= 0).all()
    empirical = (x[:, 0][:, None] <= np.arange(30, 110)).mean(axis=0)
    assert np.abs(F - empirical).max() < 0.12  # a fair fit of the marginal distribution
