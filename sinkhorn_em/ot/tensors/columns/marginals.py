"""Free, fixed and KL columns."""

from __future__ import annotations

import torch
from torch import Tensor

from .base import TINY, TensorRule, centred, log_ratio, oscillation

LARGEST_EXPONENT = 700.0  # exp stays finite
FAR = 3.0  # |log(t/c)| beyond which Newton's method on exp(g) takes unit steps where scaling takes one
NEWTON_STEPS = 15  # for the constant of KL columns of different rho: convex, from the left, quadratic


class Free(TensorRule):
    """tau = 0."""

    constrains = False

    def penalty(self, g: Tensor, b: Tensor) -> Tensor:
        return torch.zeros_like(g[:, 0])

    def target(self, g: Tensor, b: Tensor, c: Tensor) -> Tensor:
        return c

    def scale(self, g: Tensor, b: Tensor, c: Tensor) -> Tensor:
        return torch.zeros_like(g)

    def slope_in_b(self, g: Tensor, b: Tensor) -> Tensor:
        return torch.zeros_like(g)

    def target_in_b(self, g: Tensor, b: Tensor) -> Tensor:
        return torch.zeros_like(g)

    def movable(self, g: Tensor, b: Tensor, c: Tensor) -> Tensor:
        return torch.zeros_like(g, dtype=torch.bool)

    def pin(self, g: Tensor) -> Tensor:
        return torch.zeros_like(g)


class Fixed(TensorRule):
    """tau = 1."""

    invariant = True

    def penalty(self, g: Tensor, b: Tensor) -> Tensor:
        return -(b * g).sum(1)

    def target(self, g: Tensor, b: Tensor, c: Tensor) -> Tensor:
        return b

    def scale(self, g: Tensor, b: Tensor, c: Tensor) -> Tensor:
        return torch.where(b > 0, g + log_ratio(b, c), 0.0)

    def slope_in_b(self, g: Tensor, b: Tensor) -> Tensor:
        return -g

    def target_in_b(self, g: Tensor, b: Tensor) -> Tensor:
        return torch.ones_like(g)

    def translate(self, g: Tensor, b: Tensor) -> Tensor:
        return centred(g, b)


class Relaxed(TensorRule):
    """KL columns; ``rho`` (K,) may be 0 (free) or infinite (fixed)."""

    def __init__(self, tau: Tensor, device: torch.device) -> None:
        rho = tau / (1 - tau)  # on the host, so that the questions below need not wait for the device
        soft = (rho > 0) & torch.isfinite(rho)
        self.some_soft = bool(soft.any())
        self.common = self.some_soft and bool((rho == rho[0]).all())
        self.rho, self.soft = rho.to(device), soft.to(device)
        self.held = torch.isinf(self.rho)
        self.moves = self.rho > 0
        self.divisor = torch.where(self.soft, self.rho, 1.0)  # the infinite and the 0 are dealt with apart

    def _ratio(self, g: Tensor) -> Tensor:
        """-g/rho: 0 for fixed columns, and for free ones, which do not ask."""
        return torch.where(self.soft, -g / self.divisor, 0.0).clamp(max=LARGEST_EXPONENT)

    def penalty(self, g: Tensor, b: Tensor) -> Tensor:
        soft = torch.where(self.soft, self.divisor * b * torch.expm1(self._ratio(g)), 0.0)
        return (soft - torch.where(self.held, b * g, 0.0)).sum(1)

    def target(self, g: Tensor, b: Tensor, c: Tensor) -> Tensor:
        return torch.where(self.moves, b * torch.exp(self._ratio(g)), c)

    def curvature(self, g: Tensor, b: Tensor) -> Tensor:
        return torch.where(self.soft, b * torch.exp(self._ratio(g)) / self.divisor, 0.0)

    def scale(self, g: Tensor, b: Tensor, c: Tensor) -> Tensor:
        tau = torch.where(self.held, 1.0, torch.where(self.soft, self.divisor / (1 + self.divisor), 0.0))
        return torch.where(b > 0, tau * (g + log_ratio(b, c)), 0.0)

    def slope_in_b(self, g: Tensor, b: Tensor) -> Tensor:
        soft = torch.where(self.soft, self.divisor * torch.expm1(self._ratio(g)), 0.0)
        return soft - torch.where(self.held, g, 0.0)

    def target_in_b(self, g: Tensor, b: Tensor) -> Tensor:
        return torch.where(self.moves, torch.exp(self._ratio(g)), 0.0)

    def divergence(self, b: Tensor, c: Tensor) -> Tensor:
        kl = torch.where(c > 0, c * log_ratio(c, b), 0.0) - c + b
        return torch.where(self.soft, self.divisor * kl, 0.0).sum(1)

    def movable(self, g: Tensor, b: Tensor, c: Tensor) -> Tensor:
        return self.moves & (b > 0)

    def off_scale(self, g: Tensor, b: Tensor, c: Tensor) -> Tensor | None:
        if not self.some_soft:
            return None
        off = (log_ratio(b, c) - g / self.divisor).abs() > FAR
        return (off & self.soft & (b > 0)).any(1)

    def step_norm(self, d: Tensor, active: Tensor) -> Tensor:
        relative = torch.where(self.soft, d.abs() / self.divisor, 0.0)
        return torch.maximum(oscillation(d, active), (relative * active).amax(-1))

    def pin(self, g: Tensor) -> Tensor:
        return torch.where(self.moves, g, 0.0)

    def flat(self, b: Tensor) -> Tensor:
        return (self.held | (b == 0)).all(1)

    def translate(self, g: Tensor, b: Tensor) -> Tensor:
        """Solve sum_k t_k(g + s) = 1 for s, where no column is free: convex and decreasing in s on the log scale."""
        pinned = self.pin(g)
        if not self.some_soft:
            return torch.where(self.flat(b)[:, None], centred(pinned, b), pinned)
        left = 1.0 - torch.where(self.held, b, 0.0).sum(1)
        log_left = torch.log(left.clamp(min=TINY))
        use = self.soft & (b > 0)
        log_terms = torch.where(use, torch.log(b.clamp(min=TINY)) - g / self.divisor, -torch.inf)
        s = self._shift(log_terms, log_left)
        any_free = (~self.moves & (b > 0)).any(1)
        s = torch.where(use.any(1) & (left > 0) & ~any_free, s, 0.0)[:, None]
        return torch.where(b > 0, torch.where(self.flat(b)[:, None], centred(pinned, b), pinned + s), 0.0)

    def _shift(self, log_terms: Tensor, log_left: Tensor) -> Tensor:
        """Solve sum_k exp(log_terms_k - s/rho_k) = exp(log_left): in closed form where rho is common."""
        if self.common:
            return self.divisor[0] * (torch.logsumexp(log_terms, 1) - log_left)
        s = (self.divisor * (log_terms - log_left[:, None])).amax(1)
        for _ in range(NEWTON_STEPS):
            exponent = log_terms - s[:, None] / self.divisor
            slope = (torch.softmax(exponent, 1) / self.divisor).sum(1)
            s = s + (torch.logsumexp(exponent, 1) - log_left) / slope
        return s
