"""Checks of a co-clustering's parameters and data: every message names the parameter, the value, the rule and the remedy."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from .._parameters import LARGEST, as_numbers, check_choice, check_integer, check_simplex
from .._typing import Floats, Integers
from ..block_families import BLOCK_FAMILIES, BlockFamily
from ..ot import ColumnRule, rule_for_tau
from .starts import METHODS


def check_options(estimator: Any) -> None:
    """Types and ranges of the scalar parameters."""
    for name in ("n_row_clusters", "n_column_clusters", "n_init", "max_iter"):
        check_integer(name, getattr(estimator, name), 1)
    verbose = estimator.verbose
    check_integer("verbose", int(verbose) if isinstance(verbose, bool) else verbose, 0)
    check_choice("init", estimator.init, METHODS)
    if not isinstance(estimator.tol, Real) or not float(estimator.tol) >= 0:
        raise ValueError(
            f"tol is {estimator.tol!r}; it must be a number >= 0: the gain, nats per cell, that ends the fit"
        )


def check_family(family: Any) -> BlockFamily:
    """The family, from its name or as it is."""
    if isinstance(family, BlockFamily):
        family.check()
        return family
    if isinstance(family, str) and family in BLOCK_FAMILIES:
        member: BlockFamily = BLOCK_FAMILIES[family]()
        return member
    if isinstance(family, type) and issubclass(family, BlockFamily):
        raise ValueError(f"family is the class {family.__name__}; it must be an object: {family.__name__}()")
    raise ValueError(
        f"family is {family!r}; it must be one of {sorted(BLOCK_FAMILIES)}, or an object of sinkhorn_em.block_families"
    )


def check_rules(tau: Any) -> tuple[ColumnRule, ColumnRule]:
    """What tau, or a pair for rows and columns, asks of the two sides."""
    values = np.asarray(as_numbers("tau", tau), float)
    if values.shape not in ((), (2,)) or not ((values >= 0) & (values <= 1)).all():
        raise ValueError(
            f"tau is {tau!r}; it must be a number in [0, 1], or a pair of them for rows and columns: 0 is variational EM, 1 holds "
            "the cluster sizes at the weights"
        )
    rows, columns = np.broadcast_to(values, 2)
    return rule_for_tau(float(rows)), rule_for_tau(float(columns))


def check_weights(name: str, weights: Any, K: int) -> tuple[Floats, bool]:
    """Weights (K,) that are prescribed, or uniform ones to begin with, and whether they are learned."""
    if isinstance(weights, str) and weights in ("learned", "uniform"):
        return np.full(K, 1 / K), weights == "learned"
    if isinstance(weights, str) or weights is None:
        raise ValueError(f"{name} is {weights!r}; it must be 'learned', 'uniform' or {K} weights, one per cluster")
    return check_simplex(name, weights, K, "cluster"), False


def check_temperatures(temperatures: Any) -> tuple[float, ...]:
    """Temperatures above 1, falling."""
    if temperatures is None:
        return ()
    values = np.atleast_1d(np.asarray(as_numbers("temperatures", temperatures), float))
    if values.ndim != 1 or not ((values > 1) & (values < np.inf)).all() or (np.diff(values) > 0).any():
        raise ValueError(
            f"temperatures is {temperatures!r}; it must be None or falling numbers above 1, such as (8, 4, 2)"
        )
    return tuple(values.tolist())


def check_sizes(shape: tuple[int, int], K: int, L: int) -> None:
    """Not more clusters than rows, or columns."""
    for name, size, found, n in (
        ("n_row_clusters", K, "rows, n_samples", shape[0]),
        ("n_column_clusters", L, "columns, n_features", shape[1]),
    ):
        if size > n:
            raise ValueError(
                f"{name} is {size} but X has {n} {found} = {n}: there must be at least as many; lower {name}"
            )


def split_missing(X: Any, mask: Any) -> tuple[Any, csr_array | None]:
    """X with 0 at the cells left out, those that are NaN or masked, and a matrix with a 1 at each; None if there are none."""
    left_out = None if mask is None else check_mask(mask, X.shape)
    if issparse(X):
        return _split_sparse(X, left_out)
    missing = np.isnan(X)
    if left_out is not None:
        missing |= left_out.toarray() if issparse(left_out) else left_out
    if not missing.any():
        return X, None
    if missing.all():
        raise ValueError("every cell of X is missing; at least one must be observed")
    return np.where(missing, 0.0, X).astype(X.dtype, copy=False), csr_array(missing.astype(float))


def _split_sparse(X: csr_array, left_out: Any) -> tuple[csr_array, csr_array | None]:
    """New matrices: the arrays of X are the caller's."""
    unknown = np.isnan(X.data)
    if left_out is None and not unknown.any():
        return X, None
    missing = csr_array((unknown.astype(float), X.indices, X.indptr), shape=X.shape, copy=True)
    missing.eliminate_zeros()
    if left_out is not None:
        missing = csr_array(missing + csr_array(left_out).astype(float))
        missing.eliminate_zeros()
    missing.data[:] = 1.0
    if missing.nnz == X.shape[0] * X.shape[1]:
        raise ValueError("every cell of X is missing; at least one must be observed")
    known = csr_array((np.where(unknown, 0.0, X.data), X.indices, X.indptr), shape=X.shape, copy=True)
    known.data[np.isin(_positions(known), _positions(missing), assume_unique=True)] = 0.0
    known.eliminate_zeros()
    return known, missing if missing.nnz else None


def _positions(X: csr_array) -> Integers:
    """Where the stored cells of X are in the matrix, read row by row."""
    rows = np.repeat(np.arange(X.shape[0], dtype=np.int64), np.diff(X.indptr))
    return rows * X.shape[1] + X.indices


def check_mask(mask: Any, shape: tuple[int, int]) -> Any:
    """A boolean array or sparse matrix of this shape."""
    mask = mask if issparse(mask) else np.asarray(mask)
    if mask.shape != shape:
        raise ValueError(f"mask has shape {mask.shape}; it must be {shape}, that of X: True where a cell is left out")
    if mask.dtype != np.bool_:
        raise ValueError(f"mask has dtype {mask.dtype}; it must be boolean: True where a cell is left out")
    return mask


def check_range(X: Any) -> None:
    """Squares of the observed cells must be representable."""
    values = X.data if issparse(X) else X
    if values.size and max(float(values.max()), -float(values.min())) > LARGEST:
        raise ValueError(
            f"X has infinite values, or values beyond {LARGEST:.0e}, whose squares are not representable: rescale it, or leave "
            "those cells out by a mask"
        )


def check_labels(name: str, labels: Any, n: int, K: int) -> Integers:
    """Starting labels (n,) in 0..K-1."""
    z = np.asarray(labels)
    if z.shape != (n,) or not np.issubdtype(z.dtype, np.integer):
        raise ValueError(
            f"{name} has shape {z.shape} and dtype {z.dtype}; it must be ({n},) integers from 0 to {K - 1}"
        )
    if z.min() < 0 or z.max() >= K:
        raise ValueError(f"{name} lie between {z.min()} and {z.max()}; they must be integers from 0 to {K - 1}")
    return z.astype(np.int64)
