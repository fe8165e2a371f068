"""What is judged in the experiment `genevay`: the printed table, transport against soft k-means, and the readings."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from .base import Verdict
from .genevay_fits import AE, METHODS, OT, OT_P, PIXELS, SOFT, SOFT_P
from .statistics import Interval, mean


class Printed(NamedTuple):
    """A column of Table 1: accuracy in 50 runs."""

    mean: float
    sd: float = float("nan")
    least: float = float("nan")
    largest: float = float("nan")


PRINTED = {
    "mnist": {
        PIXELS: Printed(0.513),
        AE: Printed(0.801, 0.025, 0.765, 0.912),
        SOFT: Printed(0.810, 0.033, 0.677, 0.883),
        SOFT_P: Printed(0.837, 0.032, 0.781, 0.923),
        OT: Printed(0.851, 0.032, 0.771, 0.932),
        OT_P: Printed(0.846, 0.040, 0.759, 0.928),
    },
    "cifar10": {
        PIXELS: Printed(0.206),
        AE: Printed(0.237, 0.005, 0.230, 0.259),
        SOFT: Printed(0.239, 0.008, 0.227, 0.257),
        SOFT_P: Printed(0.243, 0.010, 0.227, 0.261),
        OT: Printed(0.243, 0.007, 0.232, 0.260),
        OT_P: Printed(0.244, 0.009, 0.230, 0.266),
    },
}
RUNS = 50  # of the paper


def last(table: pd.DataFrame, part: str = "table") -> pd.DataFrame:
    """The last epoch of every method, reading and seed."""
    rows = table[table["part"] == part]
    return rows[rows["epoch"] == rows.groupby(["reading", "method", "seed"])["epoch"].transform("max")]


def judge(table: pd.DataFrame) -> list[Verdict]:
    """All claims."""
    rows = last(table)
    found = {m: mean(rows[rows["method"] == m]["accuracy"]) for m in METHODS}
    words = ", ".join(f"{m} {interval.estimate:.3f}" for m, interval in found.items())
    return [Verdict("every method finds far more than chance (0.1)", words, all(i.low > 0.2 for i in found.values()))]


def table_1(table: pd.DataFrame) -> pd.DataFrame:
    """Accuracy by method and reading, and what is printed."""
    records = []
    printed = PRINTED.get(str(table["dataset"].iloc[0]), {})
    for (reading, method), rows in last(table).groupby(["reading", "method"], sort=False):
        values = rows["accuracy"]
        record: dict[str, Any] = {"reading": reading, "method": method, "seeds": len(values), "mean": values.mean()}
        record |= {"sd": values.std(), "min": values.min(), "max": values.max()}
        record |= {name: rows[name].mean() for name in ("balanced_accuracy", "nmi", "ari")}
        record |= {
            f"printed {name}": value for name, value in printed.get(str(method), Printed(np.nan))._asdict().items()
        }
        records.append(record)
    return pd.DataFrame(records)


def readings_table(table: pd.DataFrame) -> pd.DataFrame:
    """Transport under every reading."""
    rows = pd.concat([last(table), last(table, "readings")])
    records = []
    for (reading, method), part in rows[rows["method"].isin([OT, OT_P])].groupby(["reading", "method"], sort=False):
        interval = mean(part["accuracy"])
        record: dict[str, Any] = {"reading": reading, "method": method, "seeds": len(part), "accuracy": str(interval)}
        records.append(record | {name: part[name].mean() for name in ("reconstruction", "transport", "plan_entropy")})
    return pd.DataFrame(records)


__all__ = ["PRINTED", "SOFT_P", "Interval", "judge", "last", "readings_table", "table_1"]
