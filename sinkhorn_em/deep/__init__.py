"""Deep clustering on the transport E-step (needs torch): the loss, and an estimator built on it."""

from .loss import TransportLoss, TransportValue, transport_loss

__all__ = ["TransportLoss", "TransportValue", "transport_loss"]
