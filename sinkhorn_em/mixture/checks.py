"""Checks of the estimator's parameters: every message names the parameter, the value, the rule and the remedy."""

from __future__ import annotations

import operator
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np

from .._kinds import on_device
from .._parameters import LARGEST, as_array, as_numbers, check_choice, check_integer, check_simplex
from .._typing import Booleans, Floats
from ..families.priors import InverseWishart, NormalInverseWishart, NormalPrior
from ..initialisation import METHODS
from ..ot import BoundedMass, ColumnRule, VirtualColumn, rule_for_tau
from ..weight_steps import MASSES, ExponentiatedGradient, WeightStep

#: how weights are learned, by name
WEIGHT_STEPS: dict[str, WeightStep] = {"learned": MASSES, "exponentiated_gradient": ExponentiatedGradient()}


def check_options(estimator: Any) -> None:
    """Types and ranges of the scalar parameters."""
    for name, least in (("n_components", 1), ("max_iter", 1), ("n_init", 1), ("verbose", 0), ("verbose_interval", 1)):
        value = getattr(estimator, name)
        check_integer(name, int(value) if name == "verbose" and isinstance(value, bool) else value, least)
    if not isinstance(estimator.tol, Real) or not float(estimator.tol) >= 0:
        raise ValueError(
            f"tol is {estimator.tol!r}; it must be a number >= 0: the gain in nats per row that ends the fit"
        )
    if not isinstance(estimator.covariance_type, str):
        raise ValueError(
            f"covariance_type is {estimator.covariance_type!r}; it must be the name of a structure, such as 'full'"
        )
    check_choice("init_params", estimator.init_params, METHODS)
    reg = estimator.reg_covar
    if not (isinstance(reg, str) and reg == "scale") and not (isinstance(reg, Real) and 0 <= float(reg) < np.inf):
        raise ValueError(
            f"reg_covar is {reg!r}; it must be 'scale' (relative to the data) or a number >= 0 added to variances"
        )
    noise = estimator.noise
    if noise is not None and noise != "estimate" and not (isinstance(noise, Real) and 0 < float(noise) < 1):
        raise ValueError(
            f"noise is {noise!r}; it must be None, 'estimate', or the share of noise, strictly between 0 and 1"
        )
    if noise == "estimate" and not learns(estimator.weights):
        raise ValueError(
            "noise is 'estimate' but weights are prescribed; give the share of noise as a number, or use weights='learned'"
        )


def check_rule(tau: Any, trim: float, size_bounds: Any, K: int, noise: bool = False) -> ColumnRule:
    """The column rule that tau, trim and size_bounds ask for; a noise column is held like the others, its size not bounded."""
    if size_bounds is not None:
        try:
            lower, upper = size_bounds
        except (TypeError, ValueError):
            raise ValueError(
                f"size_bounds is {size_bounds!r}; it must be a pair (lower, upper) of fractions, numbers or arrays (K,)"
            ) from None
        lower, upper = as_numbers("size_bounds", lower), as_numbers("size_bounds", upper)
        if noise:
            lower = np.append(np.broadcast_to(lower, (K,)), 0.0)
            upper = np.append(np.broadcast_to(upper, (K,)), 1.0)
        rule: ColumnRule = BoundedMass(lower, upper)
    else:
        numbers = as_numbers("tau", tau)
        rule = rule_for_tau(np.append(numbers, 1.0) if noise and np.ndim(numbers) else numbers)
    if not isinstance(trim, Real) or not 0 <= float(trim) < 1:
        raise ValueError(f"trim is {trim!r}; it must lie in [0, 1): the share of rows left out of the fit")
    if trim:
        rule = VirtualColumn(float(trim), rule)
    rule.check(K + noise)
    return rule


