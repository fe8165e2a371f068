"""The terms of the loss of one batch, for S members at once."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..ot.checks import check_rule
from ..ot.tensors import Reduction
from ..ot.tensors.columns import tensor_rule
from ..ot.tensors.precision import product
from . import gradients
from .distributed import row_share
from .gradients import Problem
from .loss import transport_loss
from .options import Options
from .state import State

LARGEST_ASCENT = 1.0  # nats that a shared potential moves in one batch


class Terms(NamedTuple):
    """Of S members, (S,) each; the first is differentiable."""

    value: Tensor
    marginal_error: Tensor
    n_passes: Tensor
    plan_entropy: Tensor
    epsilon: Tensor
    potentials: Tensor  # (S, K')


def squared_distances(z: Tensor, centres: Tensor) -> Tensor:
    """(..., m, K), in float32 outside autocast: never in reduced precision, and about the mean of the centres."""
    with torch.autocast(z.device.type, enabled=False):
        z, centres = z.to(centres.dtype), centres
        middle = centres.detach().mean(-2, keepdim=True)
        z, mu = z - middle, centres - middle
        q = (z * z).sum(-1)[..., :, None] + (mu * mu).sum(-1)[..., None, :] - 2 * product(z, mu)
        return q.clamp(min=0)


def scaled(codes: Tensor, options: Options) -> Tensor:
    """Codes or centres as they enter the distance."""
    return torch.nn.functional.normalize(codes, dim=-1) if options.unit_codes else codes


def cost(z: Tensor, state: State, options: Options) -> Tensor:
    """Squared distances (S, m, K) of codes to centres."""
    return squared_distances(scaled(z, options), scaled(state.centres, options))


def reconstruction_loss(x: Tensor, back: Tensor | None, options: Options) -> Tensor:
    """Squared error of S members, (S,), summed or averaged as the options say."""
    if back is None:
        return x.new_zeros(len(x))
    squares = (back.float() - x).square().flatten(1)
    if options.reconstruction == "mean":
        return squares.mean(1)
    total = squares.sum(1)
    return total / x.shape[1] if options.reconstruction == "sum" else total


def clustering_loss(z: Tensor, state: State, options: Options, epoch: int, reduction: Reduction | None = None) -> Terms:
    """The clustering term of codes z (S, m, d); with a ``reduction``, this process's part of it."""
    C = cost(z, state, options)
    if options.loss == "kmeans":
        nothing = C.new_zeros(len(C), dtype=torch.float64)
        part = 1.0 if reduction is None else row_share(C.shape[1], reduction)
        return Terms(part * C.amin(2).mean(1), nothing, nothing, nothing, nothing, state.potentials)
    epsilon: dict[str, Any] = {"epsilon": options.epsilon_at(epoch), "epsilon_mode": options.epsilon_mode}
    shared = epsilon | {"reduction": reduction}
    if options.loss != "transport":
        kind: dict[str, Any] = {"value": "sharp", "gradient": "implicit"} if options.loss == "dkm" else {}
        return _terms(transport_loss(C, rule="free", **kind, **shared))
    law: dict[str, Any] = {"rule": options.rule} if options.rule is not None else {"tau": options.tau}
    if options.dual == "batch":
        kind = {"value": options.value, "gradient": options.gradient}
        return _terms(transport_loss(C, state.weights, potentials=_warm(state), **kind, **law, **shared))
    if options.dual == "bank" and state.bank is not None:
        with torch.no_grad():
            everything = cost(torch.cat([z.detach(), state.bank], 1), state, options)
            found = transport_loss(everything, state.weights, potentials=_warm(state), **law, **epsilon)
        return _at_potentials(C, found.potentials, found.epsilon, state, law)._replace(
            marginal_error=found.marginal_error, n_passes=found.n_passes
        )
    with torch.no_grad():
        mean = C.detach().double().mean((1, 2))
        eps = (
            mean * epsilon["epsilon"] if options.epsilon_mode == "relative" else torch.full_like(mean, options.epsilon)
        )
    terms = _at_potentials(C, _warm(state), eps, state, law)
    return terms._replace(potentials=_ascent(C, eps, state, law, options.dual_step))


def _terms(result: Any) -> Terms:
    g = torch.where(torch.isfinite(result.potentials), result.potentials, 0.0)
    return Terms(result.value, result.marginal_error, result.n_passes, result.plan_entropy, result.epsilon, g)


def _warm(state: State) -> Tensor:
    return torch.where(torch.isfinite(state.potentials), state.potentials, 0.0)


def _problem(C: Tensor, eps: Tensor, state: State, law: dict[str, Any]) -> tuple[Problem, Tensor]:
    """The problem of a batch at uniform row masses, and its column masses, a virtual one included."""
    S, m, K = C.shape
    rule = tensor_rule(check_rule(law.get("rule", "fixed"), law.get("tau"), K), K, C.device)
    uniform = torch.full((S, m), 1 / m, dtype=torch.float64, device=C.device)
    return Problem(uniform, eps, rule, K), rule.extend(state.weights)


def _at_potentials(C: Tensor, g: Tensor, eps: Tensor, state: State, law: dict[str, Any]) -> Terms:
    """The semi-dual value of a batch at potentials that are shared with other batches: its derivative is the plan."""
    problem, b = _problem(C, eps, state, law)
    g = torch.where(torch.isfinite(g), g, 0.0)
    value = gradients.dual_value(C, b, g, problem).to(C.dtype)
    with torch.no_grad():
        P, c = gradients.plan(C, b, g, problem)
        entropy = torch.special.entr(P / problem.row_mass[:, :, None]).sum(2).mean(1)
        error = (problem.rule.target(g, b, c) - c).abs().sum(1)
    return Terms(value, error, torch.ones_like(error), entropy, eps, g)


@torch.no_grad()
def _ascent(C: Tensor, eps: Tensor, state: State, law: dict[str, Any], step: float) -> Tensor:
    """One step of stochastic dual ascent: potentials rise where the batch gave a column less than its share."""
    problem, b = _problem(C, eps, state, law)
    g = _warm(state)
    _, c = gradients.plan(C, b, g, problem)
    move = torch.where(b > 0, (problem.rule.target(g, b, c) - c) / torch.where(b > 0, b, 1.0), 0.0)
    g = problem.rule.pin(g + (step * move).clamp(-LARGEST_ASCENT, LARGEST_ASCENT))
    return g - (b * g).sum(1, keepdim=True) if problem.rule.invariant else g


def consistency_loss(z: Tensor, view: Tensor, terms: Terms, state: State, options: Options) -> Tensor:
    """Cross-entropy of the plan of the images to the assignment of their views at the same potentials, (S,), nats a row.

    The plan is a constant; views are assigned at a higher temperature, so that they have to get ahead of it to agree.
    """
    with torch.no_grad():
        target = torch.softmax(_logits(cost(z, state, options), terms, state), 2)
    logits = _logits(cost(view, state, options), terms, state) / options.consistency_temperature
    # a column of weight 0 has log-probability -inf, and no part in either
    return -torch.where(target > 0, target * torch.log_softmax(logits, 2), 0.0).sum(2).mean(1)


def _logits(C: Tensor, terms: Terms, state: State) -> Tensor:
    """log w + g - C/epsilon, (S, m, K)."""
    eps = torch.where(terms.epsilon > 0, terms.epsilon, 1.0)
    offset = gradients.log_mass(state.weights) + terms.potentials[:, : C.shape[2]]
    return offset[:, None].to(C.dtype) - C / eps[:, None, None].to(C.dtype)
