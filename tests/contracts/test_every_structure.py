"""Every covariance structure, with light and heavy tails, keeps the contract of a mixture."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from sinkhorn_em import LocationScaleMixture
from sinkhorn_em.em import Phase, run_phase, start_state
from sinkhorn_em.engines import InMemory
from sinkhorn_em.families import GENERATORS, Elliptical, Gaussian, Laplace, StudentT
from sinkhorn_em.families.covariances import MCLUST_NAMES, STRUCTURES, Regularisation
from sinkhorn_em.ot import FixedMass, FreeMass, RelaxedMass

N, K, D = 210, 3, 3
ROUNDING = 1e-12
RULES = {0: FreeMass(), 0.3: RelaxedMass(0.3), 0.7: RelaxedMass(0.7), 1: FixedMass()}
FAMILIES = {"gaussian": Gaussian(), "student_t": StudentT(), "laplace": Laplace()}
every_structure = pytest.mark.parametrize("structure", STRUCTURES)
every_family = pytest.mark.parametrize("family", FAMILIES)
slow = pytest.mark.filterwarnings("ignore:no convergence")


def rows(seed=0):
    """Three groups of unequal size, spread and orientation, with tails."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(K), [100, 70, 40])
    A = rng.normal(size=(K, D, D)) + np.eye(D) * [[[1]], [[2]], [[3]]]
    z = rng.standard_t(5, size=(N, D))
    return np.einsum("nij,nj->ni", A[labels], z) + 9 * labels[:, None] * [1, 0.5, -1], labels


def mixture(family, structure, **options):
    options = {"random_state": 0, "tol": 1e-8, "max_iter": 2000, **options}
    return LocationScaleMixture(K, family=FAMILIES[family], covariance_type=structure, **options)


@every_structure
@every_family
@pytest.mark.parametrize("tau", RULES)
def test_the_bound_never_falls(family, structure, tau):
    X, labels = rows()
    model = Elliptical(FAMILIES[family], STRUCTURES[structure](), Regularisation(1e-9))
    engine = InMemory(np.asfortranarray(X / X.std(axis=0)), np.full(N, 1 / N))
    R = np.asfortranarray(np.log(0.8 * np.eye(K)[labels] + 0.2 / K))
    state = start_state(engine, model, [R], RULES[tau])._replace(weights=np.array([0.2, 0.3, 0.5]))
    bounds = np.array(run_phase(engine, Phase(model, RULES[tau], False, 80, 0.0), state).bounds)
    assert (np.diff(bounds) >= -ROUNDING * np.abs(bounds[1:])).all()


@every_structure
@pytest.mark.parametrize("generator", [g for name, g in GENERATORS.items() if name not in FAMILIES])
@pytest.mark.parametrize("tau", [0, 1])
def test_the_bound_never_falls_for_the_other_generators(generator, structure, tau):
    X, labels = rows()
    model = Elliptical(generator(), STRUCTURES[structure](), Regularisation(1e-9))
    engine = InMemory(np.asfortranarray(X / X.std(axis=0)), np.full(N, 1 / N))
    R = np.asfortranarray(np.log(0.8 * np.eye(K)[labels] + 0.2 / K))
    state = start_state(engine, model, [R], RULES[tau])._replace(weights=np.array([0.2, 0.3, 0.5]))
    bounds = np.array(run_phase(engine, Phase(model, RULES[tau], False, 40, 0.0), state).bounds)
    assert (np.diff(bounds) >= -ROUNDING * np.abs(bounds[1:])).all()


def maps(coordinates):
    """Linear maps that commute with the structure."""
    rng = np.random.default_rng(3)
    rotation = np.linalg.qr(rng.normal(size=(D, D)))[0]
    return {
        "whitened": rng.normal(size=(D, D)) + 2 * np.eye(D),
        "scaled": np.diag([1e-3, 5.0, 2e4]),
        "isotropic": 0.01 * rotation,
    }[coordinates]


@slow
@every_structure
@every_family
def test_maps_that_commute_with_the_structure_change_nothing(family, structure):
    X, _ = rows()
    A = maps(STRUCTURES[structure].coordinates)
    if structure in ("spherical", "tied_spherical"):
        A = A / np.linalg.norm(A, 2)
    near = mixture(family, structure).fit(X)
    far = mixture(family, structure).fit(X @ A.T + 100.0)
    assert far.lower_bound_ + np.linalg.slogdet(A)[1] == pytest.approx(near.lower_bound_, abs=1e-5)
    np.testing.assert_array_equal(far.predict(X @ A.T + 100.0), near.predict(X))


