"""From codes to labels: the nearest centre, the posterior at the potentials of the training, or the plan of all rows."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from .objective import cost
from .options import Options
from .state import State

ROWS = 8192
METHODS = ("centre", "potential", "plan")


@torch.no_grad()
def costs(codes: Tensor, state: State, options: Options) -> Iterator[Tensor]:
    """Costs (S, m, K) of codes (S, n, d) on the host to the centres, some rows at a time, in float64 on the host."""
    device = state.centres.device
    for start in range(0, codes.shape[1], ROWS):
        yield cost(codes[:, start : start + ROWS].to(device), state, options).double().cpu()


def nearest(codes: Tensor, state: State, options: Options) -> Tensor:
    """The nearest centre of every row, (S, n)."""
    return torch.cat([C.argmin(2) for C in costs(codes, state, options)], 1)
