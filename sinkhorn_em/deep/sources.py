"""Where the batches come from: arrays and tensors in memory, or a torch Dataset or DataLoader."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

ROWS = 4096  # of a Dataset, read at a time where the order does not matter


class Source(ABC):
    """Rows of one shape, visited in a new order in every epoch."""

    n_rows: int
    shape: tuple[int, ...]  # of one row

    @abstractmethod
    def batches(self, keys: Sequence[Sequence[int]], size: int, steps: int | None = None) -> Iterator[Tensor]:
        """Batches (S, m, *shape) of one epoch, in an order of its own for each of the S ``keys`` (of random numbers).

        Rows are shared out evenly among the batches, at most ``size`` in each; or among ``steps`` batches.
        """

    def n_batches(self, size: int) -> int:
        """Batches of one epoch."""
        return max(1, -(-self.n_rows // size))

    @abstractmethod
    def rows(self) -> Tensor:
        """All rows (n, *shape), in the order of the data."""


class InMemory(Source):
    """A float32 tensor (n, *shape)."""

    def __init__(self, X: Tensor) -> None:
        self.X, self.n_rows, self.shape = X, len(X), tuple(X.shape[1:])

    def batches(self, keys: Sequence[Sequence[int]], size: int, steps: int | None = None) -> Iterator[Tensor]:
        orders = np.stack([np.random.default_rng(key).permutation(self.n_rows) for key in keys])
        order = torch.as_tensor(orders, device=self.X.device)
        edges = np.linspace(0, self.n_rows, (steps or self.n_batches(size)) + 1).astype(int)
        for start, stop in pairwise(edges):
            yield self.X[order[:, start:stop]]

    def rows(self) -> Tensor:
        return self.X


class Loaded(Source):
    """A DataLoader, or a Dataset: for one member only. Items may be rows, or tuples that begin with a row."""

    def __init__(self, data: Dataset[Any] | DataLoader[Any]) -> None:
        self.data = data
        first = as_rows(next(iter(self._loader(2, shuffle=False))))
        self.shape = tuple(first.shape[1:])
        self.n_rows = len(data.dataset if isinstance(data, DataLoader) else data)  # type: ignore[arg-type]

    def _loader(self, size: int, shuffle: bool) -> DataLoader[Any]:
        """The user's loader, or one over the Dataset on the global random state of torch."""
        if isinstance(self.data, DataLoader):
            return self.data
        return DataLoader(self.data, batch_size=size, shuffle=shuffle)

    def batches(self, keys: Sequence[Sequence[int]], size: int, steps: int | None = None) -> Iterator[Tensor]:
        for batch in self._loader(size, shuffle=True):
            x = as_rows(batch)
            if len(x) > 1:
                yield x[None]

    def n_batches(self, size: int) -> int:
        return len(self._loader(size, shuffle=True))

    def rows(self) -> Tensor:
        data = self.data.dataset if isinstance(self.data, DataLoader) else self.data
        loader = DataLoader(data, batch_size=ROWS, shuffle=False)
        return torch.cat([as_rows(batch) for batch in loader])


def as_rows(batch: Any) -> Tensor:
    """The rows of a batch: the batch, or the first of a tuple; integers are taken as they are, in float32."""
    x = batch[0] if isinstance(batch, tuple | list) else batch
    return torch.as_tensor(x).to(torch.float32)
