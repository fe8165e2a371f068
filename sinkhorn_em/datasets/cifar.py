"""Files of CIFAR-10: the authors' binary archive, and a zip of JPEG images."""

from __future__ import annotations

import io
import re
import tarfile
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from .downloads import optional

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
MEMBERS = {"train": tuple(f"data_batch_{i}.bin" for i in range(1, 6)), "test": ("test_batch.bin",)}
SIDE = 32  # pixels
RECORD = 1 + 3 * SIDE**2  # bytes: the label, then the red, green and blue plane
JPEG = re.compile(rf"(train|test)/({'|'.join(CLASSES)})/([0-9]+)\.jpg")


def read_binary(path: Path, parts: tuple[str, ...]) -> list[tuple[Any, Any]]:
    """Images (n, 32, 32, 3) and labels of the parts of a gzipped tar of batches."""
    batches = _batches(path, [member for part in parts for member in MEMBERS[part]])
    return [_records(np.concatenate([batches[member] for member in MEMBERS[part]])) for part in parts]


def _batches(path: Path, wanted: list[str]) -> dict[str, Any]:
    """Rows of bytes, one an image, by name of batch; the archive is read once, since it cannot be entered in the middle."""
    batches = {}
    try:
        with tarfile.open(path, "r:gz") as archive:
            for member in archive:
                name = member.name.rpartition("/")[2]
                stream = archive.extractfile(member) if name in wanted else None
                if stream is not None:
                    batches[name] = _rows(stream.read(), name, path)
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise ValueError(f"{path} is no gzipped tar, or damaged ({error}); delete it and get it again.") from None
    missing = [name for name in wanted if name not in batches]
    if missing:
        raise ValueError(f"{path} lacks {', '.join(missing)}: it must be the binary version of CIFAR-10, not another.")
    return batches


def _rows(content: bytes, name: str, path: Path) -> Any:
    if len(content) % RECORD:
        raise ValueError(
            f"{path} has {name} of {len(content)} bytes, no multiple of {RECORD}, the bytes of an image; "
            "delete it and get it again."
        )
    return np.frombuffer(content, dtype=np.uint8).reshape(-1, RECORD)


def _records(rows: Any) -> tuple[Any, Any]:
    """Colours are the last axis of images, in memory too."""
    planes = rows[:, 1:].reshape(-1, 3, SIDE, SIDE)
    return np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), rows[:, 0]


def read_jpegs(path: Path, parts: tuple[str, ...]) -> list[tuple[Any, Any]]:
    """Images (n, 32, 32, 3) and labels of the parts of a zip, sorted by class and number."""
    pillow = optional("PIL.Image", path.name)
    try:
        with zipfile.ZipFile(path) as archive:
            named = [match for match in map(JPEG.fullmatch, archive.namelist()) if match]
            return [_decoded(archive, _sorted(named, part), pillow) for part in parts]
    except (zipfile.BadZipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{path} is no zip, or damaged ({error}); delete it and get it again.") from None


def _sorted(named: list[re.Match[str]], part: str) -> list[tuple[int, int, str]]:
    """Class, number and name of the images of a part; the zip may have them in any order."""
    return sorted((CLASSES.index(match[2]), int(match[3]), match[0]) for match in named if match[1] == part)


def _decoded(archive: zipfile.ZipFile, listed: list[tuple[int, int, str]], pillow: Any) -> tuple[Any, Any]:
    images = np.empty((len(listed), SIDE, SIDE, 3), dtype=np.uint8)
    bar = tqdm(listed, desc="decoding JPEG", unit="image", delay=3, leave=False)  # seconds: small parts show none
    for row, (_, _, name) in enumerate(bar):
        images[row] = _decode(archive.read(name), name, pillow)
    return images, np.array([label for label, _, _ in listed], dtype=np.uint8)


def _decode(content: bytes, name: str, pillow: Any) -> Any:
    try:
        with pillow.open(io.BytesIO(content)) as picture:
            image = np.asarray(picture)
    except OSError as error:  # pillow's for what it cannot read
        raise ValueError(f"{name} is no image, or damaged ({error}); get the archive again.") from None
    if image.shape != (SIDE, SIDE, 3):
        raise ValueError(f"{name} has the shape {image.shape}, expected ({SIDE}, {SIDE}, 3): colours are needed.")
    return image
