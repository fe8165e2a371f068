"""The result of B transport problems on tensors: scores plus K numbers each."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from . import kernel


class TensorPlan(NamedTuple):
    """Entropic transport plans of tensors, from ``solve_plan``: the fields of `Plan`, after the scores' leading dimensions.

    With a virtual column, ``potentials`` and ``column_mass`` have one more entry, the virtual column's, at the end.
    """

    #: (..., n, K) the scores, in float32 or float64
    scores: Tensor
    #: (..., n) masses of sum 1
    row_mass: Tensor
    #: (..., K) log b + g
    offset: Tensor
    #: (..., K) column potentials g in nats, float64; -inf for columns of mass 0. Accepted back by ``solve_plan(..., potentials=)``
    potentials: Tensor
    #: (..., K) mass that each column receives, float64
    column_mass: Tensor
    #: (...) optimal value, nats per unit of row mass, float64
    value: Tensor
    #: (...) sum |c - t|
    marginal_error: Tensor
    #: (...) max |log(c/t)|
    relative_error: Tensor
    #: (...) passes over the scores
    n_passes: Tensor
    #: (...) both errors are within the tolerance
    converged: Tensor
    #: "converged"; "precision" or "max_passes" if any problem stopped for that reason
    status: str
    #: (...) |dual value - primal value of the plan|, nats
    dual_gap: Tensor

    @property
    def responsibilities(self) -> Tensor:
        """R (..., n, K) = softmax_k(scores + log b + g), in the precision of the scores: a new tensor at each call."""
        return self._all_columns[..., : self.scores.shape[-1]]

    @property
    def matrix(self) -> Tensor:
        """P (..., n, K): row mass times responsibilities."""
        return self.responsibilities * self.row_mass[..., None].to(self.scores.dtype)

    @property
    def unassigned(self) -> Tensor:
        """(..., n) share of every row that goes to the virtual column; zeros without one."""
        if self.offset.shape[-1] == self.scores.shape[-1]:
            return torch.zeros_like(self.row_mass, dtype=self.scores.dtype)
        return self._all_columns[..., -1]

    @property
    def _all_columns(self) -> Tensor:
        *batch, n, K = self.scores.shape
        with torch.no_grad():
            flat = self.scores.detach().reshape(-1, n, K)
            R = kernel.responsibilities(flat, self.offset.reshape(flat.shape[0], -1))
        return R.reshape(*batch, n, R.shape[-1])
