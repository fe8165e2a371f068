"""The result of a transport problem: a plan held as scores plus K numbers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._typing import Floats
from .kernel import responsibilities


class RowsPlan(NamedTuple):
    """The plan of some rows: R_ik = softmax_k(scores_ik + offset_k), P_ik = row_mass_i R_ik. Nothing else is stored."""

    scores: Floats  # (n, K)
    offset: Floats  # (K,) log b + g; one more entry for a virtual column
    row_mass: Floats  # (n,)

    @property
    def responsibilities(self) -> Floats:
        """R (n, K), computed when asked for, without a virtual column."""
        return responsibilities(self.scores, self.offset)[:, : self.scores.shape[1]]

    @property
    def matrix(self) -> Floats:
        """P = row mass times responsibilities, (n, K), computed when asked for."""
        R = self.responsibilities
        R *= self.row_mass[:, None]
        return R

    def rows(self, rows: slice) -> RowsPlan:
        """The plan of some of the rows (their scores are copied: the kernels know contiguous arrays only)."""
        return RowsPlan(np.asfortranarray(self.scores[rows]), self.offset, self.row_mass[rows])


class Plan(NamedTuple):
    """An entropic transport plan from n rows to K columns, from `solve_plan`.

    With a virtual column, ``potentials`` and ``column_mass`` have one more entry, the virtual column's, at the end.
    """

    rows: RowsPlan
    #: (K,) column potentials g in nats, sum b g = 0 where only differences matter; -inf for columns of mass 0.
    #: Accepted back by ``solve_plan(..., potentials=)``.
    potentials: Floats
    #: mass that each column receives, (K,)
    column_mass: Floats
    #: optimal value of the problem, nats per unit of row mass (in a mixture: a lower bound of the mean log-likelihood)
    value: float
    #: L1 distance of the column masses from what the rule asks, sum |c - t|
    marginal_error: float
    #: max |log(c/t)| over columns
    relative_error: float
    #: passes over the scores
    n_passes: int
    #: both errors are within the tolerance
    converged: bool
    #: "converged"; "precision": no further progress is possible in float64; "max_passes"
    status: str
    #: |dual value - primal value of the plan|, nats
    dual_gap: float

    @property
    def responsibilities(self) -> Floats:
        """R (n, K) = softmax_k(scores + log b + g): a new array at each call, never stored."""
        return self.rows.responsibilities

    @property
    def matrix(self) -> Floats:
        """P (n, K): row mass times responsibilities; rows sum to the row mass (less what a virtual column takes)."""
        return self.rows.matrix

    @property
    def unassigned(self) -> Floats:
        """(n,) share of every row that goes to the virtual column; zeros without one."""
        scores, offset = self.rows.scores, self.rows.offset
        if len(offset) == scores.shape[1]:
            return np.zeros(len(scores))
        return responsibilities(scores, offset)[:, -1]
