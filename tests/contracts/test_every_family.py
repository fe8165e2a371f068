"""Every registered family, in both forms, keeps the contract of a family and of a mixture."""

import tracemalloc
import warnings

import numpy as np
import pytest
from families import CENTRES, COUNTS, MEMBERS, K, continuous, mixture, rows
from sklearn.exceptions import ConvergenceWarning

from sinkhorn_em.em import Phase, e_step, m_step, run_phase, score, start_state
from sinkhorn_em.engines import InMemory, Tiled
from sinkhorn_em.families import GENERATORS
from sinkhorn_em.ot import FixedMass, FreeMass, RelaxedMass, RowsPlan
from sinkhorn_em.ot.newton import Tolerances

every_member = pytest.mark.parametrize("member", MEMBERS)
continuous_member = pytest.mark.parametrize("member", [m for m in MEMBERS if continuous(m)])
# the skew-normal and the contaminated Gaussian creep where a slant or a share of bad rows goes to its end: not the point here
slow = pytest.mark.filterwarnings("ignore:no convergence")
ROUNDING = 1e-12  # of the bound: sums of a few hundred terms of order 1 to 10, from an E-step with a gap of 1e-14
RULES = {0: FreeMass(), 0.3: RelaxedMass(0.3), 0.7: RelaxedMass(0.7), 1: FixedMass()}


def built(member, X):
    """The family in the coordinates of a fit of X, the rows there, and a state from known groups."""
    model = mixture(member, max_iter=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X)
    Z = np.asfortranarray(model._coordinates.forward(X))
    engine = InMemory(Z, np.full(len(Z), 1 / len(Z)))
    R = np.asfortranarray(np.log(0.9 * np.eye(K)[np.arange(len(Z)) % K] + 0.1 / K))
    return model._family, engine, R


@every_member
@pytest.mark.parametrize("tau", RULES)
def test_the_bound_never_falls(member, tau):
    family, engine, R = built(member, rows(member))
    rule = RULES[tau]
    state = start_state(engine, family, [R], rule)._replace(weights=np.array([0.5, 0.3, 0.2]))
    fit = run_phase(engine, Phase(family, rule, False, 60, 0.0), state)
    # every E-step is off by at most a hundredth of the gain before it
    bounds = np.array(fit.bounds)
    assert (np.diff(bounds) >= -ROUNDING * np.abs(bounds[1:])).all()
    assert bounds[-1] > bounds[0] + 1e-6


@every_member
def test_an_m_step_under_a_fixed_plan_raises_the_expected_log_likelihood(member):
    family, engine, R = built(member, rows(member))
    state = start_state(engine, family, [R], FreeMass())
    P = RowsPlan(R, np.zeros(K), engine.row_mass)

    def expected(parameters):
        return float(np.sum(P.matrix * score(engine, family, parameters)[0])) + family.log_prior(parameters)

    parameters, values = state.parameters, []
    for _ in range(20):
        for turn in family.turns:
            values.append(expected(parameters))
            parameters = turn.maximise(turn.statistics(engine.X, P, parameters), parameters)
    values.append(expected(parameters))
    assert (np.diff(values) >= -ROUNDING * np.abs(values[-1])).all()


@every_member
def test_tiles_of_rows_give_the_same_step(member):
    family, engine, R = built(member, rows(member))
    state = start_state(engine, family, [R], FreeMass())
    phase = Phase(family, FreeMass(), True, 1, 0.0)
    steps = []
    for place in (engine, Tiled(engine.X, engine.row_mass, 37)):
        scores = score(place, family, state.parameters)
        solution = e_step(place, FreeMass(), state, scores, Tolerances(1e-9, 1e-6, 1e-12))
        new = m_step(place, phase, state, scores, solution)
        steps.append(family.log_density(engine.X, new.parameters))
    np.testing.assert_allclose(steps[0], steps[1], rtol=1e-9, atol=1e-9)


def peak_of_a_pass(family, engine, parameters, n):
    """Bytes allocated at most during a density and an M-step's statistics of n rows, scores and data left out."""
    X = np.asfortranarray(np.resize(engine.X, (n, engine.X.shape[1])))
    place = InMemory(X, np.full(n, 1 / n))
    scores = score(place, family, parameters)
    plan = RowsPlan(scores[0], np.zeros(K), place.row_mass)
    tracemalloc.start()
    family.log_density(X, parameters, scores[0])
    for turn in family.turns:
        turn.statistics(X, plan, parameters)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


