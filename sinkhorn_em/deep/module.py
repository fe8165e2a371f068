"""The transport loss as a module, which keeps its potentials from batch to batch."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from .._parameters import check_integer
from ..ot.checks import check_rule
from .checks import check_options, column_weights
from .loss import TransportValue, transport_loss

DEFAULTS = {"epsilon": 0.05, "epsilon_mode": "relative", "value": "entropic", "gradient": "envelope"}
OPTIONS = {*DEFAULTS, "rule", "tau", "tol", "max_passes", "iterations", "reduction"}


class TransportLoss(nn.Module):
    """`transport_loss` with settings and a warm start of its own, for K columns.

    The potentials of the last batch start the next one's solver; they are part of ``state_dict``.

    Parameters
    ----------
    n_columns : int
        K.
    weights : array (K,), optional
        Column masses, default uniform; `forward` may be given others.
    **options
        Of `transport_loss`: epsilon, epsilon_mode, value, gradient, rule, tau, tol, max_passes, iterations, reduction.

    Attributes
    ----------
    potentials : Tensor
        (K,), nats, or (K + 1,) with a virtual column; of several problems in one call, their mean.
    result : TransportValue or None
        Of the last call: residual, passes, plan entropy; its value is detached.

    Raises
    ------
    ValueError
        As `transport_loss`; options it does not have.
    """

    potentials: Tensor
    weights: Tensor

    def __init__(self, n_columns: int, weights: Any = None, **options: Any) -> None:
        super().__init__()
        check_integer("n_columns", n_columns, 1)
        unknown = sorted(set(options) - OPTIONS)
        if unknown:
            raise ValueError(f"options {unknown} are not known; they must be among {sorted(OPTIONS)}")
        law = check_rule(options.get("rule", "fixed"), options.get("tau"), n_columns)
        check_options(*(options.get(name, default) for name, default in DEFAULTS.items()))
        with torch.no_grad():
            w = column_weights(weights, n_columns, (), torch.device("cpu"))[0].clone()
        self.options = options
        self.register_buffer("weights", w)
        self.register_buffer("potentials", torch.zeros(len(law.extend(w.numpy())), dtype=torch.float64))
        self.result: TransportValue | None = None

    def forward(self, cost: Tensor, weights: Any = None, row_mass: Any = None) -> Tensor:
        """The loss (...) of costs (..., m, K)."""
        w = self.weights if weights is None else weights
        result = transport_loss(cost, w, row_mass=row_mass, potentials=self.potentials, **self.options)
        self.result = result._replace(value=result.value.detach())  # keeps no graph alive
        g = torch.where(torch.isfinite(result.potentials), result.potentials, 0.0)
        self.potentials = g.reshape(-1, g.shape[-1]).mean(0)
        return result.value

    def _apply(self, fn: Any, recurse: bool = True) -> TransportLoss:
        """Masses and potentials follow the module to its device, but stay in float64: in half precision masses do not sum to 1."""
        before = self.weights, self.potentials
        super()._apply(fn, recurse)
        after = self.weights, self.potentials
        self.weights, self.potentials = (
            new.double() if old.is_meta else old.to(new.device) for old, new in zip(before, after, strict=True)
        )
        return self

    def extra_repr(self) -> str:
        """Columns and options."""
        return ", ".join([str(len(self.weights)), *(f"{name}={value!r}" for name, value in self.options.items())])
