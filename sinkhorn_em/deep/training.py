"""The training loop (Algorithm 2 of Genevay, Dulac-Arnold & Vert 2019): pre-training, centres, then all terms together.

Random numbers are a function of (seed, phase, epoch), so that a run that is resumed after any epoch goes on as it would have.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..ot.tensors import Reduction
from . import centres
from .distributed import row_share, rows_of_all, sum_gradients, sum_over_processes
from .objective import Terms, clustering_loss, consistency_loss, reconstruction_loss
from .options import Options
from .sources import Source
from .state import PHASES, State, new_optimiser

CENTRES = 1000  # key of the random numbers that draw the centres
STEP, LARGEST_MOVE = 0.5, 0.3  # of learned weights: exponentiated gradient, and its largest exponent, once an epoch
PARTS = ("loss", "reconstruction", "transport", "consistency")  # measures that are sums over processes


class Hooks(NamedTuple):
    """What is called along the way: after every batch, and after every epoch with the new rows of the history."""

    after_batch: Callable[[State, dict[str, Tensor]], None]  # measures (S,), on the device
    after_epoch: Callable[[State, list[dict[str, Any]]], bool]  # True: stop


def planned(state: State, options: Options) -> tuple[int, int]:
    """Epochs of both phases; where nothing is reconstructed there is nothing to train before there are centres."""
    reconstructs = options.reconstruction_weight > 0 and state.members.reconstructs
    return options.pretrain_epochs if reconstructs else 0, options.epochs


@contextmanager
def gradients_on() -> Iterator[None]:
    """A training needs gradients, wherever it is called."""
    with torch.inference_mode(False), torch.enable_grad():
        yield


def train(
    state: State,
    source: Source,
    options: Options,
    seeds: list[int],
    hooks: Hooks,
    lengths: tuple[int, int] | None = None,
) -> None:
    """Train from where ``state`` is to the end, or until a hook or the patience says stop.

    The phases have ``lengths`` epochs, as the options say if those are not given. FloatingPointError if the loss is not finite.
    """
    lengths = planned(state, options) if lengths is None else lengths
    while not state.finished:
        name, length = PHASES[state.phase], lengths[state.phase]
        while state.epoch < length and not state.stopped:
            if state.epoch == 0:
                _enter(state, source, options, seeds)
            rows = _epoch(state, source, options, seeds, hooks)
            state.epoch += 1
            for member, row in enumerate(rows):
                row.update(member=member, phase=name, epoch=state.epoch)
            state.history += rows
            state.stopped = _exhausted(state, rows, options) if name == "cluster" else False
            state.stopped = hooks.after_epoch(state, rows) or state.stopped
        if not state.stopped:
            state.phase, state.epoch = state.phase + 1, 0
    if not state.placed:
        _place_centres(state, source, options, seeds)


def _enter(state: State, source: Source, options: Options, seeds: list[int]) -> None:
    """Begin a phase: the optimiser forgets; centres are placed where they are due."""
    if not state.placed and (PHASES[state.phase] == "cluster" or options.centres == "random_encoder"):
        _place_centres(state, source, options, seeds)
    state.optimiser = new_optimiser(state.members, state.centres, options)
    state.best, state.waited = float("inf"), 0


def _place_centres(state: State, source: Source, options: Options, seeds: list[int]) -> None:
    codes = all_codes(state, source, options)
    found = centres.first_centres(codes, state.weights, options, [[seed, CENTRES] for seed in seeds])
    with torch.no_grad():
        state.centres.copy_(found)
    state.placed = True
    _match(state, codes, options)


def all_codes(state: State, source: Source, options: Options) -> Tensor:
    """Codes (S, n, d) of all rows, those of other processes included, on the host."""
    codes = state.members.codes(source.pieces(), state.centres.device)
    if not bool(torch.isfinite(codes).all()):
        raise FloatingPointError(_diverged(state, options, "not finite: nor are the codes of the rows"))
    return rows_of_all(codes, sum_over_processes()) if options.distributed else codes


def _match(state: State, codes: Tensor, options: Options) -> None:
    """Hand the larger sizes to the larger clusters."""
    sizes = centres.natural_sizes(codes, state, options).to(state.weights.device)
    state.weights = centres.matched(state.weights, sizes)
    state.potentials = torch.zeros_like(state.potentials)


def _epoch(state: State, source: Source, options: Options, seeds: list[int], hooks: Hooks) -> list[dict[str, Any]]:
    """One pass over the data; one row of the history for each member."""
    rate = options.learning_rate_at(state.epoch)
    for group in state.optimiser.param_groups:
        group["lr"] = rate
    sums: dict[str, Tensor] = {}
    mean_potentials, n = torch.zeros_like(state.potentials), 0
    state.members.train()
    reduction = sum_over_processes() if options.distributed else None
    keys, steps = [[seed, state.phase, state.epoch] for seed in seeds], n_steps(source, options)
    with _random_state(keys[0], state.centres.device):
        for x in source.batches(keys, options.batch_size, steps):
            measures = _checked_step(state, x.to(state.centres.device), options, reduction)
            sums = {name: sums.get(name, 0) + value for name, value in measures.items()}
            mean_potentials, n = mean_potentials + state.potentials, n + 1
            hooks.after_batch(state, measures)
    if reduction is not None:
        sums = {name: reduction(total) if name in PARTS else total for name, total in sums.items()}
    rows = [{name: float(total[s]) / n for name, total in sums.items()} for s in range(len(seeds))]
    _check_finite(rows, state, options)
    if PHASES[state.phase] == "cluster":
        _move_weights(state, source, options, mean_potentials / n)
    return [row | {"learning_rate": rate} for row in rows]


def _checked_step(state: State, x: Tensor, options: Options, reduction: Reduction | None) -> dict[str, Tensor]:
    """A step; where networks that are no longer finite are the reason of an error, it says so."""
    try:
        return step(state, x, options, reduction)
    except ValueError as error:
        if all(bool(torch.isfinite(p).all()) for p in state.parameters()):
            raise
        raise FloatingPointError(_diverged(state, options, "not finite")) from error


def _diverged(state: State, options: Options, loss: Any) -> str:
    return (
        f"the loss after {len(state.history)} epochs is {loss}: the training diverged; lower learning_rate, which is "
        f"{options.learning_rate}, or scale X to [0, 1] or to unit variance"
    )


def _check_finite(rows: list[dict[str, float]], state: State, options: Options) -> None:
    for row in rows:
        if not math.isfinite(row["loss"]):
            raise FloatingPointError(_diverged(state, options, row["loss"]))


def rows_of(source: Source, options: Options) -> int:
    """Rows in all processes."""
    if not options.distributed:
        return source.n_rows
    return int(sum_over_processes()(torch.tensor([float(source.n_rows)], dtype=torch.float64)))


def moments(source: Source, options: Options) -> tuple[np.ndarray, np.ndarray]:
    """Mean (p,) and covariance (p, p) of all rows, those of other processes included."""
    reduction = sum_over_processes() if options.distributed else lambda x: x
    rows = rows_of(source, options)
    mean = reduction(sum(x.flatten(1).double().sum(0) for x in source.pieces())) / rows  # type: ignore[arg-type]
    centred = (x.flatten(1).double() - mean for x in source.pieces())
    covariance = reduction(sum(x.T @ x for x in centred)) / rows  # type: ignore[arg-type]
    return mean.cpu().numpy(), covariance.cpu().numpy()


def n_steps(source: Source, options: Options) -> int:
    """Batches of an epoch: as many in every process."""
    return (
        -(-rows_of(source, options) // options.batch_size)
        if options.distributed
        else source.n_batches(options.batch_size)
    )


def step(state: State, x: Tensor, options: Options, reduction: Reduction | None = None) -> dict[str, Tensor]:
    """One step of the optimiser on x (S, m, *shape); what was measured, (S,) each.

    With a ``reduction`` other processes hold more rows of the batch: losses are this process's part of those of all rows.
    """
    clustering = PHASES[state.phase] == "cluster"
    if not clustering and options.augment is not None:
        x = _views(x, options)
    with torch.autocast(x.device.type, torch.bfloat16, enabled=options.precision == "bfloat16"):
        reconstructs = options.reconstruction_weight > 0
        z, back = state.members(x) if reconstructs else (state.members.encode(x), None)
        view = None
        if clustering and options.consistency_weight > 0:
            view = state.members.encode(_views(x, options)).float()
    z = z.float()
    part = 1.0 if reduction is None else row_share(x.shape[1], reduction)
    reconstruction = (1.0 if options.reconstruction == "total" else part) * reconstruction_loss(x, back, options)
    loss = options.reconstruction_weight * reconstruction
    measures = {"reconstruction": reconstruction}
    if clustering:
        terms = clustering_loss(z, state, options, state.epoch, reduction)
        loss = loss + options.transport_weight * terms.value
        measures |= _measured(terms)
        if view is not None:
            consistency = part * consistency_loss(z, view, terms, state, options)
            loss = loss + options.consistency_weight * consistency
            measures["consistency"] = consistency
        state.potentials = terms.potentials.detach()
        _remember(state, z, options)
    if loss.requires_grad:  # nothing to move where the data are the codes, before there are centres
        state.optimiser.zero_grad(set_to_none=True)
        loss.sum().backward()
        if reduction is not None:
            sum_gradients(state.parameters())
        state.optimiser.step()
    return {name: value.detach().double() for name, value in ({"loss": loss} | measures).items()}


def _views(x: Tensor, options: Options) -> Tensor:
    """Augmented rows of all members."""
    assert options.augment is not None
    return options.augment(x.flatten(0, 1)).unflatten(0, x.shape[:2])


def _measured(terms: Terms) -> dict[str, Tensor]:
    names = ("marginal_error", "n_passes", "plan_entropy", "epsilon")
    return {"transport": terms.value} | {name: getattr(terms, name) for name in names}


def _remember(state: State, z: Tensor, options: Options) -> None:
    """Codes of this batch go to the end of the bank."""
    if options.dual == "bank":
        kept = z.detach() if state.bank is None else torch.cat([state.bank, z.detach()], 1)
        state.bank = kept[:, -options.bank_size :]


def _move_weights(state: State, source: Source, options: Options, potentials: Tensor) -> None:
    """Once an epoch: sizes of unequal prior are matched again in the first half; learned sizes move in the second."""
    first_half = 2 * (state.epoch + 1) <= options.epochs
    if options.learn_weights and not first_half:
        g = potentials[:, : state.weights.shape[1]]
        g = g - (state.weights * g).sum(1, keepdim=True)
        scale = (LARGEST_MOVE / (STEP * g.abs().amax(1, keepdim=True)).clamp(min=LARGEST_MOVE)) * STEP
        w = state.weights * torch.exp(-scale * g)
        state.weights = w / w.sum(1, keepdim=True)
    elif first_half and bool((state.weights != state.weights[:, :1]).any()):
        before = state.weights
        sizes = centres.natural_sizes(all_codes(state, source, options), state, options)
        after = centres.matched(before, sizes.to(before.device))
        if not torch.equal(before, after):
            state.weights, state.potentials = after, torch.zeros_like(state.potentials)


def _exhausted(state: State, rows: list[dict[str, Any]], options: Options) -> bool:
    """The loss has not fallen for as many epochs as the patience lasts."""
    if options.patience is None:
        return False
    loss = sum(row["loss"] for row in rows) / len(rows)
    better = loss < state.best - options.tol * abs(state.best) if state.best < float("inf") else True
    state.best, state.waited = (loss, 0) if better else (state.best, state.waited + 1)
    return state.waited >= options.patience


@contextmanager
def _random_state(key: list[int], device: torch.device) -> Iterator[None]:
    """The global random state of torch is a function of the key within, and as it was afterwards."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        seed = 0
        for part in key:
            seed = (seed * 1_000_003 + part) % 2**63
        torch.manual_seed(seed)
        yield
