"""From a file to rows of finite numbers, or one line that says why not."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from .._typing import Floats, Integers
from .messages import fail


class Known(NamedTuple):
    """Rows whose group is known."""

    labels: Integers  # (n,) -1: not known
    names: list[str]  # of the groups, in order


class Table(NamedTuple):
    """What is fitted, and the known groups to compare with."""

    X: Any  # (n, d) floats: a DataFrame, or an array from .npy
    names: list[str]  # (d,)
    groups: Integers | None  # (n,) -1: not known
    known: Known | None  # groups that the fit is told


def read_table(
    file: Path, columns: str | None, truth: str | None, known: str | None, note: Callable[[str], None]
) -> Table:
    """Read, choose columns, and check that every entry is a number."""
    frame = _read(file)
    if not len(frame):
        fail(f"{file} has no rows; a fit needs at least as many rows as components")
    not_features = {"--truth": truth, "--known": known}
    taken = {option: [] if text is None else _named(option, text, frame) for option, text in not_features.items()}
    if len(taken["--known"]) > 1:
        fail(f"--known is {known}; it must name one column")
    truths, told = (_groups(file, option, frame, names) for option, names in taken.items())
    if columns is None:
        names = _numeric(file, frame.drop(columns=list({name for used in taken.values() for name in used})), note)
    else:
        names = _named("--columns", columns, frame)
        for option, used in taken.items():
            for name in set(names) & set(used):
                fail(f"column {name!r} is in --columns and in {option}; it can be in one of them")
    X = pd.DataFrame({name: _finite(_floats(frame[name], name), name) for name in names})
    return Table(X.to_numpy() if file.suffix.lower() == ".npy" else X, names, truths.labels if truths else None, told)


def _groups(file: Path, option: str, frame: pd.DataFrame, names: list[str]) -> Known | None:
    """The groups that some columns name together, in sorted order."""
    if not names:
        return None
    grouped = frame.groupby(names if len(names) > 1 else names[0])
    labels = np.asarray(grouped.ngroup().fillna(-1), np.int64)
    if (labels < 0).all():
        fail(f"{option} is {','.join(names)}, but no row of {file} has a known group; choose columns with entries")
    return Known(labels, [str(name) for name in grouped.groups])


def _read(file: Path) -> pd.DataFrame:
    """The file as a DataFrame whose columns have strings for names."""
    kind = _kind(file)
    if kind not in READERS and not file.is_dir():
        fail(f"{file} has the ending {kind!r}; it must be .csv, .tsv (both also .gz), .parquet or .npy")
    if not file.is_file():
        fail(f"{file} {'is a folder' if file.is_dir() else 'does not exist'}; give the path of a table")
    try:
        frame = READERS[kind](file)
    except pd.errors.EmptyDataError:
        fail(f"{file} is empty; it must hold a line of column names, then rows of numbers")
    except ImportError:
        fail(f"{file} needs pyarrow to be read: pip install 'sinkhorn-em[parquet]'")
    except (ValueError, OSError, EOFError, zlib.error) as error:
        reason = str(error) or type(error).__name__
        fail(f"{file} cannot be read as {kind} ({reason}); mend or convert it")
    return frame.set_axis([str(name) for name in frame.columns], axis=1)


def _kind(file: Path) -> str:
    """The ending, in small letters, without .gz where the reader unpacks it."""
    kind = file.suffix.lower()
    inner = Path(file.stem).suffix.lower()
    return inner if kind == ".gz" and inner in (".csv", ".tsv") else kind


def _read_text(path: Path, separator: str) -> pd.DataFrame:
    return pd.read_csv(path, sep=separator, encoding="utf-8-sig")


def _read_array(path: Path) -> pd.DataFrame:
    array = np.load(path, allow_pickle=False)
    if array.ndim not in (1, 2):
        raise ValueError(f"its array has {array.ndim} dimensions; rows by columns are needed")
    return pd.DataFrame(array)


READERS: dict[str, Callable[[Path], pd.DataFrame]] = {
    ".csv": lambda path: _read_text(path, ","),
    ".tsv": lambda path: _read_text(path, "\t"),
    ".parquet": pd.read_parquet,
    ".npy": _read_array,
}


def _named(option: str, text: str, frame: pd.DataFrame) -> list[str]:
    """The columns that an option names."""
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in frame.columns:
            fail(f"{option} names {name!r}, which is no column; the columns are {', '.join(frame.columns)}")
        if names.count(name) > 1:
            fail(f"{option} names {name!r} twice; name every column once")
    return names


def _numeric(file: Path, frame: pd.DataFrame, note: Callable[[str], None]) -> list[str]:
    """All numeric columns; the others are named in a note."""
    names = [name for name in frame.columns if pd.api.types.is_any_real_numeric_dtype(frame[name])]
    left = [name for name in frame.columns if name not in names]
    if not names:
        fail(f"{file} has no numeric column, only {', '.join(left)}; is the separator that of its ending?")
    if left:
        note(f"columns left out, not numeric: {', '.join(left)}")
    numbers = [name for name in names if _numbers_the_rows(frame[name])]
    if numbers and len(names) > 1:
        others = ",".join(name for name in names if name not in numbers)
        note(f"column {numbers[0]!r} numbers the rows and is fitted as a feature; leave it out with --columns {others}")
    if _kind(file) in (".csv", ".tsv") and all(re.fullmatch(r"[-+.\deE]+", name) for name in frame.columns):
        note(f"the first line of {file} was read as column names, and all of them are numbers; is it a header?")
    return names


def _numbers_the_rows(column: pd.Series) -> bool:
    """Whether it is 0, 1, 2, ... or 1, 2, 3, ..."""
    values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    return len(values) > 1 and values[0] in (0, 1) and bool((np.diff(values) == 1).all())


def _floats(column: pd.Series, name: str) -> Floats:
    """One column as floats, missing values as NaN; float32 stays float32."""
    if column.dtype == np.float32:
        return column.to_numpy()
    numbers = pd.to_numeric(column, errors="coerce")
    text = numbers.isna().to_numpy() & column.notna().to_numpy()
    if text.any():
        row = int(np.flatnonzero(text)[0])
        fail(f"column {name!r} has text, {column.iloc[row]!r} in row {row} (from 0); choose columns of numbers")
    return numbers.to_numpy(dtype=np.float64, na_value=np.nan)


def _finite(column: Floats, name: str) -> Floats:
    """The column, if no entry is missing or infinite."""
    bad = np.flatnonzero(~np.isfinite(column))
    if not len(bad):
        return column
    kind = "a missing value" if np.isnan(column[bad[0]]) else "an infinite value"
    more = f" and {len(bad) - 1} more" if len(bad) > 1 else ""
    fail(
        f"column {name!r} has {kind} in row {bad[0]} (from 0){more}; every entry must be a finite number: "
        "remove or fill the row, or leave the column out with --columns"
    )
