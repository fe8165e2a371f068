"""Every covariance structure of the Gaussian family keeps the contract of a family."""

import mpmath
import numpy as np
import pytest
from scipy.stats import multivariate_normal

from sinkhorn_em.families import Elliptical, Gaussian
from sinkhorn_em.families.covariances import STRUCTURES, Regularisation
from sinkhorn_em.families.location_scale import LocationScaleParameters
from sinkhorn_em.ot import RowsPlan

N, K, D = 400, 3, 5  # all different, so that a shape tells what it is
EPS = np.finfo(float).eps
NONE = Regularisation(0.0)
every_structure = pytest.mark.parametrize("name", STRUCTURES)
SIMPLE = ["full", "tied", "diag", "tied_diag", "spherical", "tied_spherical"]
simple_structure = pytest.mark.parametrize("name", SIMPLE)  # the others are in test_covariances.py

#: free covariance parameters for K = 3, d = 5
N_COVARIANCE_PARAMETERS = {
    "full": 3 * 15,
    "tied": 15,
    "diag": 3 * 5,
    "tied_diag": 5,
    "spherical": 3,
    "tied_spherical": 1,
}


def family(name, regularisation=NONE):
    return Elliptical(Gaussian(), STRUCTURES[name](), regularisation)


def scatters(name, rng, mass):
    """Scatters of masses (K,) that belong to no particular covariance."""
    A = rng.normal(size=(K, D, 2 * D))
    W = mass[:, None, None] * (A @ A.transpose(0, 2, 1)) / (2 * D)
    return W if STRUCTURES[name].full else W.diagonal(axis1=1, axis2=2).copy()


def parameters(name, seed=0, regularisation=NONE):
    """Random parameters of the structure."""
    rng = np.random.default_rng(seed)
    mass = rng.dirichlet(np.full(K, 5.0))
    covariances = STRUCTURES[name]().maximise(mass, scatters(name, rng, mass), regularisation)
    return LocationScaleParameters(rng.normal(size=(K, D)), covariances, np.zeros(K, bool))


def dense(values):
    """(K, D, D) covariances from values of any structure's shape."""
    eye = np.eye(D)
    by_shape = {
        (K, D, D): lambda v: v,
        (D, D): lambda v: np.repeat(v[None], K, axis=0),
        (K, D): lambda v: v[:, :, None] * eye,
        (D,): lambda v: np.repeat(np.diag(v)[None], K, axis=0),
        (K,): lambda v: v[:, None, None] * eye,
        (): lambda v: np.repeat(v * eye[None], K, axis=0),
    }
    return by_shape[np.shape(values)](np.asarray(values))


def plan(seed=0, n=N, virtual=0):
    rng = np.random.default_rng(seed)
    return RowsPlan(2 * rng.normal(size=(n, K)), rng.normal(size=K + virtual), rng.dirichlet(np.ones(n)))


def rows(seed=0, n=N):
    return np.random.default_rng(seed + 50).normal(size=(n, D)) * np.arange(1, D + 1)


def expected_log_likelihood(model, X, P, params):
    return np.sum(P * model.log_density(X, params))


@every_structure
def test_the_log_density_is_that_of_scipy(name):
    X, params = rows(), parameters(name)
    ours = family(name).log_density(X, params)
    assert ours.shape == (N, K)
    for k, S in enumerate(dense(params.covariances.values)):
        assert ours[:, k] == pytest.approx(multivariate_normal(params.means[k], S).logpdf(X), rel=1e-12)


@every_structure
def test_the_log_density_may_overwrite_an_earlier_one(name):
    X, params, model = rows(), parameters(name), family(name)
    out = model.log_density(X, params)
    kept = out.copy()
    out[:] = np.nan
    assert model.log_density(X, params, out) is out
    assert np.array_equal(out, kept)


@every_structure
@pytest.mark.parametrize("order", ["C", "F"])
def test_the_order_of_the_rows_in_memory_does_not_matter(name, order):
    X, params, model = rows(), parameters(name), family(name)
    assert np.array_equal(model.log_density(np.array(X, order=order), params), model.log_density(X, params))


def exact_log_density(x, mean, covariance):
    """In 60 digits, of the covariance as it is stored."""
    with mpmath.workdps(60):
        S, c = mpmath.matrix(covariance.tolist()), mpmath.matrix([mpmath.mpf(v) for v in (x - mean).tolist()])
        L = mpmath.cholesky(S)
        z = mpmath.lu_solve(L, c)
        log_det = sum(mpmath.log(L[i, i]) for i in range(len(x)))
        q = sum(v * v for v in z)
        return float(-0.5 * len(x) * mpmath.log(2 * mpmath.pi) - log_det - q / 2), float(q)


