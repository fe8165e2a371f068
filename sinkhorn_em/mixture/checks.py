"""Checks of the estimator's parameters: every message names the parameter, the value, the rule and the remedy."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np

from .._typing import Floats
from ..families.covariances import STRUCTURES
from ..initialisation import METHODS
from ..ot import BoundedMass, ColumnRule, VirtualColumn, rule_for_tau

WEIGHT_TOLERANCE = 1e-6
LARGEST = 1e140  # of the data: squares, and sums of many of them, stay finite


def check_options(estimator: Any) -> None:
    """Types and ranges of the scalar parameters."""
    for name, least in (("n_components", 1), ("max_iter", 1), ("n_init", 1), ("verbose", 0), ("verbose_interval", 1)):
        value = getattr(estimator, name)
        if not isinstance(value, Integral) or (isinstance(value, bool) and name != "verbose") or value < least:
            raise ValueError(f"{name} is {value!r}; it must be an integer of at least {least}")
    if not isinstance(estimator.tol, Real) or not float(estimator.tol) >= 0:
        raise ValueError(
            f"tol is {estimator.tol!r}; it must be a number >= 0: the gain in nats per row that ends the fit"
        )
    _one_of("covariance_type", estimator.covariance_type, STRUCTURES)
    _one_of("init_params", estimator.init_params, METHODS)
    reg = estimator.reg_covar
    if not (isinstance(reg, str) and reg == "scale") and not (isinstance(reg, Real) and 0 <= float(reg) < np.inf):
        raise ValueError(
            f"reg_covar is {reg!r}; it must be 'scale' (relative to the data) or a number >= 0 added to variances"
        )


def _one_of(name: str, value: Any, choices: Any) -> None:
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} is {value!r}; it must be one of {sorted(choices)}")


def check_rule(tau: Any, trim: float, size_bounds: Any, K: int) -> ColumnRule:
    """The column rule that tau, trim and size_bounds ask for."""
    if size_bounds is not None:
        try:
            lower, upper = size_bounds
        except (TypeError, ValueError):
            raise ValueError(
                f"size_bounds is {size_bounds!r}; it must be a pair (lower, upper) of fractions, numbers or arrays (K,)"
            ) from None
        rule: ColumnRule = BoundedMass(_numbers("size_bounds", lower), _numbers("size_bounds", upper))
    else:
        rule = rule_for_tau(_numbers("tau", tau))
    if not isinstance(trim, Real) or not 0 <= float(trim) < 1:
        raise ValueError(f"trim is {trim!r}; it must lie in [0, 1): the share of rows left out of the fit")
    if trim:
        rule = VirtualColumn(float(trim), rule)
    rule.check(K)
    return rule


def _numbers(name: str, value: Any) -> Any:
    try:
        return np.asarray(value, float) if np.ndim(value) else float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name} is {value!r}; it must be a number, or one number per component") from None


def check_weights(weights: Any, K: int) -> Floats | None:
    """Prescribed weights (K,), or None if they are learned."""
    if isinstance(weights, str):
        if weights == "learned":
            return None
        if weights == "uniform":
            return np.full(K, 1 / K)
        raise ValueError(f"weights is {weights!r}; it must be 'learned', 'uniform' or one weight per component")
    if weights is None:
        raise ValueError("weights is None; it must be 'learned', 'uniform' or one weight per component")
    return check_simplex("weights", weights, K)


def check_simplex(name: str, weights: Any, K: int) -> Floats:
    """Weights (K,) >= 0 that sum to 1."""
    w = np.asarray(_numbers(name, weights), float)
    if w.shape != (K,):
        raise ValueError(f"{name} has shape {w.shape}; it must be ({K},), one weight per component")
    if not (w >= 0).all() or not abs(w.sum() - 1) <= WEIGHT_TOLERANCE:
        raise ValueError(
            f"{name} is {w.tolist()}, with sum {w.sum():.6g}; weights must be >= 0 and sum to 1: divide by the sum"
        )
    return w / w.sum()


def check_array(name: str, value: Any, shape: tuple[int, ...]) -> Floats:
    """A finite array of the given shape."""
    array = np.asarray(_numbers(name, value), float)
    if array.shape != shape:
        raise ValueError(f"{name} has shape {array.shape}; it must be {shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} has values that are not finite; remove or replace them")
    return array


def check_range(X: Any) -> None:
    """Squares of the data must be representable: ValueError naming the feature otherwise."""
    low, high = X.min(axis=0).astype(np.float64), X.max(axis=0).astype(np.float64)
    size, spread = np.maximum(np.abs(low), np.abs(high)), high / 2 - low / 2
    bad = (size > LARGEST) | ((spread > 0) & (spread < 1 / LARGEST))
    if bad.any():
        j = int(np.argmax(bad))
        raise ValueError(
            f"feature {j} of X lies between {low[j]:.3g} and {high[j]:.3g}; its squares are not representable: rescale it to a "
            f"spread between {1 / LARGEST:.0e} and {LARGEST:.0e}"
        )


def check_sample_weight(sample_weight: Any, n: int) -> Floats:
    """Row masses (n,) of sum 1 from frequency weights."""
    if sample_weight is None:
        return np.full(n, 1 / n)
    w = np.asarray(sample_weight, np.float64)
    w = np.full(n, w) if w.ndim == 0 else w
    if w.shape != (n,):
        raise ValueError(f"sample_weight has shape {w.shape}; it must be ({n},), one weight per row of X")
    if not np.isfinite(w).all() or (w < 0).any():
        raise ValueError("sample_weight has negative or non-finite values; weights are frequencies: finite and >= 0")
    if not w.sum() > 0:
        raise ValueError("sample_weight sums to zero; at least one row must have a positive weight")
    return w / w.sum()
