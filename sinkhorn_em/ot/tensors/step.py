"""The Newton step of B problems, each within its trust region, and without waiting for the device.

Most steps are full Newton steps: one Cholesky factorisation. `Step` says which are not, because they leave their region or would
carry a potential over a kink, and `Step.finish` finds these along the path of the Levenberg steps. Many Levenberg parameters are
tried at a time: a search one by one would be dozens of small kernels in a row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from ..newton import EIGEN_COLUMNS, FINE, SMALLEST_LOG_MU, SMALLEST_METRIC, TINY
from .columns import TensorRule

LARGEST_LOG_MU = 33.0  # steps are then shorter than the smallest radius
CLOSE = 0.5  # of log mu by Cholesky factorisations; steps that are much too short keep the radius from growing
EIGEN_TRIALS, CHOLESKY_TRIALS = 36, 12  # at a time: two rounds narrow the search to FINE, or to CLOSE
MOST_ENTRIES = 1 << 25  # of the matrices that are factorised at a time
KINK_ROUNDS = 6  # potentials that stop at a kink are held, and the others solved for again

Solver = Callable[[Tensor], Tensor]  # log mu (B, M) -> (H + mu D)^-1 r, (B, M, K)


class Point(NamedTuple):
    """B potentials, and what a pass over the rows found there."""

    g: Tensor  # (B, K)
    value: Tensor  # (B,) F(g)
    mass: Tensor  # (B, K) c
    gram: Tensor  # (B, K, K)
    residual: Tensor  # (B, K) t - c
    target: Tensor  # (B, K) t
    error: Tensor  # (B,) sum |t - c|
    relative: Tensor  # (B,) max |log(c/t)|

    def or_else(self, other: Point, keep: Tensor) -> Point:
        """This point where ``keep`` (B,), else the other."""
        return Point(*(torch.where(keep.view(-1, *[1] * (x.ndim - 1)), x, y) for x, y in zip(self, other, strict=True)))


class Step:
    """The step ``d``, the decrease that the quadratic model predicts for it, its norm, and whether it has to be finished."""

    d: Tensor  # (B, K)
    norm: Tensor  # (B,) infinite while the step is not known
    predicted: Tensor  # (B,)
    unfinished: Tensor  # (B,)

    def __init__(self, point: Point, rule: TensorRule, b: Tensor, radius: Tensor) -> None:
        self._point, self._rule, self._radius = point, rule, radius
        self._active, self._free = b > 0, rule.movable(point.g, b, point.mass)
        self._metric = torch.maximum(point.target, point.mass).clamp(min=SMALLEST_METRIC)
        self.H = torch.diag_embed(point.gram.sum(2) + rule.curvature(point.g, b)) - point.gram
        H, D, r = self._system(torch.zeros_like(point.g), self._free)
        # where the constant is H's null vector, it is given a curvature
        constant = torch.where(self._free & rule.flat(b)[:, None], D, 0.0)
        total = constant.sum(1).clamp(min=TINY)[:, None, None]
        whole = _full(H + constant[:, :, None] * constant[:, None, :] / total, r)
        failed = ~torch.isfinite(whole).all(1)
        whole = torch.where(self._free & ~failed[:, None], whole, 0.0)
        stopped = rule.clip(point.g, whole, point.mass)
        self._settle(stopped)
        self.unfinished = failed | (rule.step_norm(whole, self._active) > radius) | (stopped != whole).any(1)
        self.norm = torch.where(self.unfinished, torch.inf, self.norm)

    def _settle(self, d: Tensor) -> None:
        self.d, self.norm = d, self._rule.step_norm(d, self._active)
        Hd = (self.H @ d[:, :, None])[:, :, 0]
        self.predicted = (self._point.residual * d).sum(1) - 0.5 * (d * Hd).sum(1)

    def finish(self) -> None:
        """Unfinished steps become the longest Levenberg steps that stay in their region; potentials stop at kinks."""
        g, c = self._point.g, self._point.mass
        d, free = torch.zeros_like(g), self._free
        for _ in range(KINK_ROUNDS if self._rule.kinks else 1):
            trial = torch.where(free, self._within(d, free), d)
            d = self._rule.clip(g, trial, c)
            free = free & (d == trial)
        self._settle(torch.where(self.unfinished[:, None], d, self.d))

    def _system(self, d: Tensor, free: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """H, D and r for the ``free`` entries of a step, the others held at d: there H and D are 1, and r is 0."""
        held = torch.where(free, 0.0, d)
        r = self._point.residual - (self.H @ held[:, :, None])[:, :, 0]
        both = free[:, :, None] & free[:, None, :]
        H = torch.where(both, self.H, 0.0) + torch.diag_embed((~free).to(d.dtype))
        return H, torch.where(free, self._metric, 1.0), torch.where(free, r, 0.0)

    def _within(self, d: Tensor, free: Tensor) -> Tensor:
        """The ``free`` entries of a step within the region, the others held at d."""
        system = self._system(d, free)

        def fits(part: Tensor) -> Tensor:  # (B, M, K)
            step = torch.where(free[:, None], part, d[:, None])
            return self._rule.step_norm(step, self._active[:, None]) <= self._radius[:, None]

        whole = _full(system[0], system[2])
        return torch.where(fits(whole[:, None]), whole, _longest(*system, fits))


def _full(H: Tensor, r: Tensor) -> Tensor:
    """Solve without a Levenberg term; nan where the system is not positive definite."""
    L, info = torch.linalg.cholesky_ex(H)
    d = torch.cholesky_solve(r[:, :, None], L)[:, :, 0]
    return torch.where((info == 0)[:, None], d, torch.nan)


def _longest(H: Tensor, D: Tensor, r: Tensor, fits: Callable[[Tensor], Tensor]) -> Tensor:
    """(H + mu D) d = r for the smallest mu >= 0 for which d fits, 0 where none does."""
    # an eigendecomposition is cheaper than many Cholesky factorisations, but on an accelerator it waits for the device
    eigen = H.shape[1] <= EIGEN_COLUMNS and H.device.type == "cpu"
    solve, fine = (_eigen_solver(H, D, r), FINE) if eigen else (_cholesky_solver(H, D, r), CLOSE)
    trials = EIGEN_TRIALS if eigen else min(max(MOST_ENTRIES // H.numel(), 2), CHOLESKY_TRIALS)
    place = torch.arange(1, trials + 1, device=H.device)
    low, width = H.new_full((len(H),), SMALLEST_LOG_MU), LARGEST_LOG_MU - SMALLEST_LOG_MU
    while width > fine:
        width /= trials + 1
        longer = ~fits(solve(low[:, None] + width * place))
        low = low + width * torch.where(longer, place, 0).amax(1)
    return torch.nan_to_num(solve((low + width)[:, None])[:, 0], nan=0.0, posinf=0.0, neginf=0.0)


def _eigen_solver(H: Tensor, D: Tensor, r: Tensor) -> Solver:
    """One eigendecomposition of D^-1/2 H D^-1/2 for every mu."""
    half = D.rsqrt()
    eigenvalues, U = torch.linalg.eigh(half[:, :, None] * H * half[:, None, :])
    eigenvalues, projected = eigenvalues.clamp(min=0), ((half * r)[:, None] @ U)  # (B, K), (B, 1, K)

    def solve(log_mu: Tensor) -> Tensor:
        return half[:, None] * ((projected / (eigenvalues[:, None] + torch.exp(log_mu)[:, :, None])) @ U.mT)

    return solve


def _cholesky_solver(H: Tensor, D: Tensor, r: Tensor) -> Solver:
    """One Cholesky factorisation for each mu; infinite where it fails."""

    def solve(log_mu: Tensor) -> Tensor:
        raised = H[:, None] + torch.diag_embed(torch.exp(log_mu)[:, :, None] * D[:, None])  # (B, M, K, K)
        L, info = torch.linalg.cholesky_ex(raised)
        d = torch.cholesky_solve(r[:, None, :, None].expand(*L.shape[:3], 1), L)[:, :, :, 0]
        return torch.where((info == 0)[:, :, None], d, torch.inf)

    return solve
