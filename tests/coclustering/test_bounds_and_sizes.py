"""The bound never falls and is what its formula says; cluster sizes and weights are what was asked for."""

import numpy as np
import pytest
from block_matrices import FAMILIES
from co_clusterings import TAUS, WEIGHTS, blocks, charge, fit, fitted_bound, left_out
from scipy.sparse import csc_array, csr_array

from sinkhorn_em.block_families import Gaussian
from sinkhorn_em.coclustering.loop import BlockPhase, SideRule, run_phase, start_states
from sinkhorn_em.ot import FixedMass, FreeMass, RelaxedMass

# missing cells, CSR, temperatures: every pair of them, in turn over the cases below
VARIANTS = [(0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 0)]
EVERY = [(f, t, w) for f in FAMILIES for t in TAUS for w in WEIGHTS]
ROUNDING = 1e-11  # of the bound: sums of some thousand terms of both signs, over some hundred half steps


def problem(name, variant, seed=0, gap=0.5):
    """(X, what is fitted, mask, options)."""
    missing, sparse, hot = variant
    X, _, _ = blocks(name, seed=seed, gap=gap)
    mask = left_out(X.shape, seed=seed) if missing else None
    return X, csr_array(X) if sparse else X, mask, {"temperatures": (4, 2) if hot else None}


