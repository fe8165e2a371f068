"""Several centres on one cluster: who gets away from there, on the line and for up to 20 clusters."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from .._typing import Floats
from ..datasets import simulate_centres, simulate_gaussian_mixture, simulate_many_to_one_start
from ..locations import LocationFits, fit_locations
from ..metrics import recovered
from ..plots import COLOURS, INK, LINES, panels
from ..population import population_rows
from .base import Experiment, Scale, Task, Verdict
from .statistics import mean, share

#: the trap's l, the truth's L and the iterations of Sinkhorn-EM, computed independently of this package on one sample each
LINE = {3: (5.37, 2.51, 5), 5: (10.7, 2.50, 4), 10: (35.4, 2.50, 8)}
TAU = {"EM": 0.0, "SEM": 1.0}
METHODS = {"EM": "EM", "EM_learned": "EM, weights learned", "SEM": "Sinkhorn-EM", "SEM_EM": "Sinkhorn-EM, then EM"}
COLOUR = dict(zip(METHODS, (COLOURS[1], COLOURS[4], COLOURS[0], COLOURS[2]), strict=True))
COUNTS = ("balanced", "multinomial")
ROWS_PER_CLUSTER = 60
RADIUS = 1.0  # standard deviations: a centre is recovered
NODES = 2048  # per component on the line: a posterior of components 100 apart changes within a hundredth
SETTLED = 1e-3  # nats from the last bound
SHOWN = 12  # iterations in the table and in the picture
PICTURE = 5  # R of the picture
NEAR = 0.05  # of the truth, or of the trap: the middle of its pair counts
SAME = 0.05  # difference of shares that does not count
DATA_SET = ["counts", "d", "separation", "repetition", "K"]


class ManyToOne(Experiment):
    name = "many-to-one"
    question = "Who gets away from a start with two centres on one cluster and none on another?"
    source = (
        "Mena et al. 2020 for the effect; the numbers on the line were computed independently for this project, the random "
        "starts generalise them"
    )

    def tasks(self, scale: Scale) -> list[Task]:
        line: list[Task] = [{"part": "line", "R": R} for R in LINE]
        dimensions, sizes = ((2,), (3, 5, 10)) if scale.quick else ((1, 2, 5), (3, 5, 10, 20))
        keys = ("d", "separation", "counts", "K", "repetition")
        cells = product(dimensions, (4, 6), COUNTS, sizes, range(scale.count(30, 20)))
        return line + [{"part": "random", **dict(zip(keys, cell, strict=True))} for cell in cells]

    def run(self, task: Task, rng: np.random.Generator) -> pd.DataFrame:
        return _line(float(task["R"])) if task["part"] == "line" else _random(task, rng)

    def verdicts(self, table: pd.DataFrame) -> list[Verdict]:
        line = table[table["part"] == "line"]
        return [
            *(verdict for R in LINE for verdict in _on_the_line(line[line["R"] == R], R)),
            *_escapes(_random_starts(table)),
        ]

    def summary(self, table: pd.DataFrame) -> pd.DataFrame:
        random = _random_starts(table)
        shares = random.groupby(["counts", "K", "start"])[list(METHODS)].mean().round(3)
        return shares.reset_index().rename(columns=METHODS)

    def notes(self, scale: Scale) -> str:
        return (
            "On the line: population, weights 1/3 and variance 1 known. Random starts: clusters of standard deviation 1 and equal "
            f"weights whose centres keep a distance of 4 or 6 (random sequential addition), {ROWS_PER_CLUSTER} rows for each on "
            "average; m clusters are given two starting centres, drawn from the cluster, and m none. EM and Sinkhorn-EM know "
            f"weights and variances; a run escapes when every true centre is recovered within {RADIUS:g} standard deviation. Data "
            "and starts are the same for all methods. m = 0, one centre in every cluster, is a control. With multinomial counts "
            "the realised shares differ from the weights that Sinkhorn-EM holds; mass then has to cross between clusters, and its "
            "optimum is moved: EM from there repairs it."
        )

    def draw(self, table: pd.DataFrame) -> Any:
        figure, axes = panels(2, 2, (11.5, 8))
        line = table[(table["part"] == "line") & (table["R"] == PICTURE)]
        for ax, method in zip(axes[0], TAU, strict=True):
            _draw_line(ax, line[line["method"] == method], method)
        random = _random_starts(table)
        for ax, counts in zip(axes[1], COUNTS, strict=True):
            _draw_shares(ax, random[random["counts"] == counts])
            ax.set(title=f"random many-to-one starts, {counts} counts", xlabel="clusters K", ylim=(-0.03, 1.05))
        axes[1, 0].set_ylabel("share of runs that escape")
        for method, name in METHODS.items():
            axes[1, 0].plot([], [], color=COLOUR[method], label=name)
        for (_, start), style in zip(_starts(random), LINES, strict=False):
            axes[1, 0].plot([], [], color=INK, linestyle=style, label=start)
        figure.legend(*axes[1, 0].get_legend_handles_labels(), loc="outside lower center", ncols=7, frameon=False)
        figure.suptitle(
            "EM keeps two centres on one cluster; Sinkhorn-EM gets away, from every start if counts are balanced"
        )
        return figure


def _line(R: float) -> pd.DataFrame:
    """Paths on the population from the start (0, 10 R - 1, 10 R + 1); the last row is the end."""
    X, masses = population_rows(np.full(3, 1 / 3), [[-R], [R], [10 * R]], n_nodes=NODES)
    start = np.array([[[0.0], [10 * R - 1], [10 * R + 1]]])
    parts = []
    for method, tau in TAU.items():
        fit = fit_locations(X, start, tau=tau, row_mass=masses, max_iter=1000, tol=1e-12, record=True)
        assert fit.path is not None and fit.path_bounds is not None
        steps = np.unique(np.minimum([*range(SHOWN + 1), fit.n_iter[0]], fit.n_iter[0]))
        means = fit.path[0, steps, :, 0].round(9)
        columns = {"method": method, "iteration": steps, "loss": -fit.path_bounds[0, steps].round(9)}
        parts.append(pd.DataFrame({**columns, **{f"mean_{k}": means[:, k] for k in range(3)}}))
    return pd.concat(parts, ignore_index=True)


def _random(task: Task, rng: np.random.Generator) -> pd.DataFrame:
    """One data set; from every start, whether each method recovers all centres."""
    K, d, balanced = int(task["K"]), int(task["d"]), task["counts"] == "balanced"
    centres = simulate_centres(K, d, float(task["separation"]), random_state=rng)
    n, weights = ROWS_PER_CLUSTER * K, np.full(K, 1 / K)
    X, _ = simulate_gaussian_mixture(n, weights, centres, np.eye(d), random_state=rng, balanced_counts=balanced)
    counts = (int(balanced), 1, 2, K // 2)  # 0 is the control, if counts of rows are multinomial
    crowded = sorted({m for m in counts if m <= K // 2})
    starts = np.stack([simulate_many_to_one_start(centres, m, random_state=rng) for m in crowded])
    hits = {m: [int(recovered(means, centres, RADIUS)) for means in fits.means] for m, fits in _fits(X, starts)}
    return pd.DataFrame({"m": crowded, **hits})


def _fits(X: Floats, starts: Floats) -> Iterator[tuple[str, LocationFits]]:
    options: dict[str, Any] = {"max_iter": 500, "tol": 1e-7}
    yield "EM", fit_locations(X, starts, tau=0.0, **options)
    yield "EM_learned", fit_locations(X, starts, tau=0.0, learn_weights=True, **options)
    sinkhorn = fit_locations(X, starts, tau=1.0, **options)
    yield "SEM", sinkhorn
    yield "SEM_EM", fit_locations(X, sinkhorn.means, tau=0.0, **options)


def _random_starts(table: pd.DataFrame) -> pd.DataFrame:
    """With the number of crowded clusters in words, and hits as booleans."""
    random = table[table["part"] == "random"]
    half = (random["m"] > 2) & (random["m"] == random["K"] // 2)
    words = random["m"].map(lambda m: f"m = {m:g}").where(~half, "m = K/2")
    return random.assign(start=words, **{name: random[name].astype(bool) for name in METHODS})


def _starts(random: pd.DataFrame) -> list[tuple[int, str]]:
    return [(number, start) for number, start in enumerate(sorted(set(random["start"]) - {"m = 0"}))]


def _on_the_line(paths: pd.DataFrame, R: float) -> list[Verdict]:
    trap, loss, iterations = LINE[int(R)]
    sem = paths[paths["method"] == "SEM"]
    end = {method: rows.iloc[-1] for method, rows in paths.groupby("method")}
    found = {method: end[method][["mean_0", "mean_1", "mean_2"]].to_numpy(float) for method in TAU}
    l, L = float(end["EM"]["loss"]), float(end["SEM"]["loss"])
    trapped = np.abs([found["EM"][0], found["EM"][1:].mean() - 10 * R]).max() < NEAR
    settled = int(sem.loc[np.abs(sem["loss"] - L) < SETTLED, "iteration"].iloc[0])
    arrived = np.abs(found["SEM"] - [-R, R, 10 * R]).max() < NEAR and settled <= iterations
    ends = {method: ", ".join(f"{mean:.3g}" for mean in means) for method, means in found.items()}
    return [
        Verdict(
            f"R = {R:g}: EM stays at (0, 10 R, 10 R) with l = {trap} (within 2 %)",
            f"({ends['EM']}), l = {l:.4f}",
            bool(trapped and abs(l / trap - 1) < 0.02),
        ),
        Verdict(
            f"R = {R:g}: Sinkhorn-EM reaches the truth in at most {iterations} iterations with L = {loss} (within .03)",
            f"({ends['SEM']}), L = {L:.4f}, within {SETTLED} nats after {settled}",
            bool(arrived and abs(L - loss) < 0.03),
        ),
    ]


def _escapes(random: pd.DataFrame) -> list[Verdict]:
    trapped = random[random["m"] > 0]
    balanced, drawn = (trapped[trapped["counts"] == counts] for counts in COUNTS)
    sizes = sorted(set(trapped["K"]))
    single = balanced[balanced["m"] == 1]
    few, many = (share(single.loc[single["K"] == K, "EM"]) for K in (sizes[0], sizes[-1]))
    escaped = share(balanced.groupby(DATA_SET)["SEM"].all())
    control = random[(random["counts"] == "multinomial") & (random["m"] == 0)]
    crowded, covered = (rows.groupby(DATA_SET)["SEM"].mean() for rows in (drawn, control))
    price = mean(crowded - covered)
    return [
        Verdict(
            "balanced counts: Sinkhorn-EM escapes from every start, on more than 95 % of the data sets",
            f"{escaped}",
            escaped.low > 0.95,
        ),
        *(_more_often(balanced, "balanced", "SEM", other) for other in ("EM", "EM_learned")),
        Verdict(
            f"balanced counts, m = 1: EM escapes less often among {sizes[-1]:g} clusters than among {sizes[0]:g}",
            f"{many} against {few}",
            many.high < few.low if sizes[-1] >= 20 else None,
        ),
        *(_more_often(drawn, "multinomial", "SEM_EM", other) for other in ("EM", "EM_learned")),
        _more_often(drawn, "multinomial", "SEM", "EM", judged=sizes[-1] >= 20),
        Verdict(
            "multinomial counts: what Sinkhorn-EM alone misses it misses from one centre in every cluster too: no trap, but "
            f"weights that are not those of the sample (difference of shares within {SAME})",
            f"difference {price}; shares {crowded.mean():.2f} and {covered.mean():.2f}",
            max(-price.low, price.high) < SAME,
        ),
    ]


def _more_often(rows: pd.DataFrame, counts: str, method: str, other: str, judged: bool = True) -> Verdict:
    """The mean difference of data sets, over their starts; and the shares for every K."""
    by_data = rows.groupby(DATA_SET)[[method, other]].mean()
    difference, by_K = mean(by_data[method] - by_data[other]), rows.groupby("K")[[method, other]].mean()
    shares = ", ".join(f"K = {K:g}: {a:.2f} - {b:.2f}" for K, a, b in by_K.itertuples())
    holds = difference.low > 0 and (by_K[method] >= by_K[other]).all()
    return Verdict(
        f"{counts} counts: {METHODS[method]} escapes more often than {METHODS[other]}, for every K",
        f"difference {difference}; {shares}",
        bool(holds) if judged else None,
    )


def _draw_line(ax: Any, path: pd.DataFrame, method: str) -> None:
    """Density of the truth at the top, iterations downwards."""
    R, path = PICTURE, path[path["iteration"] <= SHOWN]
    x = np.linspace(-R - 4, 10 * R + 6, 800)
    density = sum(np.exp(-((x - centre) ** 2) / 2) for centre in (-R, R, 10 * R))
    ax.fill_between(x, -1.0, -1.0 - 2.5 * density, color="#DDDDDD", linewidth=0)
    steps = np.arange(SHOWN + 1)
    for k in range(3):
        means = path[f"mean_{k}"].to_numpy()
        means = np.append(means, np.full(len(steps) - len(means), means[-1]))
        ax.plot(means, steps, "o-", color=COLOUR[method], markersize=4, linewidth=1.4)
        ax.plot(means[0], 0, "o", color=INK, markersize=8, fillstyle="none")
    for centre in (-R, R, 10 * R):
        ax.axvline(centre, color=INK, linewidth=0.7, linestyle=":", zorder=0)
    ax.set(title=f"{METHODS[method]}, from (0, {10 * R - 1}, {10 * R + 1}) (circles)", xlabel="x", ylabel="iteration")
    ax.set(ylim=(SHOWN + 0.5, -3.8), yticks=range(0, SHOWN + 1, 4))


def _draw_shares(ax: Any, rows: pd.DataFrame) -> None:
    sizes = sorted(set(rows["K"]))
    for number, start in _starts(rows):
        for j, method in enumerate(METHODS):
            part = rows[rows["start"] == start].groupby("K")[method]
            intervals = [share(values) for _, values in part]
            x = [sizes.index(K) + 0.07 * (j - 1.5) + 0.02 * (number - 1) for K, _ in part]
            y, low, high = (np.array(column) for column in zip(*intervals, strict=True))
            ax.errorbar(
                x, y, [y - low, high - y], color=COLOUR[method], linestyle=LINES[number], marker="o", markersize=4
            )
    ax.set_xticks(range(len(sizes)), [f"{K:g}" for K in sizes])
