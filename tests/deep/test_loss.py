"""Values and plans of the transport loss: exact answers, limits and invariances."""

from itertools import permutations

import numpy as np
import pytest
from scipy.optimize import linprog

torch = pytest.importorskip("torch")

from sinkhorn_em import solve_plan  # noqa: E402
from sinkhorn_em.deep import transport_loss  # noqa: E402
from sinkhorn_em.ot import BoundedMass, VirtualColumn  # noqa: E402


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def cost(rng):
    """Squared distances (12, 3)."""
    return torch.tensor(((rng.normal(size=(12, 1, 2)) - rng.normal(size=(3, 2))) ** 2).sum(2))


def plan_at(result, cost, w):
    """P from the potentials of a result, by the formula of the plan."""
    L = -cost / result.epsilon + torch.log(torch.as_tensor(w)) + result.potentials
    return torch.softmax(L, 1) / len(cost)


@pytest.mark.parametrize("rule", ["fixed", BoundedMass(0.3, 0.4), VirtualColumn(0.25)], ids=repr)
@pytest.mark.parametrize("epsilon", [0.05, 5.0])
def test_values_are_those_of_the_plan(cost, rule, epsilon):
    """Entropic: -epsilon times the value of `solve_plan`. Sharp: <P, C>."""
    w = np.array([0.5, 0.2, 0.3])
    options = {"epsilon": epsilon, "epsilon_mode": "absolute", "rule": rule}
    plan = solve_plan(-cost.numpy() / epsilon, column_mass=w, rule=rule)
    entropic = transport_loss(cost, w, **options)
    assert float(entropic.value) == pytest.approx(-epsilon * plan.value, rel=1e-8)
    sharp = transport_loss(cost, w, value="sharp", gradient="implicit", **options)
    assert float(sharp.value) == pytest.approx((plan.matrix * cost.numpy()).sum(), rel=1e-7)
    assert entropic.column_mass.numpy() == pytest.approx(plan.column_mass, abs=1e-8)
    assert entropic.plan_entropy.item() > 0
    assert entropic.converged


def test_small_epsilon_gives_the_best_plan_with_the_sizes_held(cost):
    """Proposition 1 of Genevay et al. 2019: the linear program; the sharp value is within epsilon log K of its minimum."""
    w, (m, K) = np.array([0.5, 0.25, 0.25]), cost.shape
    rows, columns = np.repeat(np.eye(m), K, axis=1), np.tile(np.eye(K), m)
    program = linprog(cost.numpy().ravel(), A_eq=np.vstack([rows, columns]), b_eq=np.append(np.full(m, 1 / m), w))
    result = transport_loss(cost, w, epsilon=1e-3, value="sharp", gradient="implicit")
    slack = float(result.epsilon) * np.log(K)
    assert program.fun - 1e-9 <= result.value.item() <= program.fun + slack
    # sizes are multiples of 1/12: the best plan is an assignment, and unique
    assert plan_at(result, cost, w).numpy() == pytest.approx(program.x.reshape(m, K), abs=1e-6)
    assert result.plan_entropy.item() < 1e-4


def test_large_epsilon_gives_the_product_plan(cost):
    """Proposition 2: P tends to a w' like 1/epsilon."""
    w = torch.tensor([0.5, 0.2, 0.3], dtype=torch.float64)
    for epsilon in (1e3, 1e6):
        result = transport_loss(cost, w, epsilon=epsilon)
        assert (plan_at(result, cost, w) - w / 12).abs().max() < 1 / epsilon
    assert float(result.value) == pytest.approx(float((cost @ w).mean()), rel=1e-5)


def test_plan_entropy_is_0_for_hard_plans_and_log_k_for_none(cost):
    spread = transport_loss(torch.ones(6, 4))
    assert spread.plan_entropy.item() == pytest.approx(np.log(4), rel=1e-6)
    hard = transport_loss(1 - torch.eye(4), epsilon=1e-3)
    assert hard.plan_entropy.item() == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("kind", [("entropic", "envelope"), ("sharp", "implicit")], ids=" ".join)
