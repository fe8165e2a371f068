"""Gumbel, skew-normal and discrete families: right values, and the contract of a family."""

import mpmath
import numpy as np
import pytest
from scipy import stats

from sinkhorn_em.em import Phase, run_phase, start_state
from sinkhorn_em.engines import InMemory
from sinkhorn_em.families.bernoulli import Bernoulli, BernoulliParameters
from sinkhorn_em.families.exponential_sums import exponential_sum_bound, exponential_sum_terms
from sinkhorn_em.families.gumbel import CEILING, Gumbel, GumbelParameters
from sinkhorn_em.families.multinomial import Multinomial, MultinomialParameters
from sinkhorn_em.families.poisson import Poisson, PoissonParameters
from sinkhorn_em.families.skew_normal import SkewNormal, SkewNormalParameters, _truncated_moments
from sinkhorn_em.ot import FixedMass, FreeMass, RowsPlan

N, K, D = 400, 3, 4
NONE = np.zeros(K, bool)


class Map:
    """Coordinates z = A (x - shift)."""

    def __init__(self, shift, A):
        self.shift, self.A = np.asarray(shift, float), np.asarray(A, float)


IDENTITY = Map(0.0, [1.0])

FAMILIES = {
    "gumbel_r": Gumbel(),
    "gumbel_l": Gumbel("left"),
    "skew_normal": SkewNormal(),
    "poisson": Poisson(),
    "bernoulli": Bernoulli(),
    "multinomial": Multinomial(n_trials=12),
}
CONTINUOUS = ["gumbel_r", "gumbel_l", "skew_normal"]
every_family = pytest.mark.parametrize("name", FAMILIES)
every_continuous = pytest.mark.parametrize("name", CONTINUOUS)
every_discrete = pytest.mark.parametrize("name", [name for name in FAMILIES if name not in CONTINUOUS])


def features(name):
    return 1 if name == "skew_normal" else D


def parameters(name, seed=0):
    """Random parameters of well separated components."""
    rng = np.random.default_rng(seed)
    d = features(name)
    centres = 6.0 * np.arange(K)[:, None] + rng.normal(size=(K, d))
    if name == "skew_normal":
        return SkewNormalParameters(centres[:, 0], rng.uniform(0.5, 2, K), np.array([-4.0, 0.5, 3.0]), NONE, NONE)
    if name == "poisson":
        return PoissonParameters(rng.uniform(0.5, 20, (K, d)), NONE)
    if name == "bernoulli":
        return BernoulliParameters(rng.uniform(0.1, 0.9, (K, d)), NONE)
    if name == "multinomial":
        return MultinomialParameters(rng.dirichlet(np.ones(d), K), NONE)
    return GumbelParameters(centres, rng.uniform(0.5, 2, (K, d)), NONE, NONE)


def rows(name, seed=0, n=N):
    rng = np.random.default_rng(seed + 50)
    return FAMILIES[name].sample(parameters(name, seed), rng.integers(K, size=n), rng)


def plan(seed=0, n=N):
    rng = np.random.default_rng(seed)
    return RowsPlan(2 * rng.normal(size=(n, K)), rng.normal(size=K), rng.dirichlet(np.ones(n)))


def by_scipy(name, x, params, k):
    """Log-densities of rows x under component k."""
    if name == "skew_normal":
        return stats.skewnorm.logpdf(x[:, 0], params.slants[k], params.locations[k], params.scales[k])
    if name == "poisson":
        return stats.poisson.logpmf(x, params.rates[k]).sum(axis=1)
    if name == "bernoulli":
        return stats.bernoulli.logpmf(x, params.probabilities[k]).sum(axis=1)
    if name == "multinomial":
        return stats.multinomial.logpmf(x, x.sum(axis=1).astype(int), params.probabilities[k])
    family = getattr(stats, name)
    return family.logpdf(x, params.locations[k], params.scales[k]).sum(axis=1)


def fitted(model, X, labels, rule, weights=None, **options):
    """Plain run of the loop from hard labels."""
    n, k = len(X), int(np.max(labels)) + 1
    weights = np.full(n, 1 / n) if weights is None else weights / np.sum(weights)
    with np.errstate(divide="ignore"):
        start = np.asfortranarray(np.log(np.eye(k)[labels]))
    engine = InMemory(np.ascontiguousarray(X.T, float).T, weights)
    options = {"max_iter": 3000, "tol": 1e-11} | options
    phase = Phase(model, rule, np.full(k, rule == FreeMass()), **options)
    return run_phase(engine, phase, start_state(engine, model, [start], rule))


