"""Weights: identities to more digits than the verdicts ask, and what plain exponentiated gradient does to a fit."""

import numpy as np
import pytest

from sinkhorn_em.experiments import weights_fits
from sinkhorn_em.experiments.weights_profile import identity


@pytest.fixture(scope="module")
def table(quick):
    return quick("weights").table


@pytest.mark.parametrize("d, n_components", [(1, 2), (2, 3)])
def test_both_objectives_have_the_same_least_value_over_the_weights(d, n_components):
    """L >= l everywhere; at the best weights the potentials are 0 and both are the same."""
    rows = identity(d, n_components, np.random.default_rng(0)).iloc[0]
    assert rows["least_L"] == pytest.approx(rows["least_l"], abs=1e-10)
    assert rows["descent"] >= rows["least_l"] - 1e-12
    assert rows["gradient_error"] < 1e-6


def test_the_curves_touch_at_the_least_point_and_only_there(table):
    curve = table[table["part"] == "curve"]
    gap = (curve["L"] - curve["l"]).to_numpy()
    assert gap.min() > -2e-6  # values are kept with six digits
    assert abs(gap.argmin() - curve["l"].to_numpy().argmin()) <= 1
    assert gap[[0, -1]].min() > 0.01


def test_a_plain_step_of_a_half_from_the_first_iteration_spoils_every_fit(table):
    """References: no success at all; 16 data sets here, of which EM finds the centres in more than half."""
    fits = table[table["part"] == "fit"]
    wild, em = (fits[fits["method"] == name].set_index("repetition") for name in ("EG, eta 0.5", "EM, learned"))
    assert wild["success"].mean() <= 0.25
    assert wild["weight_error"].mean() > 3 * em.loc[wild.index, "weight_error"].mean()


def test_the_known_weights_go_to_the_starts_in_the_order_of_their_rows():
    problem = weights_fits.draw_problem("very unequal", np.random.default_rng(3))
    nearest = ((problem.X[:, None] - problem.start) ** 2).sum(axis=2).argmin(axis=1)
    order = np.argsort(np.bincount(nearest, minlength=weights_fits.K), kind="stable")
    np.testing.assert_array_equal(problem.known[order], np.sort(problem.weights))


@pytest.mark.parametrize("tau, learn", [(0.0, True), (1.0, False)])
def test_the_loop_agrees_with_the_compiled_fits(tau, learn):
    problem = weights_fits.draw_problem("near-equal", np.random.default_rng(1))
    start = weights_fits.MixtureFit(problem.start, weights_fits.EVEN)
    slow = weights_fits.loop(problem.X, start, tau, learn=learn, max_iter=10, tol=0.0)
    fast = weights_fits.compiled(problem.X, start, tau=tau, learn_weights=learn, max_iter=10, tol=0.0)
    # the plans of both are solved to 1e-9, on the way to 1e-4 at worst
    np.testing.assert_allclose(slow.means, fast.means, atol=1e-9 if tau == 0 else 2e-2)
    np.testing.assert_allclose(slow.weights, fast.weights, atol=1e-9)
