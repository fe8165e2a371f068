"""Public files: the folder they lie in, how they are got, and their sums."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

CACHE = "sinkhorn-em"
VARIABLE = "SINKHORN_EM_DATA"  # of the environment: a folder of data sets


class Remote(NamedTuple):
    """A public file."""

    name: str
    url: str
    checksum: str | None = None  # as pooch writes it, "md5:..." or "sha256:..."; None: a download is not checked


def data_folder(data_home: str | Path | None) -> Path:
    """The folder that was given, else the one that the environment names, else the cache of the system."""
    folder = data_home if data_home is not None else os.environ.get(VARIABLE)
    if folder:
        return Path(folder).expanduser()
    return Path(optional("pooch", "the cache of public files").os_cache(CACHE))


def present(name: str, places: Iterable[Path]) -> Path | None:
    """The file in the first folder that has it."""
    return next((place / name for place in places if (place / name).is_file()), None)


def obtain(remote: Remote, places: tuple[Path, ...], download: bool) -> Path:
    """The file in the first folder that has it; downloaded into the first folder if none has."""
    path = present(remote.name, places)
    if path is not None:
        return path
    if not download:
        missing = " or ".join(str(place / remote.name) for place in places)
        raise FileNotFoundError(
            f"{missing} is absent and download=False; get it from {remote.url}, or pass download=True."
        )
    pooch = optional("pooch", "downloading public files")
    pooch.retrieve(remote.url, known_hash=remote.checksum, fname=remote.name, path=places[0], progressbar=True)
    return places[0] / remote.name


def sha256_of(files: Iterable[Path], expected: dict[str, str], of: str) -> dict[str, str]:
    """Sums by name of file of the data set ``of``; ValueError where another one was expected."""
    sums = {}
    for file in files:
        with file.open("rb") as stream:
            sums[file.name] = hashlib.file_digest(stream, "sha256").hexdigest()
        check_sum(file, sums[file.name], expected.get(file.name), of)
    return sums


def check_sum(file: Path, found: str, expected: str | None, of: str) -> None:
    """ValueError if another sum was expected of a file of the data set ``of``; the file may be a good one of another set."""
    if expected is not None and found != expected:
        raise ValueError(
            f"{file} has the sha256 {found}, expected {expected}, that of {of}: it may be of another data set or version, or "
            f"damaged. Name the folder that has the files of {of}, or move this one away and get it again; to read it as it is, "
            "give its sum in sha256."
        )


def optional(module: str, purpose: str) -> Any:
    """A module of the extra fetch."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(f"{purpose} needs {module} ({error}): pip install 'sinkhorn-em[fetch]'") from None
