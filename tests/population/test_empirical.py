"""The plan of a sample against that of its population."""

import numpy as np
import pytest

from sinkhorn_em.ot import solve_plan
from sinkhorn_em.population import plan_errors, population_rows

ATOMS = np.array([[-1.0, 0.0], [1.0, 0.0]])


def test_a_symmetric_sample_has_the_potentials_of_the_population():
    """Rows +-y: both columns get half the mass at g = 0, and only the forward projection errs."""
    half = np.random.default_rng(0).standard_normal((50, 2))
    errors = plan_errors(np.vstack([half, -half]), ATOMS, 0.7, half)
    assert errors[:3] == pytest.approx((0, 0, 0), abs=1e-14)
    assert errors.forward > 1e-4


def test_two_atoms_have_one_error_in_three_forms():
    """r_1 = 1 - r_2: the densities differ by 2 (r_1n - r_1), twice, and the posterior means by that times R."""
    rng = np.random.default_rng(1)
    sample, fresh = rng.standard_normal((2, 40, 2)) + ATOMS[rng.integers(2, size=(2, 40))]
    errors = plan_errors(sample, 3 * ATOMS, 1.0, fresh)
    assert errors.backward == pytest.approx(3.0**2 * errors.coupling, rel=1e-12)


@pytest.mark.parametrize("method", ["newton", "sinkhorn"])
def test_errors_are_those_of_the_definition(method):
    rng = np.random.default_rng(2)
    atoms = rng.uniform(-1, 1, (5, 1))
    rows, masses = population_rows(np.full(5, 0.2), atoms, covariance=0.25, n_nodes=64)
    sample = atoms[rng.integers(5, size=200)] + 0.5 * rng.standard_normal((200, 1))
    fresh = rng.choice(rows, 20_000, p=masses)
    errors = plan_errors(sample, atoms, 0.5, fresh, method=method)
    plan = solve_plan(-2 * (sample - atoms.T) ** 2)
    posterior = np.exp(-2 * (rows - atoms.T) ** 2)
    tilted = posterior * np.exp(plan.potentials)
    off = tilted / tilted.sum(axis=1, keepdims=True) - posterior / posterior.sum(axis=1, keepdims=True)
    assert errors.potential == pytest.approx(np.max(plan.potentials**2), rel=1e-5)
    # fresh rows: 20 000 values whose standard deviation is about their mean
    assert errors.coupling == pytest.approx(masses @ np.sum(off**2, axis=1) * 5, rel=0.05)
    assert errors.backward == pytest.approx(masses @ (off @ atoms[:, 0]) ** 2, rel=0.05)


def test_the_forward_error_of_one_atom_is_that_of_a_mean():
    sample = np.random.default_rng(3).standard_normal((30, 3))
    errors = plan_errors(sample, np.zeros((1, 3)), 1.0, sample)
    assert errors.forward == pytest.approx(np.sum(sample.mean(axis=0) ** 2), rel=1e-12)
    assert errors[:3] == (0, 0, 0)


def test_a_deviation_that_is_not_positive_is_named():
    with pytest.raises(ValueError, match=r"sigma=-1.0 must be positive and finite"):
        plan_errors(np.zeros((3, 1)), np.zeros((1, 1)), -1.0, np.zeros((3, 1)))
