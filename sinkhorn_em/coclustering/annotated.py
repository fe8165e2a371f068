"""Annotated matrices (AnnData): fit to ``X`` or to a layer, and write the labels back."""

from __future__ import annotations

from typing import Any

import numpy as np

from .model import LatentBlockModel


def fit_anndata(
    model: LatentBlockModel, adata: Any, *, layer: str | None = None, key: str = "block"
) -> LatentBlockModel:
    """Fit ``model`` to an AnnData object (observations are rows, variables columns) and write what it found into it.

    Written are ``adata.obs[key]`` and ``adata.var[key]`` (categories "0", "1", ...), ``adata.obsm[key]`` (n, K) and
    ``adata.varm[key]`` (m, L), the responsibilities, and ``adata.uns[key]``: weights, block parameters, bound and criterion.

    Parameters
    ----------
    model : LatentBlockModel
        It is fitted, and returned.
    adata : anndata.AnnData
        ``pip install 'sinkhorn-em[anndata]'``; nothing of that package is needed here but the object. A backed one is read.
    layer : str, optional
        Name of the layer to fit; default ``adata.X``.
    key : str
        Where results are written.

    Raises
    ------
    TypeError
        ``adata`` has no ``obs``, ``var``, ``layers`` and ``X``.
    ValueError
        There is no such layer; or as `LatentBlockModel.fit`.
    """
    if not all(hasattr(adata, name) for name in ("X", "obs", "var", "layers", "obsm", "varm", "uns")):
        raise TypeError(
            f"adata is a {type(adata).__name__}; it must be an AnnData object: give other matrices to model.fit"
        )
    if layer is not None and layer not in adata.layers:
        raise ValueError(f"layer is {layer!r}; it must be one of {sorted(adata.layers)}, or None for adata.X")
    X = adata.X if layer is None else adata.layers[layer]
    model.fit(X.to_memory() if hasattr(X, "to_memory") else X)
    if all(isinstance(name, str) for name in adata.var_names):
        model.feature_names_in_ = np.asarray(adata.var_names, object)
    adata.obs[key], adata.var[key] = _categories(model.row_labels_), _categories(model.column_labels_)
    adata.obsm[key], adata.varm[key] = model.row_responsibilities_, model.column_responsibilities_
    adata.uns[key] = {
        "row_weights": model.row_weights_,
        "column_weights": model.column_weights_,
        "block_parameters": dict(model.block_parameters_),
        "bound": model.bound_,
        "icl": model.icl(),
    }
    return model


def _categories(labels: Any) -> Any:
    import pandas as pd  # here: it would slow `import sinkhorn_em`

    return pd.Categorical(labels.astype(str), categories=[str(k) for k in np.unique(labels)])
