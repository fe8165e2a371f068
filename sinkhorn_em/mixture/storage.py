"""Fitted mixtures as JSON: nothing is executed when a file is read, and numbers come back to the last bit."""

from __future__ import annotations

import json
import sys
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

FORMAT = 2
#: what a fitted mixture knows besides its public attributes
PRIVATE = ("_coordinates", "_family", "_parameters", "_weights", "_learned", "_fitted_as")


#: parts of the package that a fitted mixture is made of: names of classes are unique among these only
PARTS = ("coordinates", "families", "mixture", "ot", "weight_steps")


@cache
def _kinds() -> dict[str, type]:
    """Classes of this package whose objects may be stored, by name."""
    root = __name__.split(".")[0]
    places = tuple(f"{root}.{part}" for part in PARTS)
    modules = [module for name, module in sys.modules.items() if name.startswith(places)]
    named = {name: kind for module in modules for name, kind in vars(module).items() if isinstance(kind, type)}
    return {name: kind for name, kind in named.items() if kind.__module__.startswith(places)}


def to_plain(value: Any) -> Any:
    """Arrays, numbers, tuples, dicts, and the NamedTuples and options of this package, as plain JSON values."""
    if isinstance(value, np.ndarray):
        return {"array": value.tolist(), "dtype": str(value.dtype), "shape": list(value.shape)}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict):
        return {key: to_plain(item) for key, item in value.items()}
    if type(value).__name__ in _kinds() and type(value) is _kinds()[type(value).__name__]:
        names = getattr(value, "_fields", None) or [field.name for field in _fields(value)]
        return {"kind": type(value).__name__, "fields": {name: to_plain(getattr(value, name)) for name in names}}
    if isinstance(value, tuple):
        return {"tuple": [to_plain(item) for item in value]}
    if isinstance(value, list):
        return [to_plain(item) for item in value]
    if value is None or isinstance(value, str | int | float):
        return value
    if hasattr(value, "__array__"):
        return to_plain(np.asarray(value))
    raise ValueError(f"a {type(value).__name__} cannot be stored as JSON: use numbers, strings or arrays ({value!r})")


def _fields(value: Any) -> tuple[Any, ...]:
    """Of a dataclass; other objects of this package have none."""
    return fields(value) if is_dataclass(value) else ()


def from_plain(value: Any) -> Any:
    """The inverse of `to_plain`."""
    if isinstance(value, dict):
        if set(value) == {"array", "dtype", "shape"}:
            return np.array(value["array"], dtype=value["dtype"]).reshape(value["shape"])
        if set(value) == {"tuple"}:
            return tuple(from_plain(item) for item in value["tuple"])
        if set(value) == {"kind", "fields"}:
            return _kinds()[value["kind"]](**from_plain(value["fields"]))
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
    try:
        return from_plain(content)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is damaged, or written by another version: {error!r}") from None
