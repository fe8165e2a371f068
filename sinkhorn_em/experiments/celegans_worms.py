"""The real worms of experiment `celegans`: each named by an atlas of the others."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
from sklearn.exceptions import ConvergenceWarning

from .._typing import Floats, Integers
from ..alignment import consensus, robust_similarity
from ..atlas import SPACE, Atlas, build_atlas, normal_scores
from ..families.priors import NormalPrior
from ..mixture import GaussianMixture
from ..plots import COLOURS, INK
from .base import Verdict
from .statistics import mean

BLOCKS = ((0, 1, 2), (3, 4, 5))  # positions, colours
POSITIONS, COLOURS_OF_ROWS = ["x", "y", "z"], ["r", "g", "b"]
WORDS = {"EM": "EM", "EM_learned": "EM, weights learned", "SEM": "Sinkhorn-EM", "most_one": "names at most once"}
WORDS |= {"Hungarian": "Hungarian", "positions": "Hungarian, no colours"}
COLOUR = {"EM": COLOURS[1], "EM_learned": COLOURS[4], "SEM": COLOURS[0], "most_one": COLOURS[5]}
COLOUR |= {"Hungarian": COLOURS[2], "positions": COLOURS[6]}
UNNAMED, NAMED = "unnamed", "named"  # how a worm is aligned: names unknown, or known
SHARE = 0.5  # of an atlas covariance that is spread about a neuron's mean; the rest is that of the mean
TOL = 1e-5


def identify(worms: pd.DataFrame, left_out: str) -> pd.DataFrame:
    """The share of a worm's neurons that every method names right, of those that the atlas of the others has."""
    atlas, (X, names) = _others(worms, left_out), _rows(worms, left_out)
    truth = atlas.numbers(names)
    known = truth >= 0
    by_name = robust_similarity(X[known, :SPACE], atlas.means[truth[known], :SPACE])
    records = []
    for alignment, fit in ((UNNAMED, atlas.align(X)), (NAMED, by_name)):
        Z = np.column_stack([fit.forward(X[:, :SPACE]), X[:, SPACE:]])
        record = {"alignment": alignment, "names": len(atlas.names), "neurons": int(known.sum())}
        for method, labels in _assignments(atlas, Z).items():
            records.append(record | {"method": method, "top_1": (labels == truth)[known].mean()})
        for method, scores in _posteriors(atlas, Z).items():
            better = (scores[known] > scores[known, truth[known]][:, None]).sum(axis=1)
            shares = {f"top_{t}": (better < t).mean() for t in (1, 3)}
            records.append(record | {"method": method, **shares})
    return pd.DataFrame(records).round(4)


def _rows(worms: pd.DataFrame, worm: str) -> tuple[Floats, list[str]]:
    """Positions, colours by their ranks, and names of one worm."""
    own = worms[worms["worm"] == worm]
    return np.column_stack([own[POSITIONS], normal_scores(own[COLOURS_OF_ROWS].to_numpy())]), own["id"].tolist()


def _others(worms: pd.DataFrame, left_out: str) -> Atlas:
    """The atlas of all worms but one, aligned to each other by the names."""
    rows, names = zip(*(_rows(worms, worm) for worm in worms["worm"].unique() if worm != left_out), strict=True)
    positions = np.concatenate(consensus([X[:, :SPACE] for X in rows], names))
    colours = np.concatenate([X[:, SPACE:] for X in rows])
    return build_atlas(np.column_stack([positions, colours]), [name for own in names for name in own], BLOCKS)


def _assignments(atlas: Atlas, Z: Floats) -> dict[str, Integers]:
    return {"Hungarian": atlas.assign(Z), "positions": atlas.marginal(range(SPACE)).assign(Z[:, :SPACE])}


def _posteriors(atlas: Atlas, Z: Floats) -> dict[str, Floats]:
    """Posterior probabilities, and plans where the E-step holds column masses, (n, K)."""
    options: dict[str, Any] = {
        "precisions_init": np.linalg.inv(SHARE * atlas.covariances),
        "frozen": "covariances",
        "blocks": BLOCKS,
    }
    options |= {
        "prior": NormalPrior(atlas.means, (1 - SHARE) * atlas.covariances),
        "means_init": atlas.means,
        "tol": TOL,
    }
    rules: dict[str, dict[str, Any]] = {
        "EM": {"tau": 0},
        "SEM": {"tau": 1},
        "most_one": {"size_bounds": (0, 1 / len(Z))},
    }
    found = {}
    for method, rule in rules.items():
        model = GaussianMixture(len(atlas.names), weights=atlas.weights, **options, **rule)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # names no label: the last gains are small
            model.fit(Z)
        found[method] = model.predict_proba(Z)
        if method != "EM":
            found[f"{method}_plan"] = model.transport_plan(Z).responsibilities
    return found


def worm_verdicts(worms: pd.DataFrame) -> list[Verdict]:
    """Paired over the worms, aligned without their names."""
    wide = worms[worms["alignment"] == UNNAMED].pivot(index="worm", columns="method", values="top_1")

    def more(a: str, b: str, claim: str, judged: bool = True) -> Verdict:
        difference = mean(wide[a] - wide[b])
        found = (
            f"{wide[a].mean():.3f} and {wide[b].mean():.3f} of the neurons, difference {difference}, {len(wide)} worms"
        )
        return Verdict(claim, found, difference.low > 0 if judged and len(wide) > 3 else None)

    return [
        more(
            "SEM",
            "EM",
            "real worms: Sinkhorn-EM (posterior) names more neurons right than EM (issue; more names than neurons)",
        ),
        more("SEM_plan", "EM", "real worms: the balanced plan of Sinkhorn-EM names more neurons right than EM"),
        more(
            "most_one",
            "EM",
            "real worms: an E-step that gives each name at most one neuron names more right than EM (ours)",
        ),
        more("Hungarian", "EM", "real worms: the Hungarian assignment against EM", judged=False),
        more(
            "most_one",
            "Hungarian",
            "real worms: at most one neuron a name, against the Hungarian assignment",
            judged=False,
        ),
        more("Hungarian", "positions", "real worms: colours help the Hungarian assignment (ours)"),
    ]


def draw_worms(ax: Any, worms: pd.DataFrame) -> None:
    """The mean share of neurons named right, by method and alignment; dots are worms."""
    if not len(worms):
        ax.set_axis_off()
        ax.text(0.5, 0.5, "real worms: only with --data", transform=ax.transAxes, ha="center", color=INK)
        return
    order = ["EM", "SEM", "SEM_plan", "most_one", "most_one_plan", "Hungarian", "positions"]
    for k, method in enumerate(order):
        base = method.removesuffix("_plan")
        for alignment, y, opacity in ((UNNAMED, k - 0.18, 0.9), (NAMED, k + 0.18, 0.35)):
            values = worms[(worms["method"] == method) & (worms["alignment"] == alignment)]["top_1"]
            ax.barh(y, values.mean(), 0.34, color=COLOUR[base], alpha=opacity)
            ax.plot(values, np.full(len(values), y), ".", color=INK, markersize=3)
    words = [WORDS[m.removesuffix("_plan")] + (" (plan)" if m.endswith("_plan") else "") for m in order]
    ax.set_yticks(range(len(order)), words, fontsize="small")
    ax.invert_yaxis()
    ax.set(xlabel="share of neurons named right", title="real worms (pale: aligned by name)")