@pytest.mark.parametrize("name", ["full", "tied"])
@pytest.mark.parametrize("condition", [1e0, 1e4, 1e8, 1e12])
def test_the_log_density_of_an_ill_conditioned_covariance_is_as_good_as_its_storage(name, condition):
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.normal(size=(D, D)))[0]
    S = (Q * np.geomspace(1, 1 / condition, D)) @ Q.T
    S = (S + S.T) / 2
    values = S if name == "tied" else np.repeat(S[None], K, axis=0)
    covariances = STRUCTURES[name]().from_values(values, K, D)
    params = LocationScaleParameters(np.zeros((K, D)), covariances, np.zeros(K, bool))
    X = family(name).sample(params, np.zeros(20, int), rng)
    ours = family(name).log_density(X, params)[:, 0]
    for x, value in zip(X, ours, strict=True):
        exact, q = exact_log_density(x, np.zeros(D), S)
        # Cholesky is exact for a covariance off by d eps: x' S^-1 x and log det move by that times the condition number
        assert value == pytest.approx(exact, abs=D * EPS * condition * (q + D) + 1e-13)


@every_structure
@pytest.mark.parametrize("scale", [1e-150, 1e-6, 1e6, 1e150])
def test_the_log_density_knows_no_units(name, scale):
    X, params, model = rows(), parameters(name), family(name)
    values = np.asarray(params.covariances.values) * scale**2
    scaled = params._replace(means=scale * params.means, covariances=model.structure.from_values(values, K, D))
    expected = model.log_density(X, params) - D * np.log(scale)
    assert model.log_density(scale * X, scaled) == pytest.approx(expected, rel=1e-12)


@every_structure
def test_axes_of_very_different_scale_cost_no_digits(name):
    scale = np.geomspace(1e-6, 1e6, D)
    params, model = parameters(name), family(name)
    if np.shape(params.covariances.values) in [(K,), ()]:
        return  # one scale for all axes
    values = np.asarray(params.covariances.values)
    values = values * (np.outer(scale, scale) if STRUCTURES[name].full else scale**2)
    scaled = params._replace(means=params.means * scale, covariances=model.structure.from_values(values, K, D))
    expected = model.log_density(rows(), params) - np.log(scale).sum()
    assert model.log_density(rows() * scale, scaled) == pytest.approx(expected, rel=1e-12)


@every_structure
@pytest.mark.parametrize("virtual", [0, 1])
def test_the_statistics_are_the_moments_of_the_plan(name, virtual):
    X, rows_plan, params = rows(), plan(virtual=virtual), parameters(name)
    mass, _, _, first, second = family(name).statistics(X, rows_plan, params)
    P = rows_plan.matrix
    assert mass == pytest.approx(P.sum(axis=0), abs=1e-14)
    for k in range(K):
        C = X - params.means[k]
        S = (C * P[:, k, None]).T @ C
        assert first[k] == pytest.approx(P[:, k] @ C, abs=1e-13)
        assert second[k] == pytest.approx(S if STRUCTURES[name].full else np.diag(S)[:, None], abs=1e-12)


@every_structure
def test_statistics_add_up_over_tiles(name):
    X, whole, params, model = rows(), plan(), parameters(name), family(name)
    S, offset, a = whole
    parts = [
        model.statistics(X[i : i + 150], RowsPlan(S[i : i + 150], offset, a[i : i + 150]), params)
        for i in range(0, N, 150)
    ]
    for field, total in zip(zip(*parts, strict=True), model.statistics(X, whole, params), strict=True):
        assert sum(field) == pytest.approx(total, abs=1e-12)


