"""The trap that Sinkhorn-EM leaves: several components on one cluster (references: exact start, values computed independently)."""

import numpy as np
import pytest
from unit_gaussian import UnitGaussian

from sinkhorn_em import LocationScaleMixture
from sinkhorn_em.em import Phase, State, run_phase, start_state
from sinkhorn_em.engines import InMemory
from sinkhorn_em.ot import FixedMass, FreeMass


@pytest.mark.parametrize("R,trap,loss", [(3, 5.37, 2.51), (5, 10.7, 2.50), (10, 35.4, 2.50)])
def test_em_stays_many_to_one_and_sinkhorn_em_reaches_the_truth(R, trap, loss):
    truth = np.array([-R, R, 10 * R])
    start = np.array([[0.0], [10 * R - 1], [10 * R + 1]])
    X = (np.random.default_rng(0).standard_normal((3, 10_000)) + truth[:, None]).reshape(-1, 1)  # equal counts
    engine = InMemory(np.ascontiguousarray(X.T).T, np.full(len(X), 1 / len(X)))
    state = State(start, np.full(3, 1 / 3), np.zeros(3))
    em = run_phase(engine, Phase(UnitGaussian(), FreeMass(), False, 200, 1e-9), state)
    sem = run_phase(engine, Phase(UnitGaussian(), FixedMass(), False, 200, 1e-9), state)
    np.testing.assert_allclose(np.sort(em.state.parameters[:, 0]), [0, 10 * R, 10 * R], atol=1.0)
    assert -em.bounds[-1] == pytest.approx(trap, rel=0.02)
    np.testing.assert_allclose(np.sort(sem.state.parameters[:, 0]), truth, atol=0.05)
    # the references print three digits for one draw: allow the difference between the two empirical entropies
    assert -sem.bounds[-1] == pytest.approx(loss, abs=0.03)
    near = [np.abs(b - sem.bounds[-1]) < 1e-3 for b in sem.bounds]
    assert near.index(True) <= {3: 6, 5: 5, 10: 9}[R]
    assert np.diff(sem.bounds).min() > -1e-10


def test_a_family_whose_parameters_are_an_array_may_start_from_responsibilities():
    X = np.array([[0.0], [2.0], [10.0], [12.0]])
    engine = InMemory(np.ascontiguousarray(X.T).T, np.full(4, 0.25))
    with np.errstate(divide="ignore"):
        log_R = np.asfortranarray(np.log([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]))
    state = start_state(engine, UnitGaussian(), [log_R], FreeMass())
    np.testing.assert_allclose(state.parameters[:, 0], [1.0, 11.0])
    np.testing.assert_allclose(state.weights, [0.5, 0.5])


def test_the_estimator_fits_a_family_of_the_user():
    truth = np.array([-5.0, 5.0, 50.0])
    X = (np.random.default_rng(0).standard_normal((3, 500)) + truth[:, None]).reshape(-1, 1)
    model = LocationScaleMixture(3, family=UnitGaussian(), weights="uniform", random_state=0).fit(X)
    np.testing.assert_allclose(np.sort(model.parameters_[:, 0]), truth, atol=0.2)
    assert (np.bincount(model.predict(X)) == 500).all()
    assert model.sample(5)[0].shape == (5, 1)
    assert model.bic(X) > model.aic(X)
