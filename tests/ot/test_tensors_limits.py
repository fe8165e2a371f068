"""Tensors of scores: zeros, infinities, limits in epsilon, invariances and mistakes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from transport_problems import few, problems, problems_with_rules

from sinkhorn_em.ot import (
    BoundedMass,
    FixedMass,
    FreeMass,
    InfeasibleMarginalsError,
    RelaxedMass,
    VirtualColumn,
    solve_plan,
)

torch = pytest.importorskip("torch")

from sinkhorn_em.ot.tensors import solve_plan as solve_tensor  # noqa: E402

INF = float("inf")
TOL = 1e-12  # of the masses; columns overlap in these examples, and potentials follow within a few times that
RULES = [FixedMass(), FreeMass(), RelaxedMass(0.5), BoundedMass(0, 0.5), VirtualColumn(0.2)]


def on_torch(S, a=None, b=None, **options):
    return solve_tensor(torch.as_tensor(np.asarray(S)), a, b, kernel="torch", **options)


def example(n=50, K=4, seed=0):
    return np.random.default_rng(seed).normal(size=(n, K))


def with_blocked(S, rows, columns):
    S = S.copy()
    S[rows, columns] = -INF
    return S


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_a_column_of_mass_zero_is_as_if_it_were_not_there(rule):
    S, b = example(), np.array([0.3, 0.0, 0.3, 0.4])
    S[:, 1] = 50  # however well it fits
    plan, without = (on_torch(x, None, m, rule=rule, tol=TOL) for x, m in ((S, b), (S[:, b > 0], b[b > 0])))
    assert plan.converged
    assert plan.potentials[1] == -INF
    assert plan.column_mass[1] == 0
    assert (plan.responsibilities[:, 1] == 0).all()
    assert float(plan.value) == pytest.approx(float(without.value), abs=1e-13)
    assert plan.responsibilities[:, b > 0].numpy() == pytest.approx(without.responsibilities.numpy(), abs=10 * TOL)


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_a_row_of_mass_zero_does_not_count_but_has_its_responsibilities(rule):
    S = with_blocked(example(), 7, slice(None))  # and may have no finite score
    a = np.random.default_rng(1).uniform(size=50)
    a[::7] = 0
    plan, without = (on_torch(x, m, rule=rule, tol=TOL) for x, m in ((S, a), (S[a > 0], a[a > 0])))
    assert float(plan.value) == pytest.approx(float(without.value), abs=1e-13)
    assert plan.responsibilities[a > 0].numpy() == pytest.approx(without.responsibilities.numpy(), abs=10 * TOL)
    assert plan.responsibilities[14].sum() + plan.unassigned[14] == pytest.approx(1.0, abs=1e-15)
    assert (plan.matrix[::7] == 0).all()
    assert torch.isfinite(plan.responsibilities).all()


@pytest.mark.parametrize(
    "rule", [FreeMass(), BoundedMass(0, 0.6), RelaxedMass(0.01), VirtualColumn(0.2, RelaxedMass(0.9))]
)
def test_a_column_that_no_row_may_use_is_empty_under_a_rule_that_allows_it(rule):
    plan = on_torch(with_blocked(example(), slice(None), 1), rule=rule)
    assert plan.converged
    assert plan.column_mass[1] == 0
    assert torch.isfinite(plan.responsibilities).all()


def test_forbidden_pairs_get_nothing_and_the_rest_is_as_by_the_compiled_kernels():
    S = with_blocked(example(), *np.nonzero(np.random.default_rng(0).random((50, 4)) < 0.4))
    plan, compiled = on_torch(S, tol=1e-12, empty_rows="drop"), solve_plan(S, tol=1e-12, empty_rows="drop")
    assert (plan.responsibilities[torch.isneginf(torch.tensor(S))] == 0).all()
    assert plan.matrix.numpy() == pytest.approx(compiled.matrix, abs=1e-12)


def test_masses_that_only_just_fit_are_met():
    plan = on_torch(with_blocked(np.zeros((4, 2)), slice(2), 1))  # the potentials run to infinity, the plan converges
    assert plan.converged
    assert plan.responsibilities.numpy() == pytest.approx(np.repeat(np.eye(2), 2, axis=0), abs=2e-9)


@pytest.mark.parametrize("empty_rows", ["drop", "prior"])
def test_a_row_without_a_finite_score_is_dropped_or_level(empty_rows):
    S = torch.tensor(with_blocked(example(), 3, slice(None)))
    plan = solve_tensor(S, None, [0.1, 0.2, 0.3, 0.4], empty_rows=empty_rows, kernel="torch")
    compiled = solve_plan(S.numpy(), None, [0.1, 0.2, 0.3, 0.4], empty_rows=empty_rows)
    assert plan.matrix.numpy() == pytest.approx(compiled.matrix, abs=1e-10)
    assert S[3, 0] == -INF  # the user's scores are left alone


def test_a_row_without_a_finite_score_is_an_error_that_names_it_unless_a_virtual_column_takes_it():
    S = with_blocked(example(), [[3], [9]], range(4))
    with pytest.raises(InfeasibleMarginalsError, match=r"^row 3 \(and 1 more\).*empty_rows='prior' or 'drop'"):
        on_torch(S)
    plan = on_torch(S, rule=VirtualColumn(0.3))
    assert plan.unassigned[[3, 9]].tolist() == [1.0, 1.0]


@few
@given(problems_with_rules(columns=(1, 1), virtual=False))
def test_one_column_takes_everything(case):
    (S, a, b), rule = case
    plan = on_torch(S, a, b, rule=rule)
    assert (plan.responsibilities == 1).all()
    assert float(plan.value) == pytest.approx(a @ S[:, 0], abs=1e-14)


@few
@given(problems(rows=(1, 3), columns=(4, 6)), st.integers(1, 3))
def test_fewer_rows_than_columns_and_repeated_rows_are_no_special_case(problem, times):
    S, a, b = problem
    plan = on_torch(np.repeat(S, times, axis=0), np.repeat(a / times, times), b)
    assert plan.converged
    assert plan.column_mass.numpy() == pytest.approx(b, abs=1e-9)
    assert float(plan.value) == pytest.approx(solve_plan(S, a, b).value, abs=1e-7)


@few
@given(problems())
def test_free_columns_give_the_softmax_plan(problem):
    S, a, b = problem
    plan = on_torch(S, a, b, tau=0)
    L = torch.tensor(S + np.log(b))
    torch.testing.assert_close(plan.responsibilities, torch.softmax(L, 1), rtol=0, atol=1e-15)
    assert float(plan.value) == pytest.approx(float(torch.tensor(a) @ torch.logsumexp(L, 1)), abs=1e-14)


@few
@given(problems())
def test_a_large_epsilon_gives_the_product_plan(problem):
    S, a, b = problem
    plan = on_torch(S / 1e6, a, b)
    # R_ik / b_k = exp(S/epsilon + g - lse) and each of the three terms is within osc(S)/epsilon of a constant
    assert plan.responsibilities.numpy() / b == pytest.approx(1.0, abs=4e-6 * np.ptp(S) + 1e-8)


@pytest.mark.parametrize("seed", range(3))
def test_a_small_epsilon_gives_the_assignment_of_least_cost_with_these_sizes(seed):
    rng = np.random.default_rng(seed)
    sizes = np.array([2, 1, 4, 3])
    b, cost = sizes / 10, rng.uniform(size=(10, 4))
    seats = np.repeat(np.arange(4), sizes)
    rows, chosen = linear_sum_assignment(cost[:, seats])
    least = cost[rows, seats[chosen]].mean()
    epsilon = torch.tensor([1e-1, 1e-2, 1e-3, 1e-4], dtype=torch.float64)
    plan = solve_tensor(-torch.tensor(cost) / epsilon[:, None, None], None, b, kernel="torch")
    assert plan.converged.all()
    paid = (plan.matrix * torch.tensor(cost)).sum((1, 2)) - least
    # P is best at <P, C> + epsilon KL(P|ab'), and KL <= max log(1/b) for every plan; 1e-9 of mass may be misplaced
    assert (paid <= epsilon * np.log(10) + 1e-9).all()
    assert (paid >= -1e-9).all()
    best = np.zeros((10, 4))
    best[rows, seats[chosen]] = 0.1
    assert plan.matrix[-1].numpy() == pytest.approx(best, abs=1e-8)


@few
@given(problems_with_rules(rows=(2, 12), columns=(2, 5)), st.integers(0, 100))
def test_order_of_rows_and_columns_does_not_matter(case, seed):
    (S, a, b), rule = case
    rng = np.random.default_rng(seed)
    i, k = rng.permutation(len(a)), rng.permutation(len(b))
    inner = rule.rule if isinstance(rule, VirtualColumn) else rule
    if isinstance(inner, BoundedMass):
        inner = BoundedMass(inner.lower[k], inner.upper[k])
    elif isinstance(inner, RelaxedMass) and np.ndim(inner.tau):
        inner = RelaxedMass(inner.tau[k])
    permuted = VirtualColumn(rule.mass, inner) if isinstance(rule, VirtualColumn) else inner
    plan, moved = on_torch(S, a, b, rule=rule), on_torch(S[np.ix_(i, k)], a[i], b[k], rule=permuted)
    assert float(moved.value) == pytest.approx(float(plan.value), abs=1e-8)
    assert moved.column_mass[: len(b)].numpy() == pytest.approx(plan.column_mass[: len(b)].numpy()[k], abs=1e-8)


@few
@given(problems(), st.sampled_from([0, 0.5, 1]), st.sampled_from([1.0, 1e3]))
def test_a_constant_added_to_a_row_changes_the_value_only(problem, tau, size):
    S, a, b = problem
    shift = size * np.arange(len(a))
    plan, moved = on_torch(S, a, b, tau=tau), on_torch(S + shift[:, None], a, b, tau=tau)
    # S + shift rounds at 3e4 * 2^-53, and both plans have an L1 error of 1e-9
    assert moved.responsibilities.numpy() == pytest.approx(plan.responsibilities.numpy(), abs=1e-7)
    assert float(moved.value) == pytest.approx(float(plan.value) + a @ shift, abs=1e-9)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("value", [np.nan, INF])
def test_a_score_that_is_no_number_is_named_by_its_place(value, dtype):
    S = torch.zeros(2, 3, 20, 4, dtype=dtype)
    S[0, 1] = -INF
    S[1, 2, 7, 2] = value
    with pytest.raises(ValueError, match=rf"scores\[1, 2, 7, 2\] is {value}; scores must be finite or -inf: .*-inf"):
        solve_tensor(S)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scores": torch.zeros(4)}, r"scores has shape \(4,\); it must be \(..., n, K\)"),
        ({"scores": torch.zeros(2, 0, 4)}, r"scores has shape \(2, 0, 4\); it must be"),
        ({"scores": torch.zeros(0, 5, 4)}, r"scores has shape \(0, 5, 4\); it must be"),
        ({"scores": torch.zeros(5, 4, dtype=torch.complex64)}, "must be real and dense"),
        ({"scores": torch.zeros(5, 4).to_sparse()}, "must be real and dense: use scores.to_dense"),
        ({"row_mass": torch.ones(4)}, r"row_mass has shape \(4,\); it must be \(5,\) or \(2, 3, 5\)"),
        ({"column_mass": torch.ones(3, 4)}, r"column_mass has shape \(3, 4\); it must be \(4,\) or \(2, 3, 4\)"),
        (
            {"column_mass": torch.tensor([1.0, -1, 1, 1])},
            r"column_mass\[1\] is -1.0; masses must be finite and not neg",
        ),
        ({"row_mass": torch.full((2, 3, 5), torch.nan)}, r"row_mass\[0, 0, 0\] is nan; masses must be finite"),
        ({"row_mass": torch.zeros(5)}, "row_mass sums to 0.0; at least one mass must be positive"),
        ({"row_mass": torch.ones(5), "column_mass": torch.ones(4)}, "row_mass sums to 5 and the other marginal to 4"),
        ({"potentials": torch.zeros(3, 4)}, r"potentials has shape \(3, 4\); it must be \(2, 3, 4\)"),
        ({"potentials": torch.full((4,), torch.nan)}, "potentials must be finite"),
        ({"rule": VirtualColumn(0.2), "potentials": torch.zeros(4)}, r"it must be \(2, 3, 5\)"),
        ({"rule": "balanced"}, "rule is 'balanced'; it must be one of"),
        ({"tau": torch.ones(3)}, r"tau has shape \(3,\)"),
        ({"tau": 1.5}, r"tau is 1.5; it must lie in \[0, 1\]"),
        ({"rule": BoundedMass(0.3, 1)}, r"sum\(lower\) = 1.2 must be at most 1"),
        ({"column_mass": [0.5, 0.5, 0, 0], "rule": BoundedMass(0, 0.4)}, "upper"),
        ({"method": "sinkhorn"}, "method is 'sinkhorn'; for tensors it must be 'newton': pass scores.numpy()"),
        ({"kernel": "cuda"}, r"kernel is 'cuda'; it must be one of \['auto', 'compiled', 'torch'\]"),
        ({"tol": 0.0}, "tol is 0.0; it must be positive"),
        ({"max_passes": 0}, "max_passes is 0; it must be an integer"),
        ({"empty_rows": "ignore"}, "empty_rows is 'ignore'; it must be"),
        ({"scores": torch.zeros(5, 4, device="meta"), "kernel": "compiled"}, "scores are on meta; use kernel='torch'"),
    ],
)
def test_mistakes_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        solve_tensor(**{"scores": torch.zeros(2, 3, 5, 4), **options})


@pytest.mark.parametrize("kernel", ["torch", "compiled"])
def test_a_tolerance_beyond_single_precision_is_reported_as_the_end_of_precision(kernel):
    S = torch.tensor(3 * example(200, 6), dtype=torch.float32 if kernel == "torch" else torch.float64)
    plan = solve_tensor(S, tol=1e-30, kernel=kernel)
    assert plan.status == "precision"
    assert not plan.converged
    assert plan.n_passes < 100
    assert plan.marginal_error <= (1e-6 if kernel == "torch" else 1e-14)


@pytest.mark.parametrize("shape", [(), (2,)])
@pytest.mark.parametrize("kernel", ["torch", "compiled"])
def test_a_solver_that_runs_out_of_passes_says_so(kernel, shape):
    S = torch.tensor(6 * example(200, 6)).expand(*shape, 200, 6)
    plan = solve_tensor(S, max_passes=2, kernel=kernel)
    assert plan.status == "max_passes"
    assert not plan.converged.any()
    assert (plan.n_passes == 2).all()
    assert (plan.marginal_error > 1e-9).all()
