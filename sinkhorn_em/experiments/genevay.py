"""Table 1 and Figures 1 and 2 of Genevay, Dulac-Arnold & Vert 2019: deep clustering by transport, with and without pre-training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..plots import COLOURS, GREY, INK, panels
from .base import Experiment, ReproductionError, Scale, Task, Verdict
from .genevay_designs import (
    AE_MIXTURE,
    DESIGNS,
    EPSILONS,
    FEW,
    LONG_DESIGNS,
    METHODS,
    ONLY_PRETRAINED,
    OT,
    OT_P,
    OURS_MIXTURE,
    PIXELS,
    QUICK,
    QUICK_EPSILONS,
    QUICK_ROWS,
    READINGS,
    SOFT,
    SOFT_P,
    VIEWS_MIXTURE,
    Design,
)
from .genevay_fits import (
    Bench,
    from_pretrained,
    from_scratch,
    load,
    over_epsilon,
    over_readings,
    pixels,
    single_thread,
    tidy,
    with_views,
)
from .genevay_verdicts import PRINTED, judge, last, readings_table, table_1
from .statistics import mean

SEEDS, LONG_SEEDS, QUICK_SEEDS = 5, 50, 3
GRID_SEEDS = {"digits": 5}  # of Figure 2 and of the readings on a processor, elsewhere one; the paper's figure has five
BLOCK = 50  # seeds that a graphics card trains side by side
SHOWN = (*METHODS, AE_MIXTURE, OURS_MIXTURE, VIEWS_MIXTURE)  # of the figure
SHADES = (*COLOURS[2:3], GREY, *COLOURS[3:5], *COLOURS[:2], *COLOURS[5:6], *COLOURS[5:6], *COLOURS[5:6])
COLOUR = dict(zip(SHOWN, SHADES, strict=True))
FAMILIES = ("pretrained", SOFT, OT)


class Genevay(Experiment):
    name = "genevay"
    question = "Does transport onto the centres find the classes of images better than soft k-means?"
    source = "Genevay, Dulac-Arnold & Vert 2019, Table 1, Figures 1 and 2"
    takes = ("dataset", "device")
    needs = ("torch",)
    folder: Path | None = None  # where a task finds its images, and its device: no part of what is computed
    device = "cpu"

    def tasks(self, scale: Scale) -> list[Task]:
        self.folder, self.device = scale.data, scale.settings.get("device", "cpu")
        name = scale.settings.get("dataset", "digits" if scale.quick else "mnist")
        if name not in DESIGNS:
            raise ReproductionError(f"dataset is {name!r}; it must be one of {', '.join(DESIGNS)}")
        long = self.device != "cpu"
        seeds = scale.count(LONG_SEEDS if long else SEEDS, QUICK_SEEDS)
        design = QUICK if scale.quick else (LONG_DESIGNS if long else DESIGNS)[name]
        block = QUICK_SEEDS if scale.quick else BLOCK if long else 1
        tasks: list[Task] = []
        for part, reading, family, n in _plan(seeds, scale.quick, block if long else GRID_SEEDS.get(name, 1)):
            what = {"part": part, "dataset": name, "reading": reading, "family": family}
            how = _design_of(design, part, family)._asdict() | ({"rows": QUICK_ROWS} if scale.quick else {})
            tasks += [what | how | {"first": f, "count": min(block, n - f)} for f in range(0, n, block)]
        return tasks

    def run(self, task: Task, rng: np.random.Generator) -> pd.DataFrame:
        options: dict[str, Any] = {name: task[name] for name in Design._fields}
        design = Design(**options)
        images = load(str(task["dataset"]), design.encoder, self.folder, int(task.get("rows", 0)))
        seeds = [int(seed) for seed in rng.integers(2**31, size=int(task["count"]))]
        bench = Bench(images, design, seeds, self.device)
        reading, family = str(task["reading"]), str(task["family"])
        with single_thread():
            if family == PIXELS:
                rows = pixels(bench)
            elif task["part"] == "epsilon":
                rows = over_epsilon(bench, QUICK_EPSILONS if "rows" in task else EPSILONS)
            elif family == "views":
                rows = with_views(bench)
            elif family == "readings":
                rows = over_readings(bench)
            elif family == "pretrained":
                rows = from_pretrained(bench, ours="rows" not in task)
            else:
                rows = from_scratch(bench, reading, family)
        return tidy(rows, int(task["first"]))

    def verdicts(self, table: pd.DataFrame) -> list[Verdict]:
        return judge(table)

    def summary(self, table: pd.DataFrame) -> pd.DataFrame:
        return table_1(table)

    def details(self, table: pd.DataFrame) -> pd.DataFrame:
        return readings_table(table)

    def notes(self, scale: Scale) -> str:
        return (
            "Training sets only, values in [0, 1]; batches of the size in the table, Adam at 1e-3, halved every 50 epochs of "
            "each phase; 784-500-250-10 and back (MNIST, Fashion, digits), convolutions 32-64-128 and their mirror image "
            "(CIFAR-10); ten clusters of equal size; labels by the nearest centre. Epochs are in the table (pretrain, "
            "epochs). The paper trains 50 seeds for 200 epochs, which --device cuda does, all seeds side by side; on a "
            "processor an epoch of MNIST takes some ten seconds a seed, and the design is shorter: the networks are then not "
            "where the paper's are. The quick mode has 900 digits of scikit-learn, a few epochs, and nothing of ours. (p): "
            "from the same pre-trained networks, and k-means of their codes, whose labels are AE + k-means; without: from "
            "k-means of the codes of the random network, which is epoch 0. Soft k-means: the entropic value of the row "
            "softmax at the same epsilon; through the softmax: its sharp value, the gradient of deep k-means (DKM). Mixture: "
            "a Gaussian mixture of the codes, covariances full, sizes held to be equal, five starts, the better by its own "
            "bound; ours (p): transport at 0.05 of the mean cost, from the centres of that mixture, half as many epochs; + "
            "mixture: labels by a mixture of the codes at the end. Views: random affine ones; the autoencoder is trained on "
            "them (half as long), then the plan of the images, at codes of length 1, is the target of their assignment (a "
            "third of the epochs). Readings, a third of the epochs each, (p) all from the same networks. paper: entropic "
            "value, its gradient (the plan), squared errors summed over pixels and averaged over the batch, epsilon 0.01 in "
            "the units of the cost; relative: 0.05 of the mean cost, KL, learned and mixture too, with KL columns (tau 0.9), "
            "sizes that are learned, centres of a mixture; unrolled: through 50 Sinkhorn iterations; sharp: <P, C>, by the "
            "implicit gradient; total, mean: errors summed, or averaged, over both (pre-training is as in paper, since Adam "
            "does not see the scale of a loss); centres before: placed before pre-training. Tasks have seeds of their own, so "
            "that Welch's test applies. k-means of pixels has one start, of codes ten on at most 20 000 rows. Figure 2: a "
            "third of the epochs. CIFAR-10 from JPEG files, if those are what is at hand. Networks are trained in one thread: "
            "tables do not depend on --jobs, but do on the machine and, since seeds in one batch share rounding, on --device "
            "and --seeds, in the last bits of a step and hence visibly after many."
        )

    def draw(self, table: pd.DataFrame) -> Any:
        figure, axes = panels(1, 3, (14, 4.6))
        _draw_epochs(axes[0, 0], table)
        _draw_epsilon(axes[0, 1], table)
        _draw_final(axes[0, 2], table)
        return figure


def _plan(seeds: int, quick: bool, grid_seeds: int) -> list[tuple[str, str, str, int]]:
    """Part, reading, family and number of seeds."""
    plan = [("table", "paper", family, seeds) for family in (PIXELS, *FAMILIES)]
    if quick:
        return [*plan, ("epsilon", "paper", "pretrained", 1)]
    plan += [("views", "mixture", "views", seeds)]
    plan += [("epsilon", "paper", "pretrained", min(seeds, grid_seeds))]
    plan += [("readings", "all", "readings", min(seeds, grid_seeds))]
    scratch = [reading for reading in READINGS if reading not in ONLY_PRETRAINED]
    return plan + [("readings", reading, OT, min(seeds, grid_seeds)) for reading in scratch]


def _design_of(design: Design, part: str, family: str) -> Design:
    """What a task has of the design: what does not matter for it is 0."""
    if family == PIXELS:
        return Design("none", 0, 0, 0, 0)
    if part in ("epsilon", "readings"):
        design = design._replace(epochs=max(1, design.epochs // FEW))
    elif part == "views":
        design = design._replace(pretrain=max(1, design.pretrain // 2), epochs=max(1, design.epochs // FEW))
    return design._replace(pretrain=0) if family in (SOFT, OT) else design


def _draw_epochs(ax: Any, table: pd.DataFrame) -> None:
    """Figure 1: mean accuracy by epoch, with the range of the seeds."""
    rows = table[(table["part"] == "table") & (table["reading"] == "paper")]
    for method in (SOFT, SOFT_P, OT, OT_P):
        curves = rows[rows["method"] == method].pivot_table(index="epoch", columns="seed", values="accuracy")
        ax.fill_between(curves.index, curves.min(axis=1), curves.max(axis=1), color=COLOUR[method], alpha=0.12, lw=0)
        ax.plot(curves.index, curves.mean(axis=1), color=COLOUR[method], label=method)
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.set(title="Figure 1: the paper's reading, range of seeds", xlabel="epoch of clustering", ylabel="accuracy")
    ax.legend(frameon=False)


def _draw_epsilon(ax: Any, table: pd.DataFrame) -> None:
    """Figure 2: accuracy at the end against epsilon."""
    rows = last(table, "epsilon")
    for method in (SOFT_P, OT_P):
        curves = rows[rows["method"] == method].pivot_table(index="epsilon", columns="seed", values="accuracy")
        ax.plot(curves.index, curves, ".", color=COLOUR[method], alpha=0.5)
        ax.plot(curves.index, curves.mean(axis=1), color=COLOUR[method], label=method)
    ax.set(title="Figure 2: a few epochs at each epsilon", xlabel="epsilon", ylabel="accuracy", xscale="log")
    ax.legend(frameon=False)


def _draw_final(ax: Any, table: pd.DataFrame) -> None:
    """Table 1 and ours: every seed a dot, means with intervals, and what is printed."""
    rows, printed = pd.concat([last(table), last(table, "views")]), PRINTED.get(str(table["dataset"].iloc[0]), {})
    shown = [method for method in SHOWN if (rows["method"] == method).any()]
    for y, method in enumerate(shown):
        values = rows[rows["method"] == method]["accuracy"]
        centre, low, high = mean(values)
        ax.plot(values, np.full(len(values), y), ".", color=COLOUR[method], alpha=0.4)
        error = np.array([[centre - low], [high - centre]]) if len(values) > 1 else None
        ax.errorbar(centre, y, xerr=error, fmt="o", color=COLOUR[method], capsize=3)
        if method in printed:
            ax.plot(printed[method][0], y, "|", color=INK, markersize=22, markeredgewidth=2)
    ax.set_yticks(range(len(shown)), shown)
    ax.set_ylim(len(shown) - 0.5, -0.5)
    name = str(table["dataset"].iloc[0])
    ax.set(title=f"Table 1 and ours, {name}: 95 % intervals", xlabel="accuracy at the end")
    ax.text(0.02, 0.02, "bars: printed" if printed else "", transform=ax.transAxes, fontsize="small")
