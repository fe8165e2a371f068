"""Rows spread over processes: sums over them, and what has to agree between them.

Every process holds some rows of one problem, at least one, and the same options, weights and warm start. K numbers and the overlaps
of the columns are summed at each pass; all processes see the same sums, take the same steps, and stop at the same pass.

A training step: each process takes its own part of the loss (``transport_loss(..., reduction=sum_over_processes())``, and means
over the batch times `row_share`), calls ``backward()``, then `sum_gradients`. With ``DistributedDataParallel``, which averages,
multiply the part by the number of processes instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ..ot import ColumnRule
from ..ot.checks import check_masses
from ..ot.feasibility import InfeasibleMarginalsError
from ..ot.tensors import Reduction
from ..ot.tensors.problem import REMEDIES, Rows, check_problem, host

T = TypeVar("T")


def sum_over_processes(group: Any = None) -> Reduction:
    """A function that sums a tensor over the processes of ``group`` (default: all), for ``transport_loss(..., reduction=)``.

    Raises
    ------
    RuntimeError
        ``torch.distributed`` is not initialised.
    """
    _check_initialised()

    def reduction(x: Tensor) -> Tensor:
        total = x.detach().clone(memory_format=torch.contiguous_format)
        if dist.get_backend(group) == "nccl" and not x.is_cuda:  # which takes nothing that is elsewhere
            total = total.to(torch.device("cuda", torch.cuda.current_device()))
        dist.all_reduce(total, group=group)
        return total.to(x.device)

    return reduction


def sum_gradients(parameters: nn.Module | Iterable[Tensor], group: Any = None) -> None:
    """Replace the gradients of a module, or of parameters, by their sums over the processes, in one message for each type.

    A parameter that has a gradient in some processes only counts as 0 in the others; without any it keeps ``None``.

    Raises
    ------
    RuntimeError
        ``torch.distributed`` is not initialised.
    """
    _check_initialised()
    listed = parameters.parameters() if isinstance(parameters, nn.Module) else parameters
    kinds: dict[tuple[torch.dtype, torch.device], list[Tensor]] = {}
    for p in listed:
        if p.requires_grad:
            kinds.setdefault((p.dtype, p.device), []).append(p)
    for same in kinds.values():
        present = same[0].new_tensor([p.grad is not None for p in same])
        gradients = [(torch.zeros_like(p) if p.grad is None else p.grad).reshape(-1) for p in same]
        total = torch.cat([present, *gradients])
        dist.all_reduce(total, group=group)
        parts = total[len(same) :].split([p.numel() for p in same])
        for p, part, some in zip(same, parts, (total[: len(same)] > 0).tolist(), strict=True):
            p.grad = part.reshape(p.shape).clone() if some else None


def row_share(n_rows: int, reduction: Reduction) -> float:
    """The share of all rows that this process holds: mean losses times it sum to the mean over all rows."""
    return n_rows / float(reduction(torch.tensor([float(n_rows)], dtype=torch.float64)))


def rows_of_all(x: Tensor, reduction: Reduction, group: Any = None) -> Tensor:
    """Rows (S, n, d) of all processes, one process after the other, in all of them."""
    counts = torch.zeros(dist.get_world_size(group), dtype=torch.float64)
    counts[dist.get_rank(group)] = x.shape[1]
    edges = [0, *reduction(counts).long().cumsum(0).tolist()]
    whole = x.new_zeros(x.shape[0], edges[-1], x.shape[2])
    start = edges[dist.get_rank(group)]
    whole[:, start : start + x.shape[1]] = x
    return reduction(whole)


def together(check: Callable[[], T], reduction: Reduction | None) -> T:
    """The result of ``check``; if it raises in one process, all raise, so that none waits for the others for ever."""
    if reduction is None:
        return check()
    failure: ValueError | None = None
    try:
        result = check()
    except ValueError as error:
        failure = error
    failures = float(reduction(torch.tensor([float(failure is not None)], dtype=torch.float64)))
    if failure is not None:
        raise failure
    if failures > 0:
        raise RuntimeError(f"{failures:.0f} other processes refused their rows: see the errors there")
    return result


def any_process(flag: bool) -> bool:
    """Whether the flag is up in some process."""
    return bool(sum_over_processes()(torch.tensor(float(flag), dtype=torch.float64)) > 0)


def of_all_processes(text: str) -> str:
    """The texts of all processes, in their order."""
    texts: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(texts, text)
    return " ".join(texts)


def shard(S: Tensor, row_mass: Any, w: Tensor, rule: ColumnRule, reduction: Reduction) -> tuple[Rows, Tensor]:
    """Problems (..., m, K) of which this process holds m rows, and the share (B,) of the row mass that it holds."""
    *batch, m, _ = S.shape

    def check() -> Tensor:
        mass = host(row_mass)
        a = torch.as_tensor(check_masses(mass, m, "row_mass", None, tuple(batch)))
        total = torch.as_tensor(m if mass is None else mass, dtype=torch.float64)
        a = a * (total if mass is None else total.sum(-1, keepdim=True))
        a = a.expand(*batch, m).reshape(-1, m).to(S.device)
        empty = torch.isneginf(S).sum(-1).eq(S.shape[-1]).reshape(-1, m) & (a > 0)
        if len(rule.extend(w.reshape(-1, w.shape[-1])[0].cpu().numpy())) == w.shape[-1] and bool(empty.any()):
            row = torch.nonzero(empty)[0].tolist()
            raise InfeasibleMarginalsError(
                [], f"row {row} (problem, row) may go to no column: give it one, or {REMEDIES['refuse']}"
            )
        return a

    a = together(check, reduction)
    here = a.sum(1)
    whole = reduction(here)
    columns = check_problem(torch.zeros_like(S[..., :1, :]), None, w, rule)
    return columns._replace(scores=S.reshape(-1, *S.shape[-2:]), row_mass=a / whole[:, None]), here / whole


def _check_initialised() -> None:
    if not (dist.is_available() and dist.is_initialized()):
        raise RuntimeError("torch.distributed is not initialised: call torch.distributed.init_process_group first")
