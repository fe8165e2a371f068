"""The cells of a matrix as a co-clustering sees them: sums over rows and over columns, dense or sparse, some cells left out.

`matrix` holds them, `products` multiplies by responsibilities. Nothing here knows a family or a transport problem.
"""

from .matrix import Cells, Part

__all__ = ["Cells", "Part"]
