# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# # Which genes tell which blood cells apart?
#
# 700 blood cells, counts of molecules of 765 genes, two thirds of them zero (Zheng et al. 2017). A co-clustering puts
# cells into groups and genes into groups at once, so that every block of the matrix has one rate. Cells differ in the
# number of molecules that were read, and genes in how common they are: `margins="both"` takes both out, so that a rate is
# relative to independence, where it is 1. Counts vary more than Poisson's: negative binomial.

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.colors import LogNorm
from sklearn.metrics import adjusted_rand_score

from sinkhorn_em import LatentBlockModel
from sinkhorn_em.block_families import NegativeBinomial
from sinkhorn_em.coclustering import search_moves
from sinkhorn_em.datasets import load_pbmc68k, simulate_latent_blocks

blood = load_pbmc68k()
types = blood.target_names[blood.target]

# %% [markdown]
# ## How many groups?
#
# On a matrix with 5 x 4 blocks, splits and merges by the integrated completed likelihood (ICL) find their numbers.

# %%
rng = np.random.default_rng(0)
drawn = simulate_latent_blocks(200, 120, 0.8 * rng.normal(size=(5, 4)), random_state=1)
found = search_moves(LatentBlockModel(random_state=0), drawn.data)
print(
    found.table[found.table["accepted"]][["move", "n_row_clusters", "n_column_clusters", "icl"]].to_string(index=False)
)
print("agreement with the blocks drawn:", adjusted_rand_score(drawn.row_labels, found.model.row_labels_))

# %% [markdown]
# Real counts have no true number: on the blood cells ICL still falls at 12 x 12, by less and less. It says how much
# structure the data can bear, not how much of it we want to look at.

# %%
counts = NegativeBinomial(margins="both")
sizes = (4, 8, 12)
icl = [LatentBlockModel(k, k, family=counts, tol=1e-7, random_state=0).fit(blood.counts).icl() for k in sizes]
print("ICL:", {f"{k} x {k}": round(value) for k, value in zip(sizes, icl, strict=True)})

# %% [markdown]
# Here are 8 groups of cells and 8 of genes, from 10 starts, which move side by side and share every pass over the matrix.

# %%
model = LatentBlockModel(8, 8, family=counts, n_init=10, tol=1e-7, random_state=0).fit(blood.counts)
table = pd.crosstab(types, model.row_labels_)
print(table.to_string())
agreement = adjusted_rand_score(types, model.row_labels_)
print(
    f"adjusted Rand index of cell groups and types {agreement:.2f}; dispersion {model.block_parameters_['dispersion']:.2f}"
)

# %% [markdown]
# ## The answer
#
# A block says how many times more often its genes are read in its cells than they would be if nothing depended on the
# type. Groups of cells are named after their most frequent type, groups of genes by their four most telling members.

# %%
rates = model.block_parameters_["rates"]
totals = blood.counts.sum(axis=1)
expected = np.outer(totals, blood.counts.sum(axis=0)) / totals.sum()


def telling(l, size=4):
    """The genes of group l whose counts in the group of cells that reads it most are furthest above independence."""
    genes, cells = np.flatnonzero(model.column_labels_ == l), model.row_labels_ == rates[:, l].argmax()
    seen = np.asarray(blood.counts[cells].sum(axis=0)).ravel()[genes]
    surplus = seen - expected[cells].sum(axis=0)[genes]
    return [str(blood.feature_names[j]) for j in genes[np.argsort(-surplus)[:size]]]


names = {l: telling(l) for l in range(8)}
rows = list(np.argsort([list(table.index).index(table[k].idxmax()) for k in range(8)], kind="stable"))
columns = np.argsort([rows.index(rates[:, l].argmax()) for l in range(8)], kind="stable")

figure, ax = plt.subplots(figsize=(11, 5.6), layout="constrained")
shown = np.clip(rates[np.ix_(rows, columns)], 0.05, 20)
image = ax.imshow(shown, cmap="PuOr_r", norm=LogNorm(1 / 20, 20), aspect="auto")
for i, k in enumerate(rows):
    for j, l in enumerate(columns):
        value = rates[k, l]
        ax.text(j, i, f"{value:.1f}" if value >= 0.05 else "0", ha="center", va="center", fontsize=9,
                color="white" if not 0.16 < value < 8 else "#222222")  # fmt: skip
ax.set_xticks(range(8), ["\n".join(names[l]) + f"\n({(model.column_labels_ == l).sum()})" for l in columns], fontsize=9)
ax.set_yticks(range(8), [f"{table[k].idxmax()} ({table[k].sum()})" for k in rows], fontsize=9)
ax.set(xlabel="genes (their number)", ylabel="cells: most frequent type (their number)")
ax.set_title("Which genes tell which blood cells apart? Counts relative to independence")
figure.colorbar(image, ax=ax, label="rate", ticks=[0.05, 0.2, 1, 5, 20]).ax.set_yticklabels(
    ["1/20", "1/5", "1", "5", "20"]
)
figure.savefig("coclustering.png", dpi=110)
