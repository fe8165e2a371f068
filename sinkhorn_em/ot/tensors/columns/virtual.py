"""One more column of fixed mass."""

from __future__ import annotations

import torch
from torch import Tensor

from .base import TensorRule, centred, log_ratio, oscillation


class Virtual(TensorRule):
    """One more column of fixed mass at the end; the others follow ``rule``."""

    def __init__(self, mass: float, rule: TensorRule) -> None:
        self.mass, self.rule = mass, rule
        self.invariant, self.kinks = rule.invariant, rule.kinks  # constrains: always, the last column is fixed

    def penalty(self, g: Tensor, b: Tensor) -> Tensor:
        return self.rule.penalty(g[:, :-1], b[:, :-1]) - self.mass * g[:, -1]

    def target(self, g: Tensor, b: Tensor, c: Tensor) -> Tensor:
        return torch.cat([self.rule.target(g[:, :-1], b[:, :-1], c[:, :-1]), b[:, -1:]], 1)

    def scale(self, g: Tensor, b: Tensor, c: Tensor) -> Tensor:
        last = g[:, -1:] + log_ratio(b[:, -1:], c[:, -1:])
        return torch.cat([self.rule.scale(g[:, :-1], b[:, :-1], c[:, :-1]), last], 1)

    def slope_in_b(self, g: Tensor, b: Tensor) -> Tensor:
        return torch.cat([self.rule.slope_in_b(g[:, :-1], b[:, :-1]), -g[:, -1:]], 1)

    def target_in_b(self, g: Tensor, b: Tensor) -> Tensor:
        return torch.cat([self.rule.target_in_b(g[:, :-1], b[:, :-1]), torch.ones_like(g[:, -1:])], 1)

    def divergence(self, b: Tensor, c: Tensor) -> Tensor:
        return self.rule.divergence(b[:, :-1], c[:, :-1])

    def flat(self, b: Tensor) -> Tensor:
        return self.rule.flat(b[:, :-1])

    def curvature(self, g: Tensor, b: Tensor) -> Tensor:
        return torch.cat([self.rule.curvature(g[:, :-1], b[:, :-1]), torch.zeros_like(g[:, -1:])], 1)

    def movable(self, g: Tensor, b: Tensor, c: Tensor) -> Tensor:
        return torch.cat([self.rule.movable(g[:, :-1], b[:, :-1], c[:, :-1]), b[:, -1:] > 0], 1)

    def step_norm(self, d: Tensor, active: Tensor) -> Tensor:
        return torch.maximum(oscillation(d, active), self.rule.step_norm(d[..., :-1], active[..., :-1]))

    def clip(self, g: Tensor, d: Tensor, c: Tensor) -> Tensor:
        return torch.cat([self.rule.clip(g[:, :-1], d[:, :-1], c[:, :-1]), d[:, -1:]], 1)

    def off_scale(self, g: Tensor, b: Tensor, c: Tensor) -> Tensor | None:
        return self.rule.off_scale(g[:, :-1], b[:, :-1], c[:, :-1])

    def translate(self, g: Tensor, b: Tensor) -> Tensor:
        pinned = torch.cat([self.rule.pin(g[:, :-1]), g[:, -1:]], 1)
        return torch.where(self.flat(b)[:, None], centred(pinned, b), pinned)

    def extend(self, b: Tensor) -> Tensor:
        return torch.cat([(1 - self.mass) * b, torch.full_like(b[:, :1], self.mass)], 1)
