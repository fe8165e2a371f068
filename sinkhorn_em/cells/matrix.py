"""`Cells`: an n x m matrix as powers of its values, exposures and missing cells; all that is asked of it are sums."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from .._typing import Floats
from .products import times, transposed_times

Matrix = Any  # ndarray (n, m) in C order, or csr_array (n, m)


class Part(NamedTuple):
    """Channels t_c(X_ij) = values_ij ** power, one for each of ``powers``; 0 at missing cells."""

    values: Matrix  # (n, m)
    powers: tuple[int, ...] = (1,)


class Cells(NamedTuple):
    """A matrix of n x m cells: channels t_c, and exposures e_ij = a_i b_j where the cell is observed, else 0."""

    parts: tuple[Part, ...]
    row_exposure: Floats  # (n,) a
    column_exposure: Floats  # (m,) b
    missing: csr_array | None = None  # (n, m) a_i b_j at the cells left out
    extra: Any = None  # what else a family needs of the values

    @property
    def shape(self) -> tuple[int, int]:
        """(n, m)."""
        return len(self.row_exposure), len(self.column_exposure)

    @property
    def n_observed(self) -> int:
        """Cells that are not left out."""
        n, m = self.shape
        return n * m - (0 if self.missing is None else self.missing.nnz)

    def over_columns(self, N: Floats) -> Floats:
        """(C + 1, n, q): every channel times N (m, q), and the exposures times N at the end."""
        sums = [times(part.values, part.powers, N) for part in self.parts]
        exposure = np.outer(self.row_exposure, self.column_exposure @ N)
        if self.missing is not None:
            exposure -= times(self.missing, (1,), N)[0]
        return np.concatenate([*sums, exposure[None]])

    def over_rows(self, T: Floats) -> Floats:
        """(C + 1, m, q): every channel transposed times T (n, q), and the exposures transposed times T at the end."""
        sums = [transposed_times(part.values, part.powers, T) for part in self.parts]
        exposure = np.outer(self.column_exposure, self.row_exposure @ T)
        if self.missing is not None:
            exposure -= transposed_times(self.missing, (1,), T)[0]
        return np.concatenate([*sums, exposure[None]])
