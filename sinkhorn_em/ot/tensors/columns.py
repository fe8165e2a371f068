"""Column rules for B problems at once: the formulas of `sinkhorn_em.ot.columns` on tensors (B, K).

Columns of mass b = 0 are inactive: their potentials stay at 0, and they count nowhere. No method waits for the device.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor

from ..columns import BoundedMass, ColumnRule, FixedMass, FreeMass, RelaxedMass, VirtualColumn

LARGEST_EXPONENT = 700.0  # exp stays finite
FAR = 3.0  # |log(t/c)| beyond which Newton's method on exp(g) takes unit steps where scaling takes one
NEWTON_STEPS = 15  # for the constant of KL columns of different rho: convex, from the left, quadratic
TINY = torch.finfo(torch.float64).tiny


class TensorRule(ABC):
    """The contract of `ColumnRule`, batched: numbers per problem are (B,)."""

    invariant = False
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

    def curvature(self, g: Tensor, b: Tensor) -> Tensor:
        """psi_k''(g_k)."""
        return torch.zeros_like(g)

    def movable(self, g: Tensor, b: Tensor, c: Tensor) -> Tensor:
        """Columns whose potential may move from here."""
        return b > 0

    def step_norm(self, d: Tensor, active: Tensor) -> Tensor:
        """Size of a step in nats, (B,): its oscillation, and its largest entry when a constant matters."""
        spread = _oscillation(d, active)
        return spread if self.invariant else torch.maximum(spread, (d * active).abs().amax(1))

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
        return torch.where(b > 0, g - (b * g).sum(1, keepdim=True), 0.0)


class Relaxed(TensorRule):
    """KL columns; ``rho`` (K,) may be 0 (free) or infinite (fixed)."""

    def __init__(self, tau: Tensor) -> None:
        self.rho = tau / (1 - tau)
        self.soft = (self.rho > 0) & torch.isfinite(self.rho)
        self.held = torch.isinf(self.rho)
        self.moves = self.rho > 0
        self.divisor = torch.where(self.soft, self.rho, 1.0)  # the infinite and the 0 are dealt with apart
        first = self.rho[0]
        self.common = bool((self.rho == first).all()) and bool(self.soft.all())
        self.some_free, self.some_soft = bool((self.rho == 0).any()), bool(self.soft.any())

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
        return torch.maximum(_oscillation(d, active), (relative * active).amax(1))

    def pin(self, g: Tensor) -> Tensor:
        return torch.where(self.moves, g, 0.0)

    def translate(self, g: Tensor, b: Tensor) -> Tensor:
        """Solve sum_k t_k(g + s) = 1 for s: convex and decreasing in s on the log scale, linear where rho is common."""
        if self.some_free:
            return self.pin(g)
        if not self.some_soft:
            return torch.where(b > 0, g - (b * g).sum(1, keepdim=True), 0.0)
        left = 1.0 - torch.where(self.held, b, 0.0).sum(1)
        log_left = torch.log(left.clamp(min=TINY))
        use = self.soft & (b > 0)
        log_terms = torch.where(use, torch.log(b.clamp(min=TINY)) - g / self.divisor, -torch.inf)
        if self.common:
            s = self.divisor[0] * (torch.logsumexp(log_terms, 1) - log_left)
        else:
            s = torch.where(use, self.divisor * (log_terms - log_left[:, None]), -torch.inf).amax(1)
            for _ in range(NEWTON_STEPS):
                exponent = log_terms - s[:, None] / self.divisor
                slope = (torch.softmax(exponent, 1) / self.divisor).sum(1)
                s = s + (torch.logsumexp(exponent, 1) - log_left) / slope
        s = torch.where((left > 0) & torch.isfinite(s), s, 0.0)
        return torch.where(b > 0, g + s[:, None], 0.0)


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

    def curvature(self, g: Tensor, b: Tensor) -> Tensor:
        return torch.cat([self.rule.curvature(g[:, :-1], b[:, :-1]), torch.zeros_like(g[:, -1:])], 1)

    def movable(self, g: Tensor, b: Tensor, c: Tensor) -> Tensor:
        return torch.cat([self.rule.movable(g[:, :-1], b[:, :-1], c[:, :-1]), b[:, -1:] > 0], 1)

    def step_norm(self, d: Tensor, active: Tensor) -> Tensor:
        return torch.maximum(_oscillation(d, active), self.rule.step_norm(d[:, :-1], active[:, :-1]))

    def clip(self, g: Tensor, d: Tensor, c: Tensor) -> Tensor:
        return torch.cat([self.rule.clip(g[:, :-1], d[:, :-1], c[:, :-1]), d[:, -1:]], 1)

    def off_scale(self, g: Tensor, b: Tensor, c: Tensor) -> Tensor | None:
        return self.rule.off_scale(g[:, :-1], b[:, :-1], c[:, :-1])

    def translate(self, g: Tensor, b: Tensor) -> Tensor:
        if self.invariant:
            return torch.where(b > 0, g - (b * g).sum(1, keepdim=True), 0.0)
        return torch.cat([self.rule.pin(g[:, :-1]), g[:, -1:]], 1)

    def extend(self, b: Tensor) -> Tensor:
        return torch.cat([(1 - self.mass) * b, torch.full_like(b[:, :1], self.mass)], 1)


def tensor_rule(rule: ColumnRule, n_columns: int, device: torch.device) -> TensorRule:
    """The batched form of a rule for ``n_columns`` (virtual ones not counted)."""

    def options(value: Any) -> Tensor:
        t = torch.as_tensor(value, dtype=torch.float64, device=device)
        return t.expand(n_columns).contiguous() if t.ndim == 0 else t

    if isinstance(rule, VirtualColumn):
        return Virtual(rule.mass, tensor_rule(rule.rule, n_columns, device))
    if isinstance(rule, FreeMass):
        return Free()
    if isinstance(rule, FixedMass):
        return Fixed()
    if isinstance(rule, RelaxedMass):
        return Relaxed(options(rule.tau))
    if isinstance(rule, BoundedMass):
        return Bounded(options(rule.lower), options(rule.upper))
    raise ValueError(
        f"rule is {rule!r}, which has no form for tensors; it must be one of the rules of sinkhorn_em.ot: "
        "pass scores.numpy() for rules of your own"
    )


def log_ratio(b: Tensor, c: Tensor) -> Tensor:
    """log(b/c), -inf where b is 0."""
    return torch.log(b) - torch.log(c.clamp(min=TINY))


def _oscillation(d: Tensor, active: Tensor) -> Tensor:
    """max - min over the active columns, (B,)."""
    highest = torch.where(active, d, -torch.inf).amax(1)
    return highest - torch.where(active, d, torch.inf).amin(1)
