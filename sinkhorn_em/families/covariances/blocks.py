"""Block-diagonal covariances: groups of features that are independent within a component, each group with its own structure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._typing import Floats, Integers
from .base import Covariances, Regularisation, Structure
from .separable import Full

Bounds = tuple[float, float]


@dataclass(frozen=True)
class BlockDiagonal(Structure):
    """Covariances that are zero between blocks of coordinates: values (K, d, d).

    Parameters
    ----------
    blocks : sequence of sequences of int
        A partition of the coordinates 0 .. d - 1.
    parts : Structure or sequence of Structure
        The structure of every block, or one for all of them; unrestricted by default.
    eigenvalue_bounds : sequence of (lower, upper) or None
        Bounds of the eigenvalues in every block, instead of those of the regularisation; None: none of its own.

    Raises
    ------
    ValueError
        The blocks are no partition, or there is not one part or pair of bounds for each.
    """

    blocks: tuple[tuple[int, ...], ...]
    parts: tuple[Structure, ...] = (Full(),)
    eigenvalue_bounds: tuple[Bounds | None, ...] = (None,)

    name, full, coordinates = "blocks", True, "blocks"

    def __post_init__(self) -> None:
        # in ascending order within a block, triangular factors of blocks make a triangular factor
        blocks = tuple(tuple(sorted(int(i) for i in block)) for block in self.blocks)
        indices = sorted(i for block in blocks for i in block)
        if not all(blocks) or not blocks or indices != list(range(len(indices))):
            raise ValueError(
                f"blocks is {self.blocks}; every one of the coordinates 0 .. d - 1 must be in exactly one block, "
                "and no block may be empty"
            )
        parts = (self.parts,) if isinstance(self.parts, Structure) else self.parts
        fields: dict[str, Any] = {
            "blocks": blocks,
            "parts": _one_each("parts", parts, len(blocks)),
            "eigenvalue_bounds": _one_each("eigenvalue_bounds", self.eigenvalue_bounds, len(blocks)),
        }
        fields["independent"] = all(part.independent for part in fields["parts"])
        fields["shared"] = False  # as the shape of the values says, whatever the parts
        for field, value in fields.items():
            object.__setattr__(self, field, value)

    def maximise(
        self, mass: Floats, scatter: Floats, regularisation: Regularisation, current: Covariances | None = None
    ) -> Covariances:
        def block(index: Integers, part: Structure, bounds: Bounds | None) -> Covariances:
            own = _select(scatter, index)
            before = None if current is None else _restrict(current, index, part)
            return part.maximise(
                mass, own if part.full else _diagonals(own), _regularisation(regularisation, index, bounds), before
            )

        return self._assemble(block, len(mass), scatter.shape[-1])

    def from_values(self, values: Floats, K: int, d: int) -> Covariances:
        def block(index: Integers, part: Structure, bounds: Bounds | None) -> Covariances:
            return part.from_values(own_values(part, _select(values, index)), K, len(index))

        return self._assemble(block, K, d)

    def n_parameters(self, K: int, d: int) -> int:
        return sum(part.n_parameters(K, len(index)) for index, part in zip(self.blocks, self.parts, strict=True))

    @property
    def pooled(self) -> Structure:
        return BlockDiagonal(self.blocks, tuple(part.pooled for part in self.parts), self.eigenvalue_bounds)

    def check(self, regularisation: Regularisation) -> None:
        for index, part, bounds in zip(self.blocks, self.parts, self.eigenvalue_bounds, strict=True):
            part.check(_regularisation(regularisation, np.array(index), bounds))

    def _assemble(
        self, block: Callable[[Integers, Structure, Bounds | None], Covariances], K: int, d: int
    ) -> Covariances:
        """Every block's covariances put in their place."""
        if d != sum(map(len, self.blocks)):
            raise ValueError(
                f"blocks is {self.blocks}, a partition of {sum(map(len, self.blocks))} coordinates, not of {d}"
            )
        values, factors = np.zeros((2, K, d, d))
        log_det, held = np.zeros(K), np.zeros(K, bool)
        for block_index, part, bounds in zip(self.blocks, self.parts, self.eigenvalue_bounds, strict=True):
            index = np.array(block_index)
            one = block(index, part, bounds)
            place = np.ix_(np.arange(K), index, index)
            values[place] = dense_values(part, one.values, K, len(index))
            F = one.factors
            factors[place] = F if F.ndim == 3 else F[:, :, None] * np.eye(len(index))
            log_det += one.log_det
            held |= one.held
        return Covariances(values, factors, log_det, held)


def own_values(structure: Structure, S: Floats) -> Floats:
    """Covariances (K, d, d) of a structure in its own shape."""
    values = S if structure.full else _diagonals(S)
    if structure.spherical:
        values = values[:, 0]
    return values[0] if structure.shared else values


def dense_values(structure: Structure, values: Floats, K: int, d: int) -> Floats:
    """Covariances (K, d, d) from values in the structure's shape."""
    values = np.asarray(values)
    each = np.broadcast_to(values, (K, *values.shape)) if structure.shared else values
    if structure.full:
        return each
    return np.reshape(each, (K, 1, -1)) * np.eye(d)


def _one_each(name: str, given: Sequence, n: int) -> tuple:
    """One of ``given`` for every block; a single one is for all."""
    each = tuple(given) * n if len(given) == 1 else tuple(given)
    if len(each) != n:
        raise ValueError(f"{name} has {len(each)} entries for {n} blocks; give one for each block, or one for all")
    return each


def _select(S: Floats, index: Integers) -> Floats:
    return S[:, index[:, None], index]


def _diagonals(S: Floats) -> Floats:
    return S.diagonal(axis1=1, axis2=2).copy()


def _regularisation(whole: Regularisation, index: Integers, bounds: Bounds | None) -> Regularisation:
    ridge = None if whole.ridge is None else whole.ridge[np.ix_(index, index)]
    return Regularisation(whole.floor, ridge, whole.bounds if bounds is None else bounds)


def _restrict(current: Covariances, index: Integers, part: Structure) -> Covariances | None:
    """The block of block-diagonal covariances; None if it is not known what they are."""
    if current.factors.ndim != 3 or current.values.shape != current.factors.shape:
        return None
    F = _select(current.factors, index)
    scales = F.diagonal(axis1=1, axis2=2)
    values = own_values(part, _select(current.values, index))
    return Covariances(values, F if part.full else scales.copy(), np.log(scales).sum(axis=1), current.held)
