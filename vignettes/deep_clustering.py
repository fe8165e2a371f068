# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# # Do clusters of images need a pre-trained network?
#
# Handwritten digits, 8 x 8 pixels (scikit-learn's). A network turns each image into ten numbers, and clusters are sought
# among these codes while the network goes on learning: images move towards the centres they are assigned to. With codes
# of a random network the first assignment is little better than chance, so the usual advice is to train an autoencoder
# first. Soft k-means assigns each image on its own, and a centre that starts badly may lose its images. The transport
# loss assigns all images of a batch together, and each centre keeps its share. Is that enough to do without? And what is a
# trained network good for?

# %%
import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits

from sinkhorn_em import GaussianMixture
from sinkhorn_em.deep import DeepTransportClustering, Options, train_seeds
from sinkhorn_em.metrics import clustering_accuracy, clustering_report
from sinkhorn_em.plots import plot_confusion, plot_embedding, plot_history, plot_sizes

torch.set_num_threads(1)  # the networks are small
digits = load_digits()
X, y = digits.data / 16, digits.target

# %% [markdown]
# ## One fit
#
# The estimator has scikit-learn's contract. Classes are given for monitoring only.

# %%
options = {"pretrain_epochs": 10, "epochs": 10, "batch_size": 100, "device": "cpu", "random_state": 0}
model = DeepTransportClustering(10, **options).fit(X, y)
print(model.history_.groupby("phase").tail(1).round(3).T.to_string())
print(clustering_report(y, model.labels_).round(2).to_string())
print(f"residual of the plan of all images: {model.marginal_error_:.1e}")
plot_history(model.history_)
plot_confusion(y, model.labels_)
plot_embedding(model.transform(X), model.labels_, centres=model.cluster_centers_, y_true=y)
plot_sizes(model.labels_, model.weights_)

# %% [markdown]
# ## Four networks, four ways
#
# Four seeds are trained side by side, as one job. Both losses start from k-means of the codes of the random networks; the
# third way is an autoencoder, then k-means of its codes. All see the images twenty times. The fourth reads the codes of
# the same autoencoders by a Gaussian mixture, by Sinkhorn-EM with the sizes held: clusters of codes are ellipses.

# %%
SEEDS, EPOCHS = range(4), 20
images = torch.tensor(X, dtype=torch.float32)
shared = {"batch_size": 100}
start = train_seeds(images, Options(10, pretrain_epochs=0, epochs=0, **shared), SEEDS)
autoencoder = train_seeds(images, Options(10, pretrain_epochs=EPOCHS, epochs=0, **shared), SEEDS)
runs = {
    loss: train_seeds(images, Options(10, loss=loss, pretrain_epochs=0, epochs=EPOCHS, **shared), SEEDS, y=y, every=2)
    for loss in ("soft_kmeans", "transport")
}


def accuracies(run):
    """One for each seed."""
    return np.array([clustering_accuracy(y, labels) for labels in run.labels])


table = {"random codes, k-means": start, "autoencoder, k-means": autoencoder} | runs
table = {name: accuracies(run) for name, run in table.items()}
mixture = GaussianMixture(10, weights="uniform", n_init=5, random_state=0)
table["autoencoder, mixture"] = np.array(
    [clustering_accuracy(y, mixture.fit_predict(codes)) for codes in autoencoder.codes(images)]
)
for name, values in table.items():
    print(f"{name:24} {values.mean():.3f}   {values.round(3)}")

# %% [markdown]
# ## The answer
#
# Lines are means over the four networks, bands their range.

# %%
COLOURS = {"soft_kmeans": "#D55E00", "transport": "#0072B2"}
figure, ax = plt.subplots(figsize=(8, 4.6), layout="constrained")
for loss, label in (("transport", "transport, no pre-training"), ("soft_kmeans", "soft k-means, no pre-training")):
    history = runs[loss].history.dropna(subset=["accuracy"])
    curves = history.pivot(index="epoch", columns="member", values="accuracy")
    curves.loc[0] = table["random codes, k-means"]
    curves = curves.sort_index()
    ax.fill_between(curves.index, curves.min(axis=1), curves.max(axis=1), color=COLOURS[loss], alpha=0.15, linewidth=0)
    ax.plot(curves.index, curves.mean(axis=1), color=COLOURS[loss], label=label)
for how, line in (("mixture", ":"), ("k-means", "--")):
    label = f"autoencoder of 20 epochs, then {how}"
    ax.axhline(table[f"autoencoder, {how}"].mean(), color="#4D4D4D", linestyle=line, label=label)
ax.set(xlabel="epoch", ylabel="share of the images in the right cluster", ylim=(0, 1), xlim=(0, EPOCHS))
ax.legend(frameon=False, loc="lower right")
ax.spines[["top", "right"]].set_visible(False)
ax.set_title("Hold the shares, or read the codes of a trained network by a mixture")
figure.savefig("deep_clustering.png", dpi=150)