@every_member
def test_no_pass_makes_a_second_array_of_the_size_of_the_scores(member):
    family, engine, R = built(member, rows(member))
    parameters = start_state(engine, family, [R], FreeMass()).parameters
    n = 100_000  # pieces and blocks have their largest size from here on
    peak_of_a_pass(family, engine, parameters, 1000)  # compiles, fills caches
    extra = peak_of_a_pass(family, engine, parameters, 3 * n) - peak_of_a_pass(family, engine, parameters, n)
    assert extra < 0.5 * (2 * n * K * 8)


@slow
@every_member
def test_weights_are_duplicated_rows(member):
    X = rows(member)
    frequency = 1 + np.arange(len(X)) % 2
    weighted = mixture(member, tol=1e-9).fit(X, sample_weight=frequency)
    doubled = mixture(member, tol=1e-9).fit(np.repeat(X, frequency, axis=0))
    assert weighted.lower_bound_ == pytest.approx(doubled.lower_bound_, abs=1e-8)
    np.testing.assert_allclose(weighted.means_, doubled.means_, rtol=1e-4, atol=1e-4)


@every_member
def test_the_order_of_the_rows_does_not_matter(member):
    X = rows(member)
    order = np.random.default_rng(1).permutation(len(X))
    a, b = mixture(member).fit(X), mixture(member).fit(X[order])
    assert a.lower_bound_ == pytest.approx(b.lower_bound_, abs=1e-7)
    np.testing.assert_array_equal(a.predict(X), b.predict(X))


@slow
@continuous_member
def test_units_and_offsets_do_not_matter(member):
    X = rows(member)
    a = mixture(member, tol=1e-9).fit(X)
    scale, offset = 1e-3, 500.0
    b = mixture(member, tol=1e-9).fit(scale * X + offset)
    assert b.lower_bound_ + X.shape[1] * np.log(scale) == pytest.approx(a.lower_bound_, abs=1e-6)
    np.testing.assert_allclose(b.means_, scale * a.means_ + offset, atol=1e-3 * scale)


@continuous_member
def test_single_precision_data_give_the_same_fit(member):
    X = rows(member).astype(np.float32)
    a, b = mixture(member).fit(X.astype(np.float64)), mixture(member).fit(X)
    assert a.lower_bound_ == pytest.approx(b.lower_bound_, abs=1e-9)


@every_member
def test_components_may_be_given_in_any_order(member):
    X = rows(member)
    fitted = mixture(member).fit(X)
    order = [2, 0, 1]
    a = mixture(member, means_init=fitted.means_, tau=0).fit(X)
    b = mixture(member, means_init=fitted.means_[order], tau=0).fit(X)
    assert a.lower_bound_ == pytest.approx(b.lower_bound_, abs=1e-9)
    np.testing.assert_allclose(a.means_[order], b.means_, rtol=1e-6, atol=1e-6)


@every_member
def test_what_is_drawn_from_a_fit_is_fitted_by_it(member):
    X = rows(member, n=600)
    truth = mixture(member, tol=1e-8).fit(X)
    n = 6000
    Y, labels = truth.sample(n)
    again = mixture(member, means_init=truth.means_, tol=1e-8).fit(Y)
    assert Y.shape == (n, X.shape[1])
    assert set(labels) == {0, 1, 2}
    # the truth cannot be much worse on its own sample than the fit: half a chi-square of so many parameters, mean and 8 sd
    p = truth._n_parameters()
    gain = n * (again.score(Y) - truth.score(Y))
    assert -1e-3 * n < gain < p / 2 + 8 * np.sqrt(p / 2) + 5


@every_member
def test_a_fit_is_stored_and_read_back_to_the_last_bit(member, tmp_path):
    X = rows(member)
    fitted = mixture(member).fit(X)
    fitted.save(tmp_path / "fit.json")
    read = type(fitted).load(tmp_path / "fit.json")
    assert np.array_equal(read.score_samples(X), fitted.score_samples(X))
    assert read.get_params().keys() == fitted.get_params().keys()


@every_member
def test_a_warm_start_goes_on_where_the_last_fit_stopped(member):
    X = rows(member)
    model = mixture(member, warm_start=True).fit(X)
    before = model.lower_bound_
    model.fit(X)
    assert model.lower_bound_ >= before - 1e-9
    assert model.n_iter_ <= 3 or model.lower_bound_ > before


