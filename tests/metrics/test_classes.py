"""Clusterings against classes: one matching, and what share of the rows, or of every class, it puts right."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import (
    adjusted_rand_score,
    balanced_accuracy_score,
    f1_score,
    normalized_mutual_info_score,
    precision_score,
    recall_score,
)

from sinkhorn_em.metrics import (
    ClusteringScores,
    balanced_clustering_accuracy,
    clustering_accuracy,
    clustering_report,
    clustering_scores,
    macro_f1,
    matched_labels,
)

few = settings(max_examples=25, deadline=None, derandomize=True)
seeds = st.integers(0, 10**6)
sizes = st.integers(1, 6)
ROUNDING = 1e-14  # means of at most six quotients

# classes a (6 rows), b (3), c (1); cluster 0 holds aaaab, cluster 1 holds aabb, cluster 2 holds c
Y = [*"aaaab", *"aabb", *"c"]
LABELS = [0] * 5 + [1] * 4 + [2]


def draws(seed, C, K):
    rng = np.random.default_rng(seed)
    return rng.choice(C, 60, p=rng.dirichlet(np.ones(C))), rng.integers(K, size=60)


def test_a_table_that_can_be_counted_by_hand():
    assert clustering_accuracy(Y, LABELS) == (4 + 2 + 1) / 10
    assert balanced_clustering_accuracy(Y, LABELS) == pytest.approx((4 / 6 + 2 / 3 + 1) / 3, abs=ROUNDING)
    assert macro_f1(Y, LABELS) == pytest.approx((8 / 11 + 4 / 7 + 1) / 3, abs=ROUNDING)


def test_the_report_of_that_table_says_of_every_class_what_became_of_it():
    report = clustering_report(Y, LABELS)
    assert report["class"].tolist() == ["a", "b", "c"]
    assert report["n"].tolist() == [6, 3, 1]
    assert report["cluster"].tolist() == [0, 1, 2]
    assert report["cluster_size"].tolist() == [5, 4, 1]
    np.testing.assert_allclose(report["recall"], [4 / 6, 2 / 3, 1], rtol=ROUNDING)
    np.testing.assert_allclose(report["precision"], [4 / 5, 2 / 4, 1], rtol=ROUNDING)
    np.testing.assert_allclose(report["f1"], [8 / 11, 4 / 7, 1], rtol=ROUNDING)


def test_a_rare_class_that_is_lost_costs_balanced_accuracy_as_much_as_a_frequent_one():
    y, labels = np.repeat([0, 1], [99, 1]), np.zeros(100)
    assert clustering_accuracy(y, labels) == 0.99
    assert balanced_clustering_accuracy(y, labels) == 0.5
    assert macro_f1(y, labels) == pytest.approx((2 * 99 / 199) / 2, abs=ROUNDING)


def test_the_matching_maximises_right_rows_and_the_mean_recall_only_where_these_are_equal():
    y, labels = np.repeat([0, 1], [20, 2]), np.repeat([0, 1], [9, 13])  # cluster 1: 11 rows of class 0, all of class 1
    assert clustering_accuracy(y, labels) == 11 / 22  # 11 + 0, or 9 + 2
    assert balanced_clustering_accuracy(y, labels) == pytest.approx((9 / 20 + 2 / 2) / 2, abs=ROUNDING)
    y, labels = np.append(y, 0), np.append(labels, 1)  # 12 + 0, or 9 + 2
    assert clustering_accuracy(y, labels) == 12 / 23
    assert balanced_clustering_accuracy(y, labels) == pytest.approx((12 / 21 + 0 / 2) / 2, abs=ROUNDING)


def test_balanced_accuracy_is_that_of_scikit_learn_once_clusters_have_the_names_of_classes():
    y, labels = np.repeat([0, 1, 2, 3], [100, 60, 30, 10]), np.random.default_rng(0).integers(4, size=200)
    expected = balanced_accuracy_score(y, matched_labels(y, labels))
    assert balanced_clustering_accuracy(y, labels) == pytest.approx(expected, abs=ROUNDING)


@few
@given(seeds, sizes, sizes)
def test_after_the_matching_all_is_as_scikit_learn_computes_it(seed, C, K):
    y, labels = draws(seed, C, K)
    y = np.unique(y, return_inverse=True)[1]
    matched, classes = matched_labels(y, labels), np.unique(y)
    own = {"labels": classes, "average": None, "zero_division": 0}
    assert clustering_accuracy(y, labels) == pytest.approx(np.mean(y == matched), abs=ROUNDING)
    assert macro_f1(y, labels) == pytest.approx(f1_score(y, matched, **own | {"average": "macro"}), abs=ROUNDING)
    report = clustering_report(y, labels)
    np.testing.assert_allclose(report["recall"], recall_score(y, matched, **own), atol=ROUNDING)
    np.testing.assert_allclose(report["precision"].fillna(0), precision_score(y, matched, **own), atol=ROUNDING)
    np.testing.assert_allclose(report["f1"], f1_score(y, matched, **own), atol=ROUNDING)


@few
@given(seeds, sizes, sizes)
def test_neither_names_nor_the_order_of_rows_matter(seed, C, K):
    y, labels = draws(seed, C, K)
    rng = np.random.default_rng(seed)
    rows, classes, clusters = rng.permutation(len(y)), rng.permutation(C), rng.permutation(K)
    names = np.array(["delta", "alpha", "echo", "bravo", "foxtrot", "charlie"])
    for measure in (clustering_accuracy, balanced_clustering_accuracy):
        assert measure(names[classes[y]], 10 - clusters[labels]) == pytest.approx(measure(y, labels), abs=ROUNDING)
        assert measure(y[rows], labels[rows]) == measure(y, labels)
    assert macro_f1(y[rows], labels[rows]) == macro_f1(y, labels)


def test_names_of_clusters_do_not_matter_to_macro_f1_where_one_matching_is_best():
    y, labels = np.array(Y), np.array(LABELS)
    for names in ([2, 0, 1], [1, 2, 0], [0, 2, 1]):
        assert macro_f1(y, np.array(names)[labels]) == pytest.approx(macro_f1(y, labels), abs=ROUNDING)


@few
@given(seeds, sizes, sizes)
def test_measures_of_a_table_are_means_of_its_columns(seed, C, K):
    y, labels = draws(seed, C, K)
    report = clustering_report(y, labels)
    assert report["recall"].mean() == pytest.approx(balanced_clustering_accuracy(y, labels), abs=ROUNDING)
    assert report["f1"].mean() == pytest.approx(macro_f1(y, labels), abs=ROUNDING)
    right = (report["recall"] * report["n"]).sum() / len(y)
    assert right == pytest.approx(clustering_accuracy(y, labels), abs=ROUNDING)


def test_classes_without_a_cluster_are_in_the_report_and_count_as_zero():
    y, labels = ["a", "a", "a", "b", "b", "c"], ["x"] * 3 + ["y"] * 2 + ["y"]
    report = clustering_report(y, labels).set_index("class")
    assert report["cluster"].tolist() == ["x", "y", None]
    assert report["cluster_size"].tolist() == [3, 3, 0]
    assert report.loc["c", ["recall", "f1"]].tolist() == [0, 0]
    assert math.isnan(report.loc["c", "precision"])
    assert balanced_clustering_accuracy(y, labels) == pytest.approx(2 / 3, abs=ROUNDING)
    assert macro_f1(y, labels) == pytest.approx((1 + 4 / 5 + 0) / 3, abs=ROUNDING)


def test_rows_of_clusters_without_a_class_are_lost_to_their_classes():
    y, labels = [0, 0, 0, 0, 1, 1], [5, 5, 5, 7, 9, 9]
    assert clustering_report(y, labels)["cluster"].tolist() == [5, 9]
    assert balanced_clustering_accuracy(y, labels) == (3 / 4 + 1) / 2
    assert macro_f1(y, labels) == pytest.approx((6 / 7 + 1) / 2, abs=ROUNDING)


def test_with_equal_classes_balanced_accuracy_is_accuracy():
    y, labels = np.repeat(np.arange(5), 40), np.random.default_rng(0).integers(7, size=200)
    assert balanced_clustering_accuracy(y, labels) == pytest.approx(clustering_accuracy(y, labels), abs=ROUNDING)


def test_the_classes_under_other_names_score_one_throughout():
    assert clustering_scores(["b", "b", "c", "a"], [7, 7, 9, 3]) == ClusteringScores(1, 1, 1, 1, 1)


def test_scores_are_those_of_the_functions_and_of_scikit_learn():
    y, labels = draws(3, 5, 7)
    scores = clustering_scores(y, labels)
    assert scores.accuracy == clustering_accuracy(y, labels)
    assert scores.balanced_accuracy == balanced_clustering_accuracy(y, labels)
    assert scores.macro_f1 == macro_f1(y, labels)
    assert scores.normalized_mutual_info == pytest.approx(
        normalized_mutual_info_score(y, labels, average_method="arithmetic"), abs=ROUNDING
    )
    assert scores.adjusted_rand == pytest.approx(adjusted_rand_score(y, labels), abs=ROUNDING)
    assert all(type(value) is float for value in scores)


@pytest.mark.parametrize(
    "measure", [clustering_accuracy, balanced_clustering_accuracy, macro_f1, clustering_scores, clustering_report]
)
@pytest.mark.parametrize(
    ("y", "labels", "message"),
    [
        ([0, 1], [0], "y_true has 2 rows and labels 1"),
        ([0.0, np.nan], [0, 1], "y_true has NaN in 1 rows"),
        ([0, 1], [np.nan, np.nan], "labels has NaN in 2 rows"),
        ([], [], "at least one label"),
        ([0, 1], [[0, 1]], "labels has the shape .1, 2."),
        (["a", None], [0, 1], "y_true has None or NaN in 1 rows"),
        ([None], [0], "y_true has None or NaN in 1 rows"),
        ([1, None], [0, 1], "y_true has None or NaN in 1 rows"),
        (["a", np.nan], [0, 1], "y_true has None or NaN in 1 rows"),  # NumPy alone makes it the string "nan"
        (np.array(["a", None, np.nan], object), [0, 1, 2], "y_true has None or NaN in 2 rows"),
        (pd.Series(["a", pd.NA], dtype="string"), [0, 1], "y_true has None or NaN in 1 rows"),
        ([0, 1, 2], [1, "a", 2], "labels mixes labels of the types int, str; let all be of one type"),
        ([0, 1], (True, "a"), "labels mixes labels of the types bool, str"),
        (np.array([1, "a"], object), [0, 1], "y_true mixes labels of the types int, str"),
        (["a", b"b"], [0, 1], "y_true mixes labels of the types bytes, str"),
        ([{1}, {2}], [0, 1], "y_true has labels of the type set; they must be numbers, strings or booleans"),
        ([[1, 2], [3]], [0, 1], "y_true is not a vector of labels"),
        ("ab", [0, 1], "y_true has the shape"),
    ],
)
def test_labels_that_cannot_be_compared_are_refused(measure, y, labels, message):
    with pytest.raises(ValueError, match=message):
        measure(y, labels)


@pytest.mark.parametrize(
    "y",
    [
        [True, 2, 2.5],
        np.array([True, np.int64(2), 2.5], object),
        ["a", np.str_("b"), "c"],
        np.array(["a", "b", "c"], object),
        pd.Series(["a", "b", "c"], dtype="string"),
        pd.Categorical(["a", "b", "c"]),
        [b"a", b"b", b"c"],
        np.array(["2020-01-01", "2020-01-02", "2020-01-03"], "datetime64[D]"),
    ],
    ids=str,
)
def test_labels_that_have_an_order_are_taken(y):
    assert clustering_accuracy(y, [7, 8, 9]) == 1


def test_labels_may_be_tensors():
    torch = pytest.importorskip("torch")
    y = torch.tensor([0.0, 1.0, 1.0], dtype=torch.bfloat16, requires_grad=True)
    assert clustering_accuracy(y, torch.tensor([3, 5, 5])) == 1
