"""The commands and their options.

The summary goes to stdout; notes, warnings and errors to stderr, one line each. Exit code 2: the input or an
option is at fault.
"""

from __future__ import annotations

import sys
import time
import warnings
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from sklearn.metrics import adjusted_rand_score

from .. import __version__
from ..families import FAMILIES
from ..initialisation import METHODS
from ..mixture.base import BaseMixture
from . import messages
from .models import COVARIANCES, build, tiny
from .report import Outputs, Result, summary
from .tables import Table, read_table

WEIGHTS = ("learned", "uniform", "exponentiated_gradient")  # by name
LONG = 200_000  # rows x components from which a fit gets a progress bar

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"sinkhorn-em {__version__}")
        raise typer.Exit


Version = Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")]
File = Annotated[Path, typer.Argument(metavar="FILE", help="Table: .csv or .tsv (also .gz), .parquet, .npy.")]
Components = Annotated[int, typer.Option("--components", "-k", help="Number of components.")]
Columns = Annotated[
    str | None,
    typer.Option(help="Features, as A,B,...; of .npy by number from 0. Without: all numeric columns."),
]
Family = Annotated[str, typer.Option(help=f"Of the components: one of {', '.join(FAMILIES)}.")]
Df = Annotated[str | None, typer.Option("--df", help="Of student_t: common, component (both estimated), or a number.")]
Covariance = Annotated[str, typer.Option(help=f"One of {', '.join(COVARIANCES)}.")]
Tau = Annotated[float, typer.Option(help="1: Sinkhorn-EM; 0: EM; between them: KL-relaxed.")]
Weights = Annotated[str, typer.Option(help="learned, uniform, exponentiated_gradient, or numbers: .25,.25,.5")]
Trim = Annotated[float, typer.Option(help="Share of the rows, the worst fitted, that is left out.")]
Noise = Annotated[str | None, typer.Option(help="Uniform noise: estimate, or its share of the rows, such as .05.")]
Prior = Annotated[str | None, typer.Option(help="mclust: its prior; no component collapses.")]
Known = Annotated[
    str | None, typer.Option(help="Column of known groups, empty where not known; each gets a component.")
]
Init = Annotated[str, typer.Option(help=f"Starts: one of {', '.join(METHODS)}.")]
NInit = Annotated[int, typer.Option(help="Number of starts; the best fit is kept.")]
Seed = Annotated[int, typer.Option(help="Seed of the starts.")]
Tol = Annotated[float, typer.Option(help="Stop when an iteration gains less, nats per row.")]
MaxIter = Annotated[int, typer.Option(help="Most iterations.")]
RegCovar = Annotated[float | None, typer.Option(help="Added to variances, in squared units of the data.")]
Compare = Annotated[str | None, typer.Option(help="em: fit EM too, from the same starts.")]
Truth = Annotated[str | None, typer.Option(help="Columns, as A,B,..., that together name the known group.")]
Plot = Annotated[Path | None, typer.Option(help="Draw the fit: .png, .pdf or .svg.")]
Output = Annotated[
    Path | None,
    typer.Option(help="Write the fit as JSON; `load` of its class reads it."),
]
Labels = Annotated[Path | None, typer.Option(help="Write row, label (noise: -1) and posterior probability as CSV.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print warnings and errors only.")]


@app.callback()
def main(version: Version = False) -> None:
    """Model-based clustering by Sinkhorn-EM."""


