"""Run an experiment: tasks in parallel, results kept as they come, then the table, the figure and the report."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from .. import __version__
from .._compiled import get_num_threads, set_num_threads
from ..plots import require_matplotlib
from . import report
from .base import Experiment, ReproductionError, Scale, Task, TaskError, Verdict, generator, key
from .journal import Journal

WATCH = 1.0  # seconds between two looks of a worker at the process that started it


class Reproduction(NamedTuple):
    """What an experiment gave."""

    table: pd.DataFrame  # tidy
    verdicts: list[Verdict]
    files: list[Path]


def reproduce(
    experiment: Experiment,
    output: str | Path,
    *,
    quick: bool = False,
    reps: int | None = None,
    seed: int = 0,
    jobs: int = 1,
    format: str = "csv",
    fresh: bool = False,
    data: str | Path | None = None,
    settings: Mapping[str, str] | None = None,
    progress: bool = False,
) -> Reproduction:
    """Run ``experiment`` and write NAME.csv (or .csv.gz, .parquet), NAME.png, NAME.svg and NAME.md to the folder ``output``.

    Finished tasks are kept in NAME.journal.jsonl there: a run that was stopped goes on where it stopped, and more repetitions
    add to those there are. The table does not depend on ``jobs``, nor on interruptions (columns of measured seconds do).

    Parameters
    ----------
    experiment : Experiment
        One of `sinkhorn_em.experiments.EXPERIMENTS`, or one of your own.
    output : path
        Folder, made if it is not there.
    quick : bool
        A small design that takes seconds.
    reps : int, optional
        Repetitions, instead of the experiment's own number.
    seed : int
        Of all draws.
    jobs : int
        Processes; experiments that measure seconds run alone.
    format : "csv", "csv.gz" or "parquet"
    fresh : bool
        Forget the kept tasks.
    data : path, optional
        Folder with data that do not come with the package.
    settings : dict, optional
        What else the experiment takes, by name (``experiment.takes``), such as the data set or the device.
    progress : bool
        A progress bar with the time left.

    Returns
    -------
    Reproduction

    Raises
    ------
    ReproductionError
        An option breaks its rule, or ``output`` holds results of another seed or version, or another run writes there.
    TaskError
        A task failed; what was finished is kept.
    ImportError
        matplotlib (or, for Parquet, pyarrow, or a package that the experiment needs) is missing.
    """
    scale = Scale(quick, reps, None if data is None else Path(data), dict(settings or {}))
    _check(scale, seed, jobs, format)
    _check_experiment(experiment, scale)
    os.environ.setdefault("MPLBACKEND", "Agg")
    require_matplotlib()
    report.require_writer(format)
    tasks = experiment.tasks(scale)
    folder = Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{experiment.name}{'.quick' if quick else ''}"
    with closing(Journal(Path(f"{path}.journal.jsonl"), experiment.name, seed, __version__, fresh=fresh)) as journal:
        todo = [task for task in tasks if task not in journal]
        bar = tqdm(total=len(todo), desc=experiment.name, unit="task", disable=not progress)
        _run(experiment, todo, seed, jobs, journal, bar)
        timing = report.Timing(len(tasks), *journal.seconds(tasks))
        table = journal.table(tasks)
        verdicts = experiment.verdicts(table)
        options: dict[str, Any] = {"quick": quick, "reps": reps, "seed": seed, "jobs": jobs, "format": format}
        options |= {"data": data is not None, "settings": scale.settings}
        files = report.write(path, experiment, scale, table, verdicts, format, report.Origin(options, timing))
    return Reproduction(table, verdicts, files)


def _check(scale: Scale, seed: int, jobs: int, format: str) -> None:
    if scale.reps is not None and scale.reps < 1:
        raise ReproductionError(f"reps is {scale.reps}; it must be at least 1, or left out for the design's own number")
    if not 0 <= seed < 2**32:
        raise ReproductionError(f"seed is {seed}; it must be an integer from 0 to 2^32 - 1")
    if jobs < 1:
        raise ReproductionError(f"jobs is {jobs}; it must be at least 1: the number of processes")
    if format not in report.WRITERS:
        raise ReproductionError(f"format is {format!r}; it must be one of {', '.join(report.WRITERS)}")
    if scale.data is not None and not scale.data.is_dir():
        raise ReproductionError(f"data is {scale.data}; it must be a folder")


def _check_experiment(experiment: Experiment, scale: Scale) -> None:
    """What the experiment does not take, and what it lacks."""
    for name, value in scale.settings.items():
        if name not in experiment.takes:
            takes = f"takes only {', '.join(experiment.takes)}" if experiment.takes else "takes no settings"
            raise ReproductionError(f"{name} is {value!r}; {experiment.name} {takes}: leave it out")
    for package in experiment.needs:
        try:
            import_module(package)
        except ImportError as error:
            message = f"{experiment.name} needs {package} ({error}): pip install 'sinkhorn-em[{package}]'"
            raise ImportError(message) from None


def _run(experiment: Experiment, tasks: list[Task], seed: int, jobs: int, journal: Journal, bar: tqdm) -> None:
    """Run ``tasks`` and keep their rows in the order in which they come."""
    last = time.perf_counter()
    with bar:
        for task, frame, seconds in _finished(experiment, tasks, seed, jobs):
            now = time.perf_counter()
            journal.add(task, frame, seconds, now - last)
            last = now
            bar.update()


def _finished(
    experiment: Experiment, tasks: list[Task], seed: int, jobs: int
) -> Iterator[tuple[Task, pd.DataFrame, float]]:
    if experiment.alone or jobs == 1:
        yield from (_one(experiment, task, seed) for task in tasks)
        return
    threads = max(1, get_num_threads() // jobs)
    calls = (delayed(_in_worker)(os.getpid(), threads, experiment, task, seed) for task in tasks)
    yield from Parallel(n_jobs=jobs, return_as="generator_unordered")(calls)


def _one(experiment: Experiment, task: Task, seed: int) -> tuple[Task, pd.DataFrame, float]:
    start = time.perf_counter()
    with threadpool_limits(limits=None if experiment.alone else 1):  # several would sum in any order
        try:
            frame = experiment.run(task, generator(seed, task))
        except (ReproductionError, ImportError):
            raise
        except Exception as error:
            message = (
                f"{experiment.name} failed at {key(task)}: {type(error).__name__}: {error}; finished tasks are kept"
            )
            raise TaskError(message) from error
    return task, frame, time.perf_counter() - start


def _in_worker(
    parent: int, threads: int, experiment: Experiment, task: Task, seed: int
) -> tuple[Task, pd.DataFrame, float]:
    """One task in a process that shares the machine with others."""
    _end_with(parent)
    set_num_threads(threads)
    return _one(experiment, task, seed)


@cache
def _end_with(parent: int) -> None:
    """End this process soon after ``parent``, if that started it; when it is killed it cannot say so itself."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(WATCH)
        os._exit(1)

    if os.getppid() == parent:  # not where joblib was told to use threads
        threading.Thread(target=watch, daemon=True).start()
