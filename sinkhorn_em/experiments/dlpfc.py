"""Layers of the prefrontal cortex and types of blood cells, found by co-clustering counts of genes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..metrics import matched_labels
from ..plots import COLOURS, GREY, INK, hexagonal_positions, panels
from .base import Experiment, ReproductionError, Scale, Task, Verdict
from .dlpfc_fits import (
    ARMS,
    BASELINES,
    BICLUSTERING,
    BICLUSTERING_LOG,
    COCLUSTERING,
    DEFAULT,
    KMEANS,
    MAIN,
    MIXTURE,
    OWN_MIXTURE,
    SHARES,
    SVEM,
    VEM,
    VEM_UNIFORM,
    blood,
    cortex,
    fit_baselines,
    fit_blocks,
    spots,
)
from .dlpfc_genes import symbol
from .dlpfc_verdicts import (
    REFERENCE,
    SCORES,
    arm_verdict,
    baseline_verdicts,
    best_start,
    bound_verdicts,
    marker_verdict,
    rival_verdicts,
    spread_verdicts,
    wide,
)
from .statistics import mean

STARTS, SIDE, QUICK = 20, 10, 3  # of the cortex's main arm and baselines; of other arms and of blood; of a quick run
COLOUR = {SVEM: COLOURS[0], SHARES: COLOURS[4], DEFAULT: COLOURS[2], VEM: COLOURS[1], VEM_UNIFORM: COLOURS[3]}
OTHERS = (BICLUSTERING, BICLUSTERING_LOG, COCLUSTERING, KMEANS, MIXTURE, OWN_MIXTURE)
MAPS = (SVEM, DEFAULT, VEM)


class Dlpfc(Experiment):
    name = "dlpfc"
    question = "Does variational Sinkhorn-EM follow the layers of the cortex more faithfully than VEM?"
    source = "the claim: variational Sinkhorn-EM (SVEM) of block models; layers: Maynard et al. 2021; cells: Zheng et al. 2017"
    folder: Path | None = None  # the user's data: where a task finds its file, no part of what is computed

    def tasks(self, scale: Scale) -> list[Task]:
        self.folder = scale.data
        few, many = scale.count(SIDE, QUICK), scale.count(STARTS, QUICK)
        arms = [("blood", arm, few) for arm in (MAIN, BASELINES)]
        if not scale.quick and _has_cortex(scale.data):
            arms += [("cortex", "spots", 1), ("cortex", MAIN, many), ("cortex", BASELINES, many)]
            arms += [("cortex", arm, few) for arm in ARMS if arm != MAIN]
        return [{"part": p, "arm": arm, "repetition": r} for p, arm, starts in arms for r in range(starts)]

    def run(self, task: Task, rng: np.random.Generator) -> pd.DataFrame:
        if task["part"] == "cortex" and self.folder is None:
            raise ReproductionError("the cortex needs its data: pass --data, a folder with dlpfc151510_500g.npz")
        data = blood() if task["part"] == "blood" else cortex(Path(str(self.folder)))
        arm, seed = str(task["arm"]), int(rng.integers(2**31))
        if arm == "spots":
            return spots(data)
        return (fit_baselines(data, seed) if arm == BASELINES else fit_blocks(data, arm, seed)).round(6)

    def verdicts(self, table: pd.DataFrame) -> list[Verdict]:
        verdicts = []
        for part in ("cortex", "blood"):
            rows = table[table["part"] == part]
            fits = rows[rows["kind"] == "fit"]
            if len(fits):
                verdicts += [*rival_verdicts(fits, part), *bound_verdicts(fits, part), *spread_verdicts(fits, part)]
            if len(fits) and part == "cortex":
                verdicts += [arm_verdict(fits), *baseline_verdicts(fits), marker_verdict(rows[rows["kind"] == "genes"])]
        return verdicts

    def summary(self, table: pd.DataFrame) -> pd.DataFrame:
        records = []
        for keys, rows in table[table["kind"] == "fit"].groupby(["part", "arm", "method"], sort=False):
            best = best_start(rows) if rows["bound"].notna().any() else None
            record = dict(zip(("part", "arm", "method"), keys, strict=True)) | {"starts": len(rows)}
            record |= {SCORES[s]: str(mean(rows[s])) for s in SCORES} | {"sd of ARI": rows["ari"].std()}
            record |= {"bound": rows["bound"].mean(), "sd of bound": rows["bound"].std()}
            record |= {f"{SCORES[s]}, best bound": np.nan if best is None else best[s] for s in SCORES}
            records.append(record)
        return pd.DataFrame(records)

    def details(self, table: pd.DataFrame) -> pd.DataFrame:
        return pd.concat([_gene_clusters(table, part) for part in table["part"].unique()], ignore_index=True)

    def notes(self, scale: Scale) -> str:
        cortex_words = "" if _has_cortex(scale.data) and not scale.quick else (
            " The cortex was left out: it needs a full run with --data, a folder with dlpfc151510_500g.npz."
        )  # fmt: skip
        return (
            "Cortex: section 151510, 4595 spots with a layer, 500 genes, no spatial information; layers have 1180, 650, 1774, 318, "
            "310, 179 and 184 spots. Blood: 700 cells, 765 genes, ten types. Row clusters: as many as classes; gene clusters: 8. "
            "Poisson and negative binomial cells have row and column margins, Gaussian ones are standardised log-normalised genes "
            "with a variance for each gene cluster. SVEM: sizes held, tau = 1, weights uniform (row weights the shares of the "
            "classes in 'true shares', which no user knows, held after a fit that learns them and numbers "
            "the clusters by size); VEM: tau = 0, weights learned; default: the package's, a burn-in of "
            "SVEM, then VEM, or VEM from the start itself, whichever has the higher bound. All methods of an arm start from the "
            "same labels. Baselines see log-normalised counts: spectral ones all genes, the others 15 principal components. "
            "Bound: per cell, nats; k-means: minus the inertia per row. ARI and NMI: rows against classes. Intervals are 95 % over "
            "starts, paired where methods are compared: they say what another start would give, not what another section or donor "
            "would, of which there is one. The gene clusters are those of the default's start of the highest bound: the row "
            "cluster of the highest rate (relative to independence), its commonest class and that one's share, and the genes most "
            "enriched there; names of genes are symbols where the experiment knows them, else Ensembl's. White matter: layers were "
            "named with an eye on such genes, so that their agreement is no independent proof."
            f"{cortex_words}"
        )

    def draw(self, table: pd.DataFrame) -> Any:
        fits = table[table["kind"] == "fit"]
        section, cells = (fits[fits["part"] == part] for part in ("cortex", "blood"))
        if not len(section):
            figure, axes = panels(1, 2, (12, 4.4))
            _draw_scores(axes[0, 0], cells, "ari", "blood cells against their ten types")
            _draw_scores(axes[0, 1], cells, "nmi", "the same", named=False)
            return figure
        figure, axes = panels(2, 4, (14, 7.4), height_ratios=(1.15, 1))
        where, main = table[table["kind"] == "spot"], section[section["arm"] == MAIN]
        _draw_map(axes[0, 0], where, None)
        for ax, method in zip(axes[0, 1:], MAPS, strict=True):
            _draw_map(ax, where, main[main["method"] == method])
        _draw_scores(axes[1, 0], section, "ari", "cortex against seven layers")
        _draw_scores(axes[1, 1], section, "nmi", "the same", named=False)
        _draw_scores(axes[1, 2], cells, "ari", "blood cells against ten types", named=False)
        _draw_bounds(axes[1, 3], main)
        figure.suptitle(
            "Above: every method's start of the highest bound, clusters in the colours of the layers that they match best. "
            "Below: all starts, means with 95 % intervals;\ndotted and dashed: k-means and Gaussian mixture as computed before"
        )
        return figure


def _has_cortex(folder: Path | None) -> bool:
    if folder is None:
        return False
    try:
        cortex(folder)
    except FileNotFoundError:  # a folder with data of other experiments
        return False
    return True


def _gene_clusters(table: pd.DataFrame, part: str) -> pd.DataFrame:
    """Of the default's start of the highest bound."""
    main = table[(table["part"] == part) & (table["arm"] == MAIN)]
    best = best_start(main[(main["kind"] == "fit") & (main["method"] == DEFAULT)])["repetition"]
    rows = main[(main["kind"] == "genes") & (main["repetition"] == best)].sort_values("rate", ascending=False)
    enriched = [
        f"{c} ({s:.0%} of {n:.0f})" for c, s, n in zip(rows["class"], rows["share"], rows["spots"], strict=True)
    ]
    columns = {"part": part, "genes": rows["genes"].astype(int), "rate": rows["rate"], "highest in": enriched}
    top = [" ".join(map(symbol, genes.split())) for genes in rows["top"]]
    return pd.DataFrame(columns | {"top genes": top})


