"""Files of MNIST's kind: IDX arrays of bytes, gzipped.

An IDX file begins with the bytes 0, 0, 8 (bytes follow) and the number of dimensions; the lengths follow as big-endian integers of
32 bits, then the bytes.
"""

from __future__ import annotations

import gzip
import hashlib
import math
import zlib
from pathlib import Path
from typing import Any

import numpy as np


def read_idx(path: Path, n_dimensions: int) -> tuple[Any, str]:
    """The array, and the sha256 of the decompressed file: the compressed one depends on who compressed it."""
    compressed = path.read_bytes()
    try:
        content = gzip.decompress(compressed)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{path} is not gzipped, or damaged ({error}); delete it and get it again.") from None
    magic = bytes((0, 0, 8, n_dimensions))
    start = 4 * (1 + n_dimensions)
    if content[:4] != magic or len(content) < start:
        raise ValueError(
            f"{path} begins with the bytes {content[:4].hex(' ')}, expected {magic.hex(' ')} and {n_dimensions} lengths: "
            f"it is no IDX file of bytes with {n_dimensions} dimensions, or damaged; move it away and get it again."
        )
    shape = tuple(np.frombuffer(content[4:start], dtype=">u4").tolist())
    if len(content) - start != math.prod(shape):
        raise ValueError(
            f"{path} has {len(content) - start} bytes for an array of shape {shape}; delete it and get it again."
        )
    array = np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)
    return array, hashlib.sha256(content).hexdigest()
