"""Files of USPS: HDF5 with groups train and test, and LIBSVM's text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_svmlight_file

from .downloads import optional

SIDE = 16  # pixels
PIXELS = SIDE**2


def read_hdf5(path: Path, parts: tuple[str, ...]) -> list[tuple[Any, Any]]:
    """Images (n, 16, 16) and labels of the parts: arrays data (n, 256), in [0, 1], and target (n,) of each group."""
    h5py = optional("h5py", path.name)
    try:
        with h5py.File(path, "r") as file:
            arrays = [(file[part]["data"][:], file[part]["target"][:]) for part in parts]
    except (OSError, KeyError) as error:
        raise ValueError(f"{path} has no arrays data and target in groups train and test ({error}).") from None
    return [(_images(data, path, low=0), target) for data, target in arrays]


def read_libsvm(path: Path) -> tuple[Any, Any]:
    """Images (n, 16, 16) and labels of one part: values in [-1, 1] are mapped to [0, 1], labels 1 to 10 to 0 to 9."""
    try:
        data, target = load_svmlight_file(path, n_features=PIXELS, dtype=np.float64)
    except (OSError, EOFError, ValueError) as error:
        raise ValueError(
            f"{path} is no bzip2 of LIBSVM's text, or damaged ({error}); delete it and get it again."
        ) from None
    return _images(data.toarray(), path, low=-1), target - 1


def _images(data: Any, path: Path, low: int) -> Any:
    """From [low, 1] to [0, 1]."""
    if data.ndim != 2 or data.shape[1] != PIXELS:
        raise ValueError(f"{path} has data of shape {data.shape}, expected (n, {PIXELS}).")
    if not np.all((data >= low) & (data <= 1)):  # NaN is neither
        raise ValueError(
            f"{path} has values outside [{low}, 1], or NaN: it may be in another scale, or damaged; move it away and get it again."
        )
    return ((data - low) / (1 - low)).astype(np.float32).reshape(-1, SIDE, SIDE)
