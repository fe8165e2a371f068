"""Counts of genes in spots of a tissue: names of the cortical layers, and the choice of genes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from .._typing import Floats, Integers

LAYERS = ("L1", "L2", "L3", "L4", "L5", "L6", "WM")  # from the surface inwards; white matter
UNLABELLED = ("", "NA", "nan", "None", "<NA>")  # what R, NumPy, Python and pandas write for a missing label
LAYER = re.compile(r"(?:layer[ _]?|l)([1-6])", re.IGNORECASE)


class Spots(NamedTuple):
    """A section of tissue: n spots, p genes."""

    counts: Any  # (n, p) sparse rows of int64
    genes: Any  # (p,) str
    barcodes: Any  # (n,) str
    coordinates: Any  # (n, 2) row and column
    layers: Any  # (n,) str, "" where unlabelled


def integer_counts(matrix: Any, origin: str) -> Any:
    """Sparse rows of int64; ValueError if a value is negative, infinite, NaN or no whole number."""
    sparse = csr_matrix(matrix)
    if not np.all((sparse.data >= 0) & np.isfinite(sparse.data) & (sparse.data == np.rint(sparse.data))):
        raise ValueError(f"{origin} has values that are no whole numbers from 0 up; counts are needed, not logarithms.")
    counts = sparse.astype(np.int64)
    counts.sort_indices()
    return counts


def layer_names(labels: Iterable[Any], origin: str) -> Any:
    """Labels such as Layer1, layer_1, L1, WM and NaN as names among LAYERS, and "" for the missing."""
    labels = [str(label).strip() for label in labels]
    names: dict[str, str] = dict.fromkeys(UNLABELLED, "") | {"WM": "WM"}
    for label in set(labels) - names.keys():
        match = LAYER.fullmatch(label)
        if match is None:
            raise ValueError(
                f"{origin} has the label {label!r}; layers are named Layer1 to Layer6, L1 to L6, WM or NA."
            )
        names[label] = f"L{match[1]}"
    return np.array([names[label] for label in labels], dtype="<U2")


def most_dispersed(spots: Spots, n_genes: int | None) -> Spots:
    """The genes whose counts have the largest ratio of variance to mean, in the order of the file; all if there are no more."""
    if n_genes is not None and (not isinstance(n_genes, Integral) or n_genes < 1):
        raise ValueError(f"n_genes={n_genes!r} must be an integer of at least 1, or None for all genes.")
    if n_genes is None or n_genes >= len(spots.genes):
        return spots
    order = np.argsort(-dispersion(spots.counts), kind="stable")
    kept = np.sort(order[:n_genes])
    return spots._replace(counts=spots.counts[:, kept], genes=spots.genes[kept])


def dispersion(counts: Any) -> Floats:
    """Variance over mean of every column; 0 for a column of zeros. Sums are integers, so that nothing cancels."""
    n = counts.shape[0]
    total: Integers = np.asarray(counts.sum(axis=0)).ravel()
    squares: Integers = np.asarray(counts.multiply(counts).sum(axis=0)).ravel()
    return (n * squares - total**2) / np.maximum(n * total, 1)  # where the total is 0, the numerator is