@pytest.mark.parametrize("scale", [1e-12, 1e8])
def test_relative_epsilon_makes_the_loss_equivariant_to_scale(cost, kind, scale):
    found = []
    for s in (1.0, scale):
        C = (s * cost).requires_grad_()
        value = transport_loss(C, value=kind[0], gradient=kind[1], tol=1e-12).value
        found.append((value.item() / s, torch.autograd.grad(value, C)[0]))
    assert found[1][0] == pytest.approx(found[0][0], rel=1e-9)
    torch.testing.assert_close(found[1][1], found[0][1], rtol=1e-7, atol=1e-10)


def test_permuted_rows_and_columns_permute_the_plan(cost, rng):
    w = torch.tensor([0.5, 0.2, 0.3], dtype=torch.float64)
    rows, columns = torch.tensor(rng.permutation(12)), torch.tensor([2, 0, 1])
    C, D = cost.clone().requires_grad_(), cost[rows][:, columns].clone().requires_grad_()
    one, two = transport_loss(C, w, tol=1e-12), transport_loss(D, w[columns], tol=1e-12)
    assert two.value.item() == pytest.approx(one.value.item(), rel=1e-12)
    torch.testing.assert_close(two.potentials, one.potentials[columns])
    slope = torch.autograd.grad(one.value, C)[0]
    torch.testing.assert_close(torch.autograd.grad(two.value, D)[0], slope[rows][:, columns], atol=1e-10, rtol=1e-8)


def test_a_single_column_takes_every_row():
    C = torch.rand(5, 1, requires_grad=True)
    for kind in (("entropic", "envelope"), ("sharp", "implicit"), ("sharp", "unrolled")):
        value = transport_loss(C, value=kind[0], gradient=kind[1]).value
        assert value.item() == pytest.approx(C.mean().item(), rel=1e-6)
        torch.testing.assert_close(torch.autograd.grad(value, C)[0], torch.full((5, 1), 0.2))


def test_fewer_rows_than_columns_are_split():
    """A row between two columns: the only plan with these masses is w itself."""
    C = torch.tensor([[1.0, 2.0, 4.0]], requires_grad=True)
    w = torch.tensor([0.2, 0.3, 0.5])
    for kind in (("entropic", "envelope"), ("sharp", "implicit")):
        value = transport_loss(C, w, value=kind[0], gradient=kind[1]).value
        torch.testing.assert_close(torch.autograd.grad(value, C)[0], w[None])
        assert value.item() == pytest.approx(2.8, rel=1e-6)


def test_duplicated_points_share_their_columns(cost):
    """Rows twice: the same value, half the derivative each."""
    C = torch.cat([cost, cost]).requires_grad_()
    one = cost.clone().requires_grad_()
    first, second = transport_loss(one, tol=1e-12).value, transport_loss(C, tol=1e-12).value
    assert first.item() == pytest.approx(second.item(), rel=1e-12)
    slope = torch.autograd.grad(first, one)[0]
    torch.testing.assert_close(torch.autograd.grad(second, C)[0], torch.cat([slope, slope]) / 2, atol=1e-10, rtol=1e-8)


def test_a_column_without_mass_stays_out(cost):
    """Value, plan and derivative are those of the other columns; its own derivatives are 0."""
    logits = torch.tensor([0.6, 0.0, 0.4], dtype=torch.float64, requires_grad=True)
    C = cost.clone().requires_grad_()
    for kind in (("entropic", "envelope"), ("sharp", "implicit"), ("entropic", "unrolled")):
        options = {"value": kind[0], "gradient": kind[1], "epsilon": 0.3, "epsilon_mode": "absolute"}
        result = transport_loss(C, logits, **options)
        of_cost, of_weights = torch.autograd.grad(result.value, (C, logits))
        other = transport_loss(C[:, [0, 2]], logits[[0, 2]], **options)
        of_pair, of_two = torch.autograd.grad(other.value, (C, logits))
        assert result.value.item() == pytest.approx(other.value.item(), rel=1e-9)
        torch.testing.assert_close(of_cost, of_pair, atol=1e-8, rtol=1e-6)
        torch.testing.assert_close(of_weights, of_two, atol=1e-8, rtol=1e-6)
        assert of_weights[1] == 0
        assert result.potentials[1] == -torch.inf


