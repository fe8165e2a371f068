"""The transport value of a batch as a differentiable loss."""

from __future__ import annotations

from numbers import Real
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from .._parameters import check_choice, check_integer
from ..ot import ColumnRule
from ..ot.checks import check_rule
from ..ot.newton import Tolerances
from ..ot.solve import RELATIVE_TOLERANCE
from ..ot.tensors import Reduction, solve_rows
from ..ot.tensors.newton import CONVERGED, Solution
from ..ot.tensors.solve import TOLERANCES, Rows, check_potentials, check_problem
from . import gradients
from .gradients import Envelope, Implicit, Problem

MODES = ("relative", "absolute")
VALUES = ("entropic", "sharp")
GRADIENTS = ("envelope", "implicit", "unrolled")
SMALL_EPSILON = 1e-3  # relative to the mean cost: below it scores are kept in float64
WEIGHT_TOLERANCE = 1e-4  # of the sum of weights, which may come from a softmax in single precision
MAX_PASSES = 200
UNROLLED_ITERATIONS = 50


class TransportValue(NamedTuple):
    """The loss and what is known of its plan, for the leading dimensions ``...`` of the cost; all but ``value`` are detached."""

    #: (...) the loss, in the units of the cost, differentiable
    value: Tensor
    #: (..., K) column potentials g, nats (one more with a virtual column): a warm start for the next batch
    potentials: Tensor
    #: (..., K) mass that each column receives
    column_mass: Tensor
    #: (...) residual: sum |c - t|
    marginal_error: Tensor
    #: (...) passes over the scores
    n_passes: Tensor
    #: (...) mean entropy of a row of the plan, nats: 0 for hard assignments, log K for none
    plan_entropy: Tensor
    #: (...) the regularisation that was used, in the units of the cost
    epsilon: Tensor
    #: (...) the residual is within the tolerance
    converged: Tensor


def transport_loss(
    cost: Tensor,
    weights: Any = None,
    *,
    epsilon: float = 0.05,
    epsilon_mode: str = "relative",
    value: str = "entropic",
    gradient: str = "envelope",
    rule: str | ColumnRule = "fixed",
    tau: Any = None,
    row_mass: Any = None,
    potentials: Tensor | None = None,
    tol: float | None = None,
    max_passes: int = MAX_PASSES,
    iterations: int = UNROLLED_ITERATIONS,
    reduction: Reduction | None = None,
) -> TransportValue:
    r"""Entropic transport of the rows of a batch onto K columns, as a loss.

    .. math:: \min_{P \ge 0,\ P 1 = a}\ \langle P, C\rangle + \epsilon KL(P | a w^T) + \epsilon \sum_k \rho_k KL(P_{.k} | w_k)

    (``value="entropic"``) or the cost :math:`\langle P, C\rangle` of its solution ("sharp"). Under the "free" rule P is the row
    softmax: "entropic" is then the soft k-means of a mixture with derivative P, "sharp" that of deep k-means, with derivative
    :math:`P_{ik}(1 - (C_{ik} - \bar C_i)/\epsilon)`.

    Parameters
    ----------
    cost : Tensor (..., m, K)
        Costs of m rows and K columns; +inf forbids a pair. Half precision is raised to float32, and float32 to float64 where
        epsilon is below 1e-3 of the mean cost; autocast is left aside.
    weights : Tensor or array (K,) or (..., K), optional
        Column masses w >= 0 of sum 1; default uniform. Differentiated on the simplex.
    epsilon : float
        Regularisation, times the mean finite cost of each problem (taken as a constant) if ``epsilon_mode`` is "relative", else in
        the units of the cost.
    epsilon_mode : "relative" or "absolute"
    value : "entropic" or "sharp"
    gradient : "envelope", "implicit" or "unrolled"
        "envelope" (entropic only): dL/dC = P, no second derivatives (they raise). "implicit": one K x K solve, exact for both
        values, any number of times. "unrolled": through ``iterations`` plain scaling iterations, about 2 x iterations x m x K
        numbers of memory; for comparison with earlier work only.
    rule, tau : as in `sinkhorn_em.solve_plan`
        What is asked of the column masses; rho = tau/(1 - tau) is in units of epsilon.
    row_mass : Tensor or array (m,), optional
        Masses of the rows, default uniform.
    potentials : Tensor (..., K), optional
        Warm start, nats: ``potentials`` of an earlier result.
    tol : float, optional
        Largest residual sum |c - t|; default 1e-9 in float64, 1e-6 in float32.
    max_passes : int
        Passes over the batch; a loss that has not converged then says so in ``converged``.
    iterations : int
        Of "unrolled".
    reduction : callable, optional
        Sums a tensor over the processes that hold the other rows (see `sinkhorn_em.deep.distributed`).

    Returns
    -------
    TransportValue

    Raises
    ------
    ValueError
        NaN or -inf costs, weights that do not sum to one, options that break their rule or do not go together.
    InfeasibleMarginalsError
        Forbidden pairs contradict the weights.

    References
    ----------
    Genevay, Dulac-Arnold & Vert 2019 (the loss); Fard, Thonet & Gaussier 2018 (deep k-means); Cuturi & Peyre 2018 (semi-dual);
    Luise et al. 2018 (derivative of the sharp value).

    Examples
    --------
    >>> import torch
    >>> from sinkhorn_em.deep import transport_loss
    >>> z = torch.tensor([[0.0], [1.0], [4.0], [5.0]], requires_grad=True)
    >>> cost = (z - torch.tensor([0.5, 4.5])) ** 2
    >>> result = transport_loss(cost, epsilon=0.1)
    >>> result.value.backward()
    >>> z.grad.T.round(decimals=3)
    tensor([[-0.2500,  0.2500, -0.2500,  0.2500]])
    """
    _check_options(cost, epsilon, epsilon_mode, value, gradient)
    check_integer("max_passes", max_passes, 1)
    check_integer("iterations", iterations, 1)
    *batch, m, K = cost.shape
    with torch.autocast(cost.device.type, enabled=False):
        C, eps = _working(cost, float(epsilon), epsilon_mode)
        C = C.reshape(-1, m, K)
        w = _weights(weights, K, tuple(batch), cost.device)
        law = check_rule(rule, tau, K)
        with torch.no_grad():
            S = -C.detach() / eps[:, None, None].to(C.dtype)
            shaped = S.reshape(*batch, m, K)
            rows = check_problem(shaped, row_mass, w.detach().reshape(*batch, K), law)
            start = check_potentials(potentials, rows.column_mass, tuple(batch))
            accuracy = TOLERANCES[C.dtype] if tol is None else _positive("tol", tol)
            limit = Tolerances(accuracy, RELATIVE_TOLERANCE * accuracy, max_passes=max_passes)
            solution = solve_rows(rows, start, limit, reduction)
        problem = Problem(rows.row_mass, eps, rows.tensor_rule, K)
        b = problem.rule.extend(w)
        loss = _value(C, b, solution, problem, value, gradient, iterations)
        return _dress(rows, solution, problem, batch)._replace(value=loss.reshape(batch))