def check_weights(weights: Any, K: int) -> Floats | None:
    """Prescribed weights (K,), or None if they are learned."""
    if learns(weights):
        return None
    if isinstance(weights, str) and weights == "uniform":
        return np.full(K, 1 / K)
    if isinstance(weights, str) or weights is None:
        raise ValueError(
            f"weights is {weights!r}; it must be 'learned', 'uniform', 'exponentiated_gradient' or one weight per component"
        )
    return check_simplex("weights", weights, K)


def learns(weights: Any) -> bool:
    """Weights are to be learned: by name, or by a step of the user's."""
    return isinstance(weights, WeightStep) or (isinstance(weights, str) and weights in WEIGHT_STEPS)


def weight_step(weights: Any) -> WeightStep:
    """How weights move where they are learned."""
    if isinstance(weights, WeightStep):
        return weights
    return WEIGHT_STEPS[weights] if learns(weights) else MASSES


def check_weight_step(estimator: Any) -> None:
    """A step that needs held masses: one tau above 0 for all components, and no size bounds."""
    step = weight_step(estimator.weights)
    step.check()
    if not step.holds:
        return
    about = f"weights is {estimator.weights!r}, which moves them by the potentials of an E-step that holds the sizes at the weights"
    if estimator.size_bounds is not None:
        raise ValueError(
            f"size_bounds is {estimator.size_bounds!r}, but {about}: leave size_bounds out, or use 'learned'"
        )
    if np.ndim(estimator.tau) or not float(estimator.tau) > 0:
        raise ValueError(
            f"tau is {estimator.tau!r}, but {about}: give one tau above 0 for all, or use weights='learned'"
        )


def check_array(name: str, value: Any, shape: tuple[int, ...]) -> Floats:
    """A finite array of the given shape."""
    array = np.asarray(as_numbers(name, value), float)
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


def check_device(X: Any, family: Any) -> None:
    """ValueError if rows X lie in a tensor on a device where the family cannot be computed."""
    if not on_device(X):
        return
    if not family.takes_tensors:
        name = type(getattr(family, "generator", family)).__name__
        raise ValueError(
            f"X is a tensor on {X.device}, and the family {name}, in this form, is computed in the memory of the host only: pass "
            "X.cpu()"
        )
    if X.device.type == "mps":
        raise ValueError(f"X is a tensor on {X.device}, which has no float64 numbers: pass X.cpu()")


def check_sample_weight(sample_weight: Any, n: int) -> Floats:
    """Row masses (n,) of sum 1 from frequency weights."""
    if sample_weight is None:
        return np.full(n, 1 / n)
    w = np.asarray(as_array(sample_weight), np.float64)
    w = np.full(n, w) if w.ndim == 0 else w
    if w.shape != (n,):
        raise ValueError(f"sample_weight has shape {w.shape}; it must be ({n},), one weight per row of X")
    if not np.isfinite(w).all() or (w < 0).any():
        raise ValueError("sample_weight has negative or non-finite values; weights are frequencies: finite and >= 0")
    if not w.sum() > 0:
        raise ValueError("sample_weight sums to zero; at least one row must have a positive weight")
    return w / w.sum()


def total_frequency(sample_weight: Any, n: int) -> float:
    """Number of rows, or the total of their frequencies."""
    return float(
        n if sample_weight is None else np.broadcast_to(np.asarray(as_array(sample_weight), float), (n,)).sum()
    )


FROZEN = ("means", "covariances", "weights")


