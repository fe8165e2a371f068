"""Weights known, wrong, relaxed, or learned in one of several ways; and what L and l have in common as functions of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from ..plots import COLOURS, INK, panels
from .base import Experiment, Scale, Task, Verdict
from .statistics import Interval, mean, share, share_difference
from .weights_fits import KINDS, MAX_ITER, draw_problem, fit_all, measures
from .weights_profile import curve, identity

NEAR, UNEQUAL = KINDS[1:]
#: method, shares of data sets with all centres found, computed independently of this package (other centres, 25 to 50 data sets)
EXPECTED = {
    NEAR: {
        "EM, learned": (0.56, 0.58),
        "SEM, then EM": (0.88, 0.92),
        "SEM, then EG": (0.92, 0.92),
        "EG, eta 0.02": (0.62, 0.62),
        "EG, eta 0.1": (0.25, 0.25),
        "EG, eta 0.5": (0.0, 0.0),
    },
    UNEQUAL: {"EM, learned": (0.75, 0.75), "SEM, then EM": (0.75, 0.75), "SEM, then EG": (0.58, 0.58)},
}
ALLOWED = 0.1  # the standard error of such a share is .07 or so
SAME = 0.15  # difference of shares that is called none
FIXED_DESIGNS = ((1, 2), (1, 3), (2, 3), (2, 5))  # (d, K) of the identity
IDENTITY, SLOPE = 1e-8, 1e-5  # nats; nats per unit of weight, of central differences
GRADIENT_ITER = 60  # of exponentiated gradient: its plans cost up to 40 passes an iteration
COLOUR = {"EM": COLOURS[1], "SEM": COLOURS[0], "EG": COLOURS[2], "tau": COLOURS[3]}


class Weights(Experiment):
    name = "weights"
    question = "How should unknown weights be treated: held, relaxed, or learned, and how?"
    source = (
        "Mena et al. 2020 (exponentiated gradient for the weights); the identity is theory, shares of success "
        "were computed independently for this project"
    )

    def tasks(self, scale: Scale) -> list[Task]:
        identities: list[Task] = [
            {"part": "identity", "d": d, "K": n_components, "repetition": r}
            for d, n_components in (FIXED_DESIGNS[::2] if scale.quick else FIXED_DESIGNS)
            for r in range(1 if scale.quick else 3)
        ]
        return [
            *identities,
            {"part": "curve", "points": 41 if scale.quick else 99},
            *(_quick_fits(scale.count(0, 100)) if scale.quick else _full_fits(scale.count(50, 0))),
        ]

    def run(self, task: Task, rng: np.random.Generator) -> pd.DataFrame:
        if task["part"] == "identity":
            return identity(int(task["d"]), int(task["K"]), rng)
        if task["part"] == "curve":
            return curve(int(task["points"]), rng)
        problem = draw_problem(str(task["weights"]), rng)
        methods = str(task["methods"])
        fits = fit_all(problem, methods, int(task["gradient_iter"]))
        return pd.DataFrame(
            [{"method": name, **measures(problem, fit, methods == "all")} for name, fit in fits.items()]
        )

    def verdicts(self, table: pd.DataFrame) -> list[Verdict]:
        fits = table[table["part"] == "fit"]
        success = _success(fits)
        identities = _identities(table[table["part"] == "identity"])
        verdicts = [*identities, *_near_equal(success[NEAR]), _polish(fits, UNEQUAL in success)]
        if UNEQUAL in success:
            verdicts += [*_very_unequal(success[UNEQUAL]), *_expected(success)]
        return verdicts

    def summary(self, table: pd.DataFrame) -> pd.DataFrame:
        fits = table[table["part"] == "fit"].astype({"success": float})
        columns = ["success", "ari", "w2_squared", "weight_error", "iterations", "passes"]
        means = fits.groupby(["weights", "method"], sort=False)[columns].mean()
        return means.round(3).reset_index()

    def notes(self, scale: Scale) -> str:
        return (
            "d = 2, K = 5, 300 rows, variance 1 known, centres uniform in a square, multinomial counts; weights equal, from a "
            "Dirichlet law with parameters 20 (near-equal) or 3 (very unequal). One k-means++ start, the same for all methods. "
            "True weights go to the starting centres in the order of the rows nearest to them. SEM: Sinkhorn-EM, to "
            f"convergence, at most {MAX_ITER} iterations, as EM. EG: weights by exponentiated gradient under a plan that holds "
            f"them, at most {GRADIENT_ITER} iterations, some of which have not converged; with backtracking, eta 1 at first and "
            "at most half a nat, or plain: as in the paper from the first iteration, whatever the objective does. Success: every "
            "centre within one standard deviation. Weight error: half the L1 distance of the sorted weights. Squared W2 is that "
            "of the mixing measures. Iterations and passes count from the start. Expected shares are those of other draws of "
            "centres. Identity: means fixed at the centres, weights by exponentiated gradient on L and by EM on l."
        )

    def draw(self, table: pd.DataFrame) -> Any:
        fits = table[table["part"] == "fit"]
        kinds = list(dict.fromkeys(fits["weights"]))
        widths = [*[1.0] * len(kinds), 1.7]
        figure, axes = panels(1, len(widths), (4.6 + 3.1 * len(kinds), 5.2), gridspec_kw={"width_ratios": widths})
        for ax, kind in zip(axes[0], kinds, strict=False):
            of_kind = fits[fits["weights"] == kind]
            _draw_success(ax, of_kind, labelled=ax is axes[0, 0])
            ax.set(title=f"{kind} weights\n{of_kind['repetition'].nunique()} data sets")
        _draw_curve(axes[0, -1], table[table["part"] == "curve"])
        figure.suptitle("Who finds all centres, by how the weights are treated; and the weights that L and l ask for")
        return figure


def _full_fits(reps: int) -> list[Task]:
    more: Task = {"part": "fit", "methods": "all", "gradient_iter": GRADIENT_ITER}
    return [{**more, "weights": kind, "repetition": r} for kind in KINDS for r in range(reps)]


def _quick_fits(reps: int) -> list[Task]:
    """Compiled methods on all data sets, what destroys a fit within a few iterations on some, and everything on one."""
    some = {r: "all" if r < 1 else "plain" for r in range(17)}
    more: Task = {"part": "fit", "weights": NEAR, "gradient_iter": 8}
    return [{**more, "methods": some.get(r, "compiled"), "repetition": r} for r in range(reps)]


def _success(fits: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """By kind of weights, (repetition) x (method): found all centres; NaN where a method was not run."""
    groups = fits.groupby("weights", sort=False)
    return {str(kind): part.pivot(index="repetition", columns="method", values="success") for kind, part in groups}


def _paired(success: pd.DataFrame, a: str, b: str) -> Interval:
    both = success[[a, b]].dropna().astype(bool)
    return share_difference(both[a], both[b])


def _identities(rows: pd.DataFrame) -> list[Verdict]:
    gap = (rows["least_L"] - rows["least_l"]).to_numpy()
    left = (rows["descent"] - rows["least_l"]).to_numpy()
    return [
        Verdict(
            f"with the means fixed, the least L over the weights is the least l (theory; within {IDENTITY:g} nats)",
            f"largest |difference| {np.abs(gap).max():.2g} nats in {len(rows)} data sets",
            bool(np.abs(gap).max() < IDENTITY),
        ),
        Verdict(
            "exponentiated gradient on L, from uniform weights, gets there, unless a kink of L stops it (no claim of the paper)",
            f"within {IDENTITY:g} nats in {int((left < IDENTITY).sum())} of {len(rows)} data sets; largest rest {left.max():.2g}",
            None,
        ),
        Verdict(
            f"dL/d weight is the column potential, up to a constant (theory; central differences, within {SLOPE:g})",
            f"largest error {rows['gradient_error'].max():.2g} nats per unit of weight",
            bool(rows["gradient_error"].max() < SLOPE),
        ),
    ]


def _near_equal(success: pd.DataFrame) -> list[Verdict]:
    gain, same = _paired(success, "SEM, then EM", "EM, learned"), _paired(success, "SEM, then EG", "SEM, then EM")
    from_first, wild = _paired(success, "SEM, then EG", "EG, backtracking"), share(success["EG, eta 0.5"].dropna())
    relaxed = _paired(success, "SEM, then EM", "tau 0.5, then EM")
    few = success["SEM, then EG"].isna().any()  # the quick mode: shown, not judged, what needs many
    return [
        Verdict(
            "near-equal weights: a burn-in with held, uniform weights makes EM find the centres more often (.57 to .9)",
            f"difference of shares {gain}, paired",
            gain.low > 0,
        ),
        Verdict(
            "near-equal: plain exponentiated gradient with eta = .5 from the first iteration destroys the fit (share 0)",
            f"share of success {wild}",
            wild.high < 0.5,
        ),
        Verdict(
            f"near-equal: after the burn-in, exponentiated gradient finds them as often as EM (difference within {SAME})",
            f"difference of shares {same}, paired",
            None if few else bool(same.low > -SAME and same.high < SAME),
        ),
        Verdict(
            "near-equal: exponentiated gradient with backtracking needs the burn-in, too",
            f"gain by the burn-in {from_first}, paired",
            None if few else from_first.low > 0,
        ),
        Verdict(
            "near-equal: held weights (tau = 1) are a better burn-in than relaxed ones (tau = .5)",
            f"difference of shares after EM {relaxed}, paired",
            None if few else relaxed.low > 0,
        ),
    ]


def _very_unequal(success: pd.DataFrame) -> list[Verdict]:
    none, gradient = _paired(success, "SEM, then EM", "EM, learned"), _paired(success, "SEM, then EG", "EM, learned")
    return [
        Verdict(
            f"very unequal weights: the burn-in brings no gain (.75 and .75; interval below {SAME})",
            f"difference of shares {none}, paired",
            none.high < SAME,
        ),
        Verdict(
            "very unequal: exponentiated gradient after the burn-in is worse than EM (.58 and .75)",
            f"difference of shares {gradient}, paired",
            gradient.high < 0,
        ),
    ]


def _expected(success: dict[str, pd.DataFrame]) -> list[Verdict]:
    """Shares of success beside those computed before."""
    verdicts = []
    for kind, numbers in EXPECTED.items():
        for method, (low, high) in numbers.items():
            found = share(success[kind][method].dropna())
            printed = f"{low:g}" if low == high else f"{low:g} to {high:g}"
            claim = f"{kind}, {method}: share of success {printed}, give or take {ALLOWED}"
            verdicts.append(Verdict(claim, f"{found}", found.low - ALLOWED <= high and low <= found.high + ALLOWED))
    return verdicts


def _polish(fits: pd.DataFrame, full: bool) -> Verdict:
    errors = fits[fits["weights"] == NEAR].pivot(index="repetition", columns="method", values="weight_error")
    gain = mean(errors["SEM, uniform weights"] - errors["SEM, then EM"])
    return Verdict(
        "near-equal: EM after Sinkhorn-EM with (wrong) uniform weights brings the weights nearer to the truth",
        f"fall of the weight error {gain}, paired; to {errors['SEM, then EM'].mean():.3f} on average",
        gain.low > 0 if full else None,
    )


def _draw_success(ax: Any, fits: pd.DataFrame, labelled: bool) -> None:
    methods = list(dict.fromkeys(fits["method"]))
    for place, method in enumerate(methods):
        interval = share(fits.loc[fits["method"] == method, "success"])
        colour = COLOUR["EG" if "EG" in method else method.split()[0].rstrip(",")]
        ax.plot([interval.low, interval.high], [place, place], color=colour, linewidth=2)
        ax.plot(interval.estimate, place, "o", color=colour, markersize=6)
    ax.set_yticks(range(len(methods)), methods if labelled else [])
    ax.set(xlim=(-0.03, 1.03), xlabel="all centres found, share (95 %)", ylim=(len(methods) - 0.5, -0.5))
    ax.grid(axis="x", linewidth=0.4)


def _draw_curve(ax: Any, curve: pd.DataFrame) -> None:
    for name, method in (("L", "SEM"), ("l", "EM")):
        ax.plot(curve["alpha"], curve[name], color=COLOUR[method], linewidth=2, label=f"{name} ({method})")
    best = curve.iloc[int(curve["l"].to_numpy().argmin())]
    ax.plot(best["alpha"], best["l"], "o", color=INK, markersize=8, fillstyle="none", label="least of both")
    low, high = curve["l"].min(), curve["l"].max()
    ax.set(title="means fixed: L touches l where l is least", xlabel="weight of the first of two components")
    ax.set(ylabel="nats per row", ylim=(low - 0.05 * (high - low), high + 0.4 * (high - low)))
    ax.legend(frameon=False, loc="upper center")
