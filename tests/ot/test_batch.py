"""Many small problems at once: the answers, passes and conventions of `solve_plan`."""

import numpy as np
import pytest
from transport_problems import separated_clusters

import sinkhorn_em
from sinkhorn_em.ot import solve_plan, solve_plans

#: values agree to rounding of a sum over 1500 rows
VALUE = 1e-10
#: both solvers leave an L1 error of at most 1e-9; a column of mass 1/20 then has its potential to about 1e-7 where columns overlap
POTENTIAL = 1e-7


def stack(separation, K, count=3):
    problems = [separated_clusters(seed, separation, n=600, K=K) for seed in range(count)]
    return np.array([S for S, _, _ in problems]), np.array([b for _, _, b in problems])


@pytest.mark.parametrize("separation", [2, 4, 8, 16, 30])
@pytest.mark.parametrize("K", [2, 5, 20])
def test_the_answers_are_those_of_one_problem_at_a_time_in_as_few_passes(separation, K):
    S, b = stack(separation, K)
    uneven = np.random.default_rng(K).dirichlet(np.full(K, 3.0), len(S))
    for masses in (b, uneven, np.full(b.shape, 1 / K)):
        plans = solve_plans(S, None, masses)
        singles = [solve_plan(scores, None, mass) for scores, mass in zip(S, masses, strict=True)]
        assert plans.converged.all()
        np.testing.assert_allclose(plans.value, [plan.value for plan in singles], rtol=0, atol=VALUE)
        np.testing.assert_allclose(plans.column_mass, masses, rtol=0, atol=1e-9)
        assert (plans.n_passes <= [1.5 * plan.n_passes + 1 for plan in singles]).all()
        if masses is uneven or separation == 2:  # matched masses of clusters far apart leave potentials undetermined
            np.testing.assert_allclose(plans.potentials, [plan.potentials for plan in singles], rtol=0, atol=POTENTIAL)


def test_free_columns_give_the_mean_log_likelihood():
    S, b = stack(3, 4)
    plans = solve_plans(S, None, b, tau=0)
    for j, (scores, mass) in enumerate(zip(S, b, strict=True)):
        plan = solve_plan(scores, None, mass, tau=0)
        assert plans.value[j] == pytest.approx(plan.value, abs=1e-13)
        np.testing.assert_allclose(plans.column_mass[j], plan.column_mass, atol=1e-14)
    assert plans.converged.all()
    assert (plans.potentials == 0).all()


def test_masses_may_be_common_or_differ_and_rows_may_weigh():
    S, _ = stack(3, 4)
    counts = np.random.default_rng(0).integers(1, 4, S.shape[1])
    weighted = solve_plans(S, counts, [0.1, 0.2, 0.3, 0.4])
    repeated = solve_plans(np.repeat(S, counts, axis=1), None, np.tile([1.0, 2.0, 3.0, 4.0], (len(S), 1)))
    np.testing.assert_allclose(weighted.value, repeated.value, rtol=0, atol=1e-12)
    np.testing.assert_allclose(weighted.potentials, repeated.potentials, rtol=0, atol=POTENTIAL)
    each = solve_plans(S, np.tile(counts, (len(S), 1)), [0.1, 0.2, 0.3, 0.4])
    np.testing.assert_array_equal(each.potentials, weighted.potentials)


def test_a_warm_start_at_the_solution_takes_one_pass():
    S, b = stack(4, 5)
    plans = solve_plans(S, None, b)
    again = solve_plans(S, None, b, potentials=plans.potentials)
    assert (again.n_passes == 1).all()
    assert again.converged.all()


def test_columns_without_mass_are_left_out():
    S, _ = stack(3, 4)
    masses = np.array([0.5, 0.0, 0.25, 0.25])
    plans, without = solve_plans(S, None, masses), solve_plans(S[:, :, [0, 2, 3]], None, masses[[0, 2, 3]])
    assert np.isneginf(plans.potentials[:, 1]).all()
    assert (plans.column_mass[:, 1] == 0).all()
    np.testing.assert_allclose(plans.potentials[:, [0, 2, 3]], without.potentials, rtol=0, atol=1e-10)
    np.testing.assert_allclose(plans.value, without.value, rtol=0, atol=1e-13)


def test_impossible_problems_do_not_converge_and_do_not_disturb_the_others():
    S, b = stack(2, 3)
    S = np.concatenate([S, S[:1]])
    b = np.full((4, 3), 1 / 3)
    S[1, :500, 1:] = -np.inf  # five rows in six must go to a column that may take a third
    S[2, 7] = -np.inf  # a row that may go nowhere
    S[3, :10, 0] = -np.inf  # harmless
    plans = solve_plans(S, None, b)
    assert plans.converged.tolist() == [True, False, False, True]
    assert not any(np.isnan(field).any() for field in plans)
    assert np.isneginf(plans.value[2])
    assert plans.value[3] == pytest.approx(solve_plan(S[3]).value, abs=VALUE)
    assert not solve_plans(S[2:3], tau=0).converged.any()


def test_too_few_passes_do_not_converge():
    S, _ = stack(16, 5)
    plans = solve_plans(S, max_passes=2)
    assert not plans.converged.any()
    assert (plans.n_passes == 2).all()


def test_any_memory_layout_gives_the_same_bits():
    S, b = stack(3, 4)
    component_major = np.ascontiguousarray(S.transpose(0, 2, 1)).transpose(0, 2, 1)
    np.testing.assert_array_equal(solve_plans(component_major, None, b).potentials, solve_plans(S, None, b).potentials)


def test_the_bits_do_not_depend_on_the_number_of_threads():
    S, b = (np.tile(array, (6,) + (1,) * (array.ndim - 1)) for array in stack(4, 5))
    results = []
    for n_threads in (1, 2):
        sinkhorn_em.set_num_threads(n_threads)
        results.append(solve_plans(S, None, b))
    sinkhorn_em.set_num_threads(None)
    for one, two in zip(*results, strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scores": np.zeros((3, 2))}, r"scores has shape \(3, 2\); it must be \(B, n, K\)"),
        ({"scores": np.full((1, 3, 2), np.nan)}, r"scores\[0, 0, 0\] is nan"),
        ({"row_mass": np.ones(4)}, r"row_mass has shape \(4,\); it must be \(3,\), or \(2, 3\)"),
        ({"column_mass": [0.5, -0.5]}, r"column_mass\[0, 1\] is -0.5"),
        ({"column_mass": np.zeros((2, 2))}, r"column_mass\[0\] sums to 0.0"),
        ({"column_mass": np.full(2, 1e308)}, r"column_mass\[0\] sums to inf"),
        ({"tau": 0.5}, "tau is 0.5; it must be 0 .* or 1"),
        ({"tol": 0.0}, "tol is 0.0; it must be positive"),
        ({"max_passes": 0}, "max_passes is 0; it must be an integer"),
        ({"potentials": np.zeros(2)}, r"potentials has shape \(2,\)"),
    ],
)
def test_mistakes_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        solve_plans(**{"scores": np.zeros((2, 3, 2)), **options})
