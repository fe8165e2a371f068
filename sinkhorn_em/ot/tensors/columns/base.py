"""The contract of a column rule for B problems at once."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

TINY = torch.finfo(torch.float64).tiny


class TensorRule(ABC):
    """The contract of `ColumnRule`, batched: numbers per problem are (B,)."""

    #: the objective does not change when a constant is added to every potential, whatever the masses
    invariant = False
    #: some potential may have to move
    constrains = True
    #: psi has kinks: a step may have to stop there
    kinks = False

    @abstractmethod
    def penalty(self, g: Tensor, b: Tensor) -> Tensor:
        """sum_k psi_k(g_k), (B,)."""

    @abstractmethod
    def target(self, g: Tensor, b: Tensor, c: Tensor) -> Tensor:
        """t_k = -psi_k'(g_k); at a kink of psi the closest to c."""

    @abstractmethod
    def scale(self, g: Tensor, b: Tensor, c: Tensor) -> Tensor:
        """The Sinkhorn update."""

    @abstractmethod
    def slope_in_b(self, g: Tensor, b: Tensor) -> Tensor:
        """d psi_k / d b_k."""

    @abstractmethod
    def target_in_b(self, g: Tensor, b: Tensor) -> Tensor:
        """d t_k / d b_k."""

    def divergence(self, b: Tensor, c: Tensor) -> Tensor:
        """What a column mass of c costs in the primal problem, (B,)."""
        return torch.zeros_like(b[:, 0])

    def flat(self, b: Tensor) -> Tensor:
        """Problems (B,) whose objective does not change when a constant is added to every potential."""
        return torch.full_like(b[:, 0], self.invariant, dtype=torch.bool)

    def curvature(self, g: Tensor, b: Tensor) -> Tensor:
        """psi_k''(g_k)."""
        return torch.zeros_like(g)

    def movable(self, g: Tensor, b: Tensor, c: Tensor) -> Tensor:
        """Columns whose potential may move from here."""
        return b > 0

    def step_norm(self, d: Tensor, active: Tensor) -> Tensor:
        """Size of steps (..., K) in nats: the oscillation, and the largest entry when a constant matters."""
        spread = oscillation(d, active)
        return spread if self.invariant else torch.maximum(spread, (d * active).abs().amax(-1))

    def clip(self, g: Tensor, d: Tensor, c: Tensor) -> Tensor:
        """Shorten a step so that no potential jumps over a kink of psi."""
        return d

    def off_scale(self, g: Tensor, b: Tensor, c: Tensor) -> Tensor | None:
        """Problems (B,) with a column whose own scaling update is better than a Newton step; None: never."""
        return None

    def pin(self, g: Tensor) -> Tensor:
        """g with 0 for the columns that the rule leaves free."""
        return g

    def translate(self, g: Tensor, b: Tensor) -> Tensor:
        """Pin g, and add the best constant to it."""
        return self.pin(g)

    def extend(self, b: Tensor) -> Tensor:
        """Masses of all columns, virtual ones included."""
        return b


def log_ratio(b: Tensor, c: Tensor) -> Tensor:
    """log(b/c), -inf where b is 0."""
    return torch.log(b) - torch.log(c.clamp(min=TINY))


def oscillation(d: Tensor, active: Tensor) -> Tensor:
    """max - min over the active columns."""
    highest = torch.where(active, d, -torch.inf).amax(-1)
    return highest - torch.where(active, d, torch.inf).amin(-1)


def centred(g: Tensor, b: Tensor) -> Tensor:
    """g with the constant for which sum b g = 0."""
    return torch.where(b > 0, g - (b * g).sum(1, keepdim=True), 0.0)
