"""Deep clustering on the transport E-step (needs torch): the loss, and an estimator built on it.

The loss: `loss` (`checks`, `gradients`), as a module in `module`, over several processes in `distributed`. The estimator:
`clustering` (its `parameters`, `fitting`, `prediction`), `options` what a training may be told, `training` the loop, `objective`
the terms of the loss, `networks` the autoencoders, `members` several of them side by side (`side_by_side`: many seeds as one job),
`inputs` and `sources` the data, `augment` views of images, `centres` starts and sizes, `assignment` labels, `state` and
`checkpoints` what is kept.
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