def check_frozen(estimator: Any) -> dict[str, Booleans | None]:
    """Which components have frozen means, covariances and weights: masks (K,), or None."""
    frozen, K = estimator.frozen, estimator.n_components
    masks: dict[str, Booleans | None] = dict.fromkeys(FROZEN)
    if frozen is None:
        return masks
    asked = {frozen: True} if isinstance(frozen, str) else frozen
    if not isinstance(asked, dict | list | tuple | set):
        raise ValueError(
            f"frozen is {frozen!r}; it must name some of {list(FROZEN)}, or be a dict of names and components"
        )
    asked = asked if isinstance(asked, dict) else dict.fromkeys(asked, True)
    sources = {"means": "means_init", "covariances": "precisions_init", "weights": "weights_init"}
    for name, which in asked.items():
        if name not in FROZEN:
            raise ValueError(f"frozen names {name!r}; it must name some of {list(FROZEN)}")
        if getattr(estimator, sources[name]) is None:
            raise ValueError(
                f"frozen: {name} are frozen but {sources[name]} is None; give the values they are frozen at there"
            )
        masks[name] = _mask(f"frozen[{name!r}]", which, K)
    if masks["weights"] is not None and not learns(estimator.weights):
        raise ValueError(
            f"frozen: weights are frozen but weights is {estimator.weights!r}; prescribed weights are frozen already"
        )
    return masks


def _mask(name: str, which: Any, K: int) -> Booleans:
    """A mask (K,) from True, a mask or component numbers."""
    if isinstance(which, bool | np.bool_) or (isinstance(which, str) and which == "all"):
        return np.full(K, bool(which))
    chosen = np.asarray(which, None if np.size(which) else np.int64)
    if chosen.dtype == bool and chosen.shape == (K,):
        return chosen
    if chosen.dtype.kind not in "iu" or chosen.ndim != 1 or ((chosen < 0) | (chosen >= K)).any():
        raise ValueError(
            f"{name} is {which!r}; it must be True, a mask of {K} booleans, or component numbers from 0 to {K - 1}"
        )
    mask = np.zeros(K, bool)
    mask[chosen] = True
    return mask


def check_prior(prior: Any) -> tuple[Any, ...]:
    """The priors, as a tuple."""
    if prior is None:
        return ()
    if isinstance(prior, str) and prior == "mclust":
        return (NormalInverseWishart(),)
    priors = tuple(prior) if isinstance(prior, list | tuple) else (prior,)
    kinds = [type(p) for p in priors]
    allowed = (
        [NormalPrior],
        [InverseWishart],
        [NormalInverseWishart],
        [NormalPrior, InverseWishart],
        [InverseWishart, NormalPrior],
    )
    if kinds not in allowed:
        raise ValueError(
            f"prior is {prior!r}; it must be 'mclust', a NormalPrior, InverseWishart or NormalInverseWishart of "
            "sinkhorn_em.families.priors, or the pair (NormalPrior, InverseWishart)"
        )
    return priors


def check_positive(name: str, value: Any) -> float:
    """A finite number above 0."""
    if not isinstance(value, Real) or not 0 < float(value) < np.inf:
        raise ValueError(f"{name} is {value!r}; it must be a positive number")
    return float(value)


def check_covariance(name: str, value: Any, d: int) -> Floats:
    """A positive-definite matrix (d, d) from one, from variances (d,) or from one variance."""
    S = np.asarray(as_numbers(name, value), float)
    if S.shape in ((), (d,)):
        S = np.diag(np.broadcast_to(S, (d,)))
    S = check_array(name, S, (d, d))
    if not np.allclose(S, S.T) or not (np.linalg.eigvalsh(S) > 0).all():
        raise ValueError(
            f"{name} is not symmetric and positive definite; it must be a covariance matrix, variances or a variance"
        )
    return S


def check_blocks(blocks: Any, d: int, names: Any) -> tuple[tuple[int, ...], ...]:
    """A partition of the features, by number or by name."""
    index = {} if names is None else {name: j for j, name in enumerate(names)}
    try:
        numbers = tuple(tuple(operator.index(index.get(feature, feature)) for feature in block) for block in blocks)
        if any(isinstance(feature, bool) for block in blocks for feature in block):
            raise TypeError
    except TypeError:
        raise ValueError(
            f"blocks is {blocks!r}; it must be a list of lists of features, by number or by name"
        ) from None
    if sorted(j for block in numbers for j in block) != list(range(d)) or not all(numbers):
        raise ValueError(
            f"blocks is {blocks!r}; every one of the {d} features (0 to {d - 1}) must be in exactly one block"
        )
    return numbers


