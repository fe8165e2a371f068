"""One fit and what is said about it: the summary, and the files."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from .._typing import Integers
from ..mixture.base import BaseMixture
from ..plots import plot_mixture, require_matplotlib
from .messages import fail
from .models import family_name, shape_parameters
from .tables import Table

PICTURES = (".png", ".pdf", ".svg")
WIDE = 8  # most features in the printed table
#: what means_ are, by family; of the others, locations
MEANS = {"gaussian": "mean", "poisson": "rate", "bernoulli": "probability", "multinomial": "probability"}
TIE = 0.01  # nats; log-likelihoods closer than this are called equal


class Result(NamedTuple):
    """A fit and its measures."""

    name: str
    model: BaseMixture
    labels: Integers  # (n,) noise: -1
    log_likelihood: float  # total, nats
    bic: float
    seconds: float
    rand: float | None  # adjusted Rand index


class Outputs(NamedTuple):
    """Files that were asked for."""

    plot: Path | None
    output: Path | None
    labels: Path | None

    def check(self, file: Path) -> None:
        """Try, before the fit, whether all can be written."""
        taken = {file.resolve(): "the table"}
        for option, path in self._asdict().items():
            if path is None:
                continue
            other = taken.setdefault(path.resolve(), f"--{option}")
            if other != f"--{option}":
                fail(f"--{option} is {path}, which is {other} too; give every file its own name")
            if option == "plot":
                _check_picture(path)
            _check_place(option, path)

    def write(self, result: Result, table: Table) -> None:
        """Write them."""
        for option, path in self._asdict().items():
            if path is None:
                continue
            try:
                WRITERS[option](path, result, table)
            except OSError as error:
                fail(f"--{option} {path} could not be written ({error.strerror or error})")


def _check_place(option: str, path: Path) -> None:
    try:
        if path.is_dir():
            raise IsADirectoryError("it is a folder")
        if path.exists() and not os.access(path, os.W_OK):
            raise PermissionError("it is write-protected")
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        fail(f"--{option} {path} cannot be written ({error.strerror or error}); choose a folder that can be")


def _check_picture(path: Path) -> None:
    if path.suffix.lower() not in PICTURES:
        fail(f"--plot is {path}; its name must end in one of {', '.join(PICTURES)}")
    os.environ.setdefault("MPLBACKEND", "Agg")  # nothing is shown, so no display is needed
    try:
        require_matplotlib()
    except ImportError as error:
        fail(f"--plot: {error}")


def _write_plot(path: Path, result: Result, table: Table) -> None:
    figure = plot_mixture(result.model, table.X, feature_names=table.names)
    figure.savefig(path, dpi=150)
    require_matplotlib().close(figure)


def _write_model(path: Path, result: Result, table: Table) -> None:
    result.model.save(path)


def _write_labels(path: Path, result: Result, table: Table) -> None:
    rows = np.arange(len(table.X))
    probability = result.model.predict_proba(table.X)[rows, result.labels]  # noise is the last column
    columns = {"row": rows, "label": result.labels, "probability": probability}
    pd.DataFrame(columns).to_csv(path, index=False)


WRITERS = {"plot": _write_plot, "output": _write_model, "labels": _write_labels}


def summary(file: Path, table: Table, results: Sequence[Result], truth: str | None) -> str:
    """What was fitted, the components of every fit, and its measures side by side."""
    n, d = table.X.shape
    features = "1 feature" if d == 1 else f"{d} features"
    parts = [f"{file}: {n} rows, {features} ({_listed(table.names)})"]
    parts += [f"{_heading(result, table)}\n{_components(result, table)}" for result in results]
    parts.append(_measures(table, results, truth))
    if len(results) > 1:
        parts.append(_verdict(*results))
    return "\n\n".join(parts)


def _heading(result: Result, table: Table) -> str:
    model, family = result.model, family_name(result.model)
    weights = model.weights if isinstance(model.weights, str) else "prescribed"
    starts = "1 start" if model.n_init == 1 else f"best of {model.n_init} starts"
    text = f"{result.name}: {model.n_components} components, "
    text += "" if family == "gaussian" else f"family {family}, "
    text += f"covariance {model.covariance_type}, " if hasattr(model, "covariances_") else ""
    text += f"weights {weights}, {starts} ({model.init_params}, seed {model.random_state})"
    text += f", prior {model.prior}" if model.prior else ""
    text += "" if table.known is None else f", {(table.known.labels >= 0).sum()} rows with a known group"
    return text + (f", {model.trim:.3g} of the rows left out" if model.trim else "")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:WIDE]) + (f", and {len(names) - WIDE} more" if len(names) > WIDE else "")


def _components(result: Result, table: Table) -> str:
    """Size, weight, location and shape of every component, and of the noise."""
    model, names, labels = result.model, table.names, result.labels
    mean, shape = MEANS.get(family_name(model), "location"), shape_parameters(model)
    groups = [] if table.known is None else table.known.names
    sizes = np.bincount(labels[labels >= 0], minlength=model.n_components)
    lines = [["component", "size", "weight", *(f"{mean} {name}" for name in names[:WIDE]), *shape]]
    for k, (size, weight) in enumerate(zip(sizes, model.weights_, strict=True)):
        values = [*model.means_[k, :WIDE], *(value[k] for value in shape.values())]
        name = f"{k} ({groups[k]})" if k < len(groups) else f"{k}"
        lines.append([name, f"{size}", f"{weight:.4f}", *(f"{x:.5g}" for x in values)])
    if hasattr(model, "noise_weight_"):
        blank = [""] * (len(lines[0]) - 3)
        lines.append(["noise", f"{(labels < 0).sum()}", f"{model.noise_weight_:.4f}", *blank])
    more = f"\n({mean}s of {len(names) - WIDE} more features: --output)" if len(names) > WIDE else ""
    return _aligned(lines) + more


def _measures(table: Table, results: Sequence[Result], truth: str | None) -> str:
    lines = [["", *(result.name for result in results)]] if len(results) > 1 else []
    rows: Mapping[str, list[str]] = {
        "log-likelihood, nats": [f"{r.log_likelihood:.2f}" for r in results],
        "BIC (lower is better)": [f"{r.bic:.2f}" for r in results],
        "marginal error": [f"{r.model.marginal_error_:.1e}" for r in results],
        "iterations": [f"{r.model.n_iter_}" for r in results],
        "passes over the data": [f"{r.model.n_passes_}" for r in results],
        "time, s": [f"{r.seconds:.2f}" for r in results],
        "converged": ["yes" if r.model.converged_ else "no" for r in results],
    }
    lines += [[name, *values] for name, values in rows.items()]
    if table.groups is None:
        return _aligned(lines, left=1)
    lines.append(["adjusted Rand index", *(f"{r.rand:.3f}" for r in results)])
    known, count = table.groups >= 0, len(np.unique(table.groups[table.groups >= 0]))
    rows_known = "" if known.all() else f", known in {known.sum()} rows"
    return f"{_aligned(lines, left=1)}\n(against the {count} groups of {truth}{rows_known})"


def _verdict(first: Result, second: Result) -> str:
    gap = first.log_likelihood - second.log_likelihood
    if abs(gap) < TIE:
        return f"{first.name} and {second.name} have the same log-likelihood (within {TIE} nats)."
    better, worse = (first, second) if gap > 0 else (second, first)
    return f"{better.name} has the higher log-likelihood, by {abs(gap):.2f} nats over {worse.name}."


def _aligned(lines: Sequence[Sequence[str]], left: int = 0) -> str:
    """Columns of equal width, the first ``left`` flush left, the others flush right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = [
        [text.ljust(w) if j < left else text.rjust(w) for j, (text, w) in enumerate(zip(line, widths, strict=True))]
        for line in lines
    ]
    return "\n".join("  ".join(line).rstrip() for line in padded)
