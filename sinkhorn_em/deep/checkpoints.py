"""States on disk: one safetensors file, its numbers as JSON in the header. Nothing is executed when a file is read."""

from __future__ import annotations

import json
import os
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .sources import Source
from .state import State

FORMAT = 1
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")  # of an object in memory: another one in another process
FILE = "checkpoint.safetensors"
#: parameters that may be objects, which no file keeps
OBJECTS = ("encoder", "decoder", "rule", "augment")


def write(path: Path, state: State, facts: dict[str, Any]) -> None:
    """Replace the file by the state and ``facts`` (plain values) in one step: a kill leaves the old or the new one."""
    save_file, _ = _safetensors()
    if not path.parent.is_dir():
        raise FileNotFoundError(f"path is {str(path)!r}; its folder does not exist: make it first")
    tensors = state.tensors()
    header = {"format": FORMAT, "sum": _sum_of(tensors), "numbers": state.numbers(), "facts": facts}
    temporary = path.with_name(f".{path.name}.partial")
    save_file(tensors, temporary, metadata={"sinkhorn_em": json.dumps(header)})
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
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        found = header.get("format") if isinstance(header, dict) else header
        raise ValueError(f"{path} has format {found}; this version reads format {FORMAT}: fit again, or update")
    if header["sum"] != _sum_of(tensors):
        raise ValueError(f"{path} is damaged: its numbers do not have the checksum they were written with; use a copy")
    return tensors, header["numbers"], header["facts"]


def differences(facts: dict[str, Any], kept: dict[str, Any]) -> list[str]:
    """Names of the facts that are not those of a file; of parameters, which of them."""
    names = []
    for name in sorted(facts):
        own, other = facts[name], kept.get(name)
        if own != other:
            which = [key for key in own if own[key] != (other or {}).get(key)] if isinstance(own, dict) else []
            names.append(f"{name} ({', '.join(which)})" if which else name)
    return names


def fingerprint(source: Source) -> str:
    """A sum of the rows: a checkpoint is taken up only on the data it was made on.

    Of a Dataset that draws random views its number of rows and their shape are all that stays the same.
    """
    total = zlib.crc32(repr((source.n_rows, source.shape)).encode())
    if not torch.equal(next(source.pieces()), next(source.pieces())):
        return f"{total:08x}"
    for rows in source.pieces():
        total = zlib.crc32(_bytes(rows), total)
    return f"{total:08x}"


def _bytes(x: Tensor) -> bytes:
    return bytes(x.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())


def _sum_of(tensors: dict[str, Tensor]) -> str:
    """A checksum of tensors and their names."""
    total = 0
    for name in sorted(tensors):
        total = zlib.crc32(_bytes(tensors[name]), zlib.crc32(name.encode(), total))
    return f"{total:08x}"


def plain(value: Any) -> Any:
    """A constructor parameter as JSON: numbers, text and arrays as they are, an object by its description in a dictionary."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Tensor):
        return value.tolist()
    if hasattr(value, "__array__"):
        return np.asarray(value).tolist()
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, torch.nn.Module):
        return {"object": type(value).__name__, "layers": repr(value), "sum": _sum_of(dict(value.state_dict()))}
    return {"object": _ADDRESS.sub("", getattr(value, "__qualname__", repr(value)))}


def _safetensors() -> tuple[Any, Any]:
    try:
        from safetensors import safe_open
        from safetensors.torch import save_file
    except ImportError as error:
        raise ImportError(f"files of networks need safetensors ({error}): pip install 'sinkhorn-em[torch]'") from None
    return save_file, safe_open
