"""Clusterings against known classes: what share of the rows, or of every class, is in the right cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from .._typing import Floats, Integers
from .matching import Matching, distinct, match_clusters

if TYPE_CHECKING:
    from pandas import DataFrame


class ClusteringScores(NamedTuple):
    """A clustering in five numbers, each at most 1, which is reached when clusters are the classes under other names."""

    accuracy: float  # `clustering_accuracy`
    balanced_accuracy: float  # `balanced_clustering_accuracy`
    macro_f1: float  # `macro_f1`
    normalized_mutual_info: float  # I / ((H_true + H_found) / 2), the arithmetic average
    adjusted_rand: float  # 0 on average for independent clusters, and negative below that


def clustering_accuracy(y_true: Any, labels: Any) -> float:
    r"""Share of the rows that are right under the best one-to-one matching of labels to classes.

    .. math:: \max_{\pi} \frac1n \#\{i : y_i = \pi(\text{label}_i)\}

    over one-to-one maps pi, by the Hungarian method. There may be more labels than classes, or fewer: rows of a label that
    has no class to itself are wrong.

    Parameters
    ----------
    y_true : array (n,)
        Classes: numbers, strings or booleans.
    labels : array (n,)
        Clusters: numbers, strings or booleans, not necessarily those of the classes.

    Returns
    -------
    accuracy : float
        In (0, 1]; 1 when the clusters are the classes under other names.

    Raises
    ------
    ValueError
        If the lengths differ, there are no rows, a label is NaN or None, or strings are mixed with numbers.

    References
    ----------
    Kuhn 1955 (the Hungarian method).
    """
    return _accuracy(match_clusters(y_true, labels))


def balanced_clustering_accuracy(y_true: Any, labels: Any) -> float:
    r"""Mean over classes of the share of its rows that are right, under the matching of `clustering_accuracy`.

    .. math:: \frac1C \sum_{c=1}^C \frac{\#\{i : y_i = c,\ \pi(\text{label}_i) = c\}}{\#\{i : y_i = c\}}

    The matching pi maximises the number of right rows, not this mean, as is usual where it is reported; only among several
    that have the most rows right it is the one with the largest mean. A class without a cluster to itself counts as 0, so
    that with K clusters and C > K classes the value is at most K / C.

    Parameters
    ----------
    y_true : array (n,)
        Classes: numbers, strings or booleans.
    labels : array (n,)
        Clusters, as many as they may be.

    Returns
    -------
    accuracy : float
        In (0, 1]; that of `clustering_accuracy` where classes have equal numbers of rows.

    Raises
    ------
    ValueError
        As `clustering_accuracy`.

    References
    ----------
    Zhang, Ren & He 2024, ICLR (long-tailed classes, where overall accuracy says little of the rare ones).
    """
    return _balanced_accuracy(match_clusters(y_true, labels))


def macro_f1(y_true: Any, labels: Any) -> float:
    r"""Mean over classes of F1, under the matching of `clustering_accuracy`.

    .. math:: \frac1C \sum_{c=1}^C \frac{2\, n_{c \pi(c)}}{n_{c \cdot} + n_{\cdot \pi(c)}}

    with n the table of classes against clusters: the harmonic mean of recall, the share of the class that is in its cluster,
    and precision, the share of the cluster that is of its class. A class without a cluster to itself counts as 0; clusters
    without a class lower the recalls of the classes that they take rows from.

    Parameters
    ----------
    y_true : array (n,)
        Classes: numbers, strings or booleans.
    labels : array (n,)
        Clusters, as many as they may be.

    Returns
    -------
    f1 : float
        In (0, 1].

    Raises
    ------
    ValueError
        As `clustering_accuracy`.
    """
    return float(_f1(match_clusters(y_true, labels)).mean())


def clustering_scores(y_true: Any, labels: Any) -> ClusteringScores:
    """Accuracy, balanced accuracy, macro F1, normalised mutual information and adjusted Rand index of a clustering.

    The first three share one matching of clusters to classes; the mutual information is divided by the arithmetic average of
    the two entropies, as is scikit-learn's default.

    Parameters
    ----------
    y_true : array (n,)
        Classes: numbers, strings or booleans.
    labels : array (n,)
        Clusters, as many as they may be.

    Returns
    -------
    scores : ClusteringScores
        ``scores._asdict()`` is the row of a table.

    Raises
    ------
    ValueError
        As `clustering_accuracy`.
    """
    matching = match_clusters(y_true, labels)
    return ClusteringScores(
        _accuracy(matching),
        _balanced_accuracy(matching),
        float(_f1(matching).mean()),
        float(normalized_mutual_info_score(matching.truth, matching.found, average_method="arithmetic")),
        float(adjusted_rand_score(matching.truth, matching.found)),
    )


def clustering_report(y_true: Any, labels: Any) -> DataFrame:
    """Every class, and how much of it its cluster holds, under the matching of `clustering_accuracy`.

    Parameters
    ----------
    y_true : array (n,)
        Classes: numbers, strings or booleans.
    labels : array (n,)
        Clusters, as many as they may be.

    Returns
    -------
    report : DataFrame
        A row for each class, sorted, with columns ``class``; ``n``, its rows; ``cluster``, the one matched to it, None
        where there is none left; ``cluster_size``; ``recall``, share of the class that is in the cluster; ``precision``,
        share of the cluster that is of the class, NaN where there is no cluster; ``f1``, their harmonic mean, 0 where
        there is no cluster. The mean of ``recall`` is `balanced_clustering_accuracy`, that of ``f1`` `macro_f1`.

    Raises
    ------
    ValueError
        As `clustering_accuracy`.
    """
    import pandas as pd  # here: only this function makes a table

    matching = match_clusters(y_true, labels)
    clusters = distinct(labels, "labels")[0].tolist()
    own, sizes = matching.cluster_of_class, matching.cluster_sizes
    names = [clusters[k] if k >= 0 else None for k in own]
    precision = np.where(own >= 0, matching.right / np.maximum(sizes, 1), np.nan)
    return pd.DataFrame(
        {
            "class": distinct(y_true, "y_true")[0],
            "n": matching.counts.sum(axis=1),
            "cluster": pd.Series(names, dtype=object if None in names else None),
            "cluster_size": sizes,
            "recall": _recall(matching),
            "precision": precision,
            "f1": _f1(matching),
        }
    )


def matched_labels(y_true: Any, labels: Any) -> Integers:
    """Labels as numbers of the classes that they match best, one to one: the matching of `clustering_accuracy`.

    Parameters
    ----------
    y_true : array (n,)
        Classes.
    labels : array (n,)
        Clusters.

    Returns
    -------
    matched : ndarray (n,) of int
        Positions among the sorted classes; -1 for clusters that have no class to themselves.

    Raises
    ------
    ValueError
        As `clustering_accuracy`.
    """
    matching = match_clusters(y_true, labels)
    return matching.class_of_cluster[matching.found]


def _accuracy(matching: Matching) -> float:
    return float(matching.right.sum() / len(matching.truth))


def _balanced_accuracy(matching: Matching) -> float:
    return float(_recall(matching).mean())


def _recall(matching: Matching) -> Floats:
    return matching.right / matching.counts.sum(axis=1)


def _f1(matching: Matching) -> Floats:
    return 2 * matching.right / (matching.counts.sum(axis=1) + matching.cluster_sizes)
