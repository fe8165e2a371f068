"""Draws of latent block models have the sizes, means and variances that were asked for."""

import numpy as np
import pytest

from sinkhorn_em.datasets import simulate_latent_blocks

RATES = np.array([[1.0, 4.0, 0.5], [3.0, 0.0, 9.0]])
FAMILIES = {
    "gaussian": (RATES, 0.5, lambda mu: np.full_like(mu, 0.25)),
    "poisson": (RATES, 1.0, lambda mu: mu),
    "bernoulli": (RATES / 10, 1.0, lambda mu: mu * (1 - mu)),
    "negative_binomial": (RATES, 2.0, lambda mu: mu + mu**2 / 2),
}


def blocks(problem):
    """Cells of every block."""
    K, L = problem.parameters.shape
    return [
        (k, l, problem.data[np.ix_(problem.row_labels == k, problem.column_labels == l)])
        for k in range(K)
        for l in range(L)
    ]


@pytest.mark.parametrize("family", FAMILIES)
def test_every_block_has_its_mean_and_variance(family):
    """About 200 x 100 cells a block: standard errors of mean and variance follow from its second and fourth moments; five."""
    mu, scale, variance = FAMILIES[family]
    problem = simulate_latent_blocks(400, 300, mu, family=family, scale=scale, random_state=0)
    for k, l, cells in blocks(problem):
        errors = np.array([cells.std(), ((cells - cells.mean()) ** 2).std()]) / np.sqrt(cells.size)
        assert abs(cells.mean() - mu[k, l]) <= 5 * errors[0]
        assert abs(cells.var() - variance(mu)[k, l]) <= 5 * errors[1]


def test_every_block_may_have_its_own_scale():
    scale = np.array([[1.0, 10.0]])
    problem = simulate_latent_blocks(100, 100, [[0.0, 0.0]], scale=scale, random_state=0)
    for k, l, cells in blocks(problem):  # 5000 cells: standard error 1 % of a standard deviation; five of them
        assert cells.std() == pytest.approx(scale[k, l], rel=0.05)


def test_balanced_sizes_are_exact_and_rounded_by_largest_remainder():
    problem = simulate_latent_blocks(
        10, 7, np.zeros((3, 2)), row_weights=[0.5, 0.3, 0.2], column_weights=[0.25, 0.75], random_state=0
    )
    assert np.bincount(problem.row_labels).tolist() == [5, 3, 2]
    assert np.bincount(problem.column_labels).tolist() == [2, 5]
    equal = simulate_latent_blocks(10, 9, np.zeros((3, 3)), random_state=0)
    assert np.bincount(equal.row_labels).tolist() == [4, 3, 3]
    assert np.bincount(equal.column_labels).tolist() == [3, 3, 3]


def test_multinomial_sizes_vary_about_the_weights():
    """Binomial standard deviation of 10 000 draws at .2: 40; five of them."""
    problem = simulate_latent_blocks(
        10_000, 1, np.zeros((2, 1)), row_weights=[0.2, 0.8], counts="multinomial", random_state=0
    )
    size = np.count_nonzero(problem.row_labels == 0)
    assert size != 2000
    assert abs(size - 2000) <= 200


@pytest.mark.parametrize("family", ["poisson", "negative_binomial"])
def test_exposures_multiply_the_means(family):
    """One block of mean 2: sums of 2000 cells a group; the variance of a cell is at most mu + mu^2 / 5."""
    a, b = np.repeat([0.0, 1.0, 3.0], 40), np.repeat([1.0, 0.5], 50)
    scale = 5.0 if family == "negative_binomial" else 1.0
    problem = simulate_latent_blocks(
        120, 100, [[2.0]], family=family, scale=scale, row_exposure=a, column_exposure=b, random_state=0
    )
    assert not problem.data[:40].any()
    for rows in (slice(40, 80), slice(80, 120)):
        for columns in (slice(0, 50), slice(50, 100)):
            cells, mean = problem.data[rows, columns], 2 * a[rows][0] * b[columns][0]
            assert cells.mean() == pytest.approx(mean, abs=5 * np.sqrt((mean + mean**2 / 5) / cells.size))


