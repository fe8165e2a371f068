"""The parameters of the estimator, checked, as `Options`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Any

import numpy as np
from torch import nn

from .._parameters import check_choice, check_integer, check_simplex
from . import assignment
from .networks import ENCODERS
from .options import Options

OF_OPTIONS = tuple(sorted({field.name for field in fields(Options)} - {"learn_weights", "compiled"}))


def options_of(estimator: Any) -> Options:
    """What the constructor was given; ValueError for what breaks a rule."""
    check_integer("n_clusters", estimator.n_clusters, 1)
    check_integer("n_codes", estimator.n_codes, 1)
    check_choice("assign_by", estimator.assign_by, assignment.METHODS)
    _check_networks(estimator)
    if estimator.batch_size == 1:
        raise ValueError(
            "batch_size is 1; a batch needs at least 2 rows to be shared out among clusters: 300 is the default"
        )
    callbacks = estimator.callbacks
    if not isinstance(callbacks, Iterable) or not all(callable(callback) for callback in callbacks):
        raise ValueError(f"callbacks is {callbacks!r}; it must be a sequence of functions of (estimator, row): [f]")
    for name in ("distributed", "checkpoint_dir"):
        if getattr(estimator, name) and not isinstance(estimator.random_state, int | np.integer):
            raise ValueError(
                f"random_state is {estimator.random_state!r} with {name}={getattr(estimator, name)!r}; it must be an integer, "
                "the same in every process and in a run that goes on: random_state=0"
            )
    given = {name: getattr(estimator, name) for name in OF_OPTIONS}
    given["unit_codes"] = bool(estimator.unit_codes) or _is(estimator.encoder, "cosine")
    options = Options(**given, learn_weights=_is(estimator.weights, "learned"), compiled=bool(estimator.compile))
    prescribed = sizes(estimator)
    if prescribed is not None and options.loss != "transport":
        raise ValueError(
            f"weights is {estimator.weights!r} with loss={options.loss!r}; sizes are held with loss='transport' only: use that, "
            "or weights='uniform'"
        )
    return options


def sizes(estimator: Any) -> np.ndarray | None:
    """Prescribed sizes (K,); None: uniform at first."""
    if estimator.weights is None:
        raise ValueError(
            "weights is None; it must be 'uniform', 'learned' or one size per cluster: 'uniform' is the default"
        )
    if not isinstance(estimator.weights, str):
        return check_simplex("weights", estimator.weights, estimator.n_clusters)
    check_choice("weights", estimator.weights, ("uniform", "learned"))
    return None


def _check_networks(estimator: Any) -> None:
    own = isinstance(estimator.encoder, nn.Module)
    if not own:
        check_choice("encoder", estimator.encoder, ENCODERS)
    if estimator.decoder is not None and not (own and isinstance(estimator.decoder, nn.Module)):
        raise ValueError(
            f"decoder is {type(estimator.decoder).__name__} with encoder={estimator.encoder!r}; it must be an nn.Module, and goes "
            "with an encoder that is one: encoders by name have their own"
        )


def _is(value: Any, text: str) -> bool:
    return isinstance(value, str) and value == text
