"""From a CSV file to a Bunch.

The files lie in ``data/`` at the root of a checkout, and in ``data/`` of the installed package. Their
provenance, the meaning of their columns and their flaws stand in PROVENANCE.md beside them, which is also the
source of ``DESCR``.
"""

from __future__ import annotations

import csv
import gzip
import io
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch

Dataset = Any  # a Bunch, or the pair (data, target) with return_X_y=True


class Source(NamedTuple):
    """What a loader knows about its data set."""

    section: str  # of PROVENANCE.md
    features: tuple[str, ...]  # columns of data
    labels: tuple[str, ...] = ()  # columns that together name the group
    groups: tuple[str, ...] = ()  # names of the groups, in the order of their first rows
    file: str | None = None  # None: section.csv


class Correction(NamedTuple):
    """One entry to put right, rows and columns counted from 0."""

    row: int
    column: int
    value: float


def load(source: Source, return_X_y: bool, as_frame: bool, correction: Correction | None = None) -> Dataset:
    """Read, mend and wrap one data set."""
    path = locate(source.file or f"{source.section}.csv")
    rows = _read_rows(path)
    data: Any = np.array([[row[name] for name in source.features] for row in rows], dtype=np.float64)
    target: Any = _codes(rows, source.labels) if source.labels else None
    if correction is not None:
        data[correction.row, correction.column] = correction.value
    frame = None
    if as_frame:
        frame, data, target = _frames(data, target, source.features)
    if return_X_y:
        return data, target
    return Bunch(
        data=data,
        target=target,
        frame=frame,
        target_names=np.array(source.groups) if source.groups else None,
        feature_names=list(source.features),
        DESCR=describe(source.section),
        filename=str(path),
    )


def locate(name: str) -> Traversable:
    """The file ``name`` of the installed package, else of the checkout."""
    candidates = (files("sinkhorn_em") / "data" / name, Path(__file__).resolve().parents[2] / "data" / name)
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    places = " or ".join(str(candidate) for candidate in candidates)
    raise FileNotFoundError(f"data file {name!r} must be at {places}; reinstall sinkhorn-em.")


def _read_rows(path: Traversable) -> list[dict[str, str]]:
    """The rows of a CSV file, gzipped or not."""
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.name.endswith(".gz") else raw).decode("utf-8")
    return list(csv.DictReader(io.StringIO(text)))


def _codes(rows: list[dict[str, str]], labels: tuple[str, ...]) -> NDArray[np.int64]:
    """Number the groups 0, 1, ... as they first appear."""
    code: dict[tuple[str, ...], int] = {}
    groups = (tuple(row[name] for name in labels) for row in rows)
    return np.array([code.setdefault(group, len(code)) for group in groups], dtype=np.int64)


def _frames(data: NDArray[np.float64], target: Any, features: tuple[str, ...]) -> tuple[Any, Any, Any]:
    """The whole table, its data and its target as pandas objects."""
    import pandas as pd  # here: only a frame needs it

    X = pd.DataFrame(data, columns=list(features))
    if target is None:
        return X, X, None
    y = pd.Series(target, name="target")
    return pd.concat([X, y], axis=1), X, y


def describe(section: str) -> str:
    """The section of PROVENANCE.md on one data set."""
    text = locate("PROVENANCE.md").read_text(encoding="utf-8")
    return text.split(f"\n## {section}\n", 1)[1].split("\n## ", 1)[0].strip()