@app.command()
def fit(
    file: File,
    components: Components,
    columns: Columns = None,
    family: Family = "gaussian",
    df: Df = None,
    covariance: Covariance = "full",
    tau: Tau = 1.0,
    weights: Weights = "learned",
    trim: Trim = 0.0,
    noise: Noise = None,
    prior: Prior = None,
    known: Known = None,
    init: Init = "kmeans",
    n_init: NInit = 1,
    seed: Seed = 0,
    tol: Tol = 1e-6,
    max_iter: MaxIter = 500,
    reg_covar: RegCovar = None,
    compare: Compare = None,
    truth: Truth = None,
    plot: Plot = None,
    output: Output = None,
    labels: Labels = None,
    quiet: Quiet = False,
) -> None:
    """Fit a mixture to the rows of FILE, and print what was found."""
    options: dict[str, Any] = {
        "n_components": components,
        "covariance_type": covariance,
        "weights": _weights(weights),
        "trim": trim,
        "init_params": messages.choice("--init", init, METHODS),
        "n_init": n_init,
        "random_state": seed,
        "tol": tol,
        "max_iter": max_iter,
        "reg_covar": "scale" if reg_covar is None else reg_covar,
    }
    taus = _taus(tau, compare)
    if not 0 <= seed < 2**32:
        messages.fail(f"--seed is {seed}; it must be an integer from 0 to 2^32 - 1")
    outputs = Outputs(plot, output, labels)
    outputs.check(file)
    models = [build(family, df, noise, prior, {**options, **_at(value, value != tau, options)}) for value in taus]
    table = read_table(file, columns, truth, known, _silent if quiet else messages.note)
    _check_size(components, table, file)
    results = [_fit(model, table, quiet) for model in models]
    if not quiet:
        typer.echo(summary(file, table, results, truth))
    outputs.write(results[0], table)


def _silent(message: str) -> None:
    pass


def _weights(text: str) -> Any:
    if text in WEIGHTS:
        return text
    try:
        return np.array([float(item) for item in text.split(",")])
    except ValueError:
        messages.fail(f"--weights is {text!r}; it must be {', '.join(WEIGHTS)}, or numbers with commas: .25,.25,.5")


def _at(tau: float, rival: bool, options: dict[str, Any]) -> dict[str, Any]:
    """tau, and how a rival, EM, learns the weights: it has no potentials to learn them by."""
    gradient = isinstance(options["weights"], str) and options["weights"] == "exponentiated_gradient"
    return {"tau": tau, "weights": "learned"} if gradient and rival else {"tau": tau}


def _taus(tau: float, compare: str | None) -> list[float]:
    """tau of every fit: the one asked for, and 0, which is EM, to compare with."""
    if compare is None:
        return [tau]
    messages.choice("--compare", compare, ("em",))
    if tau == 0:
        messages.fail("--compare em with --tau 0 compares EM with itself; raise --tau (1 is Sinkhorn-EM)")
    return [tau, 0.0]


def _check_size(components: int, table: Table, file: Path) -> None:
    n = len(table.X)
    if components > n:
        messages.fail(f"--components is {components}, but {file} has {n} rows; there must be a row for each")
    if table.known is not None and components < len(table.known.names):
        names = ", ".join(table.known.names)
        messages.fail(f"--components is {components}, but --known has the groups {names}; there must be one for each")


def _fit(model: BaseMixture, table: Table, quiet: bool) -> Result:
    """Fit, print the warnings, and measure."""
    X, n = table.X, len(table.X)
    name = "EM" if model.tau == 0 else "Sinkhorn-EM"
    known = {} if table.known is None else {"labels": table.known.labels}
    model.verbose = int(not quiet and sys.stderr.isatty() and n * model.n_components > LONG)
    with warnings.catch_warnings(record=True) as caught:
        _show_to_users()
        try:
            _load_kernels(model)
            caught.clear()
            start = time.perf_counter()
            model.fit(X, **known)
            seconds = time.perf_counter() - start
        except ValueError as error:
            messages.fail(messages.in_options(str(error)))
    for text in dict.fromkeys(str(warning.message) for warning in caught):
        messages.warn(f"{name}: {messages.in_options(text)}")
    model.verbose = 0  # is saved with the model
    labels = model.predict(X)
    rand = None
    if table.groups is not None:
        compared = table.groups >= 0
        rand = float(adjusted_rand_score(table.groups[compared], labels[compared]))
    return Result(name, model, labels, model.score(X) * n, model.bic(X), seconds, rand)


def _show_to_users() -> None:
    """All warnings but those for programmers."""
    warnings.simplefilter("always")
    for category in (DeprecationWarning, PendingDeprecationWarning, FutureWarning):
        warnings.simplefilter("ignore", category)


def _load_kernels(model: BaseMixture) -> None:
    """A tiny fit, so that loading the compiled code is not timed."""
    tiny(model).fit(np.arange(8.0)[:, None] ** 2)
