"""`DeepTransportClustering`: the estimator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .fitting import FittingMixin
from .prediction import PredictionMixin


class DeepTransportClustering(FittingMixin, PredictionMixin):
    r"""Clustering of images or vectors in the codes of a network, with cluster sizes held by entropic transport.

    .. math:: \min_{\theta, \phi, \mu}\ \text{reconstruction}(\theta, \phi)
        + \min_{P 1 = a,\ P^T 1 = w} \langle P, C\rangle + \epsilon KL(P | a w^T),\qquad C_{ik} = |f_\theta(x_i) - \mu_k|^2

    by stochastic gradients; every batch's plan is solved to convergence, and its derivative is exact (`transport_loss`).

    Parameters
    ----------
    n_clusters : int
        K.
    encoder : "mlp", "conv", "identity", "linear", "cosine" or nn.Module
        784-500-250-d as in the source; three convolutions (images (h, w) or (channels, h, w)); the data are the codes
        (precomputed embeddings); one linear layer, from the principal components on; the same with codes of length 1 (with
        "identity", `unit_codes` does that). A module maps (m, *shape) to (m, d).
    decoder : nn.Module, optional
        Of an encoder of your own: codes (m, d) to (m, *shape). None: no reconstruction.
    n_codes : int
        d, of the encoders by name.
    weights : "uniform", "learned" or array (K,)
        Cluster sizes. An array is handed out so that the larger size goes to the larger cluster. "learned": uniform in the first
        half of the epochs, then moved by exponentiated gradient.
    assign_by : "centre", "potential" or "plan"
        `labels_` (and `predict`) by the nearest centre; by the largest ``log w_k + g_k - C_ik/epsilon``, g the potentials of the
        plan of all training rows; `labels_` by the assignment of least total cost that has the sizes exactly (`predict`: by
        potential).
    device : "auto", "cpu", "cuda", ...
    random_state : int, RandomState or None
        The same integer gives the same bits on the CPU.
    callbacks : sequence of callables
        Called as ``callback(estimator, row)`` with each new row of the history; one that returns True ends the training.
    checkpoint_dir : path, optional
        The state is kept there after every epoch; the same call of `fit` on the same data then goes on from it. The result is that
        of a run without interruption, to the last bit on the CPU (not with a DataLoader that has random numbers of its own).
    compile : bool or str
        Networks through ``torch.compile``, by that backend if it is a name.
    distributed : bool
        `fit` is called in every process of ``torch.distributed`` with rows of its own (see `sinkhorn_em.deep.distributed`):
        all come to the same networks and centres; `labels_` are those of the process's rows.
    verbose : int
        1: a progress bar with loss, residual, plan entropy, and accuracy if `fit` was given classes.
    loss, tau, rule, value, gradient, epsilon, epsilon_mode, final_epsilon, dual, dual_step, bank_size, reconstruction,
    reconstruction_weight, transport_weight, consistency_weight, consistency_temperature, augment, pretrain_epochs, epochs, centres,
    kmeans_rows, batch_size, learning_rate, halve_every, unit_codes, patience, tol, precision :
        See `Options`. ``epochs=0`` is an autoencoder, then k-means.

    Attributes
    ----------
    labels_ (n,), cluster_centers_ (K, d) : arrays
    weights_ : array (K,)
        Sizes that were held, in the order of the clusters.
    potentials_ : array (K,)
        g of the plan of all training rows, nats.
    epsilon_ : float
        In the units of the cost.
    marginal_error_ : float
        Residual of that plan.
    history_ : DataFrame
        A row for each epoch: phase, loss and its terms, residual, passes, plan entropy (nats a row), epsilon, learning rate,
        accuracy (if classes were given).
    n_iter_ : int
        Epochs done.
    n_features_in_, input_shape_

    Raises
    ------
    ValueError
        Before any training: options or data that break their rule; the message says which, and what to do.

    References
    ----------
    Genevay, Dulac-Arnold & Vert 2019, arXiv:1910.09036. Fard, Thonet & Gaussier 2018 (``loss="dkm"``).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sinkhorn_em.deep import DeepTransportClustering
    >>> X = load_digits().data / 16
    >>> model = DeepTransportClustering(10, pretrain_epochs=5, epochs=5, random_state=0, device="cpu").fit(X)
    >>> model.history_.phase.value_counts().to_dict()
    {'pretrain': 5, 'cluster': 5}
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        encoder: Any = "mlp",
        decoder: Any = None,
        n_codes: int = 10,
        weights: Any = "uniform",
        loss: str = "transport",
        tau: float = 1.0,
        rule: Any = None,
        value: str = "entropic",
        gradient: str = "envelope",
        epsilon: float = 0.05,
        epsilon_mode: str = "relative",
        final_epsilon: float | None = None,
        dual: str = "batch",
        dual_step: float = 0.2,
        bank_size: int = 2000,
        reconstruction: str = "sum",
        reconstruction_weight: float = 1.0,
        transport_weight: float = 1.0,
        consistency_weight: float = 0.0,
        consistency_temperature: float = 2.0,
        augment: Any = None,
        pretrain_epochs: int = 50,
        epochs: int = 100,
        centres: str = "kmeans",
        kmeans_rows: int = 20_000,
        batch_size: int = 300,
        learning_rate: float = 1e-3,
        halve_every: int = 50,
        unit_codes: bool = False,
        patience: int | None = None,
        tol: float = 1e-4,
        assign_by: str = "centre",
        precision: str = "float32",
        compile: bool | str = False,
        distributed: bool = False,
        device: Any = "auto",
        random_state: Any = None,
        callbacks: Sequence[Callable[..., Any]] = (),
        checkpoint_dir: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.encoder = encoder
        self.decoder = decoder
        self.n_codes = n_codes
        self.weights = weights
        self.loss = loss
        self.tau = tau
        self.rule = rule
        self.value = value
        self.gradient = gradient
        self.epsilon = epsilon
        self.epsilon_mode = epsilon_mode
        self.final_epsilon = final_epsilon
        self.dual = dual
        self.dual_step = dual_step
        self.bank_size = bank_size
        self.reconstruction = reconstruction
        self.reconstruction_weight = reconstruction_weight
        self.transport_weight = transport_weight
        self.consistency_weight = consistency_weight
        self.consistency_temperature = consistency_temperature
        self.augment = augment
        self.pretrain_epochs = pretrain_epochs
        self.epochs = epochs
        self.centres = centres
        self.kmeans_rows = kmeans_rows
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.halve_every = halve_every
        self.unit_codes = unit_codes
        self.patience = patience
        self.tol = tol
        self.assign_by = assign_by
        self.precision = precision
        self.compile = compile
        self.distributed = distributed
        self.device = device
        self.random_state = random_state
        self.callbacks = callbacks
        self.checkpoint_dir = checkpoint_dir
        self.verbose = verbose
