"""What an experiment is: a claim, tasks that can be run in any order, verdicts and a figure.

A task is a small dictionary: everything that decides what is computed, but for the seed. It gets a generator of random numbers of
its own, whose state depends on the user's seed and on the task alone, so results depend neither on the number of jobs nor on what
else is run. What must be compared on the same draws belongs in one task.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
from sklearn.exceptions import ConvergenceWarning

from ..plots import COLOURS

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class ReproductionError(ValueError):
    """An option, a file of earlier results or data at hand do not allow the run; the message says what to do."""


class TaskError(RuntimeError):
    """A task failed for a reason that is no ReproductionError: which one, and what is kept; its cause is in the traceback."""


#: tau of the two methods that most experiments compare, and their colours
METHODS = {"EM": 0.0, "Sinkhorn-EM": 1.0}
COLOUR = {"EM": COLOURS[1], "Sinkhorn-EM": COLOURS[0]}

Value = int | float | str | bool
Task = Mapping[str, Value]


@dataclass(frozen=True)
class Scale:
    """How much is asked for."""

    quick: bool = False  # a small design, seconds
    reps: int | None = None  # repetitions; None: the experiment's own number
    data: Path | None = None  # folder with data that are not in the package
    settings: Mapping[str, str] = field(default_factory=dict)  # those that the experiment takes, by name

    def count(self, full: int, quick: int) -> int:
        """Repetitions: those asked for, else those of the design."""
        return self.reps or (quick if self.quick else full)


class Verdict(NamedTuple):
    """One claim and what was found."""

    claim: str  # one sentence, with the number that is expected
    measured: str  # the number found, with its interval
    holds: bool | None  # None: shown, not judged


class Experiment(ABC):
    """One table and one figure. A subclass holds a design and how to judge it; algorithms are in the package."""

    name: ClassVar[str]
    question: ClassVar[str]  # answered by the figure
    source: ClassVar[str]  # author and year of the claims
    alone: ClassVar[bool] = False  # seconds are measured: one task at a time, all threads
    takes: ClassVar[tuple[str, ...]] = ()  # names of the settings that it takes
    needs: ClassVar[tuple[str, ...]] = ()  # optional packages that it computes with, each an extra of its own name

    @abstractmethod
    def tasks(self, scale: Scale) -> list[Task]:
        """The design, in the order of the table."""

    @abstractmethod
    def run(self, task: Task, rng: np.random.Generator) -> pd.DataFrame:
        """The rows of one task: numbers, text and booleans."""

    @abstractmethod
    def verdicts(self, table: pd.DataFrame) -> list[Verdict]:
        """The claims, judged on the table: the columns of the tasks, then those of their rows."""

    @abstractmethod
    def draw(self, table: pd.DataFrame) -> Figure:
        """The figure that answers the question."""

    def summary(self, table: pd.DataFrame) -> pd.DataFrame | None:
        """A small table for the report."""
        return None

    def details(self, table: pd.DataFrame) -> pd.DataFrame | None:
        """A second one, of other columns."""
        return None

    def notes(self, scale: Scale) -> str:
        """What a reader of the report must know of the design."""
        return ""


def key(task: Task) -> str:
    """A task as canonical text."""
    return json.dumps(dict(task), sort_keys=True)


def generator(seed: int, task: Task) -> np.random.Generator:
    """Random numbers of one task: a function of the seed and of the task."""
    digest = hashlib.sha256(key(task).encode()).digest()
    return np.random.default_rng([seed, *np.frombuffer(digest, np.uint32).tolist()])


def fit_quietly(model: Any, X: Any, **options: Any) -> Any:
    """The model, fitted; what a ConvergenceWarning would say (empty clusters, sweeps that ran out) is in the table."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, **options)
