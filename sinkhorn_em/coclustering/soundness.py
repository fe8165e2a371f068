"""What may be wrong with a fit, and the warnings that say so: empty clusters, constant blocks, blocks that are all alike."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

FALL = 1e-9  # of the bound: more than its rounding
ALIKE = 1e-6  # relative: natural parameters no further apart are those of one block
NAMED = 5  # blocks that a warning lists


def warn_of(model: Any, stacklevel: int) -> None:
    """One warning for each thing that went wrong in the fit of ``model``; ``stacklevel`` 2 is the caller's line."""
    constant = collapsed_blocks(model)
    messages = [message for side in ("row", "column") if (message := _empty(model, side))]
    if constant:
        named = f"{constant[:NAMED]}" + (f" and {len(constant) - NAMED} more" if len(constant) > NAMED else "")
        messages.append(
            f"the variance of blocks {named} is held at its floor, 1e-10 of that of all cells, and is not theirs: their cells are "
            "constant, or a few cells of X are very large; drop constant rows and columns, look for outliers, lower the numbers of "
            "clusters, or choose Gaussian(variance='common')"
        )
    elif _all_alike(model):
        messages.append(
            "all blocks are alike: X has no block structure that this start leads to; try another init or random_state, raise "
            "n_init, or give starting labels that differ"
        )
    fall = -float(np.diff(model.bounds_.ravel()).min(initial=0.0))
    # scores of constant cells are differences of numbers that are larger by 1 / floor: their rounding is no news
    if not constant and fall > FALL * (1 + abs(model.bound_)):
        messages.append(
            f"the bound fell by {fall:.2g} nats on the way, which it never does in exact arithmetic: a family of your own does "
            "not raise its likelihood, or X has values of very different size (rescale it)"
        )
    if not model.converged_:
        messages.append(
            f"no convergence in max_iter = {model.max_iter} sweeps (tol = {model.tol}): raise max_iter or tol"
        )
    for message in messages:
        warnings.warn(message, ConvergenceWarning, stacklevel=stacklevel)


def collapsed_blocks(model: Any) -> list[list[int]]:
    """Pairs (k, l) of blocks whose variance is at its floor."""
    collapsed = model._family.collapsed(model._parameters)
    return [] if collapsed is None else np.argwhere(collapsed).tolist()


def _all_alike(model: Any) -> bool:
    """There are several blocks, and their natural parameters are the same."""
    natural = model._family.natural(model._parameters)
    parts = [*natural.eta, natural.log_partition]
    return natural.log_partition.size > 1 and all(np.ptp(A) <= ALIKE * (1 + np.abs(A).max()) for A in parts)


def _empty(model: Any, side: str) -> str:
    """A message on clusters that no row (column) has as its most probable one; a prescribed weight of 0 means them to be so."""
    weights, asked = getattr(model, f"{side}_weights_"), getattr(model, f"{side}_weights")
    empty = np.setdiff1d(np.arange(len(weights)), getattr(model, f"{side}_labels_"))
    learned = isinstance(asked, str) and asked == "learned"
    if not learned:
        empty = empty[weights[empty] > 0]
    if not len(empty):
        return ""
    remedy = f", or hold the sizes (tau=1, {side}_weights='uniform')" if learned else ""
    return f"{side} clusters {empty.tolist()} are empty: lower n_{side}_clusters, or raise n_init{remedy}"
