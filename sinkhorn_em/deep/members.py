"""Several networks trained side by side: the first dimension of every batch, code and parameter is the member.

One member is its module as it is. Several are the same module with stacked parameters (`torch.func`), so that fifty seeds are
one job: each operation is a batched one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from .networks import Autoencoder


class Members(nn.Module):
    """The contract: ``forward`` of inputs (S, m, *shape) gives codes (S, m, d) and reconstructions (S, m, *shape) or None."""

    n_members: int
    reconstructs: bool  # there is a decoder

    def encode(self, x: Tensor) -> Tensor:
        """Codes (S, m, d) alone of inputs (S, m, *shape)."""
        raise NotImplementedError

    @torch.no_grad()
    def codes(self, pieces: Iterable[Tensor], device: torch.device) -> Tensor:
        """Codes (S, n, d) of rows that come some (m, *shape) at a time and may lie elsewhere, on the host, in float32."""
        was_training = self.training
        self.eval()
        parts = []
        for rows in pieces:
            x = rows.to(device)
            parts.append(self.encode(x.expand(self.n_members, *x.shape)).float().cpu())
        self.train(was_training)
        return torch.cat(parts, 1)


class One(Members):
    """A single network."""

    n_members = 1

    def __init__(self, network: Autoencoder) -> None:
        super().__init__()
        self.network = network
        self.reconstructs = network.decoder is not None

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        z, back = self.network(x[0])
        return z[None], None if back is None else back[None]

    def encode(self, x: Tensor) -> Tensor:
        return self.network.encode(x[0])[None]


class Several(Members):
    """Networks of one architecture, their parameters stacked."""

    def __init__(self, networks: Sequence[Autoencoder]) -> None:
        super().__init__()
        self.n_members = len(networks)
        self.reconstructs = networks[0].decoder is not None
        parameters, buffers = stack_module_state(list(networks))
        if buffers:
            raise ValueError(
                f"encoder has buffers ({', '.join(buffers)}); seeds are trained side by side only for networks without any "
                "(no batch normalisation): train them one by one"
            )
        self.names = list(parameters)
        self.stacked = nn.ParameterList([nn.Parameter(p.detach()) for p in parameters.values()])
        self._skeleton: list[Any] = [networks[0].to("meta")]  # in a list: its parameters are not ours

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        skeleton = self._skeleton[0]
        values = dict(zip(self.names, self.stacked, strict=True))
        if skeleton.decoder is None:
            return vmap(lambda p, x: functional_call(skeleton, p, (x,))[0])(values, x), None
        return vmap(lambda p, x: functional_call(skeleton, p, (x,)))(values, x)

    def encode(self, x: Tensor) -> Tensor:
        encoder, prefix = self._skeleton[0].encoder, "encoder."
        values = dict(zip(self.names, self.stacked, strict=True))
        own = {name.removeprefix(prefix): p for name, p in values.items() if name.startswith(prefix)}
        return vmap(lambda p, x: functional_call(encoder, p, (x,)).flatten(1))(own, x)


def members(networks: Sequence[Autoencoder]) -> Members:
    """The networks as members."""
    return One(networks[0]) if len(networks) == 1 else Several(networks)
