"""The pass over the rows: values, column masses and overlaps of B problems, row tile by row tile.

Sums are taken in float64 and offsets added in float64 whatever the storage; the exponentials are in the precision of the scores,
and the overlaps, which only steer the Newton step, in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..._compiled import n_blocks, run_blocks, tile_rows
from ..kernel import responsibilities_pass
from .precision import product

TILE_ENTRIES = {"cpu": 1 << 20}  # of B tile K scores at a time
MANY_ENTRIES = 1 << 25  # the same on an accelerator: 256 MB in float64


class Evaluation(NamedTuple):
    """Sums over rows: they may be added over tiles, and over processes."""

    value: Tensor  # (B,) sum_i a_i lse_k(S_ik + offset_k)
    mass: Tensor  # (B, K)
    gram: Tensor | None  # (B, K, K) overlaps sum_i a_i R_i R_i', its diagonal 0


Reduction = Callable[[Tensor], Tensor]  # sums a tensor over the processes that hold the other rows


def evaluate(
    scores: Tensor,
    row_mass: Tensor,
    offset: Tensor,
    temperature: Tensor | None = None,
    *,
    gram: bool = True,
    reduction: Reduction | None = None,
) -> Evaluation:
    """One pass over ``scores`` (B, n, K) at ``offset`` (B, K), or (B, K + 1) with a virtual column of score 0.

    ``temperature`` (B,) >= 1 is that of the overlaps.
    """
    B, K = offset.shape
    value, mass = offset.new_zeros(B), offset.new_zeros(B, K)
    W = torch.zeros(B, K, K, dtype=torch.float64, device=offset.device) if gram else None
    for S, a in row_tiles(scores, row_mass, K):
        L = logits(S, offset)
        E, total, lse = normalised(L, S.dtype)
        value += (a * torch.where(a > 0, lse, 0.0)).sum(1)
        share = torch.where(total > 0, a / total, 0.0)
        mass += torch.sum(E * share[:, :, None], 1, dtype=torch.float64)
        if W is not None:
            if temperature is not None:
                E, total, _ = normalised(L / temperature[:, None, None], S.dtype)
            R = E.float() * torch.where(total > 0, (a * a.shape[1]).sqrt() / total, 0.0)[:, :, None].float()
            # rows are scaled so that single precision is kept away from underflow
            W += product(R.mT, R.mT) / a.shape[1]
    if W is not None:
        if temperature is not None:
            W /= temperature[:, None, None]
        W.diagonal(dim1=1, dim2=2).zero_()
    e = Evaluation(value, mass, W)
    return e if reduction is None else _reduced(e, reduction)


def _reduced(e: Evaluation, reduction: Reduction) -> Evaluation:
    """The sums over all processes, in one message."""
    B, K = e.mass.shape
    parts = [e.value[:, None], e.mass] + ([] if e.gram is None else [e.gram.reshape(B, -1)])
    total = reduction(torch.cat(parts, 1))
    W = None if e.gram is None else total[:, K + 1 :].reshape(B, K, K)
    return Evaluation(total[:, 0], total[:, 1 : K + 1], W)


def responsibilities(scores: Tensor, offset: Tensor) -> Tensor:
    """softmax_k(S_ik + offset_k), (B, n, K) or (B, n, K + 1); rows without any finite score are 0."""
    return (compiled_responsibilities if scores.device.type == "cpu" else tiled_responsibilities)(scores, offset)


def tiled_responsibilities(scores: Tensor, offset: Tensor) -> Tensor:
    """The same on any device."""
    tiles = []
    for S, _ in row_tiles(scores, scores[:, :, 0], offset.shape[1]):
        E, total, _ = normalised(logits(S, offset), S.dtype)
        tiles.append(E / torch.where(total > 0, total, 1.0)[:, :, None].to(E.dtype))
    return tiles[0] if len(tiles) == 1 else torch.cat(tiles, 1)


def compiled_responsibilities(scores: Tensor, offset: Tensor) -> Tensor:
    """The same in host memory, in float64 without temporaries."""
    n, K = scores.shape[1], offset.shape[1]
    R, tile, blocks = scores.new_empty(len(scores), n, K), tile_rows(K), n_blocks(n, K, 1)
    for S, o, out in zip(scores.detach().numpy(), offset.detach().numpy(), R.numpy(), strict=True):
        S = S if S.flags.c_contiguous or S.flags.f_contiguous else np.ascontiguousarray(S)

        def task(block: int, start: int, stop: int, S: Any = S, o: Any = o, out: Any = out) -> None:
            responsibilities_pass(S.T, o, start, stop, tile, out)

        run_blocks(task, n, blocks)
    return R


def row_tiles(scores: Tensor, row_mass: Tensor, n_columns: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Scores (B, m, K) and masses (B or 1, m) of some rows at a time."""
    B, n, _ = scores.shape
    entries = TILE_ENTRIES.get(scores.device.type, MANY_ENTRIES)
    m = max(1, entries // max(B * n_columns, 1))
    for start in range(0, n, m):
        yield scores[:, start : start + m], row_mass[:, start : start + m]


def logits(S: Tensor, offset: Tensor) -> Tensor:
    """S + offset in float64, with a column of score 0 if the offset has one more entry."""
    K = S.shape[2]
    L = S.double() + offset[:, None, :K]
    return L if offset.shape[1] == K else torch.cat([L, offset[:, None, K:].expand(-1, L.shape[1], -1)], 2)


def normalised(L: Tensor, storage: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """exp(L - max) (B, m, K) in the precision of the storage, its sum and the log-sum-exp (B, m) in float64."""
    top = L.amax(2, keepdim=True)
    top = torch.where(top == -torch.inf, 0.0, top)
    E = torch.exp((L - top).to(storage))
    total = E.sum(2, dtype=torch.float64)
    return E, total, top[:, :, 0] + torch.log(total)
