"""States on disk: one safetensors file, its numbers as JSON in the header. Nothing is executed when a file is read."""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .sources import InMemory, Source
from .state import State

FORMAT = 1
FILE = "checkpoint.safetensors"
#: parameters that may be objects, which no file keeps
OBJECTS = ("encoder", "decoder", "rule", "augment")


def write(path: Path, state: State, facts: dict[str, Any]) -> None:
    """Replace the file by the state and ``facts`` (plain values) in one step: a kill leaves the old or the new one."""
    save_file, _ = _safetensors()
    header = {"format": FORMAT, "numbers": state.numbers(), "facts": facts}
    temporary = path.with_suffix(".tmp")
    save_file(state.tensors(), temporary, metadata={"sinkhorn_em": json.dumps(header)})
    os.replace(temporary, path)


def read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any], dict[str, Any]]:
    """Tensors, numbers and facts of a file."""
    if not path.is_file():
        raise FileNotFoundError(f"path is {str(path)!r}; there is no such file: give one that save() wrote")
    _, safe_open = _safetensors()
    try:
        with safe_open(path, framework="pt") as file:
            header = json.loads((file.metadata() or {})["sinkhorn_em"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (KeyError, json.JSONDecodeError, OSError, ValueError) as error:
        raise ValueError(f"{path} is no file of this package ({error}): give one that save() wrote") from None
    except Exception as error:  # safetensors raises an error type of its own
        raise ValueError(f"{path} cannot be read as safetensors ({error}); it is damaged or of another kind") from None
    if header["format"] != FORMAT:
        raise ValueError(
            f"{path} has format {header['format']}; this version reads format {FORMAT}: fit again, or update"
        )
    return tensors, header["numbers"], header["facts"]


def fingerprint(source: Source) -> str:
    """A sum of the rows: a checkpoint is taken up only on the data it was made on."""
    total = zlib.crc32(repr((source.n_rows, source.shape)).encode())
    if isinstance(source, InMemory):
        for start in range(0, source.n_rows, 4096):
            total = zlib.crc32(np.ascontiguousarray(source.X[start : start + 4096].cpu().numpy()).tobytes(), total)
    return f"{total:08x}"


def plain(value: Any) -> Any:
    """A constructor parameter as JSON: numbers, text and arrays as they are, an object by its description in a dictionary."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray | Tensor):
        return np.asarray(value).tolist()
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, torch.nn.Module):
        return {"object": type(value).__name__, "parameters": sum(p.numel() for p in value.parameters())}
    return {"object": getattr(value, "__qualname__", repr(value))}


def _safetensors() -> tuple[Any, Any]:
    try:
        from safetensors import safe_open
        from safetensors.torch import save_file
    except ImportError as error:
        raise ImportError(f"files of networks need safetensors ({error}): pip install 'sinkhorn-em[torch]'") from None
    return save_file, safe_open
