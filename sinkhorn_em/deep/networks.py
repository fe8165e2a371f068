"""Autoencoders: encoder and decoder by name, of images or vectors of any shape, or the user's own."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch
from scipy.linalg import eigh
from torch import Tensor, nn

from .._parameters import check_choice

WIDTHS = (500, 250)  # of the fully connected encoder, Genevay, Dulac-Arnold & Vert 2019
CHANNELS, KERNELS = (32, 64, 128), (5, 5, 3)  # of the convolutional one, stride 2
NETWORK = 2000  # key of the random numbers that draw the first parameters
ENCODERS = ("mlp", "conv", "identity", "linear", "cosine")


class Autoencoder(nn.Module):
    """``encoder`` maps (m, *shape) to codes (m, d); ``decoder``, if there is one, back to (m, *shape)."""

    def __init__(self, encoder: nn.Module, decoder: nn.Module | None = None) -> None:
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """Codes, and the reconstruction if there is a decoder."""
        z = self.encode(x)
        return z, None if self.decoder is None else self.decoder(z)

    def encode(self, x: Tensor) -> Tensor:
        """Codes (m, d) alone."""
        return self.encoder(x).flatten(1)


def build(encoder: str, shape: tuple[int, ...], n_codes: int) -> Autoencoder:
    """The autoencoder of that name for inputs of ``shape``.

    "mlp": p-500-250-d and back, ReLU between. "conv": convolutions 32, 64, 128 of kernels 5, 5, 3, stride 2, then linear, and their
    mirror image. "identity": the data are the codes. "linear" and "cosine": d linear features and a linear reconstruction (codes
    of "cosine" are scaled to length 1 where they enter the distance). ValueError for another name, or a shape that the encoder
    does not take.
    """
    check_choice("encoder", encoder, ENCODERS)
    size = int(torch.Size(shape).numel())
    if encoder == "mlp":
        widths = (size, *WIDTHS, n_codes)
        return Autoencoder(
            nn.Sequential(nn.Flatten(), *_layers(widths)),
            nn.Sequential(*_layers(widths[::-1]), nn.Unflatten(1, shape)),
        )
    if encoder == "conv":
        return Autoencoder(*_convolutions(shape, n_codes))
    if encoder == "identity":
        return Autoencoder(nn.Flatten())
    linear = nn.Sequential(nn.Flatten(), nn.Linear(size, n_codes))
    return Autoencoder(linear, nn.Sequential(nn.Linear(n_codes, size), nn.Unflatten(1, shape)))


def check_channels_first(name: str, shape: tuple[int, ...]) -> None:
    """ValueError for images (h, w, channels), of which 32 x 32 would pass for 32 channels."""
    if len(shape) == 3 and shape[2] in (1, 3, 4) and shape[0] not in (1, 3, 4) and shape[0] == shape[1]:
        raise ValueError(
            f"{name} has images of shape {shape}, whose channels seem to come last; they must be (channels, h, w): pass "
            "np.moveaxis(images, -1, 1)"
        )


def build_from(seed: int, encoder: str, shape: tuple[int, ...], n_codes: int) -> Autoencoder:
    """A network whose first parameters are a function of the seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed * 1_000_003 + NETWORK)
        return build(encoder, shape, n_codes)


@torch.no_grad()
def start_at_components(network: Autoencoder, mean: np.ndarray, covariance: np.ndarray) -> None:
    """Set a linear autoencoder to the principal components of rows of that mean (p,) and covariance (p, p)."""
    encoder, decoder = (next(m for m in part.modules() if isinstance(m, nn.Linear)) for part in network.children())
    p, d = len(mean), encoder.out_features
    _, axes = eigh(covariance, subset_by_index=(max(p - d, 0), p - 1))
    W = np.zeros((d, p))
    W[: axes.shape[1]] = axes.T[::-1]
    values = {encoder.weight: W, encoder.bias: -W @ mean, decoder.weight: W.T, decoder.bias: mean}
    for parameter, value in values.items():
        parameter.copy_(torch.as_tensor(value.copy()))


def _layers(widths: tuple[int, ...]) -> list[nn.Module]:
    layers: list[nn.Module] = []
    for i, (a, b) in enumerate(pairwise(widths)):
        layers += [nn.Linear(a, b)] + ([nn.ReLU()] if i < len(widths) - 2 else [])
    return layers


def _convolutions(shape: tuple[int, ...], n_codes: int) -> tuple[nn.Module, nn.Module]:
    """Encoder and decoder of images (h, w) or (channels, h, w)."""
    if len(shape) not in (2, 3):
        raise ValueError(
            f"X has images of shape {shape}; encoder='conv' needs (h, w) or (channels, h, w): use encoder='mlp' for vectors"
        )
    check_channels_first("X", shape)
    image = shape if len(shape) == 3 else (1, *shape)
    channels, sizes = (image[0], *CHANNELS), [image[1:]]
    down: list[nn.Module] = [nn.Unflatten(1, (1, shape[0]))] if len(shape) == 2 else []
    up: list[list[nn.Module]] = []
    for i, kernel in enumerate(KERNELS):
        pad = kernel // 2
        down += [nn.Conv2d(channels[i], channels[i + 1], kernel, 2, pad), nn.ReLU()]
        before = sizes[-1]
        after = tuple((s + 2 * pad - kernel) // 2 + 1 for s in before)
        extra = tuple(s - ((t - 1) * 2 - 2 * pad + kernel) for s, t in zip(before, after, strict=True))
        back = nn.ConvTranspose2d(channels[i + 1], channels[i], kernel, 2, pad, output_padding=(extra[0], extra[1]))
        up.append([back] if i == 0 else [back, nn.ReLU()])
        sizes.append(after)
    last = (channels[-1], *sizes[-1])
    flat = int(torch.Size(last).numel())
    encoder = nn.Sequential(*down, nn.Flatten(), nn.Linear(flat, n_codes))
    mirror = [layer for block in reversed(up) for layer in block]
    tail: list[nn.Module] = [nn.Flatten(1, 2)] if len(shape) == 2 else []
    return encoder, nn.Sequential(nn.Linear(n_codes, flat), nn.ReLU(), nn.Unflatten(1, last), *mirror, *tail)
