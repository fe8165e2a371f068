"""What is asked of the arguments of a transport loss, and the form in which it works on them."""

from __future__ import annotations

from numbers import Real
from typing import Any

import torch
from torch import Tensor

from .._parameters import check_choice
from ..ot.tensors import Reduction
from ..ot.tensors.problem import TOLERANCES

MODES = ("relative", "absolute")
VALUES = ("entropic", "sharp")
GRADIENTS = ("envelope", "implicit", "unrolled")
SMALL_EPSILON = 1e-3  # relative to the mean cost: below it scores are kept in float64
LEAST = {dtype: torch.finfo(dtype).tiny for dtype in TOLERANCES}  # numbers below have no inverse, or an inexact one
WEIGHT_TOLERANCE = 1e-4  # of the sum of weights, which may come from a softmax in single precision


def check_options(epsilon: Any, mode: Any, value: Any, gradient: Any) -> None:
    """ValueError for options that break their rule, or do not go together."""
    if check_positive("epsilon", epsilon) < LEAST[torch.float64]:
        raise ValueError(
            f"epsilon is {epsilon!r}; it must be at least {LEAST[torch.float64]:.3g}, for 1/epsilon to be finite: 0.05 of the "
            "mean cost is the default"
        )
    check_choice("epsilon_mode", mode, MODES)
    check_choice("value", value, VALUES)
    check_choice("gradient", gradient, GRADIENTS)
    if value == "sharp" and gradient == "envelope":
        raise ValueError(
            "gradient is 'envelope' and value is 'sharp'; the envelope theorem holds for the entropic value only: use "
            "gradient='implicit', which costs one K x K solve, or value='entropic'"
        )


def check_positive(name: str, value: Any) -> float:
    """A positive finite number."""
    if not isinstance(value, Real) or isinstance(value, bool) or not 0 < float(value) < float("inf"):
        raise ValueError(f"{name} is {value!r}; it must be a positive finite number")
    return float(value)


def check_cost(cost: Any) -> Tensor:
    """Costs (..., m, K), half precision raised to float32."""
    if not isinstance(cost, Tensor) or not cost.is_floating_point() or cost.ndim < 2 or 0 in cost.shape:
        got = f"a tensor {tuple(cost.shape)} of {cost.dtype}" if isinstance(cost, Tensor) else type(cost).__name__
        raise ValueError(
            f"cost is {got}; it must be a floating-point tensor (..., m, K) with at least one row and one column"
        )
    return cost if cost.dtype in TOLERANCES else cost.float()


def cost_moments(C: Tensor) -> Tensor:
    """Sums of the finite costs, of their absolute values, and their number, (3, B); ValueError for NaN and -inf."""
    flat = C.detach().reshape(-1, *C.shape[-2:])
    total, size = flat.sum((1, 2)).double(), torch.linalg.vector_norm(flat, 1, (1, 2)).double()
    number = torch.full_like(total, flat.shape[1] * flat.shape[2])
    if not bool(torch.isfinite(size).all()):  # some are infinite or NaN, or the sum is too large for single precision
        bad = ~(flat > -torch.inf)
        if bool(bad.any()):
            where = tuple(int(i) for i in torch.nonzero(bad.reshape(C.shape))[0])
            raise ValueError(f"cost{list(where)} is {float(C[where])}; costs must be finite, or +inf to forbid a pair")
        finite = torch.isfinite(flat)
        kept = torch.where(finite, flat, 0.0)
        total, size = kept.sum((1, 2), dtype=torch.float64), kept.abs().sum((1, 2), dtype=torch.float64)
        number = finite.sum((1, 2)).double()
    return torch.stack([total, size, number])


def working_precision(C: Tensor, moments: Tensor, epsilon: float, mode: str) -> tuple[Tensor, Tensor]:
    """Costs in the precision they are worked on in, and epsilon (B,) in their units."""
    mean, size = moments[:2] / moments[2].clamp(min=1)
    absolute = mode == "absolute"
    # where all costs are 0, any epsilon gives the same plan
    eps = torch.full_like(mean, epsilon) if absolute else epsilon * torch.where(mean > 0, mean, 1.0)
    extremes = [mean.min(), torch.where(mean <= 0, size, 0.0).max(), size.max(), eps.min(), eps.max()]
    least, least_size, largest, low, high, score = torch.stack([*extremes, (moments[1] / eps).max()]).tolist()
    if least_size > 0 and not absolute:
        raise ValueError(
            f"cost has mean {least:.6g}; epsilon_mode='relative' needs a positive mean: use epsilon_mode='absolute', or add a "
            "constant to the cost"
        )
    # no score is larger than this sum of all
    representable = LEAST[torch.float64] <= low and high < torch.inf and score < torch.inf
    if not representable:
        raise ValueError(
            f"epsilon is {epsilon!r}, {mode}, and the costs are {largest:.3g} on average: cost/epsilon, epsilon or its inverse is "
            "not representable; take epsilon nearer to the costs, or rescale both"
        )
    relative = (epsilon / largest if largest > 0 else 1.0) if absolute else epsilon
    single = relative >= SMALL_EPSILON and LEAST[torch.float32] <= low and high * LEAST[torch.float32] <= 1
    return (C if single else C.double()), eps


def column_weights(weights: Any, K: int, batch: tuple[int, ...], device: torch.device) -> Tensor:
    """Column masses (B, K) in float64, of sum 1, differentiable in the positive ones of the weights given."""
    if weights is None:
        return torch.full((torch.Size(batch).numel(), K), 1 / K, dtype=torch.float64, device=device)
    w = torch.as_tensor(weights, device=device).double()
    if tuple(w.shape) not in ((K,), (*batch, K)):
        raise ValueError(f"weights has shape {tuple(w.shape)}; it must be ({K},), one for each column of the cost")
    with torch.no_grad():
        total = w.sum(-1)
        good = bool((((w >= 0) & torch.isfinite(w)).all(-1) & ((total - 1).abs() <= WEIGHT_TOLERANCE)).all())
    if not good:
        listed = w.tolist() if w.numel() <= 20 else f"of {w.numel()} numbers"
        raise ValueError(
            f"weights is {listed}, with sum {total.flatten()[0].item():.6g}; weights must be finite, not negative, and sum to "
            "one: divide them by their sum"
        )
    w = torch.where(w > 0, w, 0.0)  # a column of mass 0 stays out, and has derivative 0
    return (w / w.sum(-1, keepdim=True)).expand(*batch, K).reshape(-1, K)


def check_processes(reduction: Reduction | None, gradient: str) -> None:
    """ValueError for a derivative that does not cross processes."""
    if reduction is not None and gradient == "unrolled":
        raise ValueError(
            "gradient is 'unrolled' and reduction is given; iterations are not differentiated across processes: use "
            "gradient='envelope' or 'implicit'"
        )
