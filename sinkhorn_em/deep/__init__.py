"""Deep clustering on the transport E-step (needs torch): the loss, and an estimator built on it.

`loss` and `gradients` are the differentiable transport value; `clustering` is the estimator (`fitting`, `prediction`), `options`
what it may be told, `training` the loop, `objective` the terms of the loss, `networks` the autoencoders, `members` several of them
side by side, `sources` the batches, `centres` starts and sizes, `assignment` labels, `state` and `checkpoints` what is kept.
"""

from .clustering import DeepTransportClustering
from .loss import TransportValue, transport_loss
from .module import TransportLoss
from .options import Options
from .side_by_side import Trained, train_seeds

__all__ = [
    "DeepTransportClustering",
    "Options",
    "Trained",
    "TransportLoss",
    "TransportValue",
    "train_seeds",
    "transport_loss",
]