@every_structure
@pytest.mark.parametrize("regularisation", [NONE, Regularisation(1.5), Regularisation(20.0)], ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_maximising_beats_every_other_member_of_the_structure(name, regularisation, seed):
    X, rows_plan = rows(seed), plan(seed)
    model, start = family(name, regularisation), parameters(name, seed, regularisation)
    P = rows_plan.matrix
    best = model.maximise(model.statistics(X, rows_plan, start), start)
    value = expected_log_likelihood(model, X, P, best)
    assert value >= expected_log_likelihood(model, X, P, start)
    rng = np.random.default_rng(seed)
    mass = P.sum(axis=0)
    spread = dense(best.covariances.values) * mass[:, None, None]
    spread = spread if STRUCTURES[name].full else spread.diagonal(axis1=1, axis2=2)
    for size in (1e-3, 1e-2, 0.1, 1):
        # another member: the covariance step applied to other scatters
        share = size / (1 + size)
        scatter = (1 - share) * spread + share * scatters(name, rng, mass)
        covariances = model.structure.maximise(mass, scatter, regularisation)
        means = best.means + size * rng.normal(size=(K, D))
        for other in (best._replace(covariances=covariances), best._replace(means=means)):
            # equality where all eigenvalues are at the floor; rounding of sums of 400 terms of order 10
            assert expected_log_likelihood(model, X, P, other) <= value + 1e-12


@every_structure
def test_the_means_are_the_means_of_the_plan(name):
    X, rows_plan, start, model = rows(), plan(), parameters(name), family(name)
    best = model.maximise(model.statistics(X, rows_plan, start), start)
    P = rows_plan.matrix
    assert best.means == pytest.approx((P.T @ X) / P.sum(axis=0)[:, None], abs=1e-12)
    assert not best.retired.any()
    assert not best.covariances.held.any()


@simple_structure
def test_covariances_are_pooled_as_the_structure_says(name):
    X, rows_plan, start, model = rows(), plan(), parameters(name), family(name)
    best = model.maximise(model.statistics(X, rows_plan, start), start)
    P = rows_plan.matrix
    mass = P.sum(axis=0)
    own = np.array([(P[:, k, None] * (X - m)).T @ (X - m) / mass[k] for k, m in enumerate(best.means)])
    tied = np.tensordot(mass, own, 1)[None]
    expected = {
        "full": own,
        "tied": tied,
        "diag": own * np.eye(D),
        "tied_diag": tied * np.eye(D),
        "spherical": np.array([np.trace(S) / D * np.eye(D) for S in own]),
        "tied_spherical": np.trace(tied[0]) / D * np.eye(D)[None],
    }[name]
    assert dense(best.covariances.values) == pytest.approx(np.broadcast_to(expected, (K, D, D)), abs=1e-11)


@every_structure
def test_values_and_factors_tell_the_same_covariance(name):
    params = parameters(name)
    _, factors, log_det, held = params.covariances
    again = STRUCTURES[name]().from_values(params.covariances.values, K, D)
    assert again.factors == pytest.approx(factors, rel=1e-12, abs=1e-14)
    assert again.log_det == pytest.approx(log_det, abs=1e-12)
    F = factors if factors.ndim == 3 else factors[:, :, None] * np.eye(D)
    assert F @ dense(params.covariances.values) @ F.transpose(0, 2, 1) == pytest.approx(
        np.repeat(np.eye(D)[None], K, axis=0), abs=1e-12
    )
    assert held.shape == (K,)


@every_structure
def test_no_eigenvalue_is_below_the_floor_and_those_raised_are_reported(name):
    X = rows() * [1, 1, 1, 1, 1e-9]  # flat along the last axis
    model, rows_plan = family(name, Regularisation(0.01)), plan()
    start = parameters(name)
    best = model.maximise(model.statistics(X, rows_plan, start), start)
    eigenvalues = np.linalg.eigvalsh(dense(best.covariances.values))
    assert (eigenvalues >= 0.01 * (1 - 1e-9)).all()
    spherical = np.shape(best.covariances.values) in [(K,), ()]  # its only variance is far above
    assert best.covariances.held.tolist() == [not spherical] * K


@simple_structure
def test_a_ridge_is_added_to_every_covariance(name):
    X, rows_plan, start = rows(), plan(), parameters(name)
    ridge = np.diag(np.arange(1.0, D + 1))
    plain, ridged = (
        m.maximise(m.statistics(X, rows_plan, start), start).covariances.values
        for m in (family(name), family(name, Regularisation(0.0, ridge)))
    )
    spherical = np.shape(plain) in [(K,), ()]
    added = np.trace(ridge) / D * np.eye(D) if spherical else ridge
    assert dense(ridged) - dense(plain) == pytest.approx(np.repeat(added[None], K, axis=0), abs=1e-11)


@every_structure
def test_one_distinct_row_gives_the_floor_and_no_error(name):
    X = np.ones((N, D))
    model, start = family(name, Regularisation(1e-3)), parameters(name)
    best = model.maximise(model.statistics(X, plan(), start), start)
    assert dense(best.covariances.values) == pytest.approx(np.repeat(1e-3 * np.eye(D)[None], K, axis=0), rel=1e-9)
    assert np.isfinite(model.log_density(X, best)).all()
    assert best.covariances.held.all()


@every_structure
@pytest.mark.parametrize("floor", [0.0, 1e-3])
def test_a_component_without_mass_is_retired_and_keeps_its_mean(name, floor):
    S, _, a = plan()
    rows_plan = RowsPlan(S, np.array([0.0, -np.inf, 0.0]), a)
    model, start = family(name, Regularisation(floor)), parameters(name)
    best = model.maximise(model.statistics(rows(), rows_plan, start), start)
    assert best.retired.tolist() == [False, True, False]
    assert np.array_equal(best.means[1], start.means[1])
    assert np.isfinite(model.log_density(rows(), best)).all()


@every_structure
@pytest.mark.parametrize("offset", [1e3, 1e6])
def test_an_offset_of_the_data_cancels_nothing(name, offset):
    # moments are taken about the means that the parameters had, so two rounds leave the rounding of the data themselves
    X, rows_plan, model = rows(), plan(), family(name)
    far = X + offset
    near_params, far_params = parameters(name), parameters(name)
    for _ in range(2):
        near_params = model.maximise(model.statistics(X, rows_plan, near_params), near_params)
        far_params = model.maximise(model.statistics(far, rows_plan, far_params), far_params)
    # far - offset is off by offset eps, relative to deviations of order 1
    assert far_params.covariances.values == pytest.approx(near_params.covariances.values, rel=20 * offset * EPS + 1e-12)


@every_structure
def test_parameters_are_recovered_from_a_sample(name):
    model, truth = family(name), parameters(name)
    rng = np.random.default_rng(0)
    n = 20_000
    labels = rng.permutation(np.repeat(np.arange(K), [n // 2, n // 4, n // 4]))
    X = model.sample(truth, labels, rng)
    with np.errstate(divide="ignore"):
        known = RowsPlan(np.log(np.eye(K)[labels]), np.zeros(K), np.full(n, 1 / n))
    fitted = model.maximise(model.statistics(X, known, truth), truth)
    assert X.shape == (n, D)
    S = dense(truth.covariances.values)
    sd = np.sqrt(S.diagonal(axis1=1, axis2=2))
    # standard errors sd/sqrt(n_k) of a mean, sd sd sqrt(2/n_k) at most of a covariance; n_k >= n/4, five of them
    assert (np.abs(fitted.means - truth.means) <= 5 * sd / np.sqrt(n / 4)).all()
    bound = 5 * np.sqrt(2 / (n / 4)) * sd[:, :, None] * sd[:, None, :]
    assert (np.abs(dense(fitted.covariances.values) - S) <= bound).all()


@every_structure
def test_a_sample_has_one_row_per_label_even_without_labels(name):
    model, params, rng = family(name), parameters(name), np.random.default_rng(0)
    assert model.sample(params, np.empty(0, int), rng).shape == (0, D)
    assert model.sample(params, np.array([2]), rng).shape == (1, D)


@every_structure
def test_the_same_seed_gives_the_same_sample(name):
    model, params, labels = family(name), parameters(name), np.arange(30) % K
    first, second = (model.sample(params, labels, np.random.default_rng(7)) for _ in range(2))
    assert np.array_equal(first, second)


@simple_structure
def test_parameters_are_counted(name):
    model = family(name)
    assert model.n_parameters(parameters(name)) == K * D + N_COVARIANCE_PARAMETERS[name]


@every_structure
def test_a_start_is_a_valid_parameter(name):
    model = family(name)
    start = model.start(K, D)
    unit = multivariate_normal(np.zeros(D)).logpdf(rows())
    assert model.log_density(rows(), start) == pytest.approx(np.repeat(unit[:, None], K, axis=1), rel=1e-13)
    assert model.n_parameters(start) == model.n_parameters(parameters(name))


@every_structure
def test_the_pooled_structure_is_shared_by_all_components(name):
    pooled = STRUCTURES[name]().pooled
    assert pooled.full == STRUCTURES[name].full
    assert pooled.pooled is pooled or pooled.pooled.name == pooled.name
    rng = np.random.default_rng(0)
    mass = np.full(K, 1 / K)
    S = dense(pooled.maximise(mass, scatters(name, rng, mass), NONE).values)
    assert np.array_equal(S, np.repeat(S[:1], K, axis=0))


@pytest.mark.parametrize("d", range(1, 10))
@pytest.mark.parametrize("name", ["full", "diag"])
def test_every_number_of_features_is_padded_right(name, d):
    rng = np.random.default_rng(d)
    X, mean = rng.normal(size=(70, d)), rng.normal(size=(1, d))
    A = rng.normal(size=(d, 2 * d))
    S = A @ A.T
    if name == "diag":
        S = np.diag(np.diag(S))
    values = S[None] if name == "full" else np.diag(S)[None]
    params = LocationScaleParameters(mean, STRUCTURES[name]().from_values(values, 1, d), np.zeros(1, bool))
    model = family(name)
    expected = multivariate_normal(mean[0], S).logpdf(X)
    assert model.log_density(X, params)[:, 0] == pytest.approx(expected, rel=1e-10)
    rows_plan = RowsPlan(np.zeros((70, 1)), np.zeros(1), np.full(70, 1 / 70))
    second = model.statistics(X, rows_plan, params).second[0]
    C = X - mean
    moment = C.T @ C / 70
    assert second == pytest.approx(moment if name == "full" else np.diag(moment)[:, None], abs=1e-13)