def _value(
    C: Tensor, b: Tensor, solution: Solution, problem: Problem, value: str, gradient: str, iterations: int
) -> Tensor:
    """The loss of every problem, (B,)."""
    if gradient == "envelope":
        return Envelope.apply(C, b, solution.potentials, solution.value, problem)
    if gradient == "implicit":
        g = Implicit.apply(C, b, solution.potentials, problem)
        dual = value == "entropic"
    else:
        g = gradients.unrolled(C, b, torch.zeros_like(b), problem, iterations)
        dual = False
    if dual:
        return gradients.dual_value(C, b, g, problem).to(C.dtype)
    if value == "entropic":
        return gradients.primal_value(C, b, g, problem).to(C.dtype)
    return gradients.sharp_value(C, gradients.plan(C, b, g, problem)[0], problem).to(C.dtype)


@torch.no_grad()
def _dress(rows: Rows, s: Solution, problem: Problem, batch: list[int]) -> TransportValue:
    """What is known of the plans, without the loss."""
    R = gradients.kernel.responsibilities(rows.scores, torch.log(rows.column_mass) + s.potentials)
    entropy = (torch.special.entr(R).sum(2) * rows.row_mass).sum(1)

    def back(x: Tensor) -> Tensor:
        return x.reshape((*batch, *x.shape[1:]))

    return TransportValue(
        value=back(s.value),
        potentials=back(torch.where(rows.column_mass > 0, s.potentials, -torch.inf)),
        column_mass=back(s.mass),
        marginal_error=back(s.marginal_error),
        n_passes=back(s.n_passes),
        plan_entropy=back(entropy),
        epsilon=back(problem.epsilon),
        converged=back(s.status == CONVERGED),
    )


