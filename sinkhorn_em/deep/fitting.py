"""`fit` and `partial_fit` of the estimator: from its parameters to a trained state and its attributes."""

from __future__ import annotations

import warnings
from copy import deepcopy
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from torch import nn
from tqdm import tqdm

from .._parameters import check_choice, check_integer, check_simplex
from ..metrics import clustering_accuracy
from ..mixture.rounding import round_plan, sizes_from_weights
from . import assignment, checkpoints
from .inputs import as_source, check_classes, check_device
from .networks import ENCODERS, Autoencoder, build
from .options import Options
from .sources import Source
from .state import PHASES, State, new_state
from .training import Hooks, all_codes, n_steps, rows_of, train

NETWORK = 2000  # key of the random numbers that draw the first parameters
RESIDUAL = 1e-3  # mean residual of the last epoch's plans above which a warning is due
OF_OPTIONS = tuple(sorted({field.name for field in fields(Options)} - {"learn_weights", "compiled"}))


class FittingMixin(BaseEstimator):
    """The parameters are those of `DeepTransportClustering`."""

    _state: State
    _seed: int

    def fit(self, X: Any, y: Any = None) -> Self:
        """Train on rows X.

        Parameters
        ----------
        X : array, DataFrame or tensor (n, *shape); Dataset or DataLoader
            Vectors or images. Items of a Dataset are rows, or tuples that begin with one.
        y : array (n,), optional
            Classes, for the accuracy in `history_` only: they have no influence on the training.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            Before training, if a parameter or the data break a rule; the message names it, its value, the rule and the remedy.
        """
        options = self._options()
        source = as_source(self, X, reset=True, least=1 if options.distributed else 2)
        classes = check_classes(y, source)
        self._begin(source, options)
        path = self._checkpoint(source, options)
        hooks = self._hooks(source, options, classes, path)
        with tqdm(total=self._n_steps(source, options), disable=not self.verbose, unit="step") as self._bar:
            train(self._state, source, options, [self._seed], hooks)
        del self._bar
        self._finish(source, options)
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """One more epoch of clustering on rows X; the first call places the centres among them, so it needs K rows at least.

        Parameters
        ----------
        X : as in `fit`
        y : ignored

        Returns
        -------
        self
        """
        options = self._options()
        first = not hasattr(self, "_state")
        source = as_source(self, X, reset=first, least=2 if first else 1)
        if first:
            self._begin(source, options)
        state = self._state
        state.stopped, state.phase, state.epoch = False, 1, sum(row["phase"] == PHASES[1] for row in state.history)
        options = replace(options, epochs=state.epoch + 1, patience=None)
        train(state, source, options, [self._seed], Hooks(lambda state, measures: None, lambda state, rows: False))
        self._finish(source, options)
        return self

    def _options(self) -> Options:
        """The parameters, checked."""
        K = self.n_clusters
        check_integer("n_clusters", K, 1)
        check_integer("n_codes", self.n_codes, 1)
        check_choice("assign_by", self.assign_by, assignment.METHODS)
        if not isinstance(self.weights, str):
            check_simplex("weights", self.weights, K)
        else:
            check_choice("weights", self.weights, ("uniform", "learned"))
        if not isinstance(self.encoder, nn.Module):
            check_choice("encoder", self.encoder, ENCODERS)
        if self.batch_size == 1:
            raise ValueError(
                "batch_size is 1; a batch needs at least 2 rows to be shared out among clusters: 300 is the default"
            )
        if not all(callable(callback) for callback in self.callbacks):
            raise ValueError(f"callbacks is {self.callbacks!r}; it must be a sequence of functions of (estimator, row)")
        if self.rule is not None:
            self.rule.check(K)
        given = {name: getattr(self, name) for name in OF_OPTIONS}
        given["unit_codes"] = bool(self.unit_codes) or self.encoder == "cosine"
        learned = isinstance(self.weights, str) and self.weights == "learned"
        if self.distributed and not isinstance(self.random_state, int | np.integer):
            raise ValueError(
                f"random_state is {self.random_state!r} with distributed=True; it must be the same integer in all processes"
            )
        return Options(**given, learn_weights=learned, compiled=bool(self.compile))

    def _begin(self, source: Source, options: Options) -> None:
        """A state before any training."""
        n = rows_of(source, options)
        if options.n_clusters > n:
            raise ValueError(
                f"n_clusters is {options.n_clusters} and X has {n} rows (n_samples); there must be at least as many "
                "rows as clusters: lower n_clusters"
            )
        device = check_device(self.device)
        self._seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self.input_shape_ = tuple(source.shape)
        self._state = self._new_state(options, device)

    def _new_state(self, options: Options, device: torch.device) -> State:
        shape = self.input_shape_
        weights = None if isinstance(self.weights, str) else check_simplex("weights", self.weights, options.n_clusters)
        network = self._network(shape)
        try:
            state = new_state([network], shape, options, device, weights)
        except RuntimeError as error:
            raise ValueError(
                f"encoder does not take rows of shape {shape} ({error}); it must map (m, *shape) to (m, d)"
            ) from None
        if options.compiled:
            for part in network.children():
                part.compile(backend=self.compile if isinstance(self.compile, str) else "inductor")
        return state

    def _restore(self, tensors: dict[str, Any], numbers: dict[str, Any], facts: dict[str, Any]) -> None:
        """Become what a file says: parameters are those of the constructor."""
        self._seed, self.input_shape_ = facts["seed"], tuple(facts["shape"])
        self.n_features_in_ = int(np.prod(self.input_shape_))
        self._fitted_options = self._options()
        self._state = self._new_state(self._fitted_options, check_device(self.device))
        self._state.restore(tensors, numbers)

    def _network(self, shape: tuple[int, ...]) -> Autoencoder:
        if isinstance(self.encoder, nn.Module):
            return Autoencoder(_copied(self.encoder), None if self.decoder is None else _copied(self.decoder))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self._seed * 1_000_003 + NETWORK)
            return build(self.encoder, tuple(shape), self.n_codes)

    def _checkpoint(self, source: Source, options: Options) -> Path | None:
        """Where the state is kept; one that is there is taken up, if it is of the same parameters and data."""
        if self.checkpoint_dir is None:
            return None
        if not isinstance(self.random_state, int | np.integer):
            raise ValueError(
                f"random_state is {self.random_state!r} with checkpoint_dir; it must be an integer, so that a resumed run goes on "
                "as it would have"
            )
        folder = Path(self.checkpoint_dir)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / checkpoints.FILE
        if options.distributed:
            path = path.with_stem(f"{path.stem}-{torch.distributed.get_rank()}")
        self._run = self._facts() | {"data": checkpoints.fingerprint(source)}
        if path.is_file():
            tensors, numbers, facts = checkpoints.read(path)
            other = sorted(name for name in self._run if facts.get(name) != self._run[name])
            if other:
                raise ValueError(
                    f"checkpoint_dir is {str(folder)!r}, which holds a run that differs in {', '.join(other)}; give another "
                    "folder, or delete it"
                )
            self._state.restore(tensors, numbers)
        return path

    def _facts(self) -> dict[str, Any]:
        """What a file says of the estimator besides its state."""
        without = ("checkpoint_dir", "verbose", "callbacks", "device")
        parameters = {name: value for name, value in self.get_params(deep=False).items() if name not in without}
        facts = {name: checkpoints.plain(value) for name, value in parameters.items()}
        return {"parameters": facts, "seed": self._seed, "shape": list(self.input_shape_)}

    def _hooks(self, source: Source, options: Options, classes: np.ndarray | None, path: Path | None) -> Hooks:
        def after_batch(state: State, measures: dict[str, float]) -> None:
            self._bar.update()
            if self.verbose and self._bar.n % 20 == 0:
                self._bar.set_postfix(_shown(measures))

        def after_epoch(state: State, rows: list[dict[str, Any]]) -> bool:
            (row,) = rows
            if classes is not None and PHASES[state.phase] == "cluster":
                codes = state.members.codes(source.rows(), state.centres.device)
                row["accuracy"] = clustering_accuracy(classes, assignment.nearest(codes, state, options)[0].numpy())
            if self.verbose:
                self._bar.set_postfix(_shown(row))
            answers = [bool(callback(self, dict(row))) for callback in self.callbacks]  # all are called
            stop = any(answers)
            if path is not None:
                state.stopped = state.stopped or stop
                checkpoints.write(path, state, self._run)
            return stop

        return Hooks(after_batch, after_epoch)

    def _n_steps(self, source: Source, options: Options) -> int:
        done = len(self._state.history)
        return (options.pretrain_epochs + options.epochs - done) * n_steps(source, options)

    def _finish(self, source: Source, options: Options) -> None:
        """Fitted attributes."""
        state = self._state
        C = assignment.cost_matrix(all_codes(state, source, options), state, options)
        self._fitted_options, self._readout = options, assignment.read_out(C, state, options)
        self._describe()
        if options.distributed:
            C = assignment.cost_matrix(state.members.codes(source.rows(), state.centres.device), state, options)
        self.labels_ = self._labels(C)
        self._warn(options)

    def _labels(self, C: np.ndarray) -> np.ndarray:
        if self.assign_by == "centre":
            return np.argmin(C, axis=1)
        if self.assign_by == "potential":
            return np.argmax(assignment.log_joint(C, self._readout), axis=1)
        return round_plan(-C / self.epsilon_, sizes_from_weights(self.weights_, len(C)))

    def _warn(self, options: Options) -> None:
        last = self._state.history[-1] if self._state.history else {}
        if options.dual != "global" and last.get("marginal_error", 0.0) > RESIDUAL:
            warnings.warn(
                f"plans of the last epoch have a mean residual of {last['marginal_error']:.2g}; their derivatives are off by about "
                "as much: raise epsilon",
                ConvergenceWarning,
                stacklevel=4,
            )
        empty = np.flatnonzero((np.bincount(self.labels_, minlength=len(self.weights_)) == 0) & (self.weights_ > 0))
        if len(empty):
            warnings.warn(
                f"clusters {empty.tolist()} have no row that is nearest to them: lower n_clusters, lower epsilon, or train longer "
                "before clustering (pretrain_epochs)",
                ConvergenceWarning,
                stacklevel=4,
            )


def _copied(module: nn.Module) -> nn.Module:
    """The user's module stays as it was."""
    return deepcopy(module)


def _shown(measures: dict[str, Any]) -> dict[str, str]:
    names = {"loss": "loss", "marginal_error": "residual", "plan_entropy": "entropy", "accuracy": "accuracy"}
    return {short: f"{measures[name]:.3g}" for name, short in names.items() if name in measures}
