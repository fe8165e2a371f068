"""What is judged in the experiment `genevay`: the printed table, transport against soft k-means, and the readings."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from .base import Verdict
from .genevay_designs import (
    AE,
    AE_EM,
    AE_MIXTURE,
    BEYOND,
    CLASSES,
    DKM_P,
    METHODS,
    OT,
    OT_P,
    PIXELS,
    SOFT,
    SOFT_P,
)
from .statistics import Sample, mean, sample, welch, welch_p

RUNS = 50  # of the paper
#: Table 1: mean, standard deviation, least and largest accuracy
PRINTED: dict[str, dict[str, tuple[float, float, float, float]]] = {
    "mnist": {
        PIXELS: (0.513, np.nan, np.nan, np.nan),
        AE: (0.801, 0.025, 0.765, 0.912),
        SOFT: (0.810, 0.033, 0.677, 0.883),
        SOFT_P: (0.837, 0.032, 0.781, 0.923),
        OT: (0.851, 0.032, 0.771, 0.932),
        OT_P: (0.846, 0.040, 0.759, 0.928),
    },
    "cifar10": {
        PIXELS: (0.206, np.nan, np.nan, np.nan),
        AE: (0.237, 0.005, 0.230, 0.259),
        SOFT: (0.239, 0.008, 0.227, 0.257),
        SOFT_P: (0.243, 0.010, 0.227, 0.261),
        OT: (0.243, 0.007, 0.232, 0.260),
        OT_P: (0.244, 0.009, 0.230, 0.266),
    },
}
PAIRS = ((OT, SOFT), (OT_P, SOFT_P))
#: printed p of the Welch tests of transport against soft k-means
PRINTED_P = {"mnist": {OT: 1e-12, OT_P: 0.10}, "cifar10": {OT: 0.0067, OT_P: 0.33}}
ROUNDING = 5e-4  # of what is printed
ALIKE = 0.03  # of accuracy: about a standard deviation of the printed runs
LOSS = 0.15  # of accuracy
TRAINED = 25  # epochs of pre-training, before which codes say little of the classes
RESIDUAL = 1e-5  # of the column masses of a batch


def last(table: pd.DataFrame, part: str = "table") -> pd.DataFrame:
    """The last epoch of every method, reading and seed."""
    rows = table[table["part"] == part]
    return rows[rows["epoch"] == rows.groupby(["reading", "method", "seed"])["epoch"].transform("max")]


def judge(table: pd.DataFrame) -> list[Verdict]:
    """All claims; what is printed is beside what is found where the paper has the data set."""
    dataset, rows = str(table["dataset"].iloc[0]), last(table)
    found = {method: rows[rows["method"] == method].set_index("seed")["accuracy"] for method in METHODS}
    verdicts = [_above_chance(found), _keeps(rows), _converged(table)]
    printed = PRINTED.get(dataset, {})
    verdicts += [_as_printed(method, values, printed[method]) for method, values in found.items() if method in printed]
    verdicts += [_gain(a, b, found, printed) for a, b in PAIRS if len(found[a]) > 1]
    verdicts += [_reachable(dataset, a, b) for a, b in PAIRS if printed]
    verdicts += _of_mixtures(rows)
    verdicts += _beyond(pd.concat([rows, last(table, "views")]), printed)
    verdicts += _of_readings(last(table, "readings"), printed)
    return [*verdicts, _over_epsilon(table)]


def _above_chance(found: dict[str, pd.Series]) -> Verdict:
    intervals = {method: mean(found[method]) for method in (PIXELS, AE, SOFT_P, OT_P)}
    words = ", ".join(f"{method} {interval}" for method, interval in intervals.items())
    claim = f"k-means of pixels and all that is pre-trained find more than one and a half times chance (1/{CLASSES})"
    return Verdict(claim, words, all(interval.low > 1.5 / CLASSES for interval in intervals.values()))


def _keeps(rows: pd.DataFrame) -> Verdict:
    gain = _paired(rows, OT_P, AE)
    claim = f"transport keeps what pre-training found: OT (p) is not below AE + k-means of the same networks by {LOSS}"
    return Verdict(claim, f"gain {gain}, paired", gain.low > -LOSS)


def _paired(rows: pd.DataFrame, a: str, b: str) -> Any:
    """Gain of a method over another, seed by seed: of the same networks."""
    wide = rows[rows["method"].isin([a, b])].pivot(index="seed", columns="method", values="accuracy")
    return mean(wide[a] - wide[b])


def _converged(table: pd.DataFrame) -> Verdict:
    """Readings that unroll have the residual that their iterations leave: it is told beside, not judged."""
    rows = table[table["method"].isin([OT, OT_P]) & (table["epoch"] > 0)]
    unrolled = rows["reading"].str.contains("unrolled")
    largest, left = rows["marginal_error"][~unrolled].max(), rows["marginal_error"][unrolled].max()
    claim = f"the converged plan of every batch holds the sizes (residual, mean over an epoch, at most {RESIDUAL:g})"
    beside = "" if np.isnan(left) else f"; 50 unrolled iterations leave up to {left:.2g}"
    return Verdict(claim, f"largest {largest:.2g}{beside}", bool(largest <= RESIDUAL))


def _as_printed(method: str, values: pd.Series, printed: tuple[float, ...]) -> Verdict:
    """Alike if the interval of the difference is within the margin, not so if it is beyond it; else it cannot be told."""
    ours, theirs = sample(values), Sample(printed[0], printed[1], RUNS)
    if np.isnan(theirs.sd):
        theirs = Sample(theirs.mean, 0.0, RUNS)
    difference = welch(ours, theirs)
    alike = max(abs(difference.low), abs(difference.high)) < ALIKE
    apart = difference.low > ALIKE or difference.high < -ALIKE
    sd = "" if np.isnan(printed[1]) else f" +- {printed[1]:.3f} [{printed[2]:.3f}, {printed[3]:.3f}]"
    words = f"{ours.mean:.3f} +- {ours.sd:.3f} [{min(values):.3f}, {max(values):.3f}], {ours.n} seeds; difference {difference}"
    claim = f"{method}: accuracy {printed[0]:.3f}{sd} (Table 1), ours within {ALIKE}"
    return Verdict(claim, words, True if alike else False if apart else None)


def _gain(a: str, b: str, found: dict[str, pd.Series], printed: dict[str, Any]) -> Verdict:
    """Not so only where the interval excludes a gain that is worth the name: the printed one, else the margin."""
    first, second = sample(found[a]), sample(found[b])
    gain, (one, two) = welch(first, second), welch_p(first, second)
    theirs = printed[a][0] - printed[b][0] if printed else ALIKE
    says = f"; printed gain {theirs:.3f}" if printed else ""
    holds = True if gain.low > 0 else False if gain.high < theirs and printed else None
    words = f"gain {gain}, Welch p = {one:.2g} one-sided, {two:.2g} two-sided, {first.n} and {second.n} seeds"
    words += f"; paired {mean(found[a] - found[b])}" if a == OT_P else ""  # they share pre-trained networks
    return Verdict(f"{a} finds more than {b}{says}", words, holds)


def _reachable(dataset: str, a: str, b: str) -> Verdict:
    """The printed p against those of the printed means and deviations, whatever their rounding."""
    printed, p = PRINTED[dataset], PRINTED_P[dataset][a]
    exact = [Sample(printed[m][0], printed[m][1], RUNS) for m in (a, b)]
    shifts = product((-ROUNDING, 0.0, ROUNDING), repeat=4)
    moved = [
        welch_p(Sample(exact[0].mean + i, exact[0].sd + j, RUNS), Sample(exact[1].mean + k, exact[1].sd + l, RUNS))
        for i, j, k, l in shifts
    ]
    low, high = np.min(moved, axis=0), np.max(moved, axis=0)
    one, two = welch_p(*exact)
    words = f"one-sided {one:.2g} [{low[0]:.2g}, {high[0]:.2g}], two-sided {two:.2g} [{low[1]:.2g}, {high[1]:.2g}]"
    claim = f"the printed p = {p:g} of {a} against {b} follows from the printed means and deviations, rounding included"
    return Verdict(claim, words, bool(((low <= p) & (p <= high)).any()))


def _of_mixtures(rows: pd.DataFrame) -> list[Verdict]:
    """Sinkhorn-EM and EM on the same codes, both with equal sizes."""
    if not (rows["method"] == AE_EM).any():
        return []
    gain = _paired(rows, AE_MIXTURE, AE_EM)
    means = {method: mean(rows[rows["method"] == method]["accuracy"]) for method in (AE_MIXTURE, AE_EM, AE)}
    words = f"gain {gain}, paired; " + ", ".join(f"{method} {interval}" for method, interval in means.items())
    claim = "Sinkhorn-EM finds more classes among the codes of the autoencoder than EM, sizes held to be equal in both"
    holds = True if gain.low > 0 else False if gain.high < 0 else None
    return [Verdict(claim, words, holds if rows["pretrain"].max() >= TRAINED else None)]


def _beyond(rows: pd.DataFrame, printed: dict[str, Any]) -> list[Verdict]:
    """What is ours: judged where there is a printed mean to pass."""
    best = max(printed.values())[0] if printed else np.nan
    verdicts = []
    for method in BEYOND:
        values = rows[rows["method"] == method]["accuracy"]
        if values.empty:
            continue
        found = mean(values)
        holds = True if found.low > best else False if found.high < best else None
        claim = f"'{method}' finds more than the best printed mean, {best:.3f}" if printed else f"what '{method}' finds"
        verdicts.append(Verdict(claim, f"{found}, {len(values)} seeds", holds))
    return verdicts


def _of_readings(rows: pd.DataFrame, printed: dict[str, Any]) -> list[Verdict]:
    """All are trained for the same few epochs; where there are printed means, the nearest to them comes first."""
    rows = rows[rows["method"].isin([OT, OT_P])]
    if rows.empty:
        return []
    means = rows.groupby(["reading", "method"], sort=False)["accuracy"].mean().unstack()
    if printed:
        away = (means - pd.Series({m: printed[m][0] for m in (OT, OT_P)})).abs().max(axis=1)
        means = means.loc[away.sort_values().index]
    words = "; ".join(
        f"{r}: " + ", ".join(f"{m} {x:.3f}" for m, x in row.dropna().items()) for r, row in means.iterrows()
    )
    claim = "which reading gives the printed accuracies of transport, the nearest first" if printed else "every reading"
    return [Verdict(f"{claim} (a few epochs each)", words, None)]


def _over_epsilon(table: pd.DataFrame) -> Verdict:
    means = last(table, "epsilon").groupby(["method", "epsilon"], sort=False)["accuracy"].mean()
    words = "; ".join(
        f"{method}: " + ", ".join(f"{value:.3f} at {eps:g}" for eps, value in means[method].items())
        for method in means.index.unique("method")
    )
    return Verdict("accuracy over epsilon (Figure 2), from the same networks", words, None)


def table_1(table: pd.DataFrame) -> pd.DataFrame:
    """Accuracy by method and reading, and what is printed."""
    records = []
    printed = PRINTED.get(str(table["dataset"].iloc[0]), {})
    shown = pd.concat([last(table), last(table, "views")])
    for (reading, method), rows in shown.groupby(["reading", "method"], sort=False):
        values = rows["accuracy"]
        record: dict[str, Any] = {"reading": reading, "method": method, "seeds": len(values), "mean": values.mean()}
        record |= {"pretrain": rows["pretrain"].max(), "epochs": rows["epoch"].max()}
        record |= {"sd": values.std(), "min": values.min(), "max": values.max()}
        if method in printed:
            record |= dict(zip(("printed", "its sd", "its min", "its max"), printed[str(method)], strict=True))
        records.append(record | {name: rows[name].mean() for name in ("balanced_accuracy", "nmi", "ari")})
    return pd.DataFrame(records)


def readings_table(table: pd.DataFrame) -> pd.DataFrame:
    """Transport under every reading."""
    rows = last(table, "readings")
    records = []
    for (reading, method), part in rows[rows["method"].isin([OT, OT_P, DKM_P])].groupby(
        ["reading", "method"], sort=False
    ):
        values = part["accuracy"]
        text = str(mean(values)) if len(values) > 1 else f"{values.iloc[0]:.3g}"
        record: dict[str, Any] = {"reading": reading, "method": method, "seeds": len(part), "accuracy": text}
        names = ("reconstruction", "transport", "marginal_error", "n_passes", "plan_entropy", "epsilon")
        records.append(record | {name: part[name].mean() for name in names})
    return pd.DataFrame(records)
