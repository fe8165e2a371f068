"""Block families: the law of a cell given its row and its column cluster. `base` has the contract, each family a file."""

from typing import Any

from .base import BlockFamily, Natural
from .gaussian import Gaussian

#: families by name
BLOCK_FAMILIES: dict[str, Any] = {"gaussian": Gaussian}

__all__ = ["BLOCK_FAMILIES", "BlockFamily", "Gaussian", "Natural"]
