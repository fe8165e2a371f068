"""The integrated completed likelihood: how many row and column clusters?"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._typing import Integers
from ..block_families import BlockFamily
from ..cells import Cells
from .loop import BlockState, fit_of_blocks


def icl(
    cells: Cells,
    family: BlockFamily,
    state: BlockState,
    labels: tuple[Integers, Integers],
    learned: tuple[bool, bool],
    scale: Any,
) -> float:
    """-2 log p(X, z, w) at parameters, and learned weights, that fit the labels, plus the price of both."""
    sides = (state.rows, state.columns)
    K, L = (len(side.weights) for side in sides)
    T, N = (np.equal.outer(z, np.arange(size)).astype(float) for z, size in zip(labels, (K, L), strict=True))
    blocks = np.stack([T.T @ part for part in cells.over_columns(N)])
    fitted = family.maximise(blocks[:-1], blocks[-1], cells, state.parameters)
    value = fit_of_blocks(family.natural(fitted), blocks[:-1], blocks[-1]) + family.constant(cells, fitted)
    price = family.n_parameters(K, L, scale) * np.log(cells.n_observed)
    for R, side, free in zip((T, N), sides, learned, strict=True):
        n = len(R)
        weights = R.mean(axis=0) if free else side.weights
        held = weights > 0  # clusters of weight 0 have no rows
        value += float(R.sum(axis=0)[held] @ np.log(weights[held]))
        price += (len(weights) - 1) * np.log(n) if free else 0.0
    return float(price - 2 * value)
