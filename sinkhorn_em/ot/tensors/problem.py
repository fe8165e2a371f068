"""What is asked of the scores, masses and warm starts of B transport problems on tensors."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..._typing import Booleans, Floats
from ..checks import check_masses
from ..columns import ColumnRule
from ..feasibility import InfeasibleMarginalsError, check_feasible
from ..solve import LARGEST_POTENTIAL
from .columns import TensorRule, tensor_rule

#: L1 error of the column masses asked for where none is: scores in single precision cannot promise more than 1e-6
TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-6}
#: treatments of rows without a finite score that are errors, of `solve_plan` and of a loss, and what can be done about them
REMEDIES = {"raise": "use empty_rows='prior' or 'drop'", "refuse": "give it row_mass 0"}


class Rows(NamedTuple):
    """B checked problems: what the solver is given."""

    scores: Tensor  # (B, n, K)
    row_mass: Tensor  # (B, n) float64, sum 1 (over all processes)
    column_mass: Tensor  # (B, K) float64, virtual column included, sum 1
    rule: ColumnRule

    @property
    def tensor_rule(self) -> TensorRule:
        """The rule for all problems at once."""
        return tensor_rule(self.rule, self.scores.shape[2], self.scores.device)


def check_scores(scores: Tensor) -> Tensor:
    """Scores in float32 or float64, without NaN or +inf, with at least one row and one column."""
    if scores.ndim < 2 or 0 in scores.shape:
        raise ValueError(
            f"scores has shape {tuple(scores.shape)}; it must be (..., n, K) with at least one row and one column"
        )
    if scores.is_complex() or scores.layout is not torch.strided:
        raise ValueError(
            f"scores are {scores.dtype} and {scores.layout}; they must be real and dense: use scores.to_dense()"
        )
    S = scores.detach()
    if S.dtype not in TOLERANCES:
        S = S.float() if S.dtype in (torch.float16, torch.bfloat16) else S.double()
    if not bool(S.max() < torch.inf):  # NaN fails, too
        where = tuple(int(i) for i in torch.nonzero(~(torch.inf > S))[0])
        raise ValueError(
            f"scores{list(where)} is {float(S[where])}; scores must be finite or -inf: remove the row, or use -inf to forbid "
            "the pair"
        )
    return S


def check_problem(S: Tensor, row_mass: Any, column_mass: Any, rule: ColumnRule, empty_rows: str = "raise") -> Rows:
    """Masses and support of scores (..., n, K), flattened to B problems."""
    *batch, n, K = S.shape
    a = check_masses(host(row_mass), n, "row_mass", host(column_mass), tuple(batch))
    b = check_masses(host(column_mass), K, "column_mass", host(row_mass), tuple(batch))
    flat = S.reshape(-1, n, K)
    B = len(flat)
    a, b = np.broadcast_to(a, (*batch, n)).reshape(B, n), np.broadcast_to(b, (*batch, K)).reshape(B, K)
    extended = np.stack([rule.extend(row) for row in b])
    for active in extended > 0:
        if not active.all():
            rule.restrict(active)  # raises where the bounds of the other columns cannot be met
    if bool(flat.min() == -torch.inf):
        flat, a = _check_support(flat, a, extended, rule, empty_rows, tuple(batch))
    mass, masses = (torch.tensor(np.array(m), dtype=torch.float64, device=S.device) for m in (a, extended))
    return Rows(flat, mass, masses, rule)


def _check_support(
    S: Tensor, a: Floats, b: Floats, rule: ColumnRule, empty_rows: str, batch: tuple[int, ...]
) -> tuple[Tensor, Floats]:
    """Deal with rows that have no finite score, then make sure that the rule's masses can be met, problem by problem."""
    K = S.shape[2]
    finite = torch.isfinite(S).cpu().numpy() & (b[:, None, :K] > 0)
    empty = ~finite.any(axis=2) & (a > 0) & (b.shape[1] == K)
    if empty.any():
        S, a = _without_empty(S, a, empty, empty_rows, batch)
        finite = torch.isfinite(S).cpu().numpy() & (b[:, None, :K] > 0)
    for j in range(len(S)):
        support, active = finite[j], b[j] > 0
        if b.shape[1] > K:
            support = np.column_stack([support, np.ones(len(support), bool)])
        kept = rule if active.all() else rule.restrict(active)
        try:
            check_feasible(support, a[j], *kept.mass_bounds(b[j][active]), active)
        except InfeasibleMarginalsError as error:
            if not batch:
                raise
            raise InfeasibleMarginalsError(error.columns, f"problem {_place(j, batch)}: {error}") from None
    return S, a


def _without_empty(
    S: Tensor, a: Floats, empty: Booleans, empty_rows: str, batch: tuple[int, ...]
) -> tuple[Tensor, Floats]:
    """Scores and masses when rows with mass but no finite score are an error, left out, or level."""
    j, i = np.argwhere(empty)[0]
    of_problem = f"problem {_place(int(j), batch)}: " if batch else ""
    if empty_rows in REMEDIES:
        raise InfeasibleMarginalsError(
            [],
            f"{of_problem}row {i} (and {int(empty.sum()) - 1} more) has mass but no finite score: give it one, or "
            f"{REMEDIES[empty_rows]}",
        )
    if empty_rows == "prior":
        return torch.where(torch.as_tensor(empty, device=S.device)[:, :, None], 0.0, S), a
    a = np.where(empty, 0.0, a)
    total = a.sum(axis=1, keepdims=True)
    if not (total > 0).all():
        nothing = f"problem {_place(int(np.argmin(total)), batch)}: " if batch else ""
        raise ValueError(f"{nothing}no row has a finite score: nothing is left after empty_rows='drop'")
    return S, a / total


def _place(j: int, batch: tuple[int, ...]) -> list[int]:
    """Position of the j-th problem among the leading dimensions."""
    return [int(i) for i in np.unravel_index(j, batch)]


def check_potentials(potentials: Any, b: Tensor, batch: tuple[int, ...] | torch.Size) -> Tensor:
    """Warm starts (B, K)."""
    if potentials is None:
        return torch.zeros_like(b)
    shape = (*batch, b.shape[1])
    g = torch.as_tensor(potentials, dtype=torch.float64, device=b.device).detach()
    if tuple(g.shape) not in (shape, shape[-1:]):
        raise ValueError(f"potentials has shape {tuple(g.shape)}; it must be {shape}, one per column of every problem")
    g = g.expand(shape).reshape(b.shape)
    if not bool((torch.where(b > 0, g, 0.0).abs() < LARGEST_POTENTIAL).all()):
        raise ValueError("potentials must be finite for columns of positive mass: leave them out for a cold start")
    return torch.where(b > 0, g, 0.0)


def host(mass: Any) -> Any:
    """A small array on the host."""
    return mass.detach().cpu().double().numpy() if isinstance(mass, Tensor) else mass