@slow
@every_structure
@every_family
def test_weights_are_duplicated_rows(family, structure):
    X, _ = rows()
    frequency = 1 + np.arange(N) % 3
    weighted = mixture(family, structure).fit(X, sample_weight=frequency)
    repeated = mixture(family, structure).fit(np.repeat(X, frequency, axis=0))
    assert weighted.lower_bound_ == pytest.approx(repeated.lower_bound_, abs=1e-7)


@slow
@every_structure
def test_single_precision_data_and_another_order_of_rows_give_the_same_fit(structure):
    X = rows()[0].astype(np.float32)
    order = np.random.default_rng(1).permutation(N)
    fits = [mixture("gaussian", structure).fit(Y) for Y in (X.astype(np.float64), X, X[order])]
    assert [f.lower_bound_ for f in fits] == pytest.approx([fits[0].lower_bound_] * 3, abs=1e-7)


DEGENERATE = {
    "one distinct row": lambda X: np.repeat(X[:1], 40, axis=0),
    "two distinct rows": lambda X: np.repeat(X[:2], 20, axis=0),
    "as many rows as components": lambda X: X[:: N // K][:K],
    "fewer rows than features": lambda X: np.hstack([X, X**2, X**3])[::40],
    "a constant feature": lambda X: np.column_stack([X[:, :-1], np.full(N, 7.0)]),
    "a feature twice": lambda X: np.column_stack([X[:, :-1], X[:, 0]]),
    "rows on a line": lambda X: X[:, [0]] * [1.0, 2.0, -1.0] + 3.0,
    "a far outlier": lambda X: np.vstack([X, [[1e7, -1e7, 1e7]]]),
    "a large offset": lambda X: X + 1e9,
    "one row many times": lambda X: np.vstack([X, np.repeat(X[:1], 300, axis=0)]),
}


@every_structure
@pytest.mark.parametrize("case", DEGENERATE)
@pytest.mark.parametrize("weights", ["learned", "uniform"])
def test_degenerate_rows_give_a_repaired_fit_and_never_nan(structure, case, weights):
    X = DEGENERATE[case](rows()[0])
    for family in ("gaussian", "student_t"):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", ConvergenceWarning)  # which is how a repair is reported
            model = mixture(family, structure, weights=weights, max_iter=50, tol=1e-6).fit(X)
        assert np.isfinite(model.lower_bounds_).all()
        assert np.isfinite(model.score_samples(X)).all()
        assert np.isfinite(model.means_).all() and np.isfinite(model.covariances_).all()
        assert np.isfinite(model.predict_proba(X)).all()


@pytest.mark.parametrize("name,ours", MCLUST_NAMES.items())
def test_the_names_of_mclust_mean_what_they_say(name, ours):
    X = rows()[0][:, :1] if name in ("E", "V") else rows()[0]
    a, b = (mixture("gaussian", n, tol=1e-5).fit(X) for n in (name, ours))
    assert a.lower_bound_ == b.lower_bound_
    assert a.covariance_type == name


@pytest.mark.parametrize("name", ["E", "V"])
def test_the_univariate_names_are_for_one_feature(name):
    with pytest.raises(ValueError, match=f"covariance_type is '{name}', for one feature, but X has 3"):
        mixture("gaussian", name).fit(rows()[0])


@pytest.mark.parametrize(
    "options,message",
    [
        ({"family": "weibull"}, "family is 'weibull'; it must be one of"),
        ({"family": 3}, "family is 3; it must be one of"),
        ({"covariance_type": "VXV"}, "covariance_type is 'VXV'; it must be one of"),
        ({"family": StudentT(df=0)}, "df is 0; it must be positive"),
        ({"family": StudentT(df=np.inf)}, "df is inf; it must be positive and finite"),
        ({"family": "gumbel", "reg_covar": 1.0}, "reg_covar is 1.0; it is about scale matrices"),
        ({"form": "cubic"}, "form is 'cubic'; it must be one of"),
        (
            {"form": "product"},
            "form is 'product' and covariance_type 'full'; coordinates are independent in it: use diag",
        ),
        ({"family": "poisson", "covariance_type": "tied"}, "covariance_type is 'tied'; it is about scale matrices"),
        ({"family": "poisson", "prior": "mclust"}, "prior is 'mclust'; it is about scale matrices"),
        ({"family": "poisson", "noise": 0.1}, "noise is 0.1; counts have no uniform density"),
        ({"family": "skew_normal"}, "X has 3 features; SkewNormal takes one"),
        ({"eigenvalue_bounds": (2, 1)}, "eigenvalue_bounds is"),
        ({"eigenvalue_bounds": (0.1, 1), "covariance_type": "VEV"}, "eigenvalue_bounds"),
    ],
)
def test_bad_options_are_named_with_the_rule(options, message):
    with pytest.raises(ValueError, match=message):
        LocationScaleMixture(K, **options).fit(np.abs(rows()[0]).round())
