"""Many trainings of the same data as one job: the seeds are a batch dimension (`members`), and each gives its own result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from tqdm import tqdm

from .._parameters import check_simplex
from ..metrics import clustering_accuracy
from .assignment import nearest
from .inputs import check_classes, check_device, check_number, check_rows
from .networks import build_from
from .options import Options
from .sources import InMemory
from .state import State, new_state
from .training import Hooks, gradients_on, train


class Trained(NamedTuple):
    """What S trainings gave."""

    state: State
    labels: np.ndarray  # (S, n) the nearest centre of every row
    history: pd.DataFrame  # a row for each epoch and member; accuracy every few epochs, if classes are known

    def codes(self, X: Tensor) -> np.ndarray:
        """Codes (S, n, d) of rows X (n, *shape), float32, as the networks give them (not of length 1)."""
        return self.state.members.codes(InMemory(X).pieces(), self.state.centres.device).numpy()


def train_seeds(
    X: Tensor,
    options: Options,
    seeds: Sequence[int],
    *,
    encoder: str = "mlp",
    n_codes: int = 10,
    weights: Any = None,
    y: Any = None,
    every: int = 1,
    start: State | None = None,
    device: str = "cpu",
    progress: bool = False,
) -> Trained:
    """Train one network a seed on rows X (n, *shape), all at once.

    Parameters
    ----------
    X : Tensor (n, *shape), float32
    options : Options
    seeds : sequence of int
        One a member; a member's result depends on its own seed, and in the last bits on how many are trained beside it. Views
        (options.augment) are drawn for all together, by the first seed.
    encoder, n_codes : of `networks.build`
    weights : array (K,), optional
        Sizes, default uniform; the larger goes to the larger cluster.
    y : array (n,), optional
        Classes, for the accuracy in the history; they have no influence on the training.
    every : int
        Epochs of clustering between two accuracies (the last has one always).
    start : State, optional
        Networks that are pre-trained: options.pretrain_epochs is then taken as done. They are copied, and so are the centres if
        options.centres is "random_encoder".
    device : str
    progress : bool
        A progress bar.

    Returns
    -------
    Trained

    Raises
    ------
    ValueError
        Before training, for rows, classes or sizes that break a rule.
    """
    where, shape = check_device(device), tuple(X.shape[1:])
    check_rows(X)
    check_number(len(X), max(2, options.n_clusters))
    classes = check_classes(y, len(X))
    w = None if weights is None else check_simplex("weights", weights, options.n_clusters)
    networks = [build_from(seed, encoder, shape, n_codes) for seed in seeds]
    state = new_state(networks, shape, options, where, w)
    if start is not None:
        state.members.load_state_dict(start.members.state_dict())
        state.phase = 1
        if options.centres == "random_encoder":
            state.placed = True
            with torch.no_grad():
                state.centres.copy_(start.centres)
    source = InMemory(X.to(where))
    length = options.epochs + (options.pretrain_epochs if start is None else 0)

    def labels() -> np.ndarray:
        return nearest(state.members.codes(source.pieces(), where), state, options).numpy()

    with tqdm(total=length, disable=not progress, unit="epoch") as bar:

        def after_epoch(state: State, rows: list[dict[str, Any]]) -> bool:
            if classes is not None and state.phase == 1 and (state.epoch % every == 0 or state.epoch == options.epochs):
                for row, found in zip(rows, labels(), strict=True):
                    row["accuracy"] = clustering_accuracy(classes, found)
            bar.update()
            bar.set_postfix(loss=np.mean([row["loss"] for row in rows]))
            return False

        with gradients_on():
            train(state, source, options, list(seeds), Hooks(lambda state, measures: None, after_epoch))
    return Trained(state, labels(), pd.DataFrame(state.history))
