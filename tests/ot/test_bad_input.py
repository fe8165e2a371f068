"""Errors name the parameter, the value, the rule and the remedy."""

import numpy as np
import pytest

from sinkhorn_em.ot import BoundedMass, RelaxedMass, VirtualColumn, solve_plan

S = np.random.default_rng(0).normal(size=(20, 4))


def with_entry(value, dtype=np.float64):
    scores = S.astype(dtype)
    scores[7, 2] = value
    return scores


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_score_that_is_no_number_is_named_by_row_and_column(value, dtype):
    with pytest.raises(ValueError, match=rf"scores\[7, 2\] is {value}; scores must be finite or -inf: .*-inf"):
        solve_plan(with_entry(value, dtype))


def test_a_nan_is_found_beside_an_infinite_score():
    scores = with_entry(np.nan)
    scores[3] = -np.inf
    with pytest.raises(ValueError, match=r"scores\[7, 2\] is nan"):
        solve_plan(scores)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (3,), (2, 3, 4), ()])
def test_scores_are_a_matrix_with_rows_and_columns(shape):
    with pytest.raises(ValueError, match=r"scores has shape .*; it must be \(n, K\)"):
        solve_plan(np.zeros(shape))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"row_mass": np.ones(19)}, r"row_mass has shape \(19,\); it must be \(20,\)"),
        ({"row_mass": np.ones((20, 1))}, r"row_mass has shape \(20, 1\); it must be \(20,\)"),
        ({"column_mass": np.ones(3)}, r"column_mass has shape \(3,\); it must be \(4,\)"),
        ({"column_mass": [1, -1, 1, 1]}, r"column_mass\[1\] is -1.0; masses must be finite and not negative"),
        ({"column_mass": [1, 1, np.nan, 1]}, r"column_mass\[2\] is nan; masses must be finite"),
        ({"column_mass": [1, 1, np.inf, 1]}, r"column_mass\[2\] is inf; masses must be finite"),
        ({"row_mass": np.zeros(20)}, "row_mass sums to 0.0; at least one mass must be positive"),
        ({"column_mass": np.zeros(4)}, "column_mass sums to 0.0; at least one mass must be positive"),
        ({"potentials": np.zeros(3)}, r"potentials has shape \(3,\); it must be \(4,\)"),
        ({"potentials": [0, 0, np.nan, 0]}, "potentials must be finite"),
        ({"potentials": [0, 0, -np.inf, 0]}, "potentials must be finite"),
        ({"rule": VirtualColumn(0.2), "potentials": np.zeros(4)}, r"potentials has shape \(4,\); it must be \(5,\)"),
        ({"rule": "balanced"}, r"rule is 'balanced'; it must be one of \['bounded', 'fixed', 'free', 'relaxed'\]"),
        ({"method": "lbfgs"}, r"method is 'lbfgs'; it must be one of \['newton', 'sinkhorn'\]"),
        ({"empty_rows": "ignore"}, "empty_rows is 'ignore'; it must be 'raise', 'prior' or 'drop'"),
        ({"rule": "free", "tau": 0.5}, "tau is 0.5 and rule is 'free'; .* give only one of them"),
        ({"tau": 1.5}, r"tau is 1.5; it must lie in \[0, 1\]"),
        ({"tau": -0.1}, r"tau is -0.1; it must lie in \[0, 1\]"),
        ({"tau": np.nan}, r"tau is nan; it must lie in \[0, 1\]"),
        ({"tau": [0.1, 0.2]}, r"tau has shape \(2,\); it must be a number or one per column, \(4,\)"),
        ({"rule": RelaxedMass(np.ones((4, 1)))}, r"tau has shape \(4, 1\)"),
        ({"rule": BoundedMass(0.3, 1)}, r"sum\(lower\) = 1.2 must be at most 1"),
        ({"rule": BoundedMass(0, 0.2)}, r"sum\(upper\) = 0.8 at least that; widen"),
        ({"rule": BoundedMass([0.3, 0, 0, 0], [0.2, 1, 1, 1])}, "they must satisfy 0 <= lower <= upper <= 1"),
        ({"rule": BoundedMass(-0.1, 1)}, "they must satisfy 0 <= lower <= upper <= 1"),
        ({"rule": BoundedMass(0, np.ones(3))}, r"upper has shape \(3,\); it must be a number or \(4,\)"),
        ({"rule": VirtualColumn(0)}, "mass of the virtual column is 0; it must lie strictly between 0 and 1"),
        ({"rule": VirtualColumn(1.0)}, "mass of the virtual column is 1.0; it must lie strictly"),
        ({"rule": VirtualColumn(0.2, RelaxedMass(2))}, "tau is 2"),
        ({"rule": VirtualColumn(0.2, BoundedMass(0.3, 1))}, r"sum\(lower\) = 1.2 must be at most 0.8"),
        ({"rule": VirtualColumn(0.2, BoundedMass(0, np.ones(3)))}, r"upper has shape \(3,\)"),
        ({"rule": VirtualColumn(0.2, BoundedMass([0.3, 0, 0, 0], [0.2, 1, 1, 1]))}, "0 <= lower <= upper <= 1"),
        ({"tol": 0}, "tol is 0; it must be positive"),
        ({"tol": np.nan}, "tol is nan; it must be positive"),
        ({"max_passes": 0}, "max_passes is 0; it must be"),
        ({"max_passes": -1, "method": "sinkhorn"}, "max_passes is -1; it must be"),
    ],
    ids=str,
)
def test_a_bad_option_is_named_with_its_value_and_its_rule(options, message):
    with pytest.raises(ValueError, match=message):
        solve_plan(S, **options)


@pytest.mark.parametrize("mass", ["row_mass", "column_mass"])
def test_a_mass_of_zero_is_named_beside_a_good_one(mass):
    masses = {"row_mass": np.ones(20) / 20, "column_mass": np.ones(4) / 4}
    with pytest.raises(ValueError, match=f"{mass} sums to 0.0; at least one mass must be positive"):
        solve_plan(S, **(masses | {mass: 0 * masses[mass]}))


def test_marginals_of_different_mass_are_refused():
    with pytest.raises(
        ValueError, match=r"row_mass sums to 2 and the other marginal to 1; .*same total: divide each by its sum"
    ):
        solve_plan(S, np.full(20, 0.1), np.full(4, 0.25))


def test_unbalanced_transport_does_not_need_marginals_of_equal_mass_if_the_message_says_so():
    with pytest.raises(ValueError) as error:
        solve_plan(S, np.full(20, 0.1), np.full(4, 0.25))
    if "tau < 1" in str(error.value):  # then that remedy works
        assert solve_plan(S, np.full(20, 0.1), np.full(4, 0.25), tau=0.5).converged


@pytest.mark.parametrize("scores", [S.tolist(), S.astype(np.float16), (10 * S).astype(int), S[:, ::-1], S[::2]])
def test_scores_of_any_kind_of_number_and_layout_are_accepted(scores):
    expected = solve_plan(np.array(scores, np.float64, order="C"))
    assert solve_plan(scores).value == pytest.approx(expected.value, abs=1e-14)
