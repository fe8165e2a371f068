"""What is written of a reproduction: the table, the figure as PNG and SVG, and a short report in Markdown."""

from __future__ import annotations

import math
import os
import platform
import shlex
from collections.abc import Callable, Iterable
from importlib import import_module, metadata
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from .. import __version__
from ..plots import require_matplotlib
from .base import Experiment, Scale, Verdict

PACKAGES = ("numpy", "scipy", "numba", "scikit-learn")
ANSWERS = {True: "yes", False: "**no**", None: "shown"}
DPI = 150
#: how a table is written, by format; the same table is the same file
WRITERS: dict[str, Callable[[pd.DataFrame, Path], Any]] = {
    "csv": lambda table, path: table.to_csv(path, index=False),
    "csv.gz": lambda table, path: table.to_csv(path, index=False, compression={"method": "gzip", "mtime": 0}),
    "parquet": lambda table, path: table.to_parquet(path, index=False),
}


def require_writer(format: str) -> None:
    """An ImportError, before anything is run, if the table could not be written."""
    if format == "parquet":
        try:
            import_module("pyarrow")
        except ImportError as error:
            message = f"format parquet needs pyarrow ({error}): pip install 'sinkhorn-em[parquet]'"
            raise ImportError(message) from None


class Timing(NamedTuple):
    """How long it took."""

    tasks: int
    computing: float  # seconds of all tasks, added up
    wall: float  # seconds on the clock in all the runs that did them; nan: not known


class Origin(NamedTuple):
    """Where results come from."""

    options: dict[str, Any]
    timing: Timing


def write(
    path: Path,
    experiment: Experiment,
    scale: Scale,
    table: pd.DataFrame,
    verdicts: list[Verdict],
    format: str,
    origin: Origin,
) -> list[Path]:
    """Write everything to PATH.csv, .png, .svg and .md: the files. A file appears whole or not at all."""
    plt = require_matplotlib()
    figure = experiment.draw(table)
    files = []
    with plt.rc_context({"svg.hashsalt": experiment.name}):  # the same figure is the same file
        for suffix, options in ((".png", {"dpi": DPI}), (".svg", {"metadata": {"Date": None}})):
            files.append(_replace(path, suffix, lambda target, o=options: figure.savefig(target, **o)))
    plt.close(figure)
    files.append(_replace(path, f".{format}", lambda target: WRITERS[format](table, target)))
    text = _text(path.name, experiment, scale, table, verdicts, origin)
    files.append(_replace(path, ".md", lambda target: target.write_text(text, encoding="utf-8")))
    return files


def _replace(path: Path, suffix: str, save: Any) -> Path:
    target, temporary = Path(f"{path}{suffix}"), Path(f"{path}.part{suffix}")
    save(temporary)
    os.replace(temporary, target)
    return target


def _text(
    name: str, experiment: Experiment, scale: Scale, table: pd.DataFrame, verdicts: list[Verdict], origin: Origin
) -> str:
    parts = [
        f"# {experiment.name}: {experiment.question}",
        f"Source of the claims: {experiment.source}.",
        markdown(["claim", "measured", "holds"], ((v.claim, v.measured, ANSWERS[v.holds]) for v in verdicts)),
        f"![{experiment.question}]({name}.png)",
    ]
    for small in (experiment.summary(table), experiment.details(table)):
        if small is not None and len(small):
            parts.append(markdown(map(str, small.columns), small.itertuples(index=False)))
    if notes := experiment.notes(scale):
        parts.append(notes)
    parts.append(_provenance(experiment, origin))
    return "\n\n".join(parts) + "\n"


def _provenance(experiment: Experiment, origin: Origin) -> str:
    o, t = origin.options, origin.timing
    words = ["sinkhorn-em", "reproduce", experiment.name, *(["--quick"] if o["quick"] else [])]
    words += [] if o["reps"] is None else ["--reps", str(o["reps"])]
    words += ["--seed", str(o["seed"]), "--jobs", str(o["jobs"])]
    words += [] if o["format"] == "csv" else ["--format", o["format"]]
    words += ["--data", "DIR"] if o["data"] else []
    words += [word for name, value in o["settings"].items() for word in (f"--{name}", value)]
    versions = ", ".join(
        [f"sinkhorn-em {__version__}"] + [f"{package} {metadata.version(package)}" for package in PACKAGES]
    )
    clock = "" if math.isnan(t.wall) else f", wall time {t.wall:.1f} s"
    return (
        f"Command: `{shlex.join(words)}`. Tasks: {t.tasks}; computing time of all tasks {t.computing:.1f} s{clock}. "
        f"{os.cpu_count()} cores, Python {platform.python_version()}, {versions}."
    )


def markdown(header: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """A table in Markdown, numbers with four digits; -: not there."""
    lines = [list(header)]
    lines.append(["---"] * len(lines[0]))
    lines += [[_cell(value) for value in row] for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cell(value: Any) -> str:
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    text = "-" if text in ("nan", "None") else text
    return text.replace("|", "\\|").replace("\n", " ")