def _draw_map(ax: Any, where: pd.DataFrame, fits: pd.DataFrame | None) -> None:
    """Spots in the colours of the layers, those of the clusters matched one to one."""
    xy = hexagonal_positions(where["row"], where["column"])
    names, truth = np.unique(where["layer"].astype(str), return_inverse=True)
    codes, title = truth, "known layers"
    if fits is not None:
        best = best_start(fits)
        codes = matched_labels(truth, np.array(list(best["labels"])))
        title = f"{best['method']}: ARI {best['ari']:.3f}, NMI {best['nmi']:.3f}"
    colours = np.array([*COLOURS[: len(names)], GREY])
    ax.scatter(*xy.T, 7, colours[codes], linewidths=0, antialiased=False, rasterized=True)
    if fits is None:
        for name, colour in zip(names, colours, strict=False):
            ax.scatter([], [], 30, colour, label=name)
        ax.legend(frameon=False, loc="center right", bbox_to_anchor=(0, 0.5), handletextpad=0)
    ax.set(title=title, aspect="equal", xticks=[], yticks=[])
    ax.invert_yaxis()
    ax.spines[:].set_visible(False)


def _draw_scores(ax: Any, fits: pd.DataFrame, score: str, title: str, named: bool = True) -> None:
    """Every start a dot, means with intervals; for the cortex the references as lines."""
    table = wide(fits, score)
    methods = [method for method in (*COLOUR, *OTHERS) if method in table]
    for y, method in enumerate(methods):
        values, colour = table[method], COLOUR.get(method, INK)
        ax.plot(values, np.full(len(values), y) + np.linspace(-0.2, 0.2, len(values)), ".", color=colour, alpha=0.3)
        centre, low, high = mean(values)
        ax.errorbar(centre, y, xerr=[[centre - low], [high - centre]], fmt="o", color=colour, capsize=3)
    if (fits["part"] == "cortex").all():
        for method, reference in REFERENCE.items():
            style = {KMEANS: ":", MIXTURE: "--"}[method]
            ax.axvline(reference[score == "nmi"], color=INK, linestyle=style, linewidth=1)
    ax.set_yticks(range(len(methods)), methods if named else [""] * len(methods))
    ax.set_ylim(len(methods) - 0.5, -0.5)
    ax.set(title=title, xlabel={"ari": "adjusted Rand index", "nmi": "normalised mutual information"}[score])


def _draw_bounds(ax: Any, main: pd.DataFrame) -> None:
    """Every start of the main arm, in the colour of its method."""
    for method, colour in COLOUR.items():
        rows = main[main["method"] == method]
        ax.plot(rows["bound"], rows["ari"], "o", color=colour, alpha=0.6)
    ax.locator_params(axis="x", nbins=4)
    ax.set(title="cortex: bound and layers", xlabel="bound, nats per cell")
    ax.set_ylabel("adjusted Rand index")
