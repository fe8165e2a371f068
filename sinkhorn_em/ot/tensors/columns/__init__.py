"""Column rules for B problems at once: the formulas of `sinkhorn_em.ot.columns` on tensors (B, K).

Columns of mass b = 0 are inactive: their potentials stay at 0, and they count nowhere. No method waits for the device.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ...columns import BoundedMass, ColumnRule, FixedMass, FreeMass, RelaxedMass, VirtualColumn
from .base import TensorRule, log_ratio
from .bounded import Bounded
from .marginals import Fixed, Free, Relaxed
from .virtual import Virtual

__all__ = ["Bounded", "Fixed", "Free", "Relaxed", "TensorRule", "Virtual", "log_ratio", "tensor_rule"]


def tensor_rule(rule: ColumnRule, n_columns: int, device: torch.device) -> TensorRule:
    """The batched form of a rule for ``n_columns`` (virtual ones not counted)."""

    def options(value: Any) -> Tensor:
        t = torch.as_tensor(value, dtype=torch.float64)
        return t.expand(n_columns).contiguous() if t.ndim == 0 else t

    if isinstance(rule, VirtualColumn):
        return Virtual(rule.mass, tensor_rule(rule.rule, n_columns, device))
    if isinstance(rule, FreeMass):
        return Free()
    if isinstance(rule, FixedMass):
        return Fixed()
    if isinstance(rule, RelaxedMass):
        return Relaxed(options(rule.tau), device)
    if isinstance(rule, BoundedMass):
        return Bounded(options(rule.lower).to(device), options(rule.upper).to(device))
    raise ValueError(
        f"rule is {rule!r}, which has no form for tensors; it must be one of the rules of sinkhorn_em.ot: "
        "pass scores.numpy() for rules of your own"
    )
