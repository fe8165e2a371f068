"""From codes to labels and probabilities: the nearest centre, the posterior at the potentials of the training, the exact plan.

The first two look at one row at a time: the label of a row never depends on which others come with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from .._typing import Floats
from ..ot.solve import solve_plan
from .objective import cost
from .options import Options
from .state import State

ROWS = 8192
METHODS = ("centre", "potential", "plan")


class Readout(NamedTuple):
    """What labels are read from besides the codes: of one member."""

    epsilon: float  # in the units of the cost
    potentials: Floats  # (K,) of the plan of all training rows
    weights: Floats  # (K,)
    marginal_error: float


@torch.no_grad()
def costs(codes: Tensor, state: State, options: Options) -> Iterator[Tensor]:
    """Costs (S, m, K) of codes (S, n, d) to the centres, some rows at a time, in float64 on the host."""
    device = state.centres.device
    for start in range(0, codes.shape[1], ROWS):
        yield cost(codes[:, start : start + ROWS].to(device), state, options).double().cpu()


def nearest(codes: Tensor, state: State, options: Options) -> Tensor:
    """The nearest centre of every row, (S, n)."""
    return torch.cat([C.argmin(2) for C in costs(codes, state, options)], 1)


def joint(codes: Tensor, state: State, options: Options, readout: Readout) -> Iterator[Floats]:
    """`log_joint` of the codes (1, n, d) of one member, some rows at a time."""
    for C in costs(codes, state, options):
        yield log_joint(C[0].numpy(), readout)


def cost_matrix(codes: Tensor, state: State, options: Options) -> Floats:
    """Costs (n, K) of the codes (1, n, d) of one member."""
    return np.concatenate([C[0].numpy() for C in costs(codes, state, options)])


def read_out(C: Floats, state: State, options: Options) -> Readout:
    """Epsilon of the last epoch, and potentials of the plan of all rows, costs C (n, K), at the end of a training."""
    epsilon = options.epsilon_at(max(state.n_clustered - 1, 0))
    if options.epsilon_mode == "relative":
        mean = float(C.mean())
        epsilon *= mean if mean > 0 else 1.0
    w = state.weights[0].cpu().numpy()
    if options.loss != "transport":
        return Readout(epsilon, np.zeros(len(w)), w, 0.0)
    law: dict[str, Any] = {"rule": options.rule} if options.rule is not None else {"tau": options.tau}
    plan = solve_plan(-C / epsilon, None, w, **law)
    return Readout(epsilon, plan.potentials[: len(w)], w, plan.marginal_error)


def log_joint(C: Floats, readout: Readout) -> Floats:
    """log w_k + g_k - C_ik / epsilon, (n, K)."""
    with np.errstate(divide="ignore"):
        offset = np.where(readout.weights > 0, np.log(readout.weights) + readout.potentials, -np.inf)
    return offset - C / readout.epsilon
