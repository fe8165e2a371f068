"""Weights learned by exponentiated gradient, under a plan that holds them (Mena et al. 2020)."""

import warnings

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.utils.estimator_checks import check_estimator

from sinkhorn_em import GaussianMixture, LocationScaleMixture, solve_plan
from sinkhorn_em.datasets import load_crabs, load_faithful
from sinkhorn_em.families.covariances import STRUCTURES
from sinkhorn_em.ot.newton import Solution
from sinkhorn_em.weight_steps import ExponentiatedGradient, Masses

EG = "exponentiated_gradient"
GEYSER = load_faithful().data
quiet = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def overlapping(n=300, seed=0):
    """Three groups two standard deviations apart, of sizes .5, .3 and .2."""
    rng = np.random.default_rng(seed)
    centres = np.array([[0.0, 0.0], [2.5, 0.0], [0.0, 2.5]])
    return centres[rng.choice(3, n, p=[0.5, 0.3, 0.2])] + rng.normal(size=(n, 2))


def scores(seed, n=200, K=3):
    rng = np.random.default_rng(seed)
    X, means = rng.normal(size=(n, 1)) * 2, np.linspace(-1.5, 1.5, K)
    return -0.5 * (X - means) ** 2


def plan_at(S):
    """What the loop gives a weight step: a solver of the current scores."""

    def solve(weights, potentials):
        plan = solve_plan(S, column_mass=weights, potentials=potentials, tol=1e-12)
        gap, nothing = 0.0, np.nan
        return Solution(
            plan.potentials, plan.column_mass, plan.value, gap, nothing, nothing, plan.n_passes, plan.status
        )

    return solve


def descend(S, step, weights, iterations):
    solve, learned = plan_at(S), np.ones(S.shape[1], bool)
    solution = solve(weights, np.zeros(S.shape[1]))
    losses = [-solution.value]
    for _ in range(iterations):
        weights, solution, _ = step.before(solve, learned, weights, solution)
        losses.append(-solution.value)
    return weights, solution, np.array(losses)


def best_weights(S):
    """The weights of highest likelihood, by EM on the weights alone."""
    w = np.full(S.shape[1], 1 / S.shape[1])
    for _ in range(20_000):
        w = softmax(S + np.log(w), axis=1).mean(axis=0)
    return w


@quiet
@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("tau", [0.5, 1])
def test_the_bound_never_falls(structure, tau):
    X = load_crabs().data
    for seed in range(2):
        model = GaussianMixture(
            3,
            weights=EG,
            tau=tau,
            covariance_type=structure,
            init_params="random_from_data",
            random_state=seed,
            max_iter=40,
        ).fit(X)
        # in exact arithmetic it does not; the plan is solved to 1e-12 to 1e-8 nats, and its error is subtracted
        assert np.diff(model.lower_bounds_).min() > -1e-10 * abs(model.lower_bound_)


@pytest.mark.parametrize("seed", range(3))
def test_with_free_weights_the_least_transport_loss_is_the_least_negative_log_likelihood(seed):
    S = scores(seed)
    weights, solution, losses = descend(S, ExponentiatedGradient(), np.array([0.6, 0.3, 0.1]), 300)
    best = best_weights(S)
    likelihood = np.log(np.exp(S) @ best).mean()
    # both are flat at the minimum: an error e of the weights costs e^2
    assert -losses[-1] == pytest.approx(likelihood, abs=1e-10)
    np.testing.assert_allclose(weights, best, atol=1e-4)
    g = solution.potentials
    assert np.ptp(g) < 1e-4
    assert (np.diff(losses) <= 1e-13).all()


def test_an_immense_step_is_halved_until_the_loss_does_not_rise():
    S = scores(0)
    start = np.array([0.6, 0.3, 0.1])
    solve = plan_at(S)
    held = solve(start, np.zeros(3))
    g = held.potentials - start @ held.potentials
    wild = start * np.exp(-50 * g)
    assert solve(wild / wild.sum(), np.zeros(3)).value < held.value  # the step that is asked for would raise the loss
    step = ExponentiatedGradient(eta=50, cap=1e3)
    weights, solution, passes = step.before(solve, np.ones(3, bool), start, held)
    assert solution.value > held.value
    taken = -np.log(weights / start) @ (g - g.mean()) / ((g - g.mean()) @ (g - g.mean()))
    assert np.log2(50 / taken) == pytest.approx(round(np.log2(50 / taken)), abs=1e-9)
    assert taken < 50
    assert passes > solution.n_passes


