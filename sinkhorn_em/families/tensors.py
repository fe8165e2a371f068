"""The passes of `kernels` for rows on a device: squared radii and moments, in tiles of rows, summed there.

Deviations are taken from a mean first and then multiplied, in float64 whatever the rows are stored in: nothing cancels, and no
product is taken in a shorter format (TF32). A tile's temporaries are K x rows x d; the sums come to the host in one transfer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .._compiled import LARGEST
from .._kinds import like
from .._typing import Floats, RowPlan
from ..ot.tensors.kernel import logits, normalised
from ..ot.tensors.rows import row_slices, to_host

TEMPORARIES = 2  # of K x rows x d in a tile


def affine(X: Tensor, shift: Floats, A: Floats) -> Tensor:
    """A (x - shift) of rows X (n, d), in float64."""
    C, B = X.double() - like(X, shift), like(X, A)
    return C @ B.T if A.ndim == 2 else C * B


def empty_scores(X: Tensor, n_columns: int) -> Tensor:
    """Room for numbers (n, n_columns), column by column."""
    return X.new_empty((n_columns, len(X)), dtype=torch.float64).T


def affine_log1p(A: Tensor, scale: Any, factor: Any, shift: Any) -> None:
    """A = shift + factor log(1 + scale A) in place, A (..., m) >= 0; one number for each row, (..., 1), or one for all."""
    A.mul_(like(A, scale)).clamp_(max=LARGEST).log1p_().mul_(like(A, factor)).add_(like(A, shift))


def squared_radii(
    X: Tensor, means: Floats, factors: Floats, out: Tensor, then: Callable[..., None], width: int | None = None
) -> None:
    """``out`` (n, K) = |F_k (x_i - m_k)|^2; ``then(start, stop, piece)`` may overwrite pieces (K, m) of it."""
    centres, F = like(X, means), like(X, factors)
    for rows in row_slices(X, TEMPORARIES * means.size):
        piece = _radii(_deviations(X[rows], centres), F)
        then(rows.start, rows.stop, piece)
        out[rows] = piece.T


def plan_chunks(
    X: Tensor,
    plan: RowPlan,
    means: Floats,
    factors: Floats,
    term: Callable[..., tuple[Any, ...]],
    partial_size: int,
    width: int | None = None,
) -> tuple[Floats, ...]:
    """The sum over pieces of rows of ``term(start, stop, P, q)``, P and q (K, m): plan entries and squared radii."""
    centres, F = like(X, means), like(X, factors)
    total: list[Tensor] = []
    for rows in row_slices(X, TEMPORARIES * means.size + len(plan.offset)):
        q = _radii(_deviations(X[rows], centres), F)
        terms = term(rows.start, rows.stop, _plan_rows(plan, rows, len(means)), q)
        parts = [like(X, part) for part in terms]
        total = [a + b for a, b in zip(total, parts, strict=True)] if total else parts
    return tuple(to_host(total))


def weighted_moments(
    X: Tensor, start: int, stop: int, weights: Tensor, means: Floats, full: bool
) -> tuple[Tensor, Tensor]:
    """First (K, d) and second (K, d, d or 1) moments of rows start .. stop about ``means``, weights (K, stop - start)."""
    return _moments(_deviations(X[start:stop], like(X, means)), weights, full)


def moments(
    X: Tensor, scores: Tensor, row_mass: Tensor, offset: Floats, means: Floats, full: bool
) -> tuple[Floats, ...]:
    """Mass (K,), first (K, d) and second (K, d, d or 1) moments of the plan about ``means``."""
    K, d = means.shape
    centres, g = like(X, means), like(X, offset)
    sums = [X.new_zeros(shape, dtype=torch.float64) for shape in ((K,), (K, d), (K, d, d if full else 1))]
    for rows in row_slices(X, TEMPORARIES * means.size + len(offset)):
        P = _transport(scores[rows], row_mass[rows], g, K)
        parts = P.sum(1), *_moments(_deviations(X[rows], centres), P, full)
        for total, part in zip(sums, parts, strict=True):
            total += part
    mass, first, second = to_host(sums)
    return mass, first, (second + second.swapaxes(1, 2)) / 2 if full else second


def _deviations(X: Tensor, means: Tensor) -> Tensor:
    """x_i - m_k, (K, m, d)."""
    return X.double()[None] - means[:, None]


def _radii(C: Tensor, factors: Tensor) -> Tensor:
    """|F_k c|^2 (K, m) of deviations c (K, m, d)."""
    z = C @ factors.mT if factors.ndim == 3 else C * factors[:, None]
    return z.square_().sum(2)


def _moments(C: Tensor, weights: Tensor, full: bool) -> tuple[Tensor, Tensor]:
    """Weighted sums of deviations C (K, m, d), and of their outer products or squares."""
    Q = C * weights[:, :, None]
    return Q.sum(1), Q.mT @ C if full else (Q * C).sum(1)[:, :, None]


def _transport(scores: Tensor, row_mass: Tensor, offset: Tensor, K: int) -> Tensor:
    """P_ik, (K, m): of the first K columns."""
    E, total, _ = normalised(logits(scores[None], offset[None]), torch.float64)
    share = torch.where(total > 0, row_mass / total, 0.0)
    return (E * share[:, :, None])[0, :, :K].T


def _plan_rows(plan: Any, rows: slice, K: int) -> Tensor:
    return _transport(plan.scores[rows], plan.row_mass[rows], like(plan.scores, plan.offset), K)
