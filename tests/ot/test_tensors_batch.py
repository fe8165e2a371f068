"""Many problems at once: each is as if it were alone, and the device is asked one question a pass."""

import numpy as np
import pytest
from transport_problems import separated_clusters

from sinkhorn_em.ot import BoundedMass, FixedMass, InfeasibleMarginalsError, RelaxedMass, VirtualColumn, solve_plan
from sinkhorn_em.ot.newton import Tolerances

torch = pytest.importorskip("torch")
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from sinkhorn_em.ot.tensors import evaluate, solve_newton, solve_rows, step  # noqa: E402
from sinkhorn_em.ot.tensors import solve_plan as solve_tensor  # noqa: E402
from sinkhorn_em.ot.tensors.columns import tensor_rule  # noqa: E402
from sinkhorn_em.ot.tensors.problem import check_problem  # noqa: E402

K = 5
RULES = [
    FixedMass(),
    RelaxedMass(np.array([0.3, 1.0, 0.9, 0.5, 0.5])),
    BoundedMass(0.1, 0.3),
    VirtualColumn(0.1, BoundedMass(0.1, 0.2)),
]
TOL = 1e-12


def batch(separations=(2, 4, 8), n=40):
    """Scores (2, 3, n, K) of problems of different difficulty, and uneven masses (2, 3, K)."""
    S = [[separated_clusters(seed, s, n=n, K=K).scores for s in separations] for seed in range(2)]
    return torch.tensor(np.array(S)), torch.tensor(np.random.default_rng(0).dirichlet(np.full(K, 3.0), (2, 3)))


