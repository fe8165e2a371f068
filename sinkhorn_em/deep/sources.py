"""Where the batches come from: arrays and tensors in memory, or a torch Dataset or DataLoader."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset

ROWS = 4096  # read at a time where the order does not matter


class Source(ABC):
    """Rows of one shape, visited in a new order in every epoch."""

    n_rows: int
    shape: tuple[int, ...]  # of one row

    @abstractmethod
    def batches(self, keys: Sequence[Sequence[int]], size: int, steps: int | None = None) -> Iterator[Tensor]:
        """Batches (S, m, *shape) of one epoch, in an order of its own for each of the S ``keys`` (of random numbers).

        Rows are shared out evenly among the batches, at most ``size`` in each; or among ``steps`` batches.
        """

    @abstractmethod
    def pieces(self) -> Iterator[Tensor]:
        """All rows, some (m, *shape) at a time, in the order of the data."""

    def n_batches(self, size: int) -> int:
        """Batches of one epoch."""
        return max(1, -(-self.n_rows // size))

    def order(self, key: Sequence[int], size: int, steps: int | None) -> list[np.ndarray]:
        """Rows of the batches of one epoch."""
        edges = np.linspace(0, self.n_rows, (steps or self.n_batches(size)) + 1).astype(int)
        return np.split(np.random.default_rng(key).permutation(self.n_rows), edges[1:-1])


class InMemory(Source):
    """A float32 tensor (n, *shape)."""

    def __init__(self, X: Tensor) -> None:
        self.X, self.n_rows, self.shape = X, len(X), tuple(X.shape[1:])

    def batches(self, keys: Sequence[Sequence[int]], size: int, steps: int | None = None) -> Iterator[Tensor]:
        for rows in zip(*(self.order(key, size, steps) for key in keys), strict=True):
            yield self.X[torch.as_tensor(np.stack(rows), device=self.X.device)]

    def pieces(self) -> Iterator[Tensor]:
        yield from self.X.split(ROWS)


class Loaded(Source):
    """A DataLoader, or a Dataset: for one member only. Items may be rows, or tuples that begin with a row.

    A Dataset is read in the order of an array; a DataLoader as it comes, batches of a single row left out.
    """

    def __init__(self, data: Dataset[Any] | DataLoader[Any]) -> None:
        self.loader = data if isinstance(data, DataLoader) else None
        self.dataset = data.dataset if isinstance(data, DataLoader) else data
        if isinstance(self.dataset, IterableDataset):
            raise ValueError(
                f"X is a {type(data).__name__} of an IterableDataset; rows are visited more than once, so that X must have a "
                "length and items by number: pass a Dataset of that kind, or an array"
            )
        self.n_rows = len(self.dataset)  # type: ignore[arg-type]
        if self.n_rows == 0 or (self.loader is not None and len(self.loader) == 0):
            raise ValueError(f"X is a {type(data).__name__} with 0 sample(s) to give; there must be at least one batch")
        first = as_rows(next(iter(self.loader or self._read(range(min(2, self.n_rows))))))
        if self.loader is not None and len(first) < min(2, self.n_rows):
            raise ValueError(
                "X is a DataLoader whose batches have 1 row; a batch needs at least 2 rows to be shared out among clusters: "
                "give it batch_size=300"
            )
        self.shape = tuple(first.shape[1:])

    def batches(self, keys: Sequence[Sequence[int]], size: int, steps: int | None = None) -> Iterator[Tensor]:
        for batch in self.loader or self._read(*self.order(keys[0], size, steps)):
            x = as_rows(batch)
            if self.loader is None or len(x) > 1:
                yield x[None]

    def pieces(self) -> Iterator[Tensor]:
        for batch in self._read(*(range(i, min(i + ROWS, self.n_rows)) for i in range(0, self.n_rows, ROWS))):
            yield as_rows(batch)

    def n_batches(self, size: int) -> int:
        return super().n_batches(size) if self.loader is None else len(self.loader)

    def _read(self, *batches: Sequence[int] | np.ndarray) -> DataLoader[Any]:
        """These rows, put together as the user's loader does it, without touching the global random state of torch."""
        own: dict[str, Any] = {
            "generator": torch.Generator(),
            "batch_sampler": [[int(i) for i in rows] for rows in batches],
        }
        user = self.loader
        if user is not None:
            own |= {"collate_fn": user.collate_fn, "num_workers": user.num_workers}
        return DataLoader(self.dataset, **own)


def as_rows(batch: Any) -> Tensor:
    """The rows of a batch: the batch, or the first of a tuple; integers are taken as they are, in float32."""
    x = batch[0] if isinstance(batch, tuple | list) and len(batch) else batch
    if not isinstance(x, Tensor | np.ndarray):
        raise ValueError(
            f"X gives batches of {type(x).__name__}; its items must be rows (tensors or arrays of one shape), or tuples that "
            "begin with one: wrap the Dataset"
        )
    return torch.as_tensor(x).to(torch.float32)
