"""Where the rows live: `InMemory`, or `Tiled` over an array on disk. A new engine is one class and one registry line."""

from .base import ENGINES, Engine, InMemory, Tiled

__all__ = ["ENGINES", "Engine", "InMemory", "Tiled"]