class TransportLoss(nn.Module):
    """`transport_loss` with settings and a warm start of its own, for K columns.

    The potentials of the last batch start the next one's solver; they are part of ``state_dict``.

    Parameters
    ----------
    n_columns : int
        K.
    weights : array (K,), optional
        Column masses, default uniform; `forward` may be given others.
    **options
        Of `transport_loss`: epsilon, epsilon_mode, value, gradient, rule, tau, tol, max_passes, iterations.

    Attributes
    ----------
    potentials : Tensor
        (K,), nats, or (K + 1,) with a virtual column.
    result : TransportValue or None
        Of the last call: residual, passes, plan entropy.
    """

    potentials: Tensor
    weights: Tensor

    def __init__(self, n_columns: int, weights: Any = None, **options: Any) -> None:
        super().__init__()
        check_integer("n_columns", n_columns, 1)
        law = check_rule(options.get("rule", "fixed"), options.get("tau"), n_columns)
        with torch.no_grad():
            w = _weights(weights, n_columns, (), torch.device("cpu"))[0]
        _check_options(
            torch.zeros(1, n_columns),
            options.get("epsilon", 0.05),
            options.get("epsilon_mode", "relative"),
            options.get("value", "entropic"),
            options.get("gradient", "envelope"),
        )
        self.options = options
        self.register_buffer("weights", w)
        self.register_buffer("potentials", torch.zeros(len(law.extend(w.numpy())), dtype=torch.float64))
        self.result: TransportValue | None = None

    def forward(self, cost: Tensor, weights: Any = None, row_mass: Any = None) -> Tensor:
        """The loss (...) of costs (..., m, K)."""
        w = self.weights if weights is None else weights
        warm = torch.where(torch.isfinite(self.potentials), self.potentials, 0.0)
        self.result = transport_loss(cost, w, row_mass=row_mass, potentials=warm, **self.options)
        g = self.result.potentials
        self.potentials = g if g.ndim == 1 else g.reshape(-1, g.shape[-1]).mean(0)
        return self.result.value


def _check_options(cost: Any, epsilon: Any, mode: Any, value: Any, gradient: Any) -> None:
    if not isinstance(cost, Tensor) or not cost.is_floating_point() or cost.ndim < 2 or 0 in cost.shape:
        shape = tuple(cost.shape) if isinstance(cost, Tensor) else type(cost).__name__
        raise ValueError(
            f"cost is {shape}; it must be a floating-point tensor (..., m, K) with at least one row and one column"
        )
    _positive("epsilon", epsilon)
    check_choice("epsilon_mode", mode, MODES)
    check_choice("value", value, VALUES)
    check_choice("gradient", gradient, GRADIENTS)
    if value == "sharp" and gradient == "envelope":
        raise ValueError(
            "gradient is 'envelope' and value is 'sharp'; the envelope theorem holds for the entropic value only: use "
            "gradient='implicit', which costs one K x K solve, or value='entropic'"
        )


def _positive(name: str, value: Any) -> float:
    if not isinstance(value, Real) or isinstance(value, bool) or not 0 < float(value) < float("inf"):
        raise ValueError(f"{name} is {value!r}; it must be a positive finite number")
    return float(value)


def _working(cost: Tensor, epsilon: float, mode: str) -> tuple[Tensor, Tensor]:
    """Costs in the precision they are worked on in, and epsilon (B,) in their units."""
    C = cost if cost.dtype in TOLERANCES else cost.float()
    *_, m, K = C.shape
    flat = C.detach().reshape(-1, m, K)
    finite = torch.isfinite(flat)
    mean = torch.where(finite, flat, 0.0).sum((1, 2), dtype=torch.float64) / finite.sum((1, 2)).clamp(min=1)
    lowest, least, size = torch.stack([flat.amin().double(), mean.min(), mean.abs().max()]).tolist()
    if not lowest > -float("inf"):  # NaN fails, too
        where = tuple(int(i) for i in torch.nonzero(~(cost > -torch.inf))[0])
        raise ValueError(f"cost{list(where)} is {float(cost[where])}; costs must be finite, or +inf to forbid a pair")
    if mode == "absolute":
        eps = torch.full_like(mean, epsilon)
    elif least < 0:
        raise ValueError(
            f"cost has mean {least:.6g}; epsilon_mode='relative' needs a positive mean: use epsilon_mode='absolute', or add a "
            "constant to the cost"
        )
    else:  # where all costs are 0, any epsilon gives the same plan
        eps = epsilon * torch.where(mean > 0, mean, 1.0)
    relative = epsilon if mode == "relative" else epsilon / size if size > 0 else 1.0
    return (C.double() if relative < SMALL_EPSILON else C), eps


def _weights(weights: Any, K: int, batch: tuple[int, ...], device: torch.device) -> Tensor:
    """Column masses (B, K) in float64, of sum 1, differentiable in the weights given."""
    B = 1
    for size in batch:
        B *= size
    if weights is None:
        return torch.full((B, K), 1 / K, dtype=torch.float64, device=device)
    w = torch.as_tensor(weights, device=device).double()
    if tuple(w.shape) not in ((K,), (*batch, K)):
        raise ValueError(f"weights has shape {tuple(w.shape)}; it must be ({K},), one for each column of the cost")
    total = w.sum(-1, keepdim=True)
    with torch.no_grad():
        good = bool(((w >= 0) & torch.isfinite(w)).all()) and bool(((total - 1).abs() <= WEIGHT_TOLERANCE).all())
    if not good:
        raise ValueError(
            f"weights is {w.tolist() if K <= 20 else '(of many columns)'}; weights must be finite, not negative, and sum to one: "
            "divide them by their sum"
        )
    return (w / total).expand(*batch, K).reshape(B, K)


__all__ = ["TransportLoss", "TransportValue", "transport_loss"]