@pytest.mark.parametrize(
    "kind",
    [("entropic", "envelope"), ("entropic", "implicit"), ("sharp", "implicit"), ("sharp", "unrolled")],
    ids=" ".join,
)
def test_forbidden_pairs_get_nothing_and_leave_the_derivatives_finite(cost, kind):
    C = cost.clone()
    C[0, 0] = C[3, 2] = torch.inf
    C.requires_grad_()
    w = torch.tensor([0.3, 0.3, 0.4], dtype=torch.float64, requires_grad=True)
    value = transport_loss(C, w, value=kind[0], gradient=kind[1]).value
    of_cost, of_weights = torch.autograd.grad(value, (C, w))
    assert value.isfinite() and of_cost.isfinite().all() and of_weights.isfinite().all()
    assert of_cost[0, 0] == of_cost[3, 2] == 0
    assert of_cost.sum().item() == pytest.approx(1 if kind[0] == "entropic" else of_cost.sum().item())


def test_rows_of_mass_0_do_not_count(cost):
    mass = torch.ones(12, dtype=torch.float64)
    mass[[2, 7]] = 0
    kept = mass > 0
    for kind in (("entropic", "envelope"), ("sharp", "implicit")):
        C = cost.clone().requires_grad_()
        options = {"value": kind[0], "gradient": kind[1], "epsilon": 0.2, "epsilon_mode": "absolute", "tol": 1e-12}
        one = transport_loss(C, row_mass=mass, **options).value
        two = transport_loss(C[kept], **options).value
        assert one.item() == pytest.approx(two.item(), rel=1e-10)
        torch.testing.assert_close(*(torch.autograd.grad(v, C)[0] for v in (one, two)), atol=1e-9, rtol=1e-7)


@pytest.mark.parametrize(
    "kind", [("entropic", "envelope"), ("sharp", "implicit"), ("entropic", "unrolled")], ids=" ".join
)
def test_leading_dimensions_are_problems_of_their_own(rng, kind):
    C = torch.tensor(rng.random((2, 2, 6, 3)), requires_grad=True)
    w = torch.softmax(torch.tensor(rng.normal(size=(2, 2, 3))), -1)
    options = {"value": kind[0], "gradient": kind[1], "tol": 1e-12, "iterations": 5}
    together = transport_loss(C, w, **options)
    assert together.value.shape == together.epsilon.shape == (2, 2)
    (slopes,) = torch.autograd.grad(together.value.sum(), C)
    for i, j in ((0, 0), (1, 0), (1, 1)):
        D = C[i, j].detach().requires_grad_()
        alone = transport_loss(D, w[i, j], **options)
        torch.testing.assert_close(together.value[i, j], alone.value, rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(together.potentials[i, j], alone.potentials, rtol=1e-7, atol=1e-8)
        torch.testing.assert_close(slopes[i, j], torch.autograd.grad(alone.value, D)[0], rtol=1e-7, atol=1e-9)


def test_the_best_matching_is_found_when_rows_are_columns():
    """Proposition 1 with as many rows as columns of equal mass: the cheapest permutation."""
    C = torch.tensor([[1.0, 2.0, 5.0], [2.0, 1.5, 0.5], [3.0, 2.2, 1.0]])
    best = min(permutations(range(3)), key=lambda p: sum(C[i, k].item() for i, k in enumerate(p)))
    result = transport_loss(C, epsilon=1e-3, value="sharp", gradient="implicit")
    assert result.value.item() == pytest.approx(np.mean([C[i, k].item() for i, k in enumerate(best)]), rel=1e-5)
