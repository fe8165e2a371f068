"""Clusterings of rows and columns against the truth: the same numbers as for the explicit labels of all cells."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from sinkhorn_em.metrics import coclustering_ari, coclustering_nmi

few = settings(max_examples=60, deadline=None, derandomize=True)
ROUNDING = 1e-12  # sums of at most a few hundred terms of order 1; information of at least 1e-4 or exactly 0
SCORES = [coclustering_ari, coclustering_nmi]


@st.composite
def coclusterings(draw):
    """True and found clusters of rows and columns; few rows and clusters, so that trivial ones are drawn often."""
    n, m = draw(st.integers(1, 9)), draw(st.integers(1, 9))
    return tuple(draw(st.lists(st.integers(0, 3), min_size=size, max_size=size)) for size in (n, m, n, m))


def cells(row_labels, column_labels):
    """Labels of the n m cells."""
    rows, columns = (np.unique(labels, return_inverse=True)[1] for labels in (row_labels, column_labels))
    return (rows[:, None] * (columns.max() + 1) + columns).ravel()


def random_problem(seed, n=30, m=20):
    rng = np.random.default_rng(seed)
    return rng.integers(4, size=n), rng.integers(3, size=m), rng.integers(5, size=n), rng.integers(2, size=m)


@few
@given(coclusterings())
def test_the_index_is_the_adjusted_rand_index_of_the_cells(problem):
    expected = adjusted_rand_score(cells(*problem[:2]), cells(*problem[2:]))
    assert coclustering_ari(*problem) == pytest.approx(expected, abs=ROUNDING)


@pytest.mark.parametrize("average_method", ["arithmetic", "geometric", "min", "max"])
@few
@given(problem=coclusterings())
def test_the_information_is_that_of_the_cells(average_method, problem):
    true, found = cells(*problem[:2]), cells(*problem[2:])
    expected = normalized_mutual_info_score(true, found, average_method=average_method)
    assert coclustering_nmi(*problem, average_method) == pytest.approx(expected, abs=ROUNDING)


@few
@given(problem=coclusterings())
def test_true_blocks_under_other_names_score_one(problem):
    row_true, column_true, _, _ = problem
    row_names, column_names = np.array(list("dbca"))[row_true], -np.array(column_true)
    assert coclustering_ari(row_true, column_true, row_names, column_names) == 1
    assert coclustering_nmi(row_true, column_true, row_names, column_names) == pytest.approx(1, abs=ROUNDING)


@pytest.mark.parametrize("score", SCORES)
@few
@given(problem=coclusterings())
def test_scores_are_symmetric_in_truth_and_clustering_and_in_rows_and_columns(score, problem):
    row_true, column_true, row_labels, column_labels = problem
    value = pytest.approx(score(*problem), abs=ROUNDING)
    assert score(row_labels, column_labels, row_true, column_true) == value
    assert score(column_true, row_true, column_labels, row_labels) == value


@pytest.mark.parametrize("score", SCORES)
def test_the_order_of_rows_and_columns_does_not_matter(score):
    row_true, column_true, row_labels, column_labels = random_problem(0)
    i, j = np.random.default_rng(1).permutation(30), np.random.default_rng(2).permutation(20)
    moved = score(row_true[i], column_true[j], row_labels[i], column_labels[j])
    assert moved == pytest.approx(score(row_true, column_true, row_labels, column_labels), abs=ROUNDING)


def test_with_one_cluster_of_one_column_the_scores_are_those_of_the_rows():
    row_true, _, row_labels, _ = random_problem(3)
    expected = adjusted_rand_score(row_true, row_labels)
    assert coclustering_ari(row_true, [0], row_labels, [7]) == pytest.approx(expected, abs=ROUNDING)
    expected = normalized_mutual_info_score(row_true, row_labels)
    assert coclustering_nmi(row_true, [0], row_labels, [7]) == pytest.approx(expected, abs=ROUNDING)


def test_independent_clusterings_have_an_index_near_zero():
    """Of 400 x 300 cells in 4 x 3 blocks: the standard deviation over seeds is below .002; five of them."""
    row_true, column_true, row_labels, column_labels = random_problem(4, 400, 300)
    assert abs(coclustering_ari(row_true, column_true, row_labels, column_labels)) < 0.01


def test_one_block_tells_nothing_of_several():
    zeros = np.zeros(4, int)
    several = ([0, 0, 1, 1], [0, 1, 1, 1], zeros, zeros)
    assert coclustering_ari(*several) == 0
    assert coclustering_nmi(*several) == 0
    assert coclustering_nmi(*several, "min") == 0  # the smaller entropy is 0, and nothing is divided by it


def test_one_block_against_one_block_is_right():
    zeros = np.zeros(4, int)
    assert coclustering_ari(zeros, zeros, zeros, zeros) == 1
    assert coclustering_nmi(zeros, zeros, zeros, zeros) == 1


def test_exactly_independent_rows_and_columns_share_no_information():
    crossed = ([0, 0, 1, 1, 2, 2], [0, 0, 1, 1], [0, 1, 0, 1, 0, 1], [0, 1, 0, 1])
    assert coclustering_nmi(*crossed) == 0


def test_a_million_rows_and_columns_do_not_overflow():
    """Two halves, one row moved: P, P_true and P_found by hand, in integers of any length."""
    n = 10**6
    halves = np.repeat([0, 1], n // 2)
    moved = halves.copy()
    moved[0] = 1
    h = n // 2
    rows_both, rows_found = (h - 1) ** 2 + 1 + h**2, (h - 1) ** 2 + (h + 1) ** 2
    columns = rows_true = 2 * h**2
    both, true, found = ((s * columns - n**2) // 2 for s in (rows_both, rows_true, rows_found))
    pairs = n**2 * (n**2 - 1) // 2
    expected = 2 * (both * pairs - true * found) / ((true + found) * pairs - 2 * true * found)
    assert coclustering_ari(halves, halves, moved, halves) == expected
    assert 0 < 1 - expected < 1e-5
    assert coclustering_ari(halves, halves, halves, halves) == 1


@pytest.mark.parametrize("clusters", [10, 100_000])
def test_ten_thousand_million_cells_take_the_memory_of_their_labels(clusters):
    """Labels of n = m = 100 000 are 0.8 MB each; the cells would be 80 GB. Also with as many clusters as rows."""
    rng = np.random.default_rng(0)
    labels = rng.integers(clusters, size=(4, 100_000))
    tracemalloc.start()
    try:
        index = coclustering_ari(*labels)
        information = coclustering_nmi(*labels)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert abs(index) < 0.01
    assert 0 < information < 1
    assert peak < 50e6  # some sixty arrays of 0.8 MB


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({0: [0, 1]}, "row_true has 2 rows and row_labels 3; pass one label for every row"),
        ({3: [0]}, "column_true has 2 columns and column_labels 1; pass one label for every column"),
        ({1: [], 3: []}, r"column_true has the shape \(0,\); it must be a vector of at least one label"),
        ({2: [[0, 1, 2]]}, r"row_labels has the shape \(1, 3\); it must be a vector"),
        ({3: [0, np.nan]}, "column_labels has NaN in 1 rows"),
    ],
)
def test_bad_labels_are_named(score, change, message):
    labels = [[0, 0, 1], [0, 1], [0, 1, 1], [0, 1]]
    for k, value in change.items():
        labels[k] = value
    with pytest.raises(ValueError, match=message):
        score(*labels)


def test_an_unknown_average_is_named():
    with pytest.raises(ValueError, match="average_method='mean' must be one of arithmetic, geometric, min, max"):
        coclustering_nmi([0], [0], [0], [0], "mean")
