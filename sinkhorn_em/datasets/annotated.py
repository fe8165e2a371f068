"""Spots with layers in a file of AnnData, which names nothing in one way."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from .spots import Spots, integer_counts, layer_names

LAYER_KEYS = (  # of .obs in the files in circulation
    "layer_guess_reordered_short",
    "layer_guess_reordered",
    "layer_guess",
    "sce.layer_guess",
    "spatialLIBD",
    "ground_truth",
    "Ground Truth",
    "Region",
    "layer",
    "annotation",
)
POSITION_KEYS = (("array_row", "array_col"), ("row", "col"))


def read_h5ad(path: Path, layer_key: str | None) -> Spots:
    """Counts, layers and positions, wherever they are."""
    try:
        anndata = import_module("anndata")
    except ImportError as error:
        raise ImportError(f"{path.name} needs anndata ({error}): pip install 'sinkhorn-em[anndata]'") from None
    table = anndata.read_h5ad(path)
    counts, genes = _counts(table, path.name)
    key = _layer_key(table.obs.columns, layer_key, path.name)
    return Spots(
        counts=counts,
        genes=np.asarray(genes, dtype=str),
        barcodes=np.asarray(table.obs_names, dtype=str),
        coordinates=_coordinates(table, path.name),
        layers=layer_names(table.obs[key], f"{path.name}, .obs[{key!r}],"),
    )


def _counts(table: Any, name: str) -> tuple[Any, Any]:
    """The first matrix of whole numbers among the layer counts, X and raw.X, and its genes."""
    candidates = [(table.layers[key], table.var_names) for key in ("counts", "count") if key in table.layers]
    candidates += [(part.X, part.var_names) for part in (table, table.raw) if part is not None and part.X is not None]
    for matrix, genes in candidates:
        try:
            return integer_counts(matrix, name), genes
        except ValueError:  # logarithms, or scaled: try the next one
            continue
    raise ValueError(f"{name} has no raw counts in .layers['counts'], .X or .raw.X; they hold logarithms or nothing.")


def _layer_key(columns: Any, layer_key: str | None, name: str) -> str:
    tried = LAYER_KEYS if layer_key is None else (layer_key,)
    for key in tried:
        if key in columns:
            return key
    raise ValueError(f"{name} has none of {', '.join(tried)} in .obs but {', '.join(columns)}; name one by layer_key.")


def _coordinates(table: Any, name: str) -> Any:
    """Rows and columns (n, 2) of the array; pixels, as floats, if there is nothing else."""
    for keys in POSITION_KEYS:
        if set(keys) <= set(table.obs.columns):
            return table.obs[list(keys)].to_numpy(np.int64)
    if "spatial" in table.obsm:
        return np.asarray(table.obsm["spatial"], dtype=np.float64)[:, 1::-1]  # x, y to row, column
    raise ValueError(f"{name} has neither array_row and array_col in .obs nor .obsm['spatial']; add one of them.")