@pytest.mark.parametrize("kernel", ["torch", "compiled"])
@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_leading_dimensions_are_so_many_problems(rule, kernel):
    S, b = batch()
    a = torch.rand(2, 3, S.shape[2], dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    a = a / a.sum(-1, keepdim=True)
    plan = solve_tensor(S, a, b, rule=rule, tol=TOL, kernel=kernel)
    assert plan.converged.all()
    assert plan.status == "converged"
    for place in np.ndindex(2, 3):
        single = solve_plan(S[place].numpy(), a[place].numpy(), b[place].numpy(), rule=rule, tol=TOL)
        assert float(plan.value[place]) == pytest.approx(single.value, abs=1e-10)
        assert plan.column_mass[place].numpy() == pytest.approx(single.column_mass, abs=2 * TOL + 1e-14)
        if place[1] == 0:  # where clusters overlap, errors of TOL in the masses are of the same order in the plan
            assert plan.potentials[place].numpy() == pytest.approx(single.potentials, abs=1e-9)
            assert plan.responsibilities[place].numpy() == pytest.approx(single.responsibilities, abs=1e-10)


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_a_finished_problem_is_not_moved_while_others_go_on(rule):
    S, _ = batch((2, 30, 16))
    plan = solve_tensor(S, rule=rule, kernel="torch")
    first = int(plan.n_passes.min())
    assert first < int(plan.n_passes.max())
    early = solve_tensor(S, rule=rule, kernel="torch", max_passes=first)
    done = plan.n_passes == first
    assert torch.equal(plan.potentials[done], early.potentials[done])
    assert torch.equal(early.converged, done)
    assert early.status == "max_passes"
    assert (early.n_passes == first).all()


def test_masses_may_be_common_or_differ():
    S, b = batch()
    common = solve_tensor(S, None, b[0, 0], kernel="torch")
    each = solve_tensor(S, torch.ones(2, 3, S.shape[2]) / S.shape[2], b[0, 0].expand(2, 3, K), kernel="torch")
    torch.testing.assert_close(common.potentials, each.potentials, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kernel", ["torch", "compiled"])
@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_a_warm_start_at_the_solution_takes_one_pass(rule, kernel):
    S, b = batch()
    b = b.clone()
    if isinstance(rule, FixedMass):
        b[0, 1, 3] = 0.0  # whose potential is -inf
        b = b / b.sum(-1, keepdim=True)
    plan = solve_tensor(S, None, b, rule=rule, kernel=kernel)
    again = solve_tensor(S, None, b, rule=rule, kernel=kernel, potentials=plan.potentials)
    assert (again.n_passes == 1).all()
    assert again.converged.all()
    common = solve_tensor(S[0, 0].expand(3, -1, -1), None, b[0, 0], rule=rule, potentials=plan.potentials[0, 0])
    assert (common.n_passes == 1).all()


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_a_warm_start_a_thousand_nats_away_is_overcome(rule):
    S = batch((2,))[0]
    start = torch.full((K + isinstance(rule, VirtualColumn),), -1e3, dtype=torch.float64)
    start[::2] = 1e3
    plan, cold = (
        solve_tensor(S, rule=rule, potentials=start, kernel="torch"),
        solve_tensor(S, rule=rule, kernel="torch"),
    )
    assert plan.converged.all()
    torch.testing.assert_close(
        plan.value, cold.value, rtol=0, atol=1e-7
    )  # an L1 error of 1e-9 at potentials of tens of nats


def test_columns_without_mass_differ_between_problems():
    S, _ = batch()
    b = torch.tensor(np.random.default_rng(1).dirichlet(np.ones(K), (2, 3)))
    for j, place in enumerate(np.ndindex(2, 3)):
        b[place][j % K] = 0.0
    b = b / b.sum(-1, keepdim=True)
    for rule in (FixedMass(), RelaxedMass(0.5), RelaxedMass(np.array([1.0, 0.0, 0.3, 1.0, 0.9])), VirtualColumn(0.2)):
        plan = solve_tensor(S, None, b, rule=rule, tol=TOL, kernel="torch")
        assert plan.converged.all()
        for place in np.ndindex(2, 3):
            single = solve_plan(S[place].numpy(), None, b[place].numpy(), rule=rule, tol=TOL)
            assert torch.isneginf(plan.potentials[place]).numpy().tolist() == np.isneginf(single.potentials).tolist()
            assert float(plan.value[place]) == pytest.approx(single.value, abs=1e-10)
            assert plan.responsibilities[place].numpy() == pytest.approx(single.responsibilities, abs=1e-8)


def test_a_problem_that_cannot_be_solved_is_named_by_its_place():
    S, _ = batch()
    S[1, 2, :, 3] = -torch.inf
    with pytest.raises(InfeasibleMarginalsError, match=r"problem \[1, 2\]: columns \[3\] need mass 0.2") as error:
        solve_tensor(S, kernel="torch")
    assert error.value.columns == [3]
    with pytest.raises(InfeasibleMarginalsError, match=r"^columns \[3\] need mass"):
        solve_tensor(S[1, 2], kernel="torch")
    S = batch()[0]
    S[0, 1, [4, 7]] = -torch.inf
    with pytest.raises(
        InfeasibleMarginalsError, match=r"problem \[0, 1\]: row 4 \(and 1 more\) has mass but no finite score"
    ):
        solve_tensor(S, kernel="torch")
    S[0, 1] = -torch.inf
    with pytest.raises(ValueError, match=r"problem \[0, 1\]: no row has a finite score"):
        solve_tensor(S, empty_rows="drop")


class Waits(TorchDispatchMode):
    """Counts operations for which the host has to wait for the device."""

    WAITING = ("_local_scalar_dense", "nonzero", "masked_select", "equal", "is_nonzero", "unique", "bincount", "item")

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.overloadpacket.__name__
        masks = [x for x in args[1] if x is not None and x.dtype == torch.bool] if name.startswith("index") else []
        if name in self.WAITING or masks:
            self.names.append(name)
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("rule", RULES, ids=repr)
@pytest.mark.parametrize("eigen_columns", [200, 0])
def test_the_device_is_asked_one_question_a_pass(rule, eigen_columns, monkeypatch):
    monkeypatch.setattr(step, "EIGEN_COLUMNS", eigen_columns)  # 0: Cholesky factorisations, as on an accelerator
    S = batch((2, 8), n=30)[0].reshape(4, -1, K)
    a = torch.full((4, S.shape[1]), 1 / S.shape[1], dtype=torch.float64)
    b = torch.tensor(np.tile(rule.extend(np.full(K, 1 / K)), (4, 1)))
    columns = tensor_rule(rule, K, S.device)
    asked, passes = [], []
    for name in (
        "item",
        "tolist",
        "cpu",
        "numpy",
        "nonzero",
        "__bool__",
        "__int__",
        "__float__",
        "__index__",
        "__array__",
    ):
        original = getattr(torch.Tensor, name)
        monkeypatch.setattr(torch.Tensor, name, lambda x, *_, f=original, m=name: (asked.append(m), f(x, *_))[1])

    def one_pass(offset, temperature):
        passes.append(temperature is not None)
        return evaluate(S, a, offset, temperature)

    with Waits() as waits:
        solution = solve_newton(one_pass, columns, b, torch.zeros_like(b), Tolerances(1e-9, 1e-6))
    monkeypatch.undo()
    assert asked == ["tolist"] * len(passes)
    assert waits.names == []
    assert int(solution.n_passes.max()) == len(passes) > 3
    assert (solution.status == 1).all()


@pytest.mark.parametrize("kernel", ["torch", "compiled"])
@pytest.mark.parametrize("rule", [FixedMass(), RelaxedMass(0.6)], ids=repr)
def test_a_tolerance_of_the_value_is_kept(rule, kernel):
    """F - min F is about |residual|^2 over the curvature: at residuals of 0.1 far above 1e-10."""
    S, b = batch(n=60)
    rows = check_problem(S, None, b, rule)
    start = torch.zeros_like(rows.column_mass)

    def solved(*tolerances):
        return solve_rows(rows, start, Tolerances(*tolerances), kernel=kernel)

    lowest = solved(1e-12, 1e-9).value
    assert (solved(0.1, 10.0).value - lowest).max() > 1e-5
    close = solved(0.1, 10.0, 1e-10)
    assert (close.status == 1).all()
    assert (close.value - lowest).max() < 2e-10
