"""Results on disk as they come: one line of JSON for every finished task.

A run that is killed leaves whole lines and at most one broken one; the next run reads the whole ones and goes on. Tables are always
made from the lines, in the order of the design, so an interrupted run gives the same table as another. One run at a time has the
file: two would do everything twice.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import pandas as pd

from .base import ReproductionError, Task, key

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


class Entry(NamedTuple):
    """What is kept of one task."""

    columns: dict[str, list[Any]]
    seconds: float  # that it took
    wall: float  # seconds since the task before it was finished; nan: not kept


class Journal:
    """The finished tasks of one experiment at one seed, in a file that only grows; ``close`` lets another run have it."""

    def __init__(self, path: Path, experiment: str, seed: int, version: str, *, fresh: bool = False) -> None:
        self.path = path
        self._header: dict[str, Any] = {"experiment": experiment, "seed": seed, "version": version}
        self._file = path.open("ab+")
        try:
            _lock(self._file, path)
            if fresh:
                self._file.truncate(0)
            self._entries = self._read()
        except BaseException:
            self._file.close()
            raise

    def close(self) -> None:
        self._file.close()

    def __contains__(self, task: object) -> bool:
        return isinstance(task, Mapping) and key(task) in self._entries

    def add(self, task: Task, frame: pd.DataFrame, seconds: float, wall: float) -> None:
        """Keep the rows of a task: on disk when this returns."""
        columns = frame.to_dict("list")
        line = json.dumps({"task": dict(task), "seconds": seconds, "wall": wall, "columns": columns}, default=_plain)
        fresh = not self.path.exists() or self.path.stat().st_size == 0
        with self.path.open("a", encoding="utf-8") as file:
            file.write((json.dumps(self._header) + "\n" if fresh else "") + line + "\n")
        self._entries[key(task)] = Entry(json.loads(line)["columns"], seconds, wall)

    def table(self, tasks: Iterable[Task]) -> pd.DataFrame:
        """The rows of all ``tasks``, in their order."""
        parts = []
        for task in tasks:
            rows = pd.DataFrame(self._entries[key(task)].columns)
            names = [name for name in task if name not in rows]
            parts.append(pd.concat([pd.DataFrame({name: task[name] for name in names}, rows.index), rows], axis=1))
        return pd.concat(parts, ignore_index=True)

    def seconds(self, tasks: Iterable[Task]) -> tuple[float, float]:
        """Computing time of ``tasks``, and what went by on the clock in all the runs that did them (nan: not known)."""
        entries = [self._entries[key(task)] for task in tasks]
        return sum(entry.seconds for entry in entries), sum(entry.wall for entry in entries)

    def _read(self) -> dict[str, Entry]:
        self._file.seek(0)
        content = self._file.read()
        whole = content.rfind(b"\n") + 1
        if not whole:
            self._file.truncate(0)
            return {}
        first, *lines = content[:whole].splitlines()
        self._check(first)
        if whole < len(content):
            self._file.truncate(whole)  # a line that was being written when the run was killed
        entries = [entry for line in lines if (entry := _entry(line))]
        if broken := len(lines) - len(entries):
            warnings.warn(f"{self.path} has {broken} broken line(s), whose tasks are run again", stacklevel=4)
        return dict(entries)

    def _check(self, first: bytes) -> None:
        try:
            header = json.loads(first)
        except ValueError:
            header = None
        if header != self._header:
            raise ReproductionError(
                f"{self.path} holds results of {self._words(header)}, and this run is {self._words(self._header)}: choose another "
                "output folder, or begin anew with --fresh, which throws them away"
            )

    def _words(self, header: Any) -> str:
        if not isinstance(header, dict) or not header.keys() >= self._header.keys():
            return "something else"
        return ", ".join(f"{name} {header[name]}" for name in self._header)


def _lock(file: BinaryIO, path: Path) -> None:
    """Keep other runs out until ``file`` is closed or the process ends."""
    if fcntl is None:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ReproductionError(
            f"{path} is being written by another run: let it end, or choose another output folder"
        ) from None
    except OSError:
        pass  # a file system without locks


def _entry(line: bytes) -> tuple[str, Entry] | None:
    """A task and what is kept of it; None: the line is broken."""
    try:
        record = json.loads(line)
        return key(record["task"]), Entry(record["columns"], record["seconds"], record.get("wall", math.nan))
    except (ValueError, KeyError, TypeError):
        return None


def _plain(value: Any) -> Any:
    """NumPy numbers as those of Python."""
    try:
        return value.item()
    except (AttributeError, ValueError):
        message = f"{value!r} is a {type(value).__name__}; the rows of a task hold numbers, text and booleans"
        raise TypeError(message) from None
