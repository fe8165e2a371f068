"""Random views of images, for the consistency term: functions of a batch, on the global random state of torch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real

import torch
from torch import Tensor

from .networks import check_channels_first


@dataclass(frozen=True)
class RandomAffine:
    """Each image is turned, shifted, rescaled and sheared at random, by bilinear interpolation; outside it is 0.

    Parameters
    ----------
    degrees : float
        Largest angle, either way.
    shift : float
        Largest shift, as a share of the width and of the height.
    scale : float
        Sizes lie between 1 - scale and 1 + scale.
    shear : float
        Largest shear, pixels across per pixel down.
    shape : tuple, optional
        Of one image, (h, w) or (channels, h, w), where the rows are vectors.
    """

    degrees: float = 15.0
    shift: float = 0.1
    scale: float = 0.1
    shear: float = 0.2
    shape: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        for name in ("degrees", "shift", "scale", "shear"):
            value = getattr(self, name)
            if not isinstance(value, Real) or isinstance(value, bool) or not 0 <= float(value) < float("inf"):
                raise ValueError(f"{name} is {value!r}; it must be a finite number of at least 0")
        if self.scale >= 1:
            raise ValueError(
                f"scale is {self.scale}; it must be less than 1: sizes lie between 1 - scale and 1 + scale"
            )

    def __call__(self, x: Tensor) -> Tensor:
        """Views (m, *shape) of images (m, *shape)."""
        shape = tuple(x.shape[1:]) if self.shape is None else tuple(self.shape)
        if len(shape) not in (2, 3):
            raise ValueError(
                f"images have shape {shape}; they must be (h, w) or (channels, h, w): give RandomAffine(shape=)"
            )
        check_channels_first("RandomAffine", shape)
        images = x.reshape(len(x), *((1, *shape) if len(shape) == 2 else shape))
        grid = torch.nn.functional.affine_grid(self._matrices(images), list(images.shape), align_corners=False)
        views = torch.nn.functional.grid_sample(images, grid.to(images.dtype), align_corners=False)
        return views.reshape(x.shape)

    def _matrices(self, images: Tensor) -> Tensor:
        """Affine maps (m, 2, 3) from places in the view to places in the image, in units of half its size."""
        m = len(images)
        u = 2 * torch.rand(6, m, device=images.device) - 1
        angle, size = u[0] * math.radians(self.degrees), 1 + self.scale * u[1]
        turn = torch.stack([torch.cos(angle), -torch.sin(angle), torch.sin(angle), torch.cos(angle)], 1).view(m, 2, 2)
        shear = torch.eye(2, device=images.device).repeat(m, 1, 1)
        shear[:, 0, 1] = self.shear * u[2]
        linear = turn @ shear / size[:, None, None]
        return torch.cat([linear, 2 * self.shift * u[3:5].T[:, :, None]], 2)


@dataclass(frozen=True)
class Noise:
    """Vectors with normal noise of standard deviation ``scale`` added: views of embeddings."""

    scale: float = 0.1

    def __call__(self, x: Tensor) -> Tensor:
        """Views of rows x (m, *shape)."""
        return x + self.scale * torch.randn_like(x)