@pytest.mark.parametrize("case", range(len(EVERY)), ids=["-".join(case) for case in EVERY])
def test_the_bound_never_falls_and_is_that_of_the_fitted_attributes(case):
    name, tau, weights = EVERY[case]
    X, given, mask, options = problem(name, VARIANTS[(case + case // 4) % 4], seed=case % 5)
    rows, columns = WEIGHTS[weights]
    model = fit(
        name, given, 3, 2, mask, tau=TAUS[tau], row_weights=rows, column_weights=columns, max_iter=10, **options
    )
    assert model.bounds_.shape == (model.n_iter_, 5)
    assert np.isfinite(model.bounds_).all()
    rounding = ROUNDING * (1 + abs(model.bound_))
    assert np.diff(model.bounds_.ravel()).min() >= -rounding
    assert model.bounds_[-1, -1] == model.bound_
    # dispersions enter by log Gamma(x + r) of sizes up to 1e8, which no formula has to more digits
    digits = 1e-9 if name.startswith("negative") else ROUNDING
    assert model.bound_ == pytest.approx(fitted_bound(name, X, model, mask), rel=digits)
    for asked, found in ((rows, model.row_weights_), (columns, model.column_weights_)):
        assert found.sum() == pytest.approx(1, abs=1e-14)
        if asked == "uniform":
            np.testing.assert_array_equal(found, 1 / len(found))
        elif asked != "learned":
            np.testing.assert_allclose(found, asked, rtol=1e-15)
    sides = zip(
        np.broadcast_to(TAUS[tau], 2),
        (rows, columns),
        (model.row_responsibilities_, model.column_responsibilities_),
        (model.row_weights_, model.column_weights_),
        model.marginal_errors_,
        strict=True,
    )
    for t, asked, R, w, error in sides:
        np.testing.assert_allclose(R.sum(axis=1), 1, rtol=1e-14)
        assert error < 1e-9
        if asked == "learned":
            np.testing.assert_allclose(R.mean(axis=0), w, atol=1e-14)
        elif t == 1:
            np.testing.assert_allclose(R.mean(axis=0), w, atol=1e-9)


@pytest.mark.parametrize("name", FAMILIES)
def test_formats_of_one_matrix_give_one_fit(name):
    X, z, w = blocks(name, gap=0.7)
    models = [fit(name, given, labels=(z, w)) for given in (X, csr_array(X), csc_array(X), np.asfortranarray(X))]
    for model in models[1:]:
        np.testing.assert_array_equal(model.row_labels_, models[0].row_labels_)
        np.testing.assert_array_equal(model.column_labels_, models[0].column_labels_)
        assert model.bound_ == pytest.approx(models[0].bound_, rel=1e-11)
        assert model.icl() == pytest.approx(models[0].icl(), rel=1e-11)


@pytest.mark.parametrize("tau", [0.5, 1], ids=["half", "svem"])
def test_learned_weights_are_released_and_never_worse_than_variational_em(tau):
    for seed in range(5):
        X, z, w = blocks("gaussian-block", seed=seed, gap=0.2)
        start = np.random.default_rng(seed).permutation(z), np.random.default_rng(seed).permutation(w)
        ours, theirs = (fit("gaussian-block", X, labels=start, tau=value, max_iter=500) for value in (tau, 0))
        assert ours.bound_ >= theirs.bound_ - ROUNDING * abs(theirs.bound_)


def test_a_price_between_0_and_1_is_between_free_and_held_sizes():
    X, z, w = blocks("gaussian-common", (40, 30), seed=3, gap=0.2)
    spread, weights = [], [0.6, 0.3, 0.1]
    for tau in (0, 0.3, 0.9, 1):
        model = fit("gaussian-common", X, labels=(z, w), tau=(tau, 0), row_weights=weights)
        sizes = model.row_responsibilities_.mean(axis=0)
        spread.append(np.abs(sizes - weights).sum())
        assert charge(model.row_responsibilities_, model.row_weights_, tau) >= 0
    assert spread[0] > spread[1] > spread[2] > spread[3]
    assert spread[3] < 1e-12


def test_no_cluster_is_empty_where_sizes_are_held():
    X = np.random.default_rng(0).normal(size=(40, 30))  # no structure
    model = fit(Gaussian("common"), X, 6, 5, row_weights="uniform", column_weights="uniform")
    np.testing.assert_allclose(model.row_responsibilities_.sum(axis=0), 40 / 6, rtol=1e-9)
    np.testing.assert_allclose(model.column_responsibilities_.sum(axis=0), 6, rtol=1e-9)


def test_prescribed_weights_are_matched_to_starts_by_size():
    z, w = np.repeat([0, 1, 2], [40, 15, 5]), np.repeat([0, 1], [30, 10])
    X = np.array([[0, 6.0], [6, 0], [-6, -6]])[np.ix_(z, w)] + np.random.default_rng(0).normal(size=(60, 40))
    pi, rho = np.array([5, 40, 15]) / 60, np.array([10, 30]) / 40
    for tau in (0, 1):
        model = fit("gaussian-block", X, tau=tau, row_weights=pi, column_weights=rho)
        np.testing.assert_array_equal(np.bincount(model.row_labels_), 60 * pi)
        np.testing.assert_array_equal(np.bincount(model.column_labels_), 40 * rho)


@pytest.mark.parametrize("rule", [FreeMass(), FixedMass(), RelaxedMass(0.5)], ids=["vem", "svem", "half"])
@pytest.mark.parametrize("name", FAMILIES)
def test_at_a_temperature_the_bound_with_dearer_divergences_never_falls(name, rule):
    X, z, w = blocks(name, gap=0.5)
    family = FAMILIES[name]
    cells = family.cells(X, None, family.measure(X, None))
    side = SideRule(rule, learned=not rule.constrains)
    phase = BlockPhase(family, side, side, max_iter=8, tol=-np.inf, temperature=4.0)
    states = start_states(cells, phase, [(z, w)], (np.full(3, 1 / 3), np.full(2, 1 / 2)))
    bounds = np.ravel(run_phase(cells, phase, states)[0].bounds)
    assert np.diff(bounds).min() >= -ROUNDING * (1 + abs(bounds[-1]))


def test_temperatures_leave_the_trace_at_temperature_1():
    X, _, _ = blocks("poisson-None", gap=0.3)
    cold = fit("poisson-None", X)
    hot = fit("poisson-None", X, temperatures=(8, 4, 2))
    assert hot.bound_ >= cold.bound_ - 1e-9 * abs(cold.bound_)  # the plain path runs as well
    assert hot.bounds_[-1, -1] == pytest.approx(fitted_bound("poisson-None", X, hot), rel=ROUNDING)
    assert hot.bound_ >= cold.bounds_[0, 0]
