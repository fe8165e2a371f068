"""The passes of `sinkhorn_em.ot.kernel` for rows on a device: one problem, and sums that come to the host in one transfer.

Scores stay on the device; what Newton's method needs of them, 1 + K + K^2 numbers, does not. The host waits once a pass.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from ..._kinds import like
from ..._typing import Floats
from ..kernel import Evaluation as HostEvaluation
from . import kernel


def evaluate(scores: Tensor, row_mass: Tensor, offset: Floats, temperature: float = 1.0) -> HostEvaluation:
    """One pass over ``scores`` (n, K) at ``offset`` (K,), or (K + 1,) with a virtual column."""
    heat = scores.new_full((1,), temperature, dtype=torch.float64) if temperature > 1 else None
    g = like(scores, offset)[None]
    e = kernel.evaluate(scores[None], row_mass[None], g, heat, gram=temperature > 0)
    parts = to_host([e.value, e.mass[0]] + ([] if e.gram is None else [e.gram[0]]))
    return HostEvaluation(float(parts[0][0]), parts[1], parts[2] if len(parts) > 2 else None)


def responsibilities(scores: Tensor, offset: Floats) -> Tensor:
    """softmax_k(S_ik + offset_k), a new (n, K) tensor."""
    return kernel.responsibilities(scores[None], like(scores, offset)[None])[0]


def log_normalisers(scores: Tensor, offset: Floats) -> Tensor:
    """lse_k(S_ik + offset_k), a new (n,) tensor."""
    g = like(scores, offset)[None]
    tiles = [torch.logsumexp(kernel.logits(scores[None, rows], g), 2)[0] for rows in row_slices(scores, len(offset))]
    return torch.cat(tiles)


def row_slices(X: Tensor, n_numbers: int) -> Iterator[slice]:
    """Rows in pieces for which a temporary of ``n_numbers`` a row is not too large."""
    m = max(1, kernel.TILE_ENTRIES.get(X.device.type, kernel.MANY_ENTRIES) // max(n_numbers, 1))
    return (slice(start, min(start + m, len(X))) for start in range(0, len(X), m))


def to_host(tensors: list[Tensor]) -> list[Floats]:
    """Float64 tensors as arrays, in one transfer."""
    flat = torch.cat([t.reshape(-1) for t in tensors]).cpu().numpy()
    edges = np.cumsum([t.numel() for t in tensors])[:-1]
    return [part.reshape(t.shape) for part, t in zip(np.split(flat, edges), tensors, strict=True)]
