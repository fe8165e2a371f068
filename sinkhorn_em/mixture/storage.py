"""Fitted mixtures as JSON: nothing is executed when a file is read, and numbers come back to the last bit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

FORMAT = 1


def to_plain(value: Any) -> Any:
    """Arrays, NumPy numbers, NamedTuples and dicts as plain JSON values."""
    if isinstance(value, np.ndarray):
        return {"array": value.tolist(), "dtype": str(value.dtype), "shape": list(value.shape)}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict):
        return {key: to_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    if value is None or isinstance(value, str | int | float):
        return value
    if hasattr(value, "__array__"):
        return to_plain(np.asarray(value))
    raise ValueError(f"a {type(value).__name__} cannot be stored as JSON: use numbers, strings or arrays ({value!r})")


def from_plain(value: Any) -> Any:
    """The inverse of `to_plain`; NamedTuples come back as lists."""
    if isinstance(value, dict):
        if set(value) == {"array", "dtype", "shape"}:
            return np.array(value["array"], dtype=value["dtype"]).reshape(value["shape"])
        return {key: from_plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [from_plain(item) for item in value]
    return value


def write(path: str | Path, kind: str, content: dict[str, Any]) -> None:
    """Write through a neighbouring file, so that an interrupted write leaves the old one."""
    path = Path(path)
    text = json.dumps({"format": FORMAT, "estimator": kind, **to_plain(content)}, indent=1)
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)


def read(path: str | Path, kind: str, needed: tuple[str, ...]) -> dict[str, Any]:
    """Read what `write` wrote, and check that it is what is asked for."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is not a saved {kind}: it is not JSON ({error})") from None
    if not isinstance(content, dict) or content.get("estimator") != kind:
        raise ValueError(f"{path} is not a saved {kind}: write one with {kind}.save(path)")
    if content.get("format") != FORMAT:
        raise ValueError(
            f"{path} has format {content.get('format')!r}; this version reads format {FORMAT}: update the package"
        )
    if not set(needed) <= set(content):
        raise ValueError(f"{path} is damaged: it lacks {sorted(set(needed) - set(content))}")
    return from_plain(content)