DEGENERATE = {
    "one distinct row": lambda X: np.repeat(X[:1], 40, axis=0),
    "two distinct rows": lambda X: np.repeat(X[:2], 20, axis=0),
    "as many rows as components": lambda X: X[:K],
    "a constant feature": lambda X: np.column_stack([X[:, :-1], np.full(len(X), X[0, -1])]),
    "a feature twice": lambda X: np.column_stack([X[:, :-1], X[:, 0]]),
    "a far outlier": lambda X: np.vstack([X, 1e6 * (1 + np.abs(X[:1]))]).round(),
}


@every_member
@pytest.mark.parametrize("case", DEGENERATE)
@pytest.mark.parametrize("options", [{}, {"weights": "uniform"}, {"reg_covar": 0.0}], ids=str)
def test_degenerate_rows_give_a_repaired_fit_or_a_clear_error(member, case, options):
    X = DEGENERATE[case](rows(member))
    if "reg_covar" in options and MEMBERS[member]["family"] not in GENERATORS:
        return  # they have no scale matrix
    if MEMBERS[member]["family"] == "bernoulli":
        X = np.minimum(X, 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)  # which is how a repair is reported
        model = mixture(member, max_iter=60, **options).fit(X)
    assert np.isfinite(model.lower_bounds_).all()
    assert np.isfinite(model.score_samples(X)).all()
    assert np.isfinite(model.means_).all()
    assert np.isfinite(model.predict_proba(X)).all()


@slow
@pytest.mark.parametrize("member", GENERATORS)
def test_a_component_on_one_point_without_any_floor_is_no_nan(member):
    rng = np.random.default_rng(0)
    X = np.vstack([np.zeros((60, 2)), rng.normal(size=(60, 2)) + 5])
    with pytest.warns(ConvergenceWarning, match="collapsed"):
        model = mixture(member, n_components=2, reg_covar=0.0, max_iter=200).fit(X)
    assert np.isfinite(model.lower_bounds_).all() and np.isfinite(model.covariances_).all()
    # where a component is held at its floor, the floor is the same for rows and for their frequencies
    frequency = 1 + 3 * (np.arange(len(X)) % 2)
    with pytest.warns(ConvergenceWarning, match="collapsed"):
        weighted = mixture(member, n_components=2, max_iter=200).fit(X, sample_weight=frequency)
    with pytest.warns(ConvergenceWarning, match="collapsed"):
        repeated = mixture(member, n_components=2, max_iter=200).fit(np.repeat(X, frequency, axis=0))
    assert weighted.lower_bound_ == pytest.approx(repeated.lower_bound_, abs=1e-6)


@every_member
def test_sizes_stay_within_their_bounds(member):
    X = rows(member)
    model = mixture(member, size_bounds=(0.25, 0.5), weights="uniform", tol=1e-5).fit(X)
    sizes = model.transport_plan(X).column_mass
    assert (sizes >= 0.25 - 1e-8).all() and (sizes <= 0.5 + 1e-8).all()


@every_member
def test_a_missing_value_is_refused(member):
    X = rows(member)
    X[3, 0] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        mixture(member).fit(X)


@pytest.mark.parametrize("member", COUNTS)
def test_what_is_no_count_is_refused(member):
    X = rows(member)
    X[5, 1] = -1.5
    with pytest.raises(ValueError, match=r"X\[5, 1\] is -1.5"):
        mixture(member).fit(X)


@every_member
def test_known_labels_are_obeyed_and_lead(member):
    X = rows(member)
    truth = np.arange(len(X)) % K
    labels = np.where(np.arange(len(X)) < 60, truth, -1)
    model = mixture(member).fit(X, labels=labels)
    assert (model.predict(X) == truth).mean() > 0.5  # components are numbered as the labels say: chance is 1/3
    assert len(CENTRES) == K


@slow
@every_member
def test_trimming_and_noise_keep_the_bound_rising(member):
    X = rows(member)
    options = [{"trim": 0.05}] + ([{"noise": 0.05}, {"noise": "estimate"}] if continuous(member) else [])
    for option in options:
        model = mixture(member, tau=0, tol=1e-7, **option).fit(X)
        bounds = np.array(model.lower_bounds_)
        assert (np.diff(bounds) >= -ROUNDING * np.abs(bounds[1:])).all()
        plan = model.transport_plan(X)
        assert plan.unassigned.mean() == pytest.approx(option.get("trim", 0.0), abs=1e-6)
