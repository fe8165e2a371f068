"""What a training does, in one place: `Options`, checked when it is made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any

from .._parameters import check_choice, check_integer
from ..ot import ColumnRule
from .checks import check_options

LOSSES = ("transport", "soft_kmeans", "dkm", "kmeans")
RECONSTRUCTIONS = ("sum", "total", "mean")
DUALS = ("batch", "global", "bank")
CENTRES = ("kmeans", "mixture", "random_encoder")
PRECISIONS = ("float32", "bfloat16")


@dataclass(frozen=True)
class Options:
    """One training: its loss, its phases and its steps.

    Parameters
    ----------
    n_clusters : int
        K.
    loss : "transport", "soft_kmeans", "dkm" or "kmeans"
        Transport onto the centres with the sizes held; the entropic or the sharp value of the row softmax; the nearest centre.
    value, gradient, epsilon, epsilon_mode
        Of `transport_loss`.
    final_epsilon : float, optional
        Epsilon moves there geometrically over the epochs (annealing); None: it is constant.
    tau : float
        1: sizes are held exactly; between 0 and 1: KL columns.
    rule : rule object, optional
        Instead of tau: bounds, a virtual column.
    learn_weights : bool
        Sizes move by exponentiated gradient after the first half of the epochs.
    dual : "batch", "global" or "bank"
        Potentials of every batch's own plan; of all batches, by stochastic dual ascent; of the batch together with codes of
        earlier ones.
    dual_step : float
        Of the ascent, per batch.
    bank_size : int
        Codes that the bank holds.
    reconstruction : "sum", "total" or "mean"
        Squared errors summed over pixels and averaged over the batch; summed over both; averaged over both.
    reconstruction_weight, transport_weight, consistency_weight : float
        Of the three terms; consistency is the cross-entropy of the plan of an image to the assignment of its augmented view.
    consistency_temperature : float
        Views are assigned at so many times epsilon: above 1 they are pulled towards assignments sharper than their own. Went
        well with unit_codes, little weight on the other terms and an autoencoder that was trained on views first (MNIST); on images
        of 8 x 8 pixels it did harm.
    augment : callable, optional
        Images (m, ...) -> views of them, on the global random state of torch. Pre-training is on views; then see the consistency.
    pretrain_epochs, epochs : int
        Of reconstruction alone; of all terms.
    centres : "kmeans", "mixture" or "random_encoder"
        The first centres: k-means of the codes after pre-training (of the untrained encoder where there is none); means of the
        clusters that a `GaussianMixture` of those codes finds, sizes held, by Sinkhorn-EM; or k-means of the untrained encoder's
        codes, kept through pre-training.
    kmeans_rows : int
        Rows whose codes are given to k-means or the mixture.
    batch_size, learning_rate : numbers
        Of Adam.
    halve_every : int
        Epochs after which the learning rate is halved, counted in each phase.
    unit_codes : bool
        Codes and centres are scaled to length 1.
    patience : int, optional
        Stop when the mean loss of an epoch has not fallen by ``tol`` (relative) for so many epochs.
    precision : "float32" or "bfloat16"
        Of the networks; the loss is never in half precision.
    compiled : bool
        Networks through ``torch.compile``.
    distributed : bool
        The rows are spread over the processes of ``torch.distributed``, some in each: plans, means and gradients are those of all
        rows together. ``batch_size`` counts the rows of all processes.
    """

    n_clusters: int
    loss: str = "transport"
    value: str = "entropic"
    gradient: str = "envelope"
    epsilon: float = 0.05
    epsilon_mode: str = "relative"
    final_epsilon: float | None = None
    tau: float = 1.0
    rule: ColumnRule | None = None
    learn_weights: bool = False
    dual: str = "batch"
    dual_step: float = 0.2
    bank_size: int = 2000
    reconstruction: str = "sum"
    reconstruction_weight: float = 1.0
    transport_weight: float = 1.0
    consistency_weight: float = 0.0
    consistency_temperature: float = 2.0
    augment: Callable[[Any], Any] | None = None
    pretrain_epochs: int = 50
    epochs: int = 100
    centres: str = "kmeans"
    kmeans_rows: int = 20_000
    batch_size: int = 300
    learning_rate: float = 1e-3
    halve_every: int = 50
    unit_codes: bool = False
    patience: int | None = None
    tol: float = 1e-4
    precision: str = "float32"
    compiled: bool = False
    distributed: bool = False

    def __post_init__(self) -> None:
        for name, least in _INTEGERS.items():
            check_integer(name, getattr(self, name), least)
        for name, choices in _CHOICES.items():
            check_choice(name, getattr(self, name), choices)
        for name, (low, high) in _NUMBERS.items():
            _check_number(name, getattr(self, name), low, high)
        check_options(self.epsilon, self.epsilon_mode, self.value, self.gradient)
        if self.final_epsilon is not None:
            _check_number("final_epsilon", self.final_epsilon, 0.0, float("inf"))
        if self.patience is not None:
            check_integer("patience", self.patience, 1)
        if self.augment is not None and not callable(self.augment):
            raise ValueError(f"augment is {self.augment!r}; it must be a function of a batch of images, or None")
        if self.consistency_weight > 0 and self.augment is None:
            raise ValueError(
                f"consistency_weight is {self.consistency_weight} without augment; give augment, or set it to 0"
            )
        if self.dual != "batch" and (
            self.loss != "transport" or self.value != "entropic" or self.gradient != "envelope"
        ):
            raise ValueError(
                f"dual is {self.dual!r} with loss={self.loss!r}, value={self.value!r}, gradient={self.gradient!r}; shared "
                "potentials go with loss='transport', value='entropic' and gradient='envelope' only: use dual='batch'"
            )
        if self.distributed and self.dual != "batch":
            raise ValueError(f"dual is {self.dual!r} with distributed=True; over processes it must be 'batch'")
        if self.learn_weights and self.loss != "transport":
            raise ValueError(f"weights='learned' with loss={self.loss!r}; sizes are learned with loss='transport' only")
        if self.rule is not None:
            self._check_rule()
        if self.kmeans_rows < self.n_clusters:
            raise ValueError(
                f"kmeans_rows is {self.kmeans_rows} and n_clusters is {self.n_clusters}; as many rows as clusters are needed to "
                "place the centres: 20 000 is the default"
            )
        if self.loss in ("soft_kmeans", "dkm", "kmeans") and (self.tau != 1.0 or self.rule is not None):
            raise ValueError(
                f"tau and rule are without meaning for loss={self.loss!r}, whose columns are free: leave them out"
            )

    def _check_rule(self) -> None:
        if not isinstance(self.rule, ColumnRule):
            raise ValueError(
                f"rule is {self.rule!r}; it must be a rule object, such as sinkhorn_em.ot.BoundedMass(0.05, 0.2): for fixed "
                "sizes or KL columns use tau"
            )
        if self.tau != 1.0:
            raise ValueError(f"rule and tau={self.tau} are given; both say what sizes are asked for: leave one out")
        self.rule.check(self.n_clusters)

    def epsilon_at(self, epoch: int) -> float:
        """Epsilon of an epoch of clustering, counted from 0; after the last one that was planned, as in that."""
        if self.final_epsilon is None or self.epochs < 2:
            return self.epsilon
        done = min(epoch / (self.epochs - 1), 1.0)
        return float(self.epsilon * (self.final_epsilon / self.epsilon) ** done)

    def learning_rate_at(self, epoch: int) -> float:
        """Learning rate of an epoch of a phase, counted from 0."""
        return self.learning_rate * 0.5 ** (epoch // self.halve_every)


_INTEGERS = {
    "n_clusters": 1,
    "bank_size": 1,
    "pretrain_epochs": 0,
    "epochs": 0,
    "kmeans_rows": 1,
    "batch_size": 1,
    "halve_every": 1,
}
_CHOICES = {
    "loss": LOSSES,
    "dual": DUALS,
    "reconstruction": RECONSTRUCTIONS,
    "centres": CENTRES,
    "precision": PRECISIONS,
}
_NUMBERS = {  # (exclusive if positive, inclusive at 0) .. below
    "tau": (0.0, 1.0),
    "dual_step": (0.0, 1.0),
    "reconstruction_weight": (-1.0, float("inf")),
    "transport_weight": (-1.0, float("inf")),
    "consistency_weight": (-1.0, float("inf")),
    "consistency_temperature": (0.0, float("inf")),
    "learning_rate": (0.0, float("inf")),
    "tol": (-1.0, 1.0),
}


def _check_number(name: str, value: Any, low: float, high: float) -> None:
    """Strictly above ``low`` (-1 stands for 0 included), at most ``high``, finite."""
    number = isinstance(value, Real) and not isinstance(value, bool)
    if not number or not max(low, -1e-300) < float(value) <= high or float(value) == float("inf"):
        least = "0 or more" if low < 0 else f"more than {low:g}"
        most = "" if high == float("inf") else f", and at most {high:g}"
        raise ValueError(f"{name} is {value!r}; it must be a number of {least}{most}")
