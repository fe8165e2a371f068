"""Where the rows live: `InMemory`, `Tiled` over an array on disk, or on a device as torch tensors (`tensor_rows`).

A new engine is one class and one registry line.
"""

from .base import ENGINES, Engine, InMemory, Tiled, tensor_rows

__all__ = ["ENGINES", "Engine", "InMemory", "Tiled", "tensor_rows"]