def test_no_weight_moves_faster_than_the_cap():
    S, start = 40 * scores(1), np.array([0.2, 0.2, 0.6])
    solve = plan_at(S)
    weights, _, _ = ExponentiatedGradient(cap=0.1).before(solve, np.ones(3, bool), start, solve(start, np.zeros(3)))
    # a factor e^cap, and the normalisation within another
    assert np.abs(np.log(weights / start)).max() <= 0.2


def test_the_plain_step_is_that_of_the_paper():
    """w e^(-eta g) / Z, all of it, after the M-step and without another plan; also where it makes the loss rise."""
    S, everything = 3 * scores(0), np.ones(3, bool)
    start = np.array([0.6, 0.3, 0.1])
    solve = plan_at(S)
    held = solve(start, np.zeros(3))
    step = ExponentiatedGradient(eta=2, cap=np.inf, backtrack=False)
    assert step.before(solve, everything, start, held) == (start, held, 0)
    weights = step.after(everything, start, held)
    expected = start * np.exp(-2 * held.potentials)
    np.testing.assert_allclose(weights, expected / expected.sum(), rtol=1e-12)
    assert solve(weights, np.zeros(3)).value < held.value
    assert ExponentiatedGradient(eta=2).after(everything, start, held) is start


def test_the_plain_step_keeps_to_its_cap_and_to_the_weights_that_are_learned():
    start, learned = np.array([0.2, 0.2, 0.6]), np.array([True, True, False])
    held = plan_at(3 * scores(1))(start, np.zeros(3))
    weights = ExponentiatedGradient(eta=50, cap=0.1, backtrack=False).after(learned, start, held)
    assert weights[2] == 0.6
    assert weights.sum() == pytest.approx(1)
    assert 0 < np.abs(np.log(weights / start)).max() <= 0.2


@quiet
def test_the_plain_step_is_not_blamed_for_a_bound_that_falls():
    """Nothing is promised of it: the estimator does not warn, and EM ends the fit."""
    X = overlapping()
    wild = ExponentiatedGradient(eta=3, cap=np.inf, backtrack=False)
    options = {"means_init": X[:3], "precisions_init": 1.0, "frozen": "covariances", "max_iter": 30}
    model = GaussianMixture(3, weights=wild, covariance_type="tied_spherical", **options)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X)
    assert np.diff(model.lower_bounds_).min() < -1e-3
    assert not [w for w in caught if "the bound fell" in str(w.message)]
    assert not wild.monotone and ExponentiatedGradient().monotone


def test_a_converged_fit_has_flat_potentials_and_em_stays_there():
    X = overlapping()
    options = {"covariance_type": "tied_spherical", "tol": 1e-13, "max_iter": 5000}
    model = GaussianMixture(3, weights=EG, random_state=0, **options).fit(X)
    # the bound is within about 1e-12 of its maximum, where it is quadratic: potentials and parameters are within 1e-5 or so
    assert np.abs(model.potentials_).max() < 1e-4
    np.testing.assert_allclose(model.tilted_weights_, model.weights_, atol=1e-5)
    assert -model.transport_loss_ == pytest.approx(model.score(X), abs=1e-9)
    assert model.lower_bound_ == pytest.approx(model.score(X), abs=1e-9)
    R = model.predict_proba(X)
    np.testing.assert_allclose(R.mean(axis=0), model.weights_, atol=1e-5)
    np.testing.assert_allclose(R.T @ X / R.sum(axis=0)[:, None], model.means_, atol=1e-4)


def test_the_names_of_the_components_do_not_matter():
    means, w = np.array([[2.0, 55.0], [3.2, 65.0], [4.4, 80.0]]), np.array([0.3, 0.3, 0.4])
    order = [2, 0, 1]
    a = GaussianMixture(3, weights=EG, means_init=means, weights_init=w, tol=1e-8).fit(GEYSER)
    b = GaussianMixture(3, weights=EG, means_init=means[order], weights_init=w[order], tol=1e-8).fit(GEYSER)
    np.testing.assert_allclose(b.weights_, a.weights_[order], rtol=1e-6)
    np.testing.assert_allclose(b.means_, a.means_[order], rtol=1e-6)


