"""Tensors of scores: torch's path gives the plans of the compiled kernels in as many passes, and leaves torch as it was."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from transport_problems import few, least_curvature, problems_with_rules, separated_clusters, solved

from sinkhorn_em.ot import BoundedMass, FixedMass, FreeMass, Plan, RelaxedMass, VirtualColumn, solve_plan

torch = pytest.importorskip("torch")

from sinkhorn_em.ot.tensors import TensorPlan, columns, step  # noqa: E402
from sinkhorn_em.ot.tensors import solve_plan as solve_tensor  # noqa: E402

TOL = 1e-12
ROUNDING = 1e-12  # of a few thousand additions of numbers of order 1, and of exponents of order 50
K = 12
SHARES = np.random.default_rng(0).dirichlet(np.full(K, 5.0))
TAUS = np.random.default_rng(1).choice([0.0, 0.3, 0.9, 1.0], K)
RULES = {
    "free": FreeMass(),
    "fixed": FixedMass(),
    "relaxed": RelaxedMass(0.5),
    "nearly fixed": RelaxedMass(0.97),
    "a tau each": RelaxedMass(TAUS),
    "a tau each, none free": RelaxedMass(np.where(TAUS == 0, 0.3, TAUS)),
    "a tau of 1 each": RelaxedMass(np.ones(K)),
    "bounded": BoundedMass(0.04, 0.15),
    "bounds each": BoundedMass(0.5 * SHARES, 1.3 * SHARES),
    "equal bounds": BoundedMass(SHARES, SHARES),
    "virtual, free": VirtualColumn(0.2, FreeMass()),
    "virtual, fixed": VirtualColumn(0.2),
    "virtual, relaxed": VirtualColumn(0.2, RelaxedMass(0.5)),
    "virtual, a tau each": VirtualColumn(0.2, RelaxedMass(TAUS)),
    "virtual, bounded": VirtualColumn(0.2, BoundedMass(0.03, 0.15)),
}


def on_torch(S, a=None, b=None, dtype=torch.float64, **options):
    """The plan by torch, whose path is that of any device."""
    return solve_tensor(torch.as_tensor(np.asarray(S)).to(dtype), a, b, kernel="torch", **options)


def full_responsibilities(plan):
    """Of all columns, the virtual one included."""
    return np.column_stack([plan.responsibilities, plan.unassigned])[:, : len(plan.potentials)]


@few
@given(problems_with_rules(largest=4.0))
def test_torch_agrees_with_the_compiled_kernels(case):
    problem, rule = case
    compiled, plan = solve_plan(*problem, rule=rule, tol=TOL), on_torch(*problem, rule=rule, tol=TOL)
    assert bool(plan.converged)
    assert float(plan.value) == pytest.approx(compiled.value, abs=1e-12)
    assert plan.column_mass.numpy() == pytest.approx(compiled.column_mass, abs=2 * TOL + ROUNDING)
    flat = least_curvature(problem, rule, full_responsibilities(compiled), compiled.potentials)
    slack = ROUNDING + 4 * TOL / flat  # what errors of TOL in the masses allow, twice
    assert plan.potentials.numpy() == pytest.approx(compiled.potentials, abs=slack)
    assert plan.responsibilities.numpy() == pytest.approx(compiled.responsibilities, abs=slack)
    assert plan.unassigned.numpy() == pytest.approx(compiled.unassigned, abs=slack)
    assert int(plan.n_passes) <= 1.3 * compiled.n_passes + 3


@few
@given(solved())
def test_a_plan_is_recovered_from_the_problem_built_around_it(known):
    S, a, b = known.problem
    plan = on_torch(S, a, b, rule=known.rule, tol=TOL)
    assert bool(plan.converged)
    assert plan.column_mass.numpy() == pytest.approx(known.mass, abs=TOL + ROUNDING)
    slope = least_curvature(known.problem, known.rule, known.responsibilities, known.potentials)
    slack = ROUNDING + 2 * TOL / slope
    assert plan.potentials.numpy() == pytest.approx(known.potentials, abs=slack)
    assert plan.responsibilities.numpy() == pytest.approx(known.responsibilities[:, : S.shape[1]], abs=slack)
    assert float(plan.dual_gap) <= 1e-10


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES.keys())
def test_clusters_however_far_apart_are_solved_alike_in_as_many_passes(rule):
    ours = theirs = 0
    for separation in (2, 8):
        S = separated_clusters(separation, separation, n=200, K=K).scores
        compiled, plan = solve_plan(S, None, rule=rule, tol=1e-11), on_torch(S, None, rule=rule, tol=1e-11)
        assert bool(plan.converged)
        # a mass error of 1e-11 costs as much times a potential; these are below 1e3 nats, and most errors are far smaller
        assert float(plan.value) == pytest.approx(compiled.value, abs=1e-10)
        assert plan.column_mass.numpy() == pytest.approx(compiled.column_mass, abs=2e-11)
        if separation == 2:
            assert plan.responsibilities.numpy() == pytest.approx(compiled.responsibilities, abs=1e-10)
        ours, theirs = ours + int(plan.n_passes), theirs + compiled.n_passes
    assert ours <= 1.3 * theirs + 2


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES.keys())
def test_single_precision_agrees_with_the_compiled_kernels_to_five_digits(rule):
    S = separated_clusters(2, 2, n=300, K=K).scores.astype(np.float32)
    compiled, plan = solve_plan(S, rule=rule), on_torch(S, dtype=torch.float32, rule=rule)
    assert bool(plan.converged)
    assert plan.responsibilities.dtype == torch.float32
    assert plan.responsibilities.numpy() == pytest.approx(compiled.responsibilities, abs=1e-5)
    assert float(plan.value) == pytest.approx(compiled.value, abs=1e-6)


@pytest.mark.parametrize("rule", ["fixed", "relaxed", "bounded"])
def test_clusters_a_hundred_standard_deviations_apart_are_solved_too(rule):
    S = separated_clusters(0, 100, n=300, K=K).scores
    plan, compiled = on_torch(S, rule=RULES[rule]), solve_plan(S, rule=RULES[rule])
    assert bool(plan.converged)
    assert int(plan.n_passes) <= 2 * compiled.n_passes  # both take a path of their own through dozens of kinks
    # 1e-9 of mass times potentials of up to 1e5 nats
    assert float(plan.value) == pytest.approx(compiled.value, abs=1e-4)


@pytest.mark.parametrize("rule", ["fixed", "a tau each", "bounds each"])
def test_steps_by_cholesky_factorisations_need_hardly_more_passes(rule, monkeypatch):
    # as on an accelerator, where an eigendecomposition would wait for the device, or with very many columns
    passes = []
    for eigen_columns in (step.EIGEN_COLUMNS, 0):
        monkeypatch.setattr(step, "EIGEN_COLUMNS", eigen_columns)
        plans = [on_torch(separated_clusters(0, s, n=200, K=K).scores, rule=RULES[rule]) for s in (8, 16, 30)]
        assert all(bool(plan.converged) for plan in plans)
        passes.append(sum(int(plan.n_passes) for plan in plans))
    assert passes[1] <= 1.4 * passes[0]


def test_every_rule_has_its_form_for_tensors_and_others_are_refused():
    class Own(FixedMass):
        pass

    class Other(FreeMass.__bases__[0]):
        released = penalty = target = scale = divergence = None

    assert isinstance(columns.tensor_rule(Own(), 3, torch.device("cpu")), columns.Fixed)
    with pytest.raises(ValueError, match="has no form for tensors"):
        columns.tensor_rule(Other(), 3, torch.device("cpu"))


@pytest.mark.parametrize("kernel", ["torch", "compiled"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_tensors_in_tensors_out(dtype, kernel):
    S = torch.randn(2, 5, 4, dtype=dtype, generator=torch.Generator().manual_seed(0))
    plan = solve_tensor(S, kernel=kernel)
    assert isinstance(plan, TensorPlan)
    fields = {name: value for name, value in plan._asdict().items() if name != "status"}
    assert all(value.device == S.device for value in fields.values())
    shapes = {name: tuple(value.shape) for name, value in fields.items()}
    rows, of_columns = (
        {"scores": (2, 5, 4), "row_mass": (2, 5)},
        dict.fromkeys(["offset", "potentials", "column_mass"], (2, 4)),
    )
    assert shapes == {**dict.fromkeys(shapes, (2,)), **rows, **of_columns}
    assert plan.responsibilities.dtype == plan.matrix.dtype == plan.unassigned.dtype == dtype
    assert plan.potentials.dtype == plan.value.dtype == torch.float64
    torch.testing.assert_close(plan.matrix.sum((1, 2)), torch.ones(2, dtype=dtype), rtol=0, atol=1e-6)


def test_the_general_function_tells_tensors_from_arrays():
    S = np.random.default_rng(0).normal(size=(20, 4))
    assert isinstance(solve_plan(S), Plan)
    assert isinstance(solve_plan(torch.tensor(S)), TensorPlan)


@pytest.mark.parametrize("dtype", [torch.bool, torch.int32, torch.uint8])
def test_scores_that_are_no_floating_numbers_are_worked_on_in_double_precision(dtype):
    S = torch.tensor([[1, 0, 1], [0, 1, 1], [1, 1, 0], [0, 0, 1]])
    plan = solve_tensor(S.to(dtype), kernel="torch")
    assert plan.responsibilities.dtype == torch.float64
    assert float(plan.value) == pytest.approx(solve_plan(S.numpy().astype(float)).value, abs=1e-12)


@pytest.mark.parametrize("kernel", ["torch", "compiled"])
@pytest.mark.parametrize(("dtype", "bits"), [(torch.float16, 11), (torch.bfloat16, 8)])
def test_half_precision_costs_the_rounding_of_the_scores(dtype, bits, kernel):
    S = 3 * torch.randn(200, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    plan, double = solve_tensor(S.to(dtype), kernel=kernel), solve_tensor(S)
    assert bool(plan.converged)
    assert plan.responsibilities.dtype == torch.float32
    # |dR| <= R (1 - R) 2 |dS + dg| <= |dS|, with scores up to 16 rounded to ``bits``
    torch.testing.assert_close(plan.responsibilities.double(), double.responsibilities, rtol=0, atol=16 * 2.0**-bits)


def test_half_precision_scores_at_the_ends_of_their_range_give_finite_answers():
    S = torch.tensor([[-65504.0, 0.0], [0.0, 65504.0], [1.0, -65504.0]], dtype=torch.float16)
    plan = solve_tensor(S, kernel="torch", rule=RelaxedMass(0.9))
    assert torch.isfinite(plan.responsibilities).all()
    assert torch.isfinite(plan.potentials).all()


@pytest.mark.parametrize("kernel", ["torch", "compiled"])
def test_nothing_is_recorded_for_derivatives_and_inputs_are_left_alone(kernel):
    S = torch.randn(3, 6, 4, requires_grad=True)
    a, b = torch.rand(6, requires_grad=True), torch.rand(4, requires_grad=True)
    inputs = [S, a / a.sum(), b / b.sum()]
    before = [(x.detach().clone(), x._version) for x in inputs]
    plan = solve_tensor(*inputs, rule=RelaxedMass(0.5), kernel=kernel)
    assert torch.is_grad_enabled()
    for value in (*plan, plan.responsibilities, plan.matrix, plan.unassigned):
        assert not getattr(value, "requires_grad", False)
    for x, (value, version) in zip(inputs, before, strict=True):
        assert x._version == version
        assert torch.equal(x.detach(), value)


@pytest.mark.parametrize("enabled", [True, False])
def test_the_modes_of_torch_are_left_as_they_were_also_by_an_error(enabled):
    with torch.set_grad_enabled(enabled), torch.autocast("cpu", torch.bfloat16, enabled=enabled):
        solve_tensor(torch.zeros(3, 2), kernel="torch")
        with pytest.raises(ValueError, match="is nan"):
            solve_tensor(torch.full((3, 2), torch.nan))
        assert torch.is_grad_enabled() == enabled
        assert torch.is_autocast_enabled("cpu") == enabled


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("rule", ["fixed", "bounded"])
def test_autocast_and_inference_mode_change_no_bit(rule, dtype):
    S = torch.tensor(separated_clusters(0, 8, n=200, K=K).scores, dtype=dtype)
    plain = solve_tensor(S, rule=RULES[rule], kernel="torch")
    with torch.autocast("cpu", torch.bfloat16):
        cast = solve_tensor(S, rule=RULES[rule], kernel="torch")
    with torch.inference_mode():
        inferred = solve_tensor(S.clone(), rule=RULES[rule], kernel="torch")
    again = solve_tensor(S, rule=RULES[rule], kernel="torch")
    for other in (cast, inferred, again):
        assert torch.equal(other.potentials, plain.potentials)
        assert torch.equal(other.responsibilities, plain.responsibilities)


def test_torch_is_not_imported_for_arrays():
    code = (
        "import sys, numpy as np, sinkhorn_em, sinkhorn_em.ot as ot; ot.solve_plan(np.zeros((3, 2))); "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