def nearest(X, centres):
    return np.abs(X - np.asarray(centres, float)).argmin(axis=1)


# log-densities


@every_family
def test_the_log_density_is_that_of_scipy(name):
    X, params = rows(name), parameters(name)
    ours = FAMILIES[name].log_density(X, params)
    assert ours.shape == (N, K)
    assert ours.T.flags.c_contiguous
    near = (ours > -1e12).all(axis=1)  # beyond, a Gumbel's density is 0 and its logarithm no longer that of scipy
    for k in range(K):
        # scipy's skew-normal tail is -inf or less exact far out
        assert ours[near, k] == pytest.approx(by_scipy(name, X[near], params, k), rel=1e-11, abs=1e-11)


@every_family
@pytest.mark.parametrize("order", ["C", "F"])
def test_the_log_density_may_overwrite_an_earlier_one(name, order):
    X, params, model = rows(name), parameters(name), FAMILIES[name]
    out = model.log_density(np.array(X, order=order), params)
    kept = out.copy()
    out[:] = np.nan
    assert model.log_density(X, params, out) is out
    assert np.array_equal(out, kept)


@every_continuous
def test_densities_are_derivatives_of_distribution_functions(name):
    model, params = FAMILIES[name], parameters(name)
    if name != "skew_normal":
        params = params._replace(locations=params.locations[:, :1], scales=params.scales[:, :1])
    x, h = np.linspace(-8, 20, 301), 1e-4
    slope = (model.cdf(x + h, params) - model.cdf(x - h, params)) / (2 * h)
    # h^2/6 times a third derivative of at most 300 (scale 0.5, slant 4)
    assert slope == pytest.approx(np.exp(model.log_density(x[:, None], params)), abs=1e-6)
    assert model.cdf(np.array([-1e9, 1e9]), params) == pytest.approx(np.array([[0.0] * K, [1.0] * K]), abs=1e-15)


@pytest.mark.parametrize("name", ["poisson", "bernoulli"])
def test_distribution_functions_of_counts_are_sums(name):
    model, params = FAMILIES[name], parameters(name)
    params = params._replace(**{params._fields[0]: params[0][:, :1]})
    x = np.arange(2.0)
    density = np.exp(model.log_density(x[:, None], params))
    assert model.cdf(x, params) == pytest.approx(density.cumsum(axis=0), rel=1e-12)
    assert model.cdf(x + 0.5, params) == pytest.approx(density.cumsum(axis=0), rel=1e-12)
    assert model.cdf(np.array([-0.5]), params).tolist() == [[0.0] * K]


def test_rows_far_in_the_short_tail_stay_finite_and_in_order():
    params = parameters("gumbel_r")._replace(locations=np.zeros((K, 1)), scales=np.ones((K, 1)))
    y = np.array([10.0, CEILING - 1, CEILING, CEILING + 1, 1e3, 1e6, 1e200])
    log_f = Gumbel().log_density(-y[:, None], params)[:, 0]
    assert np.isfinite(log_f).all()
    assert (np.diff(log_f) < 0).all()
    assert log_f[:3] == pytest.approx(y[:3] - np.exp(y[:3]), rel=1e-14)


@pytest.mark.parametrize("r", [-1e8, -1e3, -30.0, -8.01, -7.99, -1.0, 0.0, 1.0, 7.0, 50.0])
def test_truncated_moments_keep_their_digits(r):
    with mpmath.workdps(60):
        R = mpmath.mpf(r)
        h = mpmath.sqrt(2 / mpmath.pi) * mpmath.exp(-R * R / 2) / mpmath.erfc(-R / mpmath.sqrt(2)) if r > -1e4 else None
        first = R + h if h is not None else -1 / R + 2 / R**3
        second = 1 + R * first if h is not None else 2 / R**2 - 10 / R**4
        exact = float(first), float(second)
    ours = _truncated_moments(np.array([r]))
    # at r = -8 the second moment, 1 + r (r + h), has lost a factor 8^4 of eps
    assert ours[0][0] == pytest.approx(exact[0], rel=1e-13)
    assert ours[1][0] == pytest.approx(exact[1], rel=2e-12)


