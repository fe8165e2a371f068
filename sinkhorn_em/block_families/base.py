"""The contract of a block family: the law of one cell, given its row and column cluster."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Literal, NamedTuple

from scipy.sparse import csr_array

from .._typing import Booleans, Floats
from ..cells import Cells
from ..cells.matrix import Matrix

New = Literal["rows", "columns"]

SMALLEST_EXPOSURE = 1e-13  # of the total: less is rounding of sums over cells that are left out, and counts as none


class Natural(NamedTuple):
    """log f(x; phi_kl, e) = sum_c eta_ckl t_c(x) - e A_kl + h(x, e), for C channels t_c and an exposure e."""

    eta: Floats  # (C, K, L)
    log_partition: Floats  # (K, L) A


class BlockFamily(ABC):
    """One exponential family. Stateless: options are the fields of a frozen dataclass, parameters a NamedTuple of arrays.

    ``scale`` is what the family measures on the data of the fit, and needs again for new rows or columns: units, margins,
    categories. ``missing`` has a 1 at every cell that is left out (X is 0 there), or is None.
    """

    non_negative: ClassVar[bool] = False  # values below 0 are refused

    def check(self) -> None:  # noqa: B027
        """Raise ValueError if an option breaks its rule."""

    @abstractmethod
    def measure(self, X: Matrix, missing: csr_array | None) -> Any:
        """The scale of X; ValueError naming the cell if a value is outside the family's range."""

    @abstractmethod
    def cells(self, X: Matrix, missing: csr_array | None, scale: Any, new: New | None = None) -> Cells:
        """The channels and exposures of X. ``new``: X has new rows, or new columns, and the scale is that of a fit."""

    @abstractmethod
    def start(self, cells: Cells, K: int, L: int) -> Any:
        """Parameters of K x L blocks, all alike, those of the whole matrix."""

    @abstractmethod
    def natural(self, parameters: Any) -> Natural:
        """Natural parameters, all finite."""

    @abstractmethod
    def maximise(self, sums: Floats, exposure: Floats, cells: Cells, parameters: Any) -> Any:
        """Maximise sum_kl [sum_c eta_ckl sums_ckl - exposure_kl A_kl] + constant; blocks without exposure stay as they are.

        ``sums`` (C, K, L) and ``exposure`` (K, L) are those of the channels, weighted by row and column responsibilities.
        """

    @abstractmethod
    def constant(self, cells: Cells, parameters: Any) -> float:
        """The sum of h over observed cells, nats, in the units of the data."""

    @abstractmethod
    def n_parameters(self, K: int, L: int, scale: Any) -> int:
        """Free parameters of K x L blocks."""

    @abstractmethod
    def describe(self, parameters: Any, scale: Any) -> dict[str, Any]:
        """The parameters in the units of the data, by name; the first (K, L) array is what a block is about."""

    @abstractmethod
    def points(self, cells: Cells) -> tuple[Matrix, ...]:
        """Matrices (n, m) with about equal variance in all cells, whose rows and columns may be compared by distance (starts)."""

    def centre(self, cells: Cells) -> tuple[Floats, Floats] | None:
        """u (n,), v (m,): the points are compared after u v' is subtracted (it would make them dense); None: as they are."""
        return None

    @property
    def pooled(self) -> BlockFamily:
        """The same family with dispersions in common, for the burn-in."""
        return self

    def collapsed(self, parameters: Any) -> Booleans | None:
        """(K, L) blocks whose dispersion is held at its floor; None if the family has none."""
        return None


def with_exposure(exposure: Floats) -> Booleans:
    """Which blocks (K, L) have data to estimate parameters from."""
    return exposure > SMALLEST_EXPOSURE * exposure.sum()
