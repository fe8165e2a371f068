"""What is asked of parameters that a caller gives: numbers, choices, weights and means."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np

from ._typing import Floats

SUM_TOLERANCE = 1e-8  # weights typed with eight digits still count as summing to one
SYMMETRY_TOLERANCE = 1e-8  # relative; room for a covariance computed in another order
LARGEST = 1e140  # of the data: squares, and sums of many of them, stay finite
WEIGHT_TOLERANCE = 1e-6  # weights of an estimator may be results of other computations
HALF = 2  # bytes
LISTED = 20  # numbers that a message repeats one by one


def is_tensor(value: Any) -> bool:
    """A torch tensor, found without importing torch."""
    return any(kind.__module__.partition(".")[0] == "torch" for kind in type(value).__mro__)


def as_array(X: Any) -> Any:
    """A tensor as an array, without its gradient, and without a copy if it lies in the memory of the host; or X, if it is none."""
    if not is_tensor(X):
        return X
    X = X.detach().cpu()
    half = X.is_floating_point() and X.element_size() <= HALF  # of which NumPy does not know all
    return (X.float() if half else X).numpy()


def check_integer(name: str, value: Any, least: int) -> None:
    """ValueError unless ``value`` is an integer of at least ``least``."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} is {value!r}; it must be an integer of at least {least}")


def check_choice(name: str, value: Any, choices: Any) -> None:
    """ValueError unless ``value`` is one of the names in ``choices``."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} is {value!r}; it must be one of {sorted(choices)}")


def as_numbers(name: str, value: Any) -> Any:
    """A float, or an array of them, on the host whatever device a tensor is on; ValueError for anything else."""
    try:
        numbers = as_array(value)
        return np.asarray(numbers, float) if np.ndim(numbers) else float(numbers)
    except (TypeError, ValueError, RuntimeError, AttributeError):  # the last two by what else torch has
        raise ValueError(f"{name} is {value!r}; it must be a number, or an array of numbers") from None


def check_simplex(name: str, weights: Any, K: int, of: str = "component") -> Floats:
    """Weights (K,) >= 0 that sum to 1."""
    w = np.asarray(as_numbers(name, weights), float)
    if w.shape != (K,):
        raise ValueError(f"{name} has shape {w.shape}; it must be ({K},), one weight per {of}")
    if not (w >= 0).all() or not abs(w.sum() - 1) <= WEIGHT_TOLERANCE:
        listed = w.tolist() if len(w) <= LISTED else f"{len(w)} numbers from {w.min():.3g} to {w.max():.3g}"
        raise ValueError(
            f"{name} is {listed}, with sum {w.sum():.6g}; weights must be >= 0 and sum to 1: divide by the sum"
        )
    return w / w.sum()


def valid_weights(weights: Any, name: str = "weights") -> Floats:
    """Weights (K,), scaled to sum exactly 1; ValueError if they are negative or sum to something else."""
    b = np.asarray(as_numbers(name, weights), dtype=np.float64)
    valid = b.ndim == 1 and b.size > 0 and np.all(b >= 0) and abs(b.sum() - 1) <= SUM_TOLERANCE
    if not valid:
        raise ValueError(
            f"{name}={weights!r} must be a vector of non-negative numbers that sum to 1; "
            "divide non-negative numbers by their sum."
        )
    return b / b.sum()


def valid_means(means: Any, n_components: int) -> Floats:
    """Means (K, d); ValueError if they are not finite, or not one for every weight."""
    mu = np.asarray(as_numbers("means", means), dtype=np.float64)
    if mu.ndim != 2 or len(mu) != n_components or mu.shape[1] == 0 or not np.all(np.isfinite(mu)):
        raise ValueError(
            f"means={mu.tolist()} must be a finite array of shape (K, d) with K = {n_components}, the length "
            "of weights; write one-dimensional means as a column, means[:, None]."
        )
    return mu
