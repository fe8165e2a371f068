"""``sinkhorn-em reproduce``: the claims of the papers, each a command."""

from __future__ import annotations

import re
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import messages

if TYPE_CHECKING:
    from ..experiments import Experiment, Reproduction

Name = Annotated[str | None, typer.Argument(metavar="NAME", help="An experiment, or all; --list names them.")]
List = Annotated[bool, typer.Option("--list", help="List the experiments.")]
Quick = Annotated[bool, typer.Option("--quick", help="A small design: seconds instead of minutes.")]
Reps = Annotated[
    int | None, typer.Option("--reps", "--seeds", help="Repetitions, instead of the experiment's own number.")
]
Seed = Annotated[int, typer.Option(help="Seed of all draws.")]
Jobs = Annotated[int, typer.Option(help="Processes; the results do not depend on it.")]
Output = Annotated[Path, typer.Option(help="Folder for the table, the figure and the report.")]
Format = Annotated[str, typer.Option(help="Of the table: csv, csv.gz or parquet.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Forget what an earlier run has kept there.")]
Data = Annotated[Path | None, typer.Option(help="Folder with data that do not come with the package.")]
Dataset = Annotated[
    str | None, typer.Option(help="Images, of an experiment that takes several: mnist, fashion, cifar10, usps, digits.")
]
Device = Annotated[str | None, typer.Option(help="Of networks that are trained: cpu, cuda.")]


def reproduce(
    name: Name = None,
    list_them: List = False,
    quick: Quick = False,
    reps: Reps = None,
    seed: Seed = 0,
    jobs: Jobs = 1,
    output: Output = Path("reproduced"),
    format: Format = "csv",
    fresh: Fresh = False,
    data: Data = None,
    dataset: Dataset = None,
    device: Device = None,
) -> None:
    """Run an experiment of the papers: a table, a figure, and a report that says whether the claim holds.

    Results are kept as they come. A run that was stopped goes on where it stopped when the same command is given again.
    """
    from ..experiments import EXPERIMENTS, ReproductionError  # here: no other command needs them
    from ..experiments import reproduce as run_experiment

    if list_them:
        width = max(map(len, EXPERIMENTS))
        for experiment in EXPERIMENTS.values():
            typer.echo(f"{experiment.name:{width}}  {experiment.question}")
        return
    options: dict[str, Any] = {
        "quick": quick,
        "reps": reps,
        "seed": seed,
        "jobs": jobs,
        "format": format,
        "fresh": fresh,
    }
    settings = {name: value for name, value in (("dataset", dataset), ("device", device)) if value is not None}
    for experiment in _chosen(name, EXPERIMENTS):
        taken = {key: settings[key] for key in settings if name != "all" or key in experiment.takes}
        try:
            with _stoppable(), _warnings_of_one_line():
                result = run_experiment(
                    experiment, output, data=data, settings=taken, progress=sys.stderr.isatty(), **options
                )
        except (ImportError, ReproductionError) as error:
            messages.fail(re.sub(r"^(?=(reps|seed|jobs|format|data|dataset|device) is )", "--", str(error)))
        except OSError as error:
            messages.fail(
                f"--output is {output}, which cannot be written ({error.strerror or error}); choose another folder"
            )
        except KeyboardInterrupt as stop:
            again = "give the same command again, without --fresh," if fresh else "give the same command again"
            messages.note(f"interrupted; what is finished is kept in {output}: {again} to go on")
            raise typer.Exit(128 + (stop.args or (signal.SIGINT,))[0]) from None
        _say(experiment, result)


def _chosen(name: str | None, experiments: dict[str, Experiment]) -> list[Experiment]:
    if name == "all":
        return list(experiments.values())
    if name is None:
        messages.fail(f"NAME is missing; it must be one of all, {', '.join(experiments)}")
    return [experiments[messages.choice("NAME", name, ("all", *experiments))]]


@contextmanager
def _stoppable() -> Iterator[None]:
    """A polite kill and a terminal that is closed end a run as Ctrl-C does, and its processes with it."""

    def stop(number: int, frame: Any) -> None:
        raise KeyboardInterrupt(number)

    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    changed = [number for number in numbers if signal.getsignal(number) is signal.SIG_DFL]  # nohup: SIGHUP is ignored
    for number in changed:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in changed:
            signal.signal(number, signal.SIG_DFL)


@contextmanager
def _warnings_of_one_line() -> Iterator[None]:
    def show(message: Warning | str, *_: Any) -> None:
        messages.warn(str(message))

    with warnings.catch_warnings():
        warnings.showwarning = show  # type: ignore[assignment]
        yield


def _say(experiment: Experiment, result: Reproduction) -> None:
    typer.echo(f"{experiment.name}: {experiment.question}")
    for verdict in result.verdicts:
        answer = {True: "holds", False: "DOES NOT HOLD", None: "shown"}[verdict.holds]
        typer.echo(f"  {answer}: {verdict.claim}\n    {verdict.measured}")
    typer.echo("written: " + ", ".join(str(file) for file in result.files))
