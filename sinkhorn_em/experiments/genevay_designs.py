"""The designs of the experiment `genevay`: methods, readings of what the paper leaves open, and how long networks are trained."""

from __future__ import annotations

from typing import Any, NamedTuple

CLASSES = 10  # and clusters, and codes of the networks
PIXELS, AE = "k-means (pixels)", "AE + k-means"
SOFT, SOFT_P, DKM_P, OT, OT_P = "soft k-means", "soft k-means (p)", "DKM (p)", "OT", "OT (p)"
#: ours, beyond the paper. Labels of the networks' codes by a Gaussian mixture of equal sizes
AE_EM, AE_MIXTURE = "AE + mixture, EM", "AE + mixture, Sinkhorn-EM"
#: transport from the centres of that mixture; its codes read by one
OURS, OURS_MIXTURE = "ours (p)", "ours (p) + mixture"
#: the same with views of the images
AE_VIEWS, AE_VIEWS_MIXTURE, VIEWS, VIEWS_MIXTURE = (
    "AE + k-means, views",
    "AE + mixture, views",
    "ours (p), views",
    "ours (p), views + mixture",
)
BEYOND = (AE_EM, AE_MIXTURE, OURS, OURS_MIXTURE, AE_VIEWS, AE_VIEWS_MIXTURE, VIEWS, VIEWS_MIXTURE)
METHODS = (PIXELS, AE, SOFT, SOFT_P, OT, OT_P)  # the columns of Table 1
SCORES = ("accuracy", "balanced_accuracy", "nmi", "ari")
MEASURES = ("loss", "reconstruction", "transport", "marginal_error", "n_passes", "plan_entropy", "epsilon")
DIGITS = 6  # significant, that are kept


class Design(NamedTuple):
    """How long and with what the networks of a data set are trained."""

    encoder: str
    batch: int
    pretrain: int  # epochs
    epochs: int
    every: int  # epochs between two rows of the table


#: on a processor: shorter than the paper's
DESIGNS = {
    "mnist": Design("mlp", 300, 50, 30, 2),
    "fashion": Design("mlp", 300, 50, 30, 2),
    "cifar10": Design("conv", 300, 10, 10, 2),
    "digits": Design("mlp", 100, 50, 50, 5),
}
#: on a graphics card: 200 epochs, 50 of them or more before (the paper does not say)
LONG_DESIGNS = {name: design._replace(pretrain=50, epochs=200, every=10) for name, design in DESIGNS.items()}
QUICK, QUICK_ROWS = Design("mlp", 50, 7, 2, 2), 900
FEW = 3  # times fewer epochs at each epsilon of Figure 2, and of each reading

_PAPER = {"epsilon": 1e-2, "epsilon_mode": "absolute"}
#: what the paper leaves open, as options of `sinkhorn_em.deep.options.Options`
READINGS: dict[str, dict[str, Any]] = {
    "paper": _PAPER,  # entropic value, envelope gradient, sums over pixels, centres after pre-training
    "relative": {"epsilon": 0.05, "epsilon_mode": "relative"},
    "KL": {"epsilon": 0.05, "epsilon_mode": "relative", "tau": 0.9},
    "learned": {"epsilon": 0.05, "epsilon_mode": "relative", "learn_weights": True},
    "mixture": {"epsilon": 0.05, "epsilon_mode": "relative", "centres": "mixture"},
    "unrolled": {**_PAPER, "gradient": "unrolled"},
    "sharp": {**_PAPER, "value": "sharp", "gradient": "implicit"},
    "sharp unrolled": {**_PAPER, "value": "sharp", "gradient": "unrolled"},
    "total": {**_PAPER, "reconstruction": "total"},
    "mean": {**_PAPER, "reconstruction": "mean"},
    "centres before": {**_PAPER, "centres": "random_encoder"},
    "through the softmax": _PAPER,  # of soft k-means: the gradient of deep k-means (DKM, Fard et al. 2018)
}
#: readings that say nothing of networks without pre-training
ONLY_PRETRAINED = ("centres before", "through the softmax")
#: the plan of the images is the target of their views, codes have length 1, and the autoencoder saw views too
WITH_VIEWS: dict[str, Any] = {
    "epsilon": 0.03,
    "epsilon_mode": "relative",
    "unit_codes": True,
    "reconstruction_weight": 0.02,
    "transport_weight": 0.0,
    "consistency_weight": 1.0,
    "consistency_temperature": 3.0,
    "halve_every": 3,
}
AFFINE = {"degrees": 10.0, "shift": 0.07, "scale": 0.15, "shear": 0.25}
LOSSES = {SOFT: "soft_kmeans", SOFT_P: "soft_kmeans", DKM_P: "dkm", OT: "transport", OT_P: "transport"}
EPSILONS, QUICK_EPSILONS = (1e-3, 1e-2, 1e-1, 1.0, 10.0), (1e-2, 10.0)  # absolute, as in the paper
