"""`fit` and `partial_fit` of the estimator: from its parameters to a trained state and its attributes."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from torch import Tensor, nn
from tqdm import tqdm

from ..metrics import clustering_accuracy
from ..mixture.rounding import round_plan, sizes_from_weights
from . import assignment, checkpoints
from .distributed import any_process, of_all_processes, sum_over_processes, together
from .inputs import as_source, check_classes, check_device
from .members import One
from .networks import Autoencoder, build_from, start_at_components
from .options import Options
from .parameters import options_of, sizes
from .sources import Source
from .state import PHASES, State, new_state
from .training import Hooks, all_codes, gradients_on, moments, n_steps, planned, rows_of, train

LINEAR = ("linear", "cosine")  # encoders that start at principal components
RESIDUAL = 1e-3  # mean residual of the last epoch's plans above which a warning is due
WITHOUT_EFFECT = ("checkpoint_dir", "verbose", "callbacks", "device")  # on what is computed


class FittingMixin(BaseEstimator):
    """The parameters are those of `DeepTransportClustering`."""

    _state: State
    _seed: int

    def fit(self, X: Any, y: Any = None) -> Self:
        """Train on rows X. If that is interrupted or refused, the estimator stays as it was.

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
        FloatingPointError
            The training diverged.
        """
        options = options_of(self)
        with self._whole(), gradients_on():
            source, classes = self._checked(X, y, options)
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

        Epsilon, sizes and the learning rate move as in the first `epochs` epochs of `fit`.

        Parameters
        ----------
        X : as in `fit`
        y : ignored

        Returns
        -------
        self
        """
        options = options_of(self)
        with self._whole(), gradients_on():
            first = not hasattr(self, "_state")
            source = as_source(self, X, reset=first, least=2 if first else 1)
            if first:
                self._begin(source, options)
            state = self._state
            if options.n_clusters != state.centres.shape[1]:
                raise ValueError(
                    f"n_clusters is {options.n_clusters} and the fitted model has {state.centres.shape[1]} clusters; it must stay: "
                    "call fit() for another number"
                )
            done = state.n_clustered
            state.stopped, state.phase, state.epoch = False, 1, done
            options = replace(options, patience=None)
            train(state, source, options, [self._seed], Hooks(_nothing, _go_on), lengths=(0, done + 1))
            self._finish(source, options)
        return self

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """Leave the estimator as it was if the training does not come to its end."""
        before = dict(self.__dict__)
        state = before.get("_state")
        kept = None if state is None else ({k: t.clone() for k, t in state.tensors().items()}, state.numbers())
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            if state is not None and kept is not None:
                state.restore(*kept)
            raise

    def _checked(self, X: Any, y: Any, options: Options) -> tuple[Source, np.ndarray | None]:
        """Rows and classes; an error in one process is one in all."""
        least = 1 if options.distributed else 2

        def check() -> tuple[Source, np.ndarray | None]:
            source = as_source(self, X, reset=True, least=least)
            return source, check_classes(y, source.n_rows)

        if not options.distributed:
            return check()
        source, classes = together(check, sum_over_processes())
        steps = n_steps(source, options)
        together(lambda: _check_share(source, steps, options), sum_over_processes())
        return source, classes

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
        if isinstance(self.encoder, str) and self.encoder in LINEAR:
            members = self._state.members
            assert isinstance(members, One)
            start_at_components(members.network, *moments(source, options))

    def _new_state(self, options: Options, device: torch.device) -> State:
        network = self._network(self.input_shape_)
        state = new_state([network], self.input_shape_, options, device, sizes(self))
        if options.compiled:
            for part in network.children():
                part.compile(backend=self.compile if isinstance(self.compile, str) else "inductor")
        return state

    def _network(self, shape: tuple[int, ...]) -> Autoencoder:
        """The encoder by name, or a copy of the user's, which stays as it was."""
        if isinstance(self.encoder, nn.Module):
            return Autoencoder(deepcopy(self.encoder), deepcopy(self.decoder))
        return build_from(self._seed, self.encoder, tuple(shape), self.n_codes)

    def _restore(self, tensors: dict[str, Any], numbers: dict[str, Any], facts: dict[str, Any]) -> None:
        """Become what a file says: parameters are those of the constructor."""
        self._seed, self.input_shape_ = facts["seed"], tuple(facts["shape"])
        self.n_features_in_ = int(np.prod(self.input_shape_))
        if facts["names"] is not None:
            self.feature_names_in_ = np.asarray(facts["names"], object)
        self._fitted_options = options_of(self)
        self._state = self._new_state(self._fitted_options, check_device(self.device))
        self._state.restore(tensors, numbers)

    def _checkpoint(self, source: Source, options: Options) -> Path | None:
        """Where the state is kept; one that is there is taken up, if it is of the same parameters and data.

        Processes are in the same state after every epoch: the first one writes for all.
        """
        if self.checkpoint_dir is None:
            return None
        folder = Path(self.checkpoint_dir)
        folder.mkdir(parents=True, exist_ok=True)
        path, data = folder / checkpoints.FILE, checkpoints.fingerprint(source)
        self._run = self._facts() | {"data": of_all_processes(data) if options.distributed else data}
        if path.is_file():
            tensors, numbers, facts = checkpoints.read(path)
            other = checkpoints.differences(self._run, facts)
            if other:
                raise ValueError(
                    f"checkpoint_dir is {str(folder)!r}, which holds a run that differs in {', '.join(other)}; give another "
                    "folder, or delete it"
                )
            self._state.restore(tensors, numbers)
            if self._state.stopped:
                warnings.warn(
                    f"checkpoint_dir is {str(folder)!r}, which holds a run that a callback or the patience stopped after "
                    f"{len(self._state.history)} epochs; it is taken as it is: call partial_fit(), or give another folder",
                    UserWarning,
                    stacklevel=3,
                )
        return path

    def _facts(self) -> dict[str, Any]:
        """What a file says of the estimator besides its state."""
        parameters = self.get_params(deep=False).items()
        facts = {name: checkpoints.plain(value) for name, value in parameters if name not in WITHOUT_EFFECT}
        names = checkpoints.plain(getattr(self, "feature_names_in_", None))
        return {"parameters": facts, "seed": self._seed, "shape": list(self.input_shape_), "names": names}

    def _hooks(self, source: Source, options: Options, classes: np.ndarray | None, path: Path | None) -> Hooks:
        def after_batch(state: State, measures: dict[str, Tensor]) -> None:
            self._bar.update()
            if self.verbose and self._bar.n % 20 == 0:
                self._bar.set_postfix(_shown({name: float(value.mean()) for name, value in measures.items()}))

        def after_epoch(state: State, rows: list[dict[str, Any]]) -> bool:
            (row,) = rows
            if classes is not None and PHASES[state.phase] == "cluster":
                codes = state.members.codes(source.pieces(), state.centres.device)
                row["accuracy"] = clustering_accuracy(classes, assignment.nearest(codes, state, options)[0].numpy())
            if self.verbose:
                self._bar.set_postfix(_shown(row))
            answers = [bool(callback(self, dict(row))) for callback in self.callbacks]  # all are called
            stop = any_process(any(answers)) if options.distributed else any(answers)
            if path is not None and (not options.distributed or torch.distributed.get_rank() == 0):
                state.stopped = state.stopped or stop
                checkpoints.write(path, state, self._run)
            return stop

        return Hooks(after_batch, after_epoch)

    def _n_steps(self, source: Source, options: Options) -> int:
        done = len(self._state.history)
        return (sum(planned(self._state, options)) - done) * n_steps(source, options)

    def _finish(self, source: Source, options: Options) -> None:
        """Fitted attributes."""
        state = self._state
        C = assignment.cost_matrix(all_codes(state, source, options), state, options)
        self._fitted_options, self._readout = options, assignment.read_out(C, state, options)
        self._describe()
        if options.distributed:
            C = assignment.cost_matrix(state.members.codes(source.pieces(), state.centres.device), state, options)
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


def _check_share(source: Source, steps: int, options: Options) -> None:
    """Every process needs a row for each of its batches, which are as many in all."""
    if source.n_rows < steps:
        raise ValueError(
            f"X has {source.n_rows} rows in this process, and an epoch has {steps} batches (batch_size={options.batch_size}, over "
            "all processes); every process needs a row in each: share the rows out more evenly, or raise batch_size"
        )
    if getattr(source, "loader", None) is not None:
        raise ValueError(
            "X is a DataLoader with distributed=True; batches are shared out over the processes: pass its Dataset"
        )


def _nothing(state: State, measures: dict[str, Tensor]) -> None:
    """No hook."""


def _go_on(state: State, rows: list[dict[str, Any]]) -> bool:
    """No reason to stop."""
    return False


def _shown(measures: dict[str, Any]) -> dict[str, str]:
    names = {"loss": "loss", "marginal_error": "residual", "plan_entropy": "entropy", "accuracy": "accuracy"}
    return {short: f"{measures[name]:.3g}" for name, short in names.items() if name in measures}