def test_a_large_dispersion_makes_a_poisson_count():
    """The variance mu + mu^2 / r at mu = 4, r = 1e9, from 40 000 cells: standard error 4 sqrt(2.25 / 40000) = .03; five."""
    problem = simulate_latent_blocks(200, 200, [[4.0]], family="negative_binomial", scale=1e9, random_state=0)
    assert problem.data.var() == pytest.approx(4, abs=0.15)


@pytest.mark.parametrize("family", FAMILIES)
def test_counts_are_integers_and_a_gaussian_is_not(family):
    mu, scale, _ = FAMILIES[family]
    problem = simulate_latent_blocks(6, 5, mu, family=family, scale=scale, random_state=0)
    assert problem.data.shape == (6, 5)
    assert problem.data.dtype == (np.float64 if family == "gaussian" else np.int64)
    assert problem.row_labels.dtype == problem.column_labels.dtype == np.int64


def test_a_seed_fixes_the_draws_and_another_changes_them():
    def draw(seed):
        return simulate_latent_blocks(20, 15, RATES, family="poisson", random_state=seed)

    first, again, other = draw(7), draw(np.random.default_rng(7)), draw(8)
    for key in ("data", "row_labels", "column_labels"):
        assert np.array_equal(first[key], again[key])
        assert not np.array_equal(first[key], other[key])


def test_rows_and_columns_come_in_random_order():
    problem = simulate_latent_blocks(200, 100, np.zeros((2, 2)), random_state=0)
    assert np.any(np.diff(problem.row_labels) < 0)
    assert np.any(np.diff(problem.column_labels) < 0)


def test_what_was_drawn_from_is_returned_in_full_and_is_not_the_callers_array():
    mu = RATES.copy()
    problem = simulate_latent_blocks(5, 4, mu, random_state=0)
    mu[:] = -1
    assert np.array_equal(problem.parameters, RATES)
    assert np.array_equal(problem.scale, np.ones((2, 3)))
    assert problem.row_weights.tolist() == [0.5, 0.5]
    assert problem.row_exposure.tolist() == [1] * 5
    assert problem.family == "gaussian"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_rows": 0}, "n_rows=0 must be an integer of at least 1"),
        ({"n_columns": 2.5}, r"n_columns=2\.5 must be an integer"),
        ({"parameters": [1.0, 2.0]}, r"parameters=\[1.0, 2.0\] must be a finite array of shape \(K, L\)"),
        ({"parameters": [[np.nan, 1.0]]}, r"parameters=\[\[nan, 1.0\]\] must be a finite"),
        ({"parameters": [[-1.0, 1.0]]}, "parameters has the rate -1; rates of the family 'poisson' must be non-neg"),
        ({"parameters": [[2.0, 1.0]], "family": "bernoulli"}, "must be probabilities, between 0 and 1"),
        ({"family": "normal"}, "family='normal' must be one of gaussian, poisson, bernoulli, negative_binomial"),
        ({"scale": 2.0}, r"scale=2\.0 has no meaning for family='poisson'; leave it out"),
        ({"scale": 0.0, "family": "gaussian"}, r"scale=0\.0 must be positive and finite"),
        ({"scale": [1.0, 2.0, 3.0], "family": "gaussian"}, r"scale=.* one for every block, \(1, 2\)"),
        ({"row_weights": [0.5, 0.5]}, r"row_weights of shape \(2,\) must have one weight for each of 1 clusters"),
        ({"column_weights": [0.5, 0.6]}, r"column_weights=\[0.5, 0.6\] must be .* sum to 1; divide"),
        ({"counts": "exact"}, "counts='exact' must be 'balanced' or 'multinomial'"),
        ({"row_exposure": [1.0]}, r"row_exposure of shape \(1,\) must be 4 non-negative finite numbers"),
        ({"column_exposure": [1.0, -1.0, 1.0]}, "column_exposure of shape .* must be 3 non-negative finite numbers"),
        (
            {"row_exposure": np.ones(4), "family": "gaussian"},
            "row_exposure is for counts, family poisson or negative_binomial, not 'gaussian'; leave it out",
        ),
    ],
)
def test_a_bad_parameter_is_named_with_its_rule(change, message):
    good = {"n_rows": 4, "n_columns": 3, "parameters": [[1.0, 2.0]], "family": "poisson"}
    with pytest.raises(ValueError, match=message):
        simulate_latent_blocks(**(good | change))