def check_bounds(name: str, bounds: Any, n_blocks: int) -> tuple[tuple[float, float], ...]:
    """One pair (lower, upper) for every block of features."""
    try:
        pairs = np.asarray(bounds, float)
    except (TypeError, ValueError):
        pairs = np.empty(0)
    pairs = np.repeat(pairs[None], n_blocks, axis=0) if pairs.shape == (2,) else pairs
    if pairs.shape != (n_blocks, 2):
        raise ValueError(
            f"{name} is {bounds!r}; it must be a pair (lower, upper), or one pair for each of {n_blocks} blocks"
        )
    if not ((pairs[:, 0] >= 0) & (pairs[:, 0] <= pairs[:, 1]) & (pairs[:, 1] > 0)).all():
        raise ValueError(
            f"{name} is {bounds!r}; it must satisfy 0 <= lower <= upper and 0 < upper, in squared units of the data"
        )
    return tuple((float(low), float(high)) for low, high in pairs)


def check_precisions(precisions: Any, structure: Any, K: int, d: int) -> Floats:
    """Covariances from precisions in the shape of the structure."""
    P = check_array("precisions_init", precisions, structure.shape(K, d))
    _check_off_blocks("precisions_init", P, structure)
    if not structure.full:
        if not (P > 0).all():
            raise ValueError("precisions_init must be positive")
        return 1 / P
    if not np.allclose(P, np.swapaxes(P, -1, -2)) or not (np.linalg.eigvalsh(P) > 0).all():
        raise ValueError("precisions_init must be symmetric and positive-definite matrices")
    return np.asarray(np.linalg.inv(P), np.float64)


def check_scales(values: Any, structure: Any, K: int, d: int) -> Floats:
    """Scale matrices in the shape of the structure, positive definite."""
    S = check_array("covariances", values, structure.shape(K, d))
    _check_off_blocks("covariances", S, structure)
    definite = (np.linalg.eigvalsh(S) > 0).all() if structure.full else (S > 0).all()
    if not definite or (structure.full and not np.allclose(S, np.swapaxes(S, -1, -2))):
        raise ValueError("covariances must be symmetric and positive definite: some are not")
    return S


def _check_off_blocks(name: str, S: Floats, structure: Any) -> None:
    """Matrices of a block-diagonal structure are zero off its blocks."""
    blocks = getattr(structure, "blocks", ())
    within = np.zeros(S.shape[-2:], bool) if blocks else np.ones((), bool)
    for block in blocks:
        within[np.ix_(block, block)] = True
    if (np.where(within, 0.0, S) != 0).any():
        raise ValueError(f"{name} is not zero between the blocks {[list(b) for b in blocks]}: set those entries to 0")


def check_shapes(generator: Any, shapes: dict[str, Any], K: int) -> None:
    """Shape parameters given by name: known to the generator, and in their range."""
    unknown = sorted(set(shapes) - set(generator.shape_names))
    if unknown:
        raise ValueError(
            f"{unknown[0]} is neither an option of the class nor a shape parameter of {type(generator).__name__}, which has "
            f"{list(generator.shape_names)}"
        )
    missing = sorted(set(generator.shape_names) - set(shapes)) if generator.estimates_shape else []
    if missing:
        raise ValueError(
            f"{missing[0]} is missing; {type(generator).__name__} would estimate it, but there are no rows to estimate it from: "
            f"give it by name, {missing[0]}=..."
        )
    if shapes and not any(isinstance(value, str) for value in shapes.values()):
        replace(generator, **shapes).check(K)
    for name, value in shapes.items():
        given = getattr(generator, name)
        if isinstance(value, str) or (not isinstance(given, str) and not np.all(np.equal(given, value))):
            raise ValueError(f"{name} is {value!r}, but the family says {name}={given!r}: give numbers, in one place")
