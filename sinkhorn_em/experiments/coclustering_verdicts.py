"""What is judged in the simulation study `coclustering`: gains on the same matrices, and numbers computed before."""

from __future__ import annotations

from typing import Any

import pandas as pd

from .base import Verdict
from .coclustering_fits import (
    BALANCED,
    DEFAULT,
    FROM_TRUTH,
    RIVALS,
    SVEM,
    SVEM_TRUE,
    UNBALANCED,
    VEM,
    VEM_LEARNED,
    VEM_TRUE,
)
from .statistics import Interval, beside_mean, mean, share, share_difference

TRUTH = FROM_TRUTH[SVEM]
DESIGN = ["family", "size", "blocks"]
SIDES = {"row_ari": "rows", "column_ari": "columns"}
#: mean row and column ARI of 15 seeds, computed independently of this package
EXPECTED = {
    ("Gaussian", "200 x 100"): {
        VEM: (0.722, 0.827),
        VEM_LEARNED: (0.728, 0.855),
        SVEM: (0.848, 0.975),
        TRUTH: (0.833, 0.964),
    },
    ("Gaussian", "400 x 200"): {
        VEM: (0.790, 0.881),
        VEM_LEARNED: (0.775, 0.882),
        SVEM: (0.820, 0.952),
        TRUTH: (0.823, 0.959),
    },
    ("Poisson", "200 x 100"): {
        VEM: (0.558, 0.755),
        VEM_LEARNED: (0.549, 0.748),
        SVEM: (0.582, 0.800),
        TRUTH: (0.594, 0.808),
    },
}
EXPECTED_LOSS = {VEM: 0.00842, VEM_LEARNED: 0.00750, SVEM: 0.00007}  # Gaussian 200 x 100, above that from the truth
EXPECTED_SEEDS = 15
CHOSEN_BY = ("Poisson", "200 x 100", TRUTH)  # the law of the blocks; shown, not judged
ARRIVED = 1e-4  # nats per cell from the loss that is reached from the truth
MARGIN = 0.05  # of ARI: worse by less is as good
SAME = 2e-7  # losses are kept with seven digits


def judge(table: pd.DataFrame) -> list[Verdict]:
    """All claims; the quick mode has too few matrices for most."""
    designs = designs_of(table)
    balanced = {name: part for name, part in designs.items() if name[2] == BALANCED and len(part) > 1}
    verdicts = [_never_below(table)]
    for rival in (VEM, VEM_LEARNED):
        verdicts += [_better(name, part, rival) for name, part in balanced.items()]
    verdicts += [_losses(name, part) for name, part in balanced.items()]
    verdicts += [_arrivals(name, part) for name, part in balanced.items()]
    unbalanced = {name: part for name, part in designs.items() if name[2] == UNBALANCED and len(part) > 1}
    if unbalanced:
        verdicts += [_as_good(name, part) for name, part in unbalanced.items()]
        verdicts += _shown(balanced, unbalanced)
        verdicts += [_rival(designs, rival) for rival in RIVALS]
        verdicts += _expected(balanced)
    return verdicts


def designs_of(table: pd.DataFrame) -> dict[tuple[str, str, str], pd.DataFrame]:
    """By family, size and blocks: (repetition) x (measure, method)."""
    return {
        (str(family), str(size), str(blocks)): part.pivot(index="repetition", columns="method", values=[*SIDES, "loss"])
        for (family, size, blocks), part in table.groupby(DESIGN, sort=False)
    }


def _gain(part: pd.DataFrame, a: str, b: str, value: str) -> Interval:
    """Mean of ``value`` by method a less that by b, on the same matrices."""
    return mean(part[value][a] - part[value][b])


def _gains(part: pd.DataFrame, a: str, b: str) -> tuple[list[Interval], str]:
    """Of the ARI of both sides, and in words."""
    found = [_gain(part, a, b, value) for value in SIDES]
    return found, ", ".join(f"{side} {interval}" for side, interval in zip(SIDES.values(), found, strict=True))


def called(name: tuple[str, str, str]) -> str:
    return f"{name[0]} {name[1]}, {name[2]}"


def _never_below(table: pd.DataFrame) -> Verdict:
    losses = table.pivot(index=[*DESIGN, "repetition"], columns="method", values="loss")
    worst = float((losses[DEFAULT] - losses[VEM_LEARNED]).max())
    return Verdict(
        "the default never ends with a lower bound than VEM with learned weights from the same start (by construction)",
        f"largest excess of its loss in {len(losses)} matrices: {worst:.2g} nats per cell",
        worst <= SAME,
    )


def _better(name: tuple[str, str, str], part: pd.DataFrame, rival: str) -> Verdict:
    found, words = _gains(part, SVEM, rival)
    claim = f"{called(name)}: SVEM has a higher ARI than {rival}, from the same starts"
    return Verdict(claim, f"gain of {words}, paired", all(interval.low > 0 for interval in found))


