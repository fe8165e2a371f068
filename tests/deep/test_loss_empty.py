"""Derivatives of the transport loss where something is empty: rows without mass, columns that a solver has not filled yet."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from sinkhorn_em.deep import gradients, transport_loss  # noqa: E402
from sinkhorn_em.deep.gradients import Implicit, Problem  # noqa: E402
from sinkhorn_em.ot import BoundedMass, FixedMass, FreeMass, RelaxedMass, VirtualColumn  # noqa: E402
from sinkhorn_em.ot.tensors.columns import tensor_rule  # noqa: E402

RULES = {
    "fixed": FixedMass(),
    "KL": RelaxedMass(0.6),
    "free, KL and fixed columns": RelaxedMass(np.array([0.0, 0.5, 1.0])),
    "bounds that bind": BoundedMass(np.array([0.5, 0.05, 0.1]), np.array([0.9, 0.15, 0.9])),
    "virtual column over fixed ones": VirtualColumn(0.2, FixedMass()),
    "virtual column over KL ones": VirtualColumn(0.2, RelaxedMass(0.6)),
    "free": FreeMass(),
}
IMPLICIT = [("entropic", "implicit"), ("sharp", "implicit")]
KINDS = [("entropic", "envelope"), *IMPLICIT, ("entropic", "unrolled"), ("sharp", "unrolled")]
NOWHERE = torch.full((1, 3), torch.inf, dtype=torch.float64)


@pytest.fixture
def inputs():
    """Costs (5, 3) and logits of weights."""
    rng = np.random.default_rng(3)
    return tuple(torch.tensor(x, requires_grad=True) for x in (2 * rng.random((5, 3)), np.array([0.3, -0.2, 0.1])))


def loss(C, w, kind, **options):
    options = {"epsilon": 0.5, "epsilon_mode": "absolute", "tol": 1e-13, **options}
    return transport_loss(C, w, value=kind[0], gradient=kind[1], **options).value


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("kind", KINDS, ids=" ".join)
def test_a_row_of_mass_0_that_may_go_nowhere_changes_nothing(inputs, name, kind, derivatives):
    """Value and derivatives are those of the other rows."""
    C, logits = inputs
    padded = torch.cat([C[:2], NOWHERE, C[2:]]).detach().requires_grad_()
    kept = torch.tensor([True, True, False, True, True, True])
    value = loss(padded, torch.softmax(logits, 0), kind, rule=RULES[name], row_mass=kept.double())
    expected = loss(C, torch.softmax(logits, 0), kind, rule=RULES[name])
    assert value.item() == pytest.approx(expected.item(), rel=1e-12)
    of_cost, of_weights = derivatives(value, (padded, logits))
    exact_of_cost, exact_of_weights = derivatives(expected, (C, logits))
    assert (of_cost[2] == 0).all()
    # sums over the rows are rounded in another order
    torch.testing.assert_close(of_cost[kept], exact_of_cost, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(of_weights, exact_of_weights, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS, ids=" ".join)
def test_a_row_of_mass_0_may_have_its_only_cost_in_a_column_of_mass_0(inputs, kind, derivatives):
    C = inputs[0].detach().clone()
    C[2, :2] = torch.inf
    kept, w = torch.tensor([True, True, False, True, True]), torch.tensor([0.4, 0.6, 0.0], dtype=torch.float64)
    found = []
    for cost, mass in ((C, kept.double()), (C[kept], None)):
        cost, b = cost.clone().requires_grad_(), w.clone().requires_grad_()
        found.append(derivatives(loss(cost, b, kind, row_mass=mass), (cost, b)))
    (of_cost, of_weights), (exact_of_cost, exact_of_weights) = found
    torch.testing.assert_close(of_cost[kept], exact_of_cost)
    torch.testing.assert_close(of_weights, exact_of_weights)
    assert (of_cost[2] == 0).all()


@pytest.mark.parametrize("kind", IMPLICIT, ids=" ".join)
def test_a_row_of_mass_0_leaves_the_second_derivatives(inputs, kind):
    C, logits = inputs
    small, mass = C[:3].detach().requires_grad_(), torch.tensor([1.0, 1.0, 1.0, 0.0])
    f = lambda C, w: loss(torch.cat([C, NOWHERE]), torch.softmax(w, 0), kind, row_mass=mass)  # noqa: E731
    assert torch.autograd.gradgradcheck(f, (small, logits), atol=1e-5, rtol=1e-4, fast_mode=True)


FAR = {name: RULES[name] for name in ("fixed", "free, KL and fixed columns", "virtual column over fixed ones")}
FAR["bounds"] = BoundedMass(0.2, 0.4)


@pytest.mark.parametrize("name", FAR)
@pytest.mark.parametrize("max_passes", [1, 2, 3])
@pytest.mark.parametrize("kind", IMPLICIT, ids=" ".join)
@pytest.mark.parametrize("far", [3.0, 10.0])
def test_a_solver_stopped_early_leaves_derivatives_of_their_size(name, max_passes, kind, far, derivatives):
    """The column that is far away is still empty, or nearly: as good as no row may speak of its potential."""
    z = torch.linspace(-1, 1, 8, dtype=torch.float64)[:, None]
    C = ((z - torch.tensor([0.0, 0.5, far], dtype=torch.float64)) ** 2).requires_grad_()
    w = torch.full((3,), 1 / 3, dtype=torch.float64, requires_grad=True)
    value = loss(C, w, kind, rule=FAR[name], epsilon=0.02, max_passes=max_passes)
    of_cost, of_weights = derivatives(value, (C, w))
    largest = C.max().item()
    assert of_weights.abs().max() < 3 * largest  # a mean of costs, centred
    if kind[0] == "entropic":  # the plan, whatever its column masses are
        assert (of_cost >= 0).all() and of_cost.sum() <= 1 + 1e-12
    else:
        assert of_cost.abs().max() < largest / 0.02


@pytest.mark.parametrize(
    ("rule", "z", "g", "exact"),
    [
        (
            FixedMass(),
            [-1.0, -1.5, -0.5, -0.4, -0.9, -0.3],
            [-2.0, -21.0, -12.0],
            [0.08267136012372288, 0.6330015842698689, -0.01600240301912703],
        ),
        (
            VirtualColumn(0.2),
            [-1.7, -1.3, -1.4, -0.4, -2.3, -0.2],
            [14.0, 8.0, -1.0, 9.0],
            [0.030549178154950504, 0.4847850791512842, 0.004775718001297752, 0.00042532337994908654],
        ),
    ],
    ids=["fixed", "virtual column"],
)
def test_the_system_of_a_nearly_empty_column_is_solved_to_its_own_precision(rule, z, g, exact):
    """Derivatives of <P, C> in the masses, each in units of itself; exact ones by the same system with 200 digits.

    Far from converged, columns have down to 1e-33 of the mass; pivots of other columns, unscaled, gave 5e4 for the .48.
    """
    C = torch.tensor((np.array(z)[:, None] - [0.0, 0.5, -0.5]) ** 2)[None]
    uniform = torch.full((1, 6), 1 / 6, dtype=torch.float64)
    problem = Problem(uniform, torch.tensor([0.01], dtype=torch.float64), tensor_rule(rule, 3, C.device), 3)
    b = problem.rule.extend(torch.full((1, 3), 1 / 3, dtype=torch.float64)).requires_grad_()
    g = Implicit.apply(C, b, torch.tensor([g], dtype=torch.float64), problem)
    P, _ = gradients.plan(C, b.detach(), g, problem)
    (slope,) = torch.autograd.grad(gradients.sharp_value(C, P, problem).sum(), b)
    torch.testing.assert_close(slope, torch.tensor([exact], dtype=torch.float64), rtol=1e-9, atol=0)
