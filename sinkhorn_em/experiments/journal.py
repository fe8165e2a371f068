"""Results on disk as they come: one line of JSON for every finished task.

A run that is killed leaves whole lines and at most one broken one; the next run reads the whole ones and goes on. Tables are always
made from the lines, in the order of the design, so an interrupted run gives the same table as another.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from .base import ReproductionError, Task, key


class Entry(NamedTuple):
    """What is kept of one task."""

    columns: dict[str, list[Any]]
    seconds: float


class Journal:
    """The finished tasks of one experiment at one seed, in a file that only grows."""

    def __init__(self, path: Path, experiment: str, seed: int, version: str) -> None:
        self.path = path
        self._header = {"experiment": experiment, "seed": seed, "version": version}
        self._entries = self._read() if path.exists() else {}

    def __contains__(self, task: object) -> bool:
        return isinstance(task, dict) and key(task) in self._entries

    def add(self, task: Task, frame: pd.DataFrame, seconds: float) -> None:
        """Keep the rows of a task: on disk when this returns."""
        columns = frame.to_dict("list")
        line = json.dumps({"task": dict(task), "seconds": seconds, "columns": columns}, default=_plain)
        fresh = not self.path.exists()
        with self.path.open("a", encoding="utf-8") as file:
            file.write((json.dumps(self._header) + "\n" if fresh else "") + line + "\n")
        self._entries[key(task)] = Entry(json.loads(line)["columns"], seconds)

    def table(self, tasks: Iterable[Task]) -> pd.DataFrame:
        """The rows of all ``tasks``, in their order."""
        parts = []
        for task in tasks:
            rows = pd.DataFrame(self._entries[key(task)].columns)
            names = [name for name in task if name not in rows]
            parts.append(pd.concat([pd.DataFrame({name: task[name] for name in names}, rows.index), rows], axis=1))
        return pd.concat(parts, ignore_index=True)

    def seconds(self, tasks: Iterable[Task]) -> float:
        """Computing time of ``tasks``."""
        return sum(self._entries[key(task)].seconds for task in tasks)

    def _read(self) -> dict[str, Entry]:
        with self.path.open("rb+") as file:
            content = file.read()
            whole = content.rfind(b"\n") + 1
            if whole < len(content):
                file.truncate(whole)  # a line that was being written when the run was killed
        lines = content[:whole].decode().splitlines()
        if not lines:
            self.path.unlink()
            return {}
        self._check(lines[0])
        records = [json.loads(line) for line in lines[1:]]
        return {key(record["task"]): Entry(record["columns"], record["seconds"]) for record in records}

    def _check(self, first: str) -> None:
        try:
            header = json.loads(first)
        except json.JSONDecodeError:
            header = first
        if header != self._header:
            raise ReproductionError(
                f"{self.path} holds results of {header}, and this run is {self._header}: choose another output folder, or begin "
                "anew with --fresh, which throws them away"
            )


def _plain(value: Any) -> Any:
    """NumPy numbers as those of Python."""
    return value.item()
