"""Covariance structures: how component covariances are shared and shaped. One class each, one registry line each.

With masses n_k and scatters W_k (about the new means), the M-step maximises -1/2 sum_k [n_k log|S_k| + tr(W_k S_k^-1)] over the
structure, with every eigenvalue of S_k kept above ``floor`` and within the user's bounds. ``ridge`` is added instead, when asked
for (scikit-learn's ``reg_covar``).

Three letters are mclust's names (Celeux & Govaert 1995): volume, shape, orientation, each Equal, Varying or of the axes (I).
"""

from __future__ import annotations

from .base import Covariances, Regularisation, Structure
from .blocks import BlockDiagonal
from .orientation import EVE, VVE
from .separable import Diag, Full, Spherical, Tied, TiedDiag, TiedSpherical
from .shapes import EEV, EVI, EVV
from .volumes import VEE, VEI, VEV

#: structures by name
STRUCTURES: dict[str, type[Structure]] = {
    s.name: s for s in (Full, Tied, Diag, TiedDiag, Spherical, TiedSpherical, VEI, EVI, VEE, EVE, VVE, EEV, VEV, EVV)
}

#: mclust's names of structures that have another one here; E and V are its univariate ones
MCLUST_NAMES: dict[str, str] = {
    "EII": "tied_spherical",
    "VII": "spherical",
    "EEI": "tied_diag",
    "VVI": "diag",
    "EEE": "tied",
    "VVV": "full",
    "E": "tied",
    "V": "full",
}


def structure_named(name: str) -> Structure:
    """The structure of a name of ours or of mclust's."""
    kind = STRUCTURES.get(MCLUST_NAMES.get(name, name))
    if kind is None:
        raise ValueError(
            f"covariance_type is {name!r}; it must be one of {', '.join(STRUCTURES)}, or one of mclust's names "
            f"{', '.join(MCLUST_NAMES)}"
        )
    return kind()


__all__ = [
    "MCLUST_NAMES",
    "STRUCTURES",
    "BlockDiagonal",
    "Covariances",
    "Regularisation",
    "Structure",
    "structure_named",
]
