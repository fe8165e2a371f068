"""From what a user passes to a `Source`: arrays, tensors, DataFrames, Datasets and DataLoaders, checked before any training."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_array, validate_data
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from .sources import InMemory, Loaded, Source


def as_source(estimator: Any, X: Any, *, reset: bool, least: int = 1) -> Source:
    """The rows of X (n, *shape) in float32, with at least ``least`` of them, finite, and of the shape that was fitted."""
    source: Source
    if isinstance(X, Dataset | DataLoader):
        source = Loaded(X)
        start = 0
        for rows in source.pieces():
            check_rows(rows, start)
            start += len(rows)
        check_number(start, least)
    elif isinstance(X, Tensor):
        check_rows(X)
        check_number(len(X), least)
        single = X.detach().to(torch.float32)
        check_rows(single)  # of a float64 tensor some may be infinite now
        source = InMemory(single.clone() if single.is_inference() else single)
    elif _n_axes(X) > 2:
        checked = check_array(X, dtype=np.float32, allow_nd=True, ensure_min_samples=least, input_name="X")
        source = InMemory(torch.tensor(checked))
    else:
        checked = validate_data(estimator, X, reset=reset, dtype=np.float32, order="C", ensure_min_samples=least)
        source = InMemory(torch.tensor(checked))
    if reset:
        estimator.n_features_in_ = int(np.prod(source.shape))
    elif tuple(source.shape) != tuple(estimator.input_shape_):
        raise ValueError(
            f"X has {source.n_rows} rows of shape {tuple(source.shape)}; {type(estimator).__name__} was fitted with "
            f"{estimator.n_features_in_} features as input, of shape {tuple(estimator.input_shape_)}: reshape X"
        )
    return source


def _n_axes(X: Any) -> int:
    """Axes of an array or of nested lists; whatever else is a table."""
    if isinstance(X, list | tuple):
        return np.ndim(X)
    return int(getattr(X, "ndim", 2))


def check_number(n: int, least: int) -> None:
    """ValueError for fewer rows than ``least``."""
    if n < least:
        raise ValueError(f"X has {n} sample(s); there must be at least {least}")


def check_rows(X: Tensor, start: int = 0) -> None:
    """ValueError unless X (m, ...) is real and finite; its first row is row ``start`` of the data."""
    if X.ndim < 2:
        raise ValueError(
            f"X is a tensor of shape {tuple(X.shape)}; it must be (n, ...), one row each: X.reshape(-1, 1) is one feature"
        )
    if X.is_complex():
        raise ValueError("X is complex; Complex data not supported: pass real and imaginary parts as features")
    bad = ~torch.isfinite(X)
    if bool(bad.any()):
        where = [int(i) for i in torch.nonzero(bad)[0]]
        value = float(X[tuple(where)])
        where[0] += start
        raise ValueError(
            f"X{where} is {value} in {str(X.dtype).removeprefix('torch.')}; Input X contains NaN or infinity: remove the row, "
            "impute it, or scale X down"
        )


def check_classes(y: Any, n_rows: int) -> np.ndarray | None:
    """Classes for monitoring, one a row."""
    if y is None:
        return None
    classes = y.detach().cpu().numpy() if isinstance(y, Tensor) else np.asarray(y)
    if classes.ndim != 1 or len(classes) != n_rows:
        raise ValueError(
            f"y has shape {classes.shape} and X has {n_rows} rows; y must have one class for every row, or be left out: "
            "it is for monitoring only"
        )
    return classes


def check_device(device: Any) -> torch.device:
    """The device that is meant, if it is there."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
        torch.zeros(1, device=chosen)
    except (RuntimeError, AssertionError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(
            f"device is {device!r}, which cannot be used ({reason}); it must be 'cpu', 'auto', or a device that torch finds here"
        ) from None
    return chosen
