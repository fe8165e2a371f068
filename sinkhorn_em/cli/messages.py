"""What goes to stderr: notes, warnings and errors, one line each, in the words of the command line."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NoReturn

import typer

#: the model's parameters, by the options that set them
OPTIONS = {
    "n_components": "--components",
    "covariance_type": "--covariance",
    "init_params": "--init",
    "random_state": "--seed",
    "reg_covar": "--reg-covar",
    "max_iter": "--max-iter",
    "n_init": "--n-init",
    "trim": "--trim",
    "tau": "--tau",
    "tol": "--tol",
}


def fail(message: str) -> NoReturn:
    """An error, and exit code 2: the input or an option is at fault."""
    typer.echo(f"error: {_one_line(message)}", err=True)
    raise typer.Exit(2)


def choice(option: str, value: str, choices: Iterable[str]) -> str:
    """The value of an option, if it is one of the choices."""
    if value not in choices:
        fail(f"{option} is {value!r}; it must be one of {', '.join(choices)}")
    return value


def warn(message: str) -> None:
    typer.echo(f"warning: {_one_line(message)}", err=True)


def note(message: str) -> None:
    typer.echo(f"note: {_one_line(message)}", err=True)


def in_options(message: str) -> str:
    """A message of the model with its parameters named as options; everyday words only where they are one."""
    text = re.sub(rf"(?<![\w-])({'|'.join(OPTIONS)})(?!\w)", lambda match: OPTIONS[match[1]], message)
    text = re.sub(r"^(df|noise|prior)(?=:| is )", r"--\1", text)
    text = re.sub(r"^labels(?= )", "--known", text)
    return re.sub(r"^weights(?= )|(?<=prescribe the )weights$", "--weights", text)


def _one_line(message: str) -> str:
    return " ".join(message.split())