def test_weight_2_is_the_row_twice():
    counts = np.random.default_rng(0).integers(1, 3, len(GEYSER))
    means = np.array([[2.0, 55.0], [4.4, 80.0]])
    options = {"weights": EG, "means_init": means, "tol": 1e-9}
    a = GaussianMixture(2, **options).fit(GEYSER, sample_weight=counts)
    b = GaussianMixture(2, **options).fit(np.repeat(GEYSER, counts, axis=0))
    np.testing.assert_allclose(a.weights_, b.weights_, rtol=1e-6)
    np.testing.assert_allclose(a.means_, b.means_, rtol=1e-6)
    assert a.lower_bound_ == pytest.approx(b.lower_bound_, abs=1e-9)


def test_frozen_weights_stay_and_noise_may_be_estimated():
    frozen = {"weights": [0]}
    model = GaussianMixture(
        3, weights=EG, frozen=frozen, weights_init=[0.2, 0.4, 0.4], covariance_type="tied", random_state=0
    ).fit(GEYSER)
    assert model.weights_[0] == pytest.approx(0.2, abs=1e-15)
    assert model.weights_.sum() == pytest.approx(1)
    assert model.weights_[1] != 0.4
    model = GaussianMixture(2, weights=EG, noise="estimate", random_state=0).fit(GEYSER)
    assert 0 < model.noise_weight_ < 0.2
    model = GaussianMixture(2, weights=EG, trim=0.05, random_state=0).fit(GEYSER)
    assert model.weights_.sum() == pytest.approx(1)
    assert np.diff(model.lower_bounds_).min() > -1e-10


@pytest.mark.parametrize(
    "weights", [EG, ExponentiatedGradient(eta=0.3, cap=0.2), ExponentiatedGradient(0.01, np.inf, False)]
)
def test_a_saved_fit_comes_back_with_its_step(weights, tmp_path):
    model = LocationScaleMixture(2, weights=weights, random_state=0).fit(GEYSER)
    model.save(tmp_path / "fit.json")
    loaded = LocationScaleMixture.load(tmp_path / "fit.json")
    assert loaded.weights == weights
    np.testing.assert_array_equal(loaded.predict_proba(GEYSER), model.predict_proba(GEYSER))
    assert loaded.bic(GEYSER) == model.bic(GEYSER)


def test_the_weights_are_counted_as_parameters():
    models = [GaussianMixture(2, weights=w, random_state=0, tol=1e-10).fit(GEYSER) for w in (EG, "learned")]
    assert models[0].bic(GEYSER) == pytest.approx(models[1].bic(GEYSER), abs=1e-4)


def test_every_check_of_scikit_learn_passes():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the checks fit on degenerate data, which rightly warns
        results = check_estimator(GaussianMixture(weights=EG), on_fail=None)
    failed = {r["check_name"] for r in results if r["status"] != "passed"}
    assert failed <= {"check_array_api_input"}


@pytest.mark.parametrize(
    "options,message",
    [
        ({"tau": 0}, "tau is 0, but weights is 'exponentiated_gradient'.*use weights='learned'"),
        ({"tau": [0.5, 1.0]}, "give one tau above 0 for all"),
        ({"size_bounds": (0.1, 0.9)}, "size_bounds is .*leave size_bounds out"),
        (
            {"weights": ExponentiatedGradient(eta=0)},
            "eta of ExponentiatedGradient is 0; it must be a positive number: 1.0 is the default",
        ),
        ({"weights": ExponentiatedGradient(cap=np.nan)}, "cap of ExponentiatedGradient is nan"),
        ({"weights": ExponentiatedGradient(eta=np.inf)}, "eta of ExponentiatedGradient is inf"),
        ({"weights": ExponentiatedGradient(backtrack=0)}, "backtrack of ExponentiatedGradient is 0; it must be True"),
        ({"weights": "gradient"}, "it must be 'learned', 'uniform', 'exponentiated_gradient' or one weight"),
    ],
)
def test_what_does_not_fit_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        GaussianMixture(2, **{"weights": EG, **options}).fit(GEYSER)


def test_the_ordinary_step_is_that_of_em():
    model = GaussianMixture(2, random_state=0).fit(GEYSER)
    same = GaussianMixture(2, weights=Masses(), random_state=0).fit(GEYSER)
    np.testing.assert_array_equal(model.means_, same.means_)
    assert model.n_passes_ == same.n_passes_
