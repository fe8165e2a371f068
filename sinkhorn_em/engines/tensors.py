"""Rows in a torch tensor: they, their scores and their responsibilities stay on its device; sums over rows come to the host."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from .._kinds import is_tensor, like
from .._typing import Floats
from .base import Engine

SINGLE = (torch.float32, torch.float16, torch.bfloat16)


class TensorRows(Engine):
    """All rows in one tile, on the device and in the precision of ``given``: float32 if that or less, else float64.

    Masses and scores are float64. The kernels cut the tile into pieces, and do their sums in float64.
    """

    def __init__(self, X: Any, row_mass: Any, given: Tensor | None = None) -> None:
        given = X if given is None and is_tensor(X) else given
        self.X = _tensor(X, given)
        self.row_mass = _tensor(row_mass, given).double()
        single = given is not None and given.dtype in SINGLE
        self.X = self.X.to(torch.float32 if single else torch.float64).contiguous()

    def tiles(self) -> Iterator[tuple[Tensor, Tensor]]:  # type: ignore[override]
        yield self.X, self.row_mass

    def place(self, rows: Floats) -> list[Any]:
        return [like(self.X, rows)]

    @property
    def n_tiles(self) -> int:
        return 1

    @property
    def shape(self) -> tuple[int, int]:
        return self.X.shape[0], self.X.shape[1]


def _tensor(values: Any, given: Tensor | None) -> Tensor:
    """A tensor of the values, on the device of ``given`` if there is one."""
    return like(torch.empty(0) if given is None else given, values)
