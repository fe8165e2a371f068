"""Co-clustering: latent block models fitted by variational Sinkhorn-EM.

`model` has the estimator, `loop` the fit, `schedule` its phases and starts, `starts` the starting labels, `criterion` the choice of
numbers of clusters.
"""

from .model import LatentBlockModel

__all__ = ["LatentBlockModel"]
