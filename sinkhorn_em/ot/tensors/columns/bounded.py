"""Column masses between bounds."""

from __future__ import annotations

import torch
from torch import Tensor

from .base import TensorRule, log_ratio


class Bounded(TensorRule):
    """lower <= c <= upper, both (K,)."""

    kinks = True

    def __init__(self, lower: Tensor, upper: Tensor) -> None:
        self.lower, self.upper = lower, upper

    def penalty(self, g: Tensor, b: Tensor) -> Tensor:
        return (self.upper * (-g).clamp(min=0) - self.lower * g.clamp(min=0)).sum(1)

    def target(self, g: Tensor, b: Tensor, c: Tensor) -> Tensor:
        inside = torch.minimum(torch.maximum(c, self.lower), self.upper)
        t = torch.where(g > 0, self.lower, torch.where(g < 0, self.upper, inside))
        return torch.where(b > 0, t, 0.0)

    def scale(self, g: Tensor, b: Tensor, c: Tensor) -> Tensor:
        raised = (g + log_ratio(self.lower, c)).clamp(min=0)
        lowered = (g + log_ratio(self.upper, c)).clamp(max=0)
        return torch.where(b > 0, raised + lowered, 0.0)

    def slope_in_b(self, g: Tensor, b: Tensor) -> Tensor:
        return torch.zeros_like(g)

    def target_in_b(self, g: Tensor, b: Tensor) -> Tensor:
        return torch.zeros_like(g)

    def movable(self, g: Tensor, b: Tensor, c: Tensor) -> Tensor:
        return ((g != 0) | (c < self.lower) | (c > self.upper)) & (b > 0)

    def clip(self, g: Tensor, d: Tensor, c: Tensor) -> Tensor:
        kink = (c < self.lower).to(g.dtype) - (c > self.upper).to(g.dtype)  # g > 0 raises a mass to its lower bound
        side = torch.where(g != 0, torch.sign(g), kink)
        return torch.where(side * (g + d) < 0, -g, d)

    def translate(self, g: Tensor, b: Tensor) -> Tensor:
        """The penalty is piecewise linear along the constant: its minimum is where some potential reaches 0."""
        active = (b > 0)[:, None]
        shift = torch.sort(-g, dim=1).values
        moved = g[:, None] + shift[:, :, None]  # (B, shift, K)
        right = 1.0 - torch.where(active, torch.where(moved >= 0, self.lower, self.upper), 0.0).sum(2)
        left = 1.0 - torch.where(active, torch.where(moved > 0, self.lower, self.upper), 0.0).sum(2)
        here = (left <= 0) & (right >= 0)
        first = here.to(torch.int8).argmax(1, keepdim=True)
        best = torch.where(here.any(1, keepdim=True), shift.gather(1, first), 0.0)
        degenerate = torch.where(b > 0, self.upper - self.lower, 0.0).amax(1, keepdim=True) == 0
        return torch.where((b > 0) & ~degenerate, g + best, torch.where(b > 0, g, 0.0))