def _losses(name: tuple[str, str, str], part: pd.DataFrame) -> Verdict:
    found = {rival: _gain(part, rival, SVEM, "loss") for rival in (VEM, VEM_LEARNED)}
    words = "; ".join(f"{rival}: {interval}" for rival, interval in found.items())
    claim = f"{called(name)}: SVEM ends with a lower loss per cell than VEM, although it is held and VEM is not"
    return Verdict(claim, f"less by, in nats, {words}; paired", all(interval.low > 0 for interval in found.values()))


def _arrivals(name: tuple[str, str, str], part: pd.DataFrame) -> Verdict:
    """Each method beside its own fit from the truth."""
    hits = {method: part["loss"][method] - part["loss"][start] < ARRIVED for method, start in FROM_TRUTH.items()}
    words = ", ".join(f"{method} {share(values)}" for method, values in hits.items())
    difference = share_difference(hits[SVEM], hits[VEM])
    claim = f"{called(name)}: SVEM gets to the loss it reaches from the truth (within {ARRIVED:g}) more often than VEM to its own"
    return Verdict(claim, f"shares: {words}; difference {difference}, paired", difference.low > 0)


def _as_good(name: tuple[str, str, str], part: pd.DataFrame) -> Verdict:
    found, words = _gains(part, DEFAULT, VEM_LEARNED)
    claim = f"{called(name)}: the default is at least as good as VEM with learned weights (ARI not lower by {MARGIN})"
    return Verdict(claim, f"gain of {words}, paired", all(interval.low > -MARGIN for interval in found))


def _shown(balanced: dict[Any, pd.DataFrame], unbalanced: dict[Any, pd.DataFrame]) -> list[Verdict]:
    """What no claim was made of."""
    right = "balanced blocks: gain of the default over SVEM with uniform weights, which are right"
    comparisons = [
        ("unbalanced blocks, uniform weights: SVEM holds what is wrong; gain over VEM", unbalanced, SVEM, VEM),
        ("unbalanced blocks, true weights: gain of SVEM over VEM", unbalanced, SVEM_TRUE, VEM_TRUE),
        ("balanced blocks: gain of the default over VEM with learned weights", balanced, DEFAULT, VEM_LEARNED),
        (right, balanced, DEFAULT, SVEM),
    ]
    return [
        Verdict(claim, "; ".join(f"{name[0]} {name[1]}: {_gains(part, a, b)[1]}" for name, part in parts.items()), None)
        for claim, parts, a, b in comparisons
    ]


def _rival(designs: dict[tuple[str, str, str], pd.DataFrame], rival: str) -> Verdict:
    """Where the model gains least."""
    found = {
        f"{called(name)}, {side}": _gain(part, SVEM if name[2] == BALANCED else DEFAULT, rival, value)
        for name, part in designs.items()
        for value, side in SIDES.items()
    }
    least = min(found, key=lambda where: found[where].low)
    return Verdict(
        f"SVEM (balanced blocks) and the default (unbalanced) have a higher ARI than {rival} in all designs, rows and columns",
        f"least gain of {len(found)}: {found[least]} ({least}), paired",
        found[least].low > 0,
    )


def _expected(balanced: dict[tuple[str, str, str], pd.DataFrame]) -> list[Verdict]:
    """Means beside those computed before, whose error counts as well."""
    verdicts = []
    for design, numbers in EXPECTED.items():
        part = balanced[(*design, BALANCED)]
        for method, pair in numbers.items():
            beside = [beside_mean(part[v][method], x, EXPECTED_SEEDS) for v, x in zip(SIDES, pair, strict=True)]
            found = " and ".join(f"{mean(part[value][method])}" for value in SIDES)
            words = ", ".join(f"{side} {interval}" for side, interval in zip(SIDES.values(), beside, strict=True))
            chosen = (*design, method) == CHOSEN_BY
            note = "; the law was chosen by it" if chosen else ""
            claim = f"{' '.join(design)}, {method}: row and column ARI {pair[0]:.3f} and {pair[1]:.3f} (15 seeds{note})"
            holds = None if chosen else all(interval.low <= 0 <= interval.high for interval in beside)
            verdicts.append(Verdict(claim, f"{found}; difference {words}", holds))
    losses = balanced["Gaussian", "200 x 100", BALANCED]["loss"]
    for method, number in EXPECTED_LOSS.items():
        excess = losses[method] - losses[TRUTH]
        interval = beside_mean(excess, number, EXPECTED_SEEDS)
        claim = (
            f"Gaussian 200 x 100, {method}: loss above that of SVEM from the truth by {number:.5f} (within {ARRIVED:g})"
        )
        verdicts.append(
            Verdict(
                claim, f"{mean(excess)}; difference {interval}", interval.low <= ARRIVED and interval.high >= -ARRIVED
            )
        )
    return verdicts
