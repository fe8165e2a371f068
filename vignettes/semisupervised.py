# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# # How many labels does it take?
#
# 200 crabs, 50 of each of 2 colour forms x 2 sexes, 5 lengths. Suppose that a biologist has named a few crabs of each
# group. A classifier learns from the named ones only. A mixture learns from all: `fit(X, labels=...)` keeps the named
# rows in their components (-1: not known), and the others go where they fit. How many must be named before the
# unnamed ones are classified as well as they can be?

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from sinkhorn_em import GaussianMixture
from sinkhorn_em.datasets import load_crabs

X, groups = load_crabs(return_X_y=True)
groups = np.unique(groups, return_inverse=True)[1]
K = groups.max() + 1

# %% [markdown]
# ## One fit
#
# Component k is group k, because the labels say so: nothing has to be matched afterwards.


# %%
def named(size, seed):
    """Labels of ``size`` crabs of every group, -1 for the others."""
    rng = np.random.default_rng(seed)
    labels = np.full(len(X), -1)
    for k in range(K):
        labels[rng.choice(np.flatnonzero(groups == k), size, replace=False)] = k
    return labels


labels = named(1, 0)
model = GaussianMixture(K, covariance_type="tied", weights="uniform", n_init=10, random_state=0).fit(X, labels=labels)
right = model.predict(X) == groups
print(f"{(labels >= 0).sum()} crabs named, {right[labels < 0].mean():.0%} of the others right")

# %% [markdown]
# ## Many draws
#
# Which crabs are named matters when there are few, so we draw them eight times for every number. Four methods:
#
# - Sinkhorn-EM with uniform weights, which are the true ones, from one k-means start and from ten;
# - EM with the same weights from ten starts;
# - linear discriminant analysis of the named crabs alone (with a shrunk covariance it does worse here).

# %%
SIZES, DRAWS = (1, 2, 3, 5, 10, 20), 8


def mixture(tau, n_init):
    def classify(labels, seed):
        options = {"covariance_type": "tied", "weights": "uniform", "n_init": n_init, "random_state": seed}
        return GaussianMixture(K, tau=tau, **options).fit(X, labels=labels).predict(X)

    return classify


def discriminant(labels, seed):
    known = labels >= 0
    if known.sum() == K:  # no variance within groups to estimate: the nearest named crab
        return labels[known][np.argmin(((X[:, None] - X[known]) ** 2).sum(axis=2), axis=1)]
    return LinearDiscriminantAnalysis().fit(X[known], labels[known]).predict(X)


METHODS = {
    "Sinkhorn-EM, 10 starts": mixture(1, 10),
    "Sinkhorn-EM, 1 start": mixture(1, 1),
    "EM, 10 starts": mixture(0, 10),
    "named crabs alone": discriminant,
}

records = []
for size in SIZES:
    for draw in range(DRAWS):
        labels = named(size, draw)
        for name, classify in METHODS.items():
            right = classify(labels, draw) == groups
            records.append((name, size, draw, right[labels < 0].mean()))
results = pd.DataFrame(records, columns=["method", "named", "draw", "right"])
table = results.groupby(["method", "named"], sort=False)["right"].agg(["mean", "min"]).unstack("named").round(2)
print(table.to_string())

# %% [markdown]
# ## What to do
#
# - One crab of each group is enough for Sinkhorn-EM, if several starts are tried: labels that contradict the clusters
#   cost likelihood, and the best of ten starts is the one whose components have the right names.
# - From a single start one name for each group may mislead: if the crab is not typical, its component starts in the wrong place.
#   With five names it does not happen here.
# - EM needs as few, and stays at fewer right: as in `quickstart.py`, its likelihood is higher, and farther from the groups.
# - The named crabs alone need twenty of each group, 80 of 200, for what one of each does in the mixture: the directions
#   that tell the groups apart have little variance, and it takes many rows to learn them.

# %% [markdown]
# ## The answer
#
# Lines are means over the draws, points single draws.

# %%
COLOURS = dict(zip(METHODS, ("#0072B2", "#56B4E9", "#D55E00", "#4D4D4D"), strict=True))
figure, ax = plt.subplots(figsize=(8, 4.8), layout="constrained")
for number, (name, frame) in enumerate(results.groupby("method", sort=False)):
    means = frame.groupby("named")["right"].mean()
    places = np.arange(len(SIZES)) + 0.1 * (number - 1.5)
    ax.plot(places, means, "os^D"[number] + "-", color=COLOURS[name], label=name)
    x = places[frame["named"].map(SIZES.index)]
    ax.scatter(x, frame["right"], 9, COLOURS[name], alpha=0.5, linewidths=0)
ax.set(xticks=range(len(SIZES)), xticklabels=SIZES, xlabel="crabs named in each of the 4 groups", ylim=(0, 1))
ax.set_ylabel("share of the others that is right")
ax.legend(frameon=False, loc="lower right")
ax.spines[["top", "right"]].set_visible(False)
ax.set_title("One named crab in each group is enough, from several starts")
figure.savefig("semisupervised.png", dpi=150)
