"""One-to-one matchings of found clusters to true classes, from the table that counts both."""

from __future__ import annotations

from collections.abc import Collection
from numbers import Number
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from .._parameters import as_array
from .._typing import Integers


class Matching(NamedTuple):
    """The table of classes against clusters, and which cluster each class has to itself."""

    truth: Integers  # (n,) numbers of the sorted classes
    found: Integers  # (n,) numbers of the sorted clusters
    counts: Integers  # (C, K) rows of every class in every cluster
    cluster_of_class: Integers  # (C,) -1: no cluster to itself
    class_of_cluster: Integers  # (K,) -1: no class to itself

    @property
    def right(self) -> Integers:
        """Rows (C,) of every class that are in its cluster; 0 for a class without one."""
        own = self.cluster_of_class
        return np.where(own >= 0, self.counts[np.arange(len(own)), own], 0)

    @property
    def cluster_sizes(self) -> Integers:
        """Rows (C,) of the cluster of every class; 0 for a class without one."""
        own = self.cluster_of_class
        return np.where(own >= 0, self.counts.sum(axis=0)[own], 0)


def match_clusters(y_true: Any, labels: Any) -> Matching:
    """The matching with the most rows right; of several such, the one with the largest mean recall.

    Without the second rule measures other than the number of right rows would depend on the names of the clusters.
    """
    truth, found = label_codes(y_true, "y_true"), label_codes(labels, "labels")
    if len(truth) != len(found):
        raise ValueError(f"y_true has {len(truth)} rows and labels {len(found)}; pass one label for every row.")
    counts = np.zeros((truth.max() + 1, found.max() + 1), dtype=np.int64)
    np.add.at(counts, (truth, found), 1)
    C, K = counts.shape
    recall = counts / counts.sum(axis=1, keepdims=True)
    of_class, of_cluster = np.full(C, -1), np.full(K, -1)
    classes, clusters = linear_sum_assignment(
        counts + recall / (C + 1), maximize=True
    )  # recalls add to less than a row
    of_class[classes], of_cluster[clusters] = clusters, classes
    return Matching(truth, found, counts, of_class, of_cluster)


def label_codes(labels: Any, name: str) -> Integers:
    """Labels as numbers 0, 1, ... in sorted order."""
    return distinct(labels, name)[1]


def distinct(labels: Any, name: str) -> tuple[Any, Integers]:
    """The sorted values of a vector of labels, and the number of each label among them."""
    array = _vector(labels, name)
    missing = np.array([_is_missing(value) for value in array]) if array.dtype == object else array != array
    if missing.any():  # NaN, and NaT, differ from themselves
        what = "None or NaN" if array.dtype == object else "NaN"
        raise ValueError(f"{name} has {what} in {missing.sum()} rows; drop them, or give them a label.")
    if array.dtype == object:
        _check_sorts(array, name)
    return np.unique(array, return_inverse=True)


def _vector(labels: Any, name: str) -> Any:
    """A vector of labels as they were given: NumPy by itself would write numbers and None beside strings as strings."""
    given = as_array(labels)
    try:
        array = np.asarray(given)
    except ValueError as error:
        raise ValueError(f"{name} is not a vector of labels: {error}") from None
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{name} has the shape {array.shape}; it must be a vector of at least one label.")
    written = array.dtype.kind in "US" and not hasattr(given, "dtype") and not all(isinstance(v, str) for v in given)
    return np.array(given, dtype=object) if written else array


def _is_missing(value: Any) -> bool:
    """None, NaN, NaT, or pandas' NA."""
    try:
        return value is None or bool(value != value)
    except TypeError:  # nothing is known of NA, not even this
        return True


def _check_sorts(array: Any, name: str) -> None:
    """ValueError unless labels are all strings, or all numbers, or all of some other type that has an order."""
    sorts = {_sort(value) for value in array}
    if len(sorts) > 1:
        kinds = sorted({type(value).__name__ for value in array})
        raise ValueError(f"{name} mixes labels of the types {', '.join(kinds)}; let all be of one type.")
    if isinstance(array[0], Collection) and not isinstance(array[0], str | bytes):
        raise ValueError(f"{name} has labels of the type {sorts.pop()}; they must be numbers, strings or booleans.")


def _sort(value: Any) -> str:
    """What may be compared with what."""
    if isinstance(value, Number | np.bool_):
        return "number"
    return "str" if isinstance(value, str) else type(value).__name__