# the bound of exponential sums


@pytest.mark.parametrize("spread", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("lower,upper", [(2 / 3, 3 / 2), (0.9, 1.1), (0.5, 2.0)])
def test_the_bound_of_exponential_sums_is_above_and_touches_at_one(spread, lower, upper):
    rng = np.random.default_rng(0)
    w, y = rng.dirichlet(np.ones(50), 4), spread * rng.normal(size=(4, 50))
    terms = exponential_sum_terms(w, y, lower, upper)
    for t in np.linspace(lower, upper, 41):
        exact = (w * np.exp(t * y)).sum(axis=1)
        assert (exponential_sum_bound(terms, np.full(4, t))[0] >= exact * (1 - 1e-12)).all()
    value, slope = exponential_sum_bound(terms, np.ones(4))
    assert value == pytest.approx((w * np.exp(y)).sum(axis=1), rel=1e-14)
    assert slope == pytest.approx((w * y * np.exp(y)).sum(axis=1), rel=1e-12, abs=1e-14)


def test_minus_infinity_adds_nothing_to_an_exponential_sum():
    w, y = np.full((1, 2), 0.5), np.array([[0.3, -np.inf]])
    one = exponential_sum_terms(w[:, :1], y[:, :1], 2 / 3, 3 / 2)
    assert exponential_sum_terms(w, y, 2 / 3, 3 / 2) == pytest.approx(one, rel=1e-14)


# right values

#: log-likelihoods of the best local optima, from a table computed independently by direct maximisation (components of weight under
#: .015 or scale under .01 standard deviations were left out), and centres whose nearest rows are a start that leads there
GUMBEL = [
    ("waiting", "right", -1120.15078379, [0]),
    ("waiting", "right", -1035.87285528, [57, 86]),
    ("waiting", "right", -1032.63505055, [48, 73, 86]),
    ("waiting", "left", -1083.38847042, [0]),
    ("waiting", "left", -1043.37395937, [68, 71]),
    ("waiting", "left", -1037.19791947, [56, 59, 61]),
    ("eruptions", "right", -442.48526867, [0]),
    ("eruptions", "right", -286.28390472, [2.3, 4.6]),
    ("eruptions", "right", -268.41643350, [3.7, 3.8, 4.4]),
    ("eruptions", "left", -403.77695938, [0]),
    ("eruptions", "left", -277.38387424, [2.3, 4.6]),
    ("eruptions", "left", -258.64682609, [1.8, 1.9, 2.2]),
    ("acidity", "right", -217.89386465, [0]),
    ("acidity", "right", -192.71376841, [4.3, 6.5]),
    ("acidity", "right", -182.40013996, [4.1, 5, 6.2]),
    ("acidity", "left", -240.03161539, [0]),
    ("acidity", "left", -186.69990465, [4.8, 4.9]),
    ("acidity", "left", -178.67803626, [4, 4.3, 6.4]),
    ("galaxies", "right", -255.08821517, [0]),
    ("galaxies", "right", -208.94813680, [9.5, 22.5]),
    ("galaxies", "right", -204.55687180, [9.4, 22.2, 23.5]),
    ("galaxies", "left", -248.40409270, [0]),
    ("galaxies", "left", -224.76808460, [18.6, 34.3]),
    ("galaxies", "left", -210.60216153, [9.8, 22, 24.7]),
]


def classical(name, root):
    file, column, unit = {
        "waiting": ("faithful", 1, 1),
        "eruptions": ("faithful", 0, 1),
        "acidity": ("acidity", 0, 1),
        "galaxies": ("galaxies", 0, 1000),
    }[name]
    return np.loadtxt(root / "data" / f"{file}.csv", delimiter=",", skiprows=1, ndmin=2)[:, [column]] / unit


@pytest.mark.parametrize("name,tail,expected,centres", GUMBEL)
def test_gumbel_mixtures_reach_the_known_optima(name, tail, expected, centres, pytestconfig):
    X = classical(name, pytestconfig.rootpath)
    fit = fitted(Gumbel(tail), (X - X.mean()) / X.std(), nearest(X, centres), FreeMass())
    assert fit.converged
    assert len(X) * (fit.bounds[-1] - np.log(X.std())) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("name", ["waiting", "eruptions", "acidity", "galaxies"])
def test_one_skew_normal_is_as_likely_as_that_of_scipy(name, pytestconfig):
    X = classical(name, pytestconfig.rootpath)
    fit = fitted(SkewNormal(), (X - X.mean()) / X.std(), np.zeros(len(X), int), FreeMass(), tol=1e-13)
    expected = stats.skewnorm.logpdf(X[:, 0], *stats.skewnorm.fit(X[:, 0])).sum()
    # scipy's simplex stops within 1e-8 or so of the maximum
    assert len(X) * (fit.bounds[-1] - np.log(X.std())) == pytest.approx(expected, abs=1e-6)


@every_discrete
def test_a_single_discrete_component_has_the_mean_of_the_data(name):
    X = rows(name)
    fit = fitted(FAMILIES[name], X, np.zeros(N, int), FreeMass())
    expected = X.mean(axis=0) / (12 if name == "multinomial" else 1)
    assert fit.state.parameters[0][0] == pytest.approx(expected, rel=1e-12)


# the M-step


@every_family
@pytest.mark.parametrize("seed", range(5))
def test_the_m_step_never_lowers_the_expected_log_likelihood(name, seed):
    X, model, start = rows(name, seed), FAMILIES[name], parameters(name, seed + 1)
    P = plan(seed).matrix

    values, params = [], start
    for _ in range(60):
        terms = P * model.log_density(X, params)
        values.append(terms.sum())
        # rounding of the sum
        assert values[-1] >= values[-2 if len(values) > 1 else -1] - 1e-13 * np.abs(terms).sum()
        params = model.maximise(model.statistics(X, plan(seed), params), params)
    if name not in CONTINUOUS:
        assert values[2] == pytest.approx(values[1], rel=1e-14)


@every_family
@pytest.mark.parametrize("rule", [FreeMass(), FixedMass()], ids=["em", "sinkhorn-em"])
@pytest.mark.parametrize("seed", range(3))
def test_the_bound_never_falls(name, rule, seed):
    X = rows(name, seed)
    labels = np.random.default_rng(seed).integers(K, size=N)
    fit = fitted(FAMILIES[name], X, labels, rule, max_iter=100, tol=0.0)
    bounds = np.array(fit.bounds)
    # the E-step itself is right to 1e-12 nats once the gain is as small
    assert (np.diff(bounds) >= -2e-12 - 1e-12 * np.abs(bounds[1:])).all()


@every_family
def test_statistics_add_up_over_tiles(name):
    X, whole, params, model = rows(name), plan(), parameters(name), FAMILIES[name]
    S, offset, a = whole
    parts = [
        model.statistics(X[i : i + 150], RowsPlan(S[i : i + 150], offset, a[i : i + 150]), params)
        for i in range(0, N, 150)
    ]
    for field, total in zip(zip(*parts, strict=True), model.statistics(X, whole, params), strict=True):
        assert sum(field) == pytest.approx(total, rel=1e-12, abs=1e-12)


@every_family
def test_more_rows_than_a_tile_of_temporaries_are_all_counted(name):
    n = 20_000
    X, params, model = rows(name, n=n), parameters(name), FAMILIES[name]
    S, offset, a = plan(n=n)
    halves = [RowsPlan(S[i : i + n // 2], offset, a[i : i + n // 2]) for i in (0, n // 2)]
    parts = [model.statistics(X[i : i + n // 2], p, params) for i, p in zip((0, n // 2), halves, strict=True)]
    for field, total in zip(zip(*parts, strict=True), model.statistics(X, plan(n=n), params), strict=True):
        assert sum(field) == pytest.approx(total, rel=1e-11, abs=1e-11)
    whole = model.log_density(X, params)
    assert np.allclose(whole[-100:], model.log_density(X[-100:], params), rtol=1e-13, atol=1e-13)


def described(name, fit):
    return FAMILIES[name].describe(fit.state.parameters, IDENTITY)


def assert_same(name, fit, other, rel=1e-6):
    assert other.bounds[-1] == pytest.approx(fit.bounds[-1], rel=1e-10)
    ours, theirs = described(name, fit), described(name, other)
    assert list(ours) == list(theirs)
    for key in ours:
        assert theirs[key] == pytest.approx(ours[key], rel=rel, abs=rel)


@every_family
def test_a_weight_of_two_is_a_row_written_twice(name):
    X, labels = rows(name), np.arange(N) % K
    weights = 1.0 + (np.arange(N) % 5 == 0)
    twice = np.repeat(np.arange(N), weights.astype(int))
    options = {"max_iter": 25, "tol": 0.0}
    fit = fitted(FAMILIES[name], X, labels, FreeMass(), weights=weights, **options)
    assert_same(name, fit, fitted(FAMILIES[name], X[twice], labels[twice], FreeMass(), **options))


@every_family
def test_the_order_of_the_rows_does_not_matter(name):
    X, labels = rows(name), np.arange(N) % K
    order = np.random.default_rng(0).permutation(N)
    options = {"max_iter": 25, "tol": 0.0}
    fit = fitted(FAMILIES[name], X, labels, FixedMass(), **options)
    assert_same(name, fit, fitted(FAMILIES[name], X[order], labels[order], FixedMass(), **options))


@every_continuous
@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_units_do_not_matter(name, scale):
    X, labels = rows(name), np.arange(N) % K
    options = {"max_iter": 25, "tol": 0.0}
    fit = fitted(FAMILIES[name], X, labels, FreeMass(), **options)
    other = fitted(FAMILIES[name], scale * X, labels, FreeMass(), **options)
    assert other.bounds[-1] == pytest.approx(fit.bounds[-1] - features(name) * np.log(scale), abs=1e-9)
    for key, value in described(name, other).items():
        unit = 1 if key == "slants" else scale
        assert value / unit == pytest.approx(described(name, fit)[key], rel=1e-6, abs=1e-6)


def test_one_tail_is_the_mirror_of_the_other():
    X, labels = rows("gumbel_r"), np.arange(N) % K
    right, left = fitted(Gumbel(), X, labels, FreeMass()), fitted(Gumbel("left"), -X, labels, FreeMass())
    assert left.bounds[-1] == pytest.approx(right.bounds[-1], abs=1e-12)
    assert left.state.parameters.locations == pytest.approx(-right.state.parameters.locations, rel=1e-9)


@every_family
def test_parameters_are_recovered_from_a_sample(name):
    model, truth = FAMILIES[name], parameters(name)
    rng = np.random.default_rng(0)
    n = 8_000
    labels = rng.permutation(np.repeat(np.arange(K), [n // 2, n // 4, n // 4]))
    X = model.sample(truth, labels, rng)
    assert X.shape == (n, features(name))
    assert X.dtype == np.float64
    model.check(X)
    with np.errstate(divide="ignore"):
        known = RowsPlan(np.log(np.eye(K)[labels]), np.zeros(K), np.full(n, 1 / n))
    params = model.start(K, features(name))
    for _ in range(400 if name == "skew_normal" else 40):
        params = model.maximise(model.statistics(X, known, params), params)
    root = np.sqrt(n / 4)
    if name.startswith("gumbel"):
        # inverse information of (m, s): s^2 (1.109, 0.608) / n
        assert (np.abs(params.locations - truth.locations) <= 5 * np.sqrt(1.109) * truth.scales / root).all()
        assert (np.abs(params.scales - truth.scales) <= 5 * np.sqrt(0.608) * truth.scales / root).all()
    elif name == "skew_normal":
        for k in (0, 2):  # the component of slant 0.5 is nearly normal, and its slant hardly known
            error = np.array([new[k] - old[k] for new, old in zip(params[:3], truth[:3], strict=True)])
            assert (np.abs(error) <= 5 * skew_normal_errors(X[labels == k], truth, k)).all()
    else:
        p = truth[0]
        variance = {"poisson": p, "bernoulli": p * (1 - p), "multinomial": p * (1 - p) / 12}[name]
        assert (np.abs(params[0] - p) <= 5 * np.sqrt(variance) / root).all()


def skew_normal_errors(X, truth, k):
    """Standard errors (3,) of location, scale and slant: the information is the outer product of the scores, by differences."""
    h, scores = 1e-5, []
    for j in range(3):
        moved = [np.array(field) for field in truth[:3]]
        moved[j] = moved[j] + h * np.eye(K)[k]
        up = SkewNormal().log_density(X, SkewNormalParameters(*moved, NONE, NONE))[:, k]
        moved[j] = moved[j] - 2 * h * np.eye(K)[k]
        scores.append((up - SkewNormal().log_density(X, SkewNormalParameters(*moved, NONE, NONE))[:, k]) / (2 * h))
    G = np.array(scores)
    return np.sqrt(np.diagonal(np.linalg.inv(G @ G.T)))


@every_family
def test_a_sample_has_one_row_per_label_even_without_labels(name):
    model, params, rng = FAMILIES[name], parameters(name), np.random.default_rng(0)
    assert model.sample(params, np.empty(0, int), rng).shape == (0, features(name))
    assert model.sample(params, np.array([2]), rng).shape == (1, features(name))


@every_family
def test_parameters_are_counted(name):
    expected = {"gumbel_r": 2 * K * D, "gumbel_l": 2 * K * D, "skew_normal": 3 * K, "multinomial": K * (D - 1)}
    model = FAMILIES[name]
    assert model.n_parameters(parameters(name)) == expected.get(name, K * D)
    assert model.n_parameters(model.start(K, features(name))) == expected.get(name, K * D)


# degenerate data


def finite(params):
    return all(np.isfinite(np.asarray(field, float)).all() for field in params)


def continued(model, X, rows_plan, n_steps=30):
    """M-steps from the start under one plan, all of them finite."""
    params = model.start(K, X.shape[1])
    for _ in range(n_steps):
        params = model.maximise(model.statistics(X, rows_plan, params), params)
        assert finite(params)
        assert np.isfinite(model.log_density(X, params)).all()
    return params


@every_family
def test_a_component_without_mass_is_retired_and_keeps_its_parameters(name):
    S, _, a = plan()
    rows_plan = RowsPlan(S, np.array([0.0, -np.inf, 0.0]), a)
    X, model, start = rows(name), FAMILIES[name], parameters(name)
    best = model.maximise(model.statistics(X, rows_plan, start), start)
    assert best.retired.tolist() == [False, True, False]
    for new, old in list(zip(best, start, strict=True))[: 3 if name == "skew_normal" else 1]:
        assert np.array_equal(new[1], old[1])
    assert model.retired(best) is best.retired
    assert np.isfinite(model.log_density(X, best)).all()
    assert finite(continued(model, X, rows_plan))


@every_family
def test_one_distinct_row_gives_the_floor_and_no_error(name):
    model = FAMILIES[name]
    X = np.repeat(rows(name)[:1], N, axis=0)
    X = X - X if name in CONTINUOUS else X  # as centring would leave it
    params = continued(model, X, plan())
    if name in CONTINUOUS:
        assert model.collapsed(params).all()
        assert params.scales.ravel() == pytest.approx(model.floor, rel=1)
    fit = fitted(model, X, np.arange(N) % K, FreeMass(), max_iter=20)
    assert np.isfinite(fit.bounds).all()


@every_family
def test_a_constant_column_is_no_error(name):
    model, X = FAMILIES[name], rows(name)
    if features(name) > 1:
        X[:, 0] = 0.0
    params = continued(model, X, plan())
    if name.startswith("gumbel"):
        assert model.collapsed(params).all()
        assert (params.scales[:, 1:] > 0.1).all()


@every_continuous
@pytest.mark.parametrize("side", [-1, 1])
@pytest.mark.parametrize("far", [1e2, 1e6])
@pytest.mark.parametrize("rule", [FreeMass(), FixedMass()], ids=["em", "sinkhorn-em"])
def test_a_row_far_in_either_tail_is_no_error(name, side, far, rule):
    model = FAMILIES[name]
    X = rows(name, n=2000)[:, :1]
    X = (X - X.mean()) / X.std()
    X[0] = side * far
    fit = fitted(model, X, np.arange(2000) % K, rule, max_iter=60, tol=1e-9)
    bounds = np.array(fit.bounds)
    assert np.isfinite(bounds).all()
    assert finite(fit.state.parameters)
    # sums of numbers as large as the outlier's square have an error of eps times that
    assert (np.diff(bounds) >= -1e-9 * np.abs(bounds[1:])).all()


@pytest.mark.parametrize("side", [-1, 1])
def test_parameters_that_see_a_row_beyond_the_ceiling_widen_until_they_do_not(side):
    X = np.random.default_rng(0).gumbel(size=(N, 1))
    X[0] = side * 1e6
    model = Gumbel("right" if side < 0 else "left")
    params = GumbelParameters(np.zeros((K, 1)), np.ones((K, 1)), NONE, NONE)
    P, last = plan().matrix, -np.inf
    for _ in range(100):
        value = (P * model.log_density(X, params)).sum()
        assert value >= last - 1e-12 * abs(value)
        last, params = value, model.maximise(model.statistics(X, plan(), params), params)
    y = np.abs(X[0] - params.locations[:, 0]) / params.scales[:, 0]
    assert (y < CEILING).all()


@every_discrete
def test_no_component_forbids_a_row(name):
    model = FAMILIES[name]
    X = np.zeros((N, D))
    X[:, 0] = 1
    params = continued(model, X, plan())
    other = np.ones((1, D)) if name == "bernoulli" else np.full((1, D), 5.0)
    assert np.isfinite(model.log_density(other, params)).all()
    # and those that it has cost nothing
    assert model.log_density(X, params) == pytest.approx(-1.0 if name == "poisson" else 0.0, abs=1e-11)


def test_rows_of_total_zero_say_nothing_about_categories():
    model, params = Multinomial(), parameters("multinomial")
    X = np.zeros((N, D))
    assert (model.log_density(X, params) == 0).all()
    assert np.array_equal(model.maximise(model.statistics(X, plan(), params), params)[0], params[0])


# what is said to the user


@pytest.mark.parametrize("value", [-1.0, 0.5, np.nan, np.inf])
@every_discrete
def test_what_is_not_a_count_is_named(name, value):
    X = rows(name, n=20_000)
    X[12_345, 2] = value
    if value == np.inf and name != "bernoulli":
        return  # equal to its floor; infinities are refused before a family is asked
    with pytest.raises(ValueError, match=r"X\[12345, 2\] is .*(counts|zeros and ones)"):
        FAMILIES[name].check(X)


def test_a_skew_normal_takes_one_feature():
    with pytest.raises(ValueError, match="2 features; SkewNormal takes one"):
        SkewNormal().check(np.zeros((3, 2)))


def test_options_out_of_range_are_named():
    with pytest.raises(ValueError, match="tail is 'up'"):
        Gumbel("up")
    with pytest.raises(ValueError, match="n_trials is 0"):
        Multinomial(0)


@pytest.mark.parametrize("name", ["gumbel_r", "poisson", "bernoulli"])
def test_distribution_functions_need_one_feature(name):
    with pytest.raises(ValueError, match="one feature"):
        FAMILIES[name].cdf(np.zeros(3), parameters(name))


@every_continuous
def test_parameters_are_described_in_the_units_of_the_data(name):
    d, model, params = features(name), FAMILIES[name], parameters(name)
    coordinates = Map(np.arange(1.0, d + 1), 0.5 * np.arange(1.0, d + 1))
    told = model.describe(params, coordinates)
    assert told["means"].shape == (K, d)
    X = rows(name)
    Z = coordinates.A * (X - coordinates.shift)
    again = params._replace(
        locations=told["means"].reshape(params.locations.shape),
        scales=told["scales"],
    )
    expected = model.log_density(Z, params) + np.log(coordinates.A).sum()
    near = expected > -1e12
    assert model.log_density(X, again)[near] == pytest.approx(expected[near], rel=1e-9, abs=1e-9)


@every_family
def test_described_means_may_be_prescribed(name):
    d, model, params = features(name), FAMILIES[name], parameters(name)
    coordinates = Map(np.ones(d), np.full(d, 0.5)) if name in CONTINUOUS else IDENTITY
    means = model.describe(parameters(name, 1), coordinates)["means"]
    new = model.prescribe(params, {"means": means}, coordinates)
    assert model.describe(new, coordinates)["means"] == pytest.approx(means, rel=1e-12)
    assert np.array_equal(new.retired, params.retired)
    assert model.prescribe(params, {}, coordinates) is params


@every_family
def test_prescriptions_out_of_range_are_named(name):
    d, model, params = features(name), FAMILIES[name], parameters(name)
    good = model.describe(params, Map(np.zeros(d), np.ones(d)))["means"]
    with pytest.raises(ValueError, match="no such parameter"):
        model.prescribe(params, {"colour": 1}, IDENTITY)
    with pytest.raises(ValueError, match="shape"):
        model.prescribe(params, {"means": good[:2]}, IDENTITY)
    with pytest.raises(ValueError, match="finite"):
        model.prescribe(params, {"means": good + np.nan}, IDENTITY)
    if name not in CONTINUOUS:
        with pytest.raises(ValueError, match="means"):
            model.prescribe(params, {"means": -good}, IDENTITY)
