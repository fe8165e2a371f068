"""Where the rows live. An engine knows how to visit tiles of rows; what is done there is given to it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Any, TypeVar

import numpy as np

from .._typing import Floats

Summable = TypeVar("Summable", bound=tuple[Any, ...])


class Engine(ABC):
    """The contract: rows ``X`` (n, d) of masses ``row_mass`` (n,), sum 1, visited in tiles, in a fixed order."""

    @abstractmethod
    def tiles(self) -> Iterator[tuple[Floats, Floats]]:
        """Tiles (X, row_mass) in order."""

    def map(self, fn: Callable[..., Floats], into: Sequence[Floats | None] | None = None) -> list[Floats]:
        """``fn(X, into)`` of every tile, one array each; ``into`` are earlier results whose memory may be used again."""
        old = into if into is not None else [None] * self.n_tiles
        return [fn(X, out) for (X, _), out in zip(self.tiles(), old, strict=True)]

    def reduce(self, fn: Callable[..., Summable], *mapped: Sequence[Any]) -> Summable:
        """The sum over tiles of ``fn(X, row_mass, *mapped)``, a tuple of numbers and arrays, in the order of the tiles."""
        total: Summable | None = None
        for (X, mass), *parts in zip(self.tiles(), *mapped, strict=True):
            term = fn(X, mass, *parts)
            total = term if total is None else _add(total, term)
        assert total is not None
        return total

    @abstractmethod
    def place(self, rows: Any) -> list[Any]:
        """An array in memory with one entry a row, (n, ...), cut into the tiles and brought to where the rows live."""

    @property
    @abstractmethod
    def n_tiles(self) -> int:
        """Number of tiles."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """(n, d)."""


def _add(a: Any, b: Any) -> Any:
    terms = [x if x is None else x + y for x, y in zip(a, b, strict=True)]
    return type(a)(*terms) if hasattr(a, "_fields") else tuple(terms)


class InMemory(Engine):
    """All rows in one tile: kernels split it among threads."""

    def __init__(self, X: Floats, row_mass: Floats) -> None:
        self.X, self.row_mass = X, row_mass

    def tiles(self) -> Iterator[tuple[Floats, Floats]]:
        yield self.X, self.row_mass

    def place(self, rows: Any) -> list[Any]:
        return [rows]

    @property
    def n_tiles(self) -> int:
        return 1

    @property
    def shape(self) -> tuple[int, int]:
        return self.X.shape[0], self.X.shape[1]


class Tiled(Engine):
    """Rows in an array that need not fit in memory (a memory map), read ``tile_rows`` at a time."""

    def __init__(self, X: Any, row_mass: Floats, tile_rows: int = 1 << 16) -> None:
        self.X, self.row_mass, self.tile_rows = X, row_mass, tile_rows

    def tiles(self) -> Iterator[tuple[Floats, Floats]]:
        for start in range(0, len(self.X), self.tile_rows):
            rows = slice(start, start + self.tile_rows)
            yield np.asarray(self.X[rows]), self.row_mass[rows]

    def place(self, rows: Any) -> list[Any]:
        starts = range(0, len(self.X), self.tile_rows)  # copied: the kernels know contiguous arrays only
        return [np.asfortranarray(rows[start : start + self.tile_rows]) for start in starts]

    @property
    def n_tiles(self) -> int:
        return -(-len(self.X) // self.tile_rows)

    @property
    def shape(self) -> tuple[int, int]:
        return self.X.shape[0], self.X.shape[1]


def tensor_rows(X: Any, row_mass: Any, given: Any = None) -> Engine:
    """`tensors.TensorRows`: the rows on the device and in the precision of the tensor ``given``. Imports torch."""
    engine: Engine = import_module("sinkhorn_em.engines.tensors").TensorRows(X, row_mass, given)
    return engine


#: engines by name
ENGINES: dict[str, Callable[..., Engine]] = {"memory": InMemory, "tiled": Tiled, "tensor": tensor_rows}
