"""The terms of the loss of one batch, for S members at once."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..ot.checks import check_rule
from ..ot.tensors import Reduction, kernel
from ..ot.tensors.columns import tensor_rule
from ..ot.tensors.precision import product
from . import gradients
from .distributed import row_share
from .gradients import Envelope, Problem
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
        terms, _ = _at_potentials(C, found.potentials, found.epsilon, state, law, options.dual_step)
        return terms._replace(marginal_error=found.marginal_error, n_passes=found.n_passes)
    with torch.no_grad():
        mean = C.mean((1, 2), dtype=torch.float64)
        relative = options.epsilon_mode == "relative"
        eps = epsilon["epsilon"] * (torch.where(mean > 0, mean, 1.0) if relative else torch.ones_like(mean))
    terms, ascended = _at_potentials(C, _warm(state), eps, state, law, options.dual_step)
    return terms._replace(potentials=ascended)


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


def _at_potentials(
    C: Tensor, g: Tensor, eps: Tensor, state: State, law: dict[str, Any], step: float
) -> tuple[Terms, Tensor]:
    """The semi-dual value of a batch at potentials shared with others, whose derivative is the plan, and an ascent from them.

    One pass over the costs: stochastic dual ascent raises the potentials where the batch gave a column less than its share.
    """
    problem, b = _problem(C, eps, state, law)
    with torch.no_grad():
        g = torch.where(torch.isfinite(g), g, 0.0)
        scores, offset = gradients.scores(C, problem), gradients.log_mass(b) + g
        R = kernel.responsibilities(scores, offset)
        c = torch.sum(R * problem.row_mass[:, :, None].to(R.dtype), 1, dtype=torch.float64)
        value = -eps * (_log_normalisers(R, scores, offset).mean(1) + problem.rule.penalty(g, b))
        slope = gradients.slope_in_b(b, g, c, problem)
        entropy = torch.special.entr(R).sum(2, dtype=torch.float64).mean(1)
        away = problem.rule.target(g, b, c) - c
        move = torch.where(b > 0, away / torch.where(b > 0, b, 1.0), 0.0)
        ascended = problem.rule.pin(g + (step * move).clamp(-LARGEST_ASCENT, LARGEST_ASCENT))
        if problem.rule.invariant:
            ascended = ascended - (b * ascended).sum(1, keepdim=True)
    value = Envelope.apply(C, b, R, slope, value.to(C.dtype), problem.row_mass)
    error = away.abs().sum(1)
    return Terms(value, error, torch.ones_like(error), entropy, eps, g), ascended


def _log_normalisers(R: Tensor, scores: Tensor, offset: Tensor) -> Tensor:
    """lse_k(S_ik + offset_k) (S, m), float64, from the largest responsibility of a row: log R = S + offset - lse."""
    largest, k = R.max(2, keepdim=True)
    scored = torch.where(k < scores.shape[2], scores.gather(2, k.clamp(max=scores.shape[2] - 1)), 0.0)
    there = offset[:, None].expand(-1, R.shape[1], -1).gather(2, k)
    return (scored.double() + there - largest.double().log())[:, :, 0]


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
