"""What a training moves: networks, centres, sizes, potentials, optimiser, history. All of it goes into a checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from .members import Members, members
from .networks import Autoencoder
from .options import Options

PHASES = ("pretrain", "cluster")


@dataclass
class State:
    """S members of one training."""

    members: Members
    centres: nn.Parameter  # (S, K, d)
    weights: Tensor  # (S, K) float64: sizes that the transport loss holds
    potentials: Tensor  # (S, K) or (S, K + 1) float64, nats: shared, or the warm start of the next batch
    optimiser: torch.optim.Optimizer
    phase: int = 0  # position in PHASES; beyond them: finished
    epoch: int = 0  # finished epochs of the phase
    bank: Tensor | None = None  # (S, M, d) codes of earlier batches, the latest last
    best: float = float("inf")  # for early stopping
    waited: int = 0
    stopped: bool = False
    placed: bool = False  # the centres have been placed
    history: list[dict[str, Any]] = field(default_factory=list)

    @property
    def finished(self) -> bool:
        return self.stopped or self.phase >= len(PHASES)

    @property
    def n_clustered(self) -> int:
        """Epochs of clustering that are done."""
        return sum(row["phase"] == PHASES[1] for row in self.history)

    def parameters(self) -> list[nn.Parameter]:
        """All that the optimiser moves."""
        return [*self.members.parameters(), self.centres]

    def tensors(self) -> dict[str, Tensor]:
        """Everything that is a tensor, by name."""
        named = {f"members.{name}": value for name, value in self.members.state_dict().items()}
        named |= {"centres": self.centres.detach(), "weights": self.weights, "potentials": self.potentials}
        if self.bank is not None:
            named["bank"] = self.bank
        moments = self.optimiser.state_dict()["state"]
        for i, parts in moments.items():
            named |= {f"optimiser.{i}.{name}": torch.as_tensor(value) for name, value in parts.items()}
        return {name: value.detach().cpu().contiguous() for name, value in named.items()}

    def numbers(self) -> dict[str, Any]:
        """Everything else."""
        names = ("phase", "epoch", "best", "waited", "stopped", "placed")
        return {name: getattr(self, name) for name in names} | {"history": [dict(row) for row in self.history]}

    def restore(self, tensors: dict[str, Tensor], numbers: dict[str, Any]) -> None:
        """Take over what `tensors` and `numbers` gave; ValueError if those are of other networks."""
        device = self.centres.device
        for name in ("centres", "weights", "potentials"):
            own, given = tuple(getattr(self, name).shape), tuple(tensors[name].shape)
            if own != given:
                raise ValueError(
                    f"{name} have shape {given} in the file and {own} by the parameters: give those of the file"
                )
        parts = {name.removeprefix("members."): t for name, t in tensors.items() if name.startswith("members.")}
        try:
            self.members.load_state_dict(parts)
        except RuntimeError as error:
            raise ValueError(f"encoder is not the one of the file ({error}): give one of the same layers") from None
        with torch.no_grad():
            self.centres.copy_(tensors["centres"])
        self.weights, self.potentials = tensors["weights"].to(device), tensors["potentials"].to(device)
        self.bank = tensors["bank"].to(device) if "bank" in tensors else None
        for name, value in numbers.items():
            setattr(self, name, value)
        kept = self.optimiser.state_dict()
        moments: dict[int, dict[str, Tensor]] = {}
        for name, value in tensors.items():
            if name.startswith("optimiser."):
                _, i, part = name.split(".", 2)
                moments.setdefault(int(i), {})[part] = value
        self.optimiser.load_state_dict({"state": moments, "param_groups": kept["param_groups"]})


def new_state(
    networks: Sequence[Autoencoder], shape: tuple[int, ...], options: Options, device: torch.device, weights: Any = None
) -> State:
    """The state before any training, for inputs of ``shape`` and sizes ``weights`` (K,), default uniform."""
    S, K = len(networks), options.n_clusters
    networks = [network.cpu().float() for network in networks]
    d = code_size(networks[0], shape)
    group = members(networks).to(device)
    w = np.full(K, 1 / K) if weights is None else np.asarray(weights, float)
    columns = K if options.rule is None else len(options.rule.extend(w))
    centres = nn.Parameter(torch.zeros(S, K, d, dtype=torch.float32, device=device))
    return State(
        members=group,
        centres=centres,
        weights=torch.tensor(w, device=device).expand(S, K).clone(),
        potentials=torch.zeros(S, columns, dtype=torch.float64, device=device),
        optimiser=new_optimiser(group, centres, options),
    )


def code_size(network: Autoencoder, shape: tuple[int, ...]) -> int:
    """Numbers in a code; ValueError unless rows of ``shape`` go to vectors, and those back to rows."""
    was_training, x = network.training, torch.zeros(2, *shape, dtype=torch.float32)
    network.eval()
    try:
        with torch.no_grad():
            z, back = network(x)
    except (RuntimeError, TypeError, AttributeError, IndexError, ValueError) as error:
        raise ValueError(
            f"encoder does not take rows of shape {shape}, or the decoder its codes ({error}); the encoder must map a tensor "
            "(m, *shape) to one tensor (m, d), and the decoder that to (m, *shape)"
        ) from None
    network.train(was_training)
    if z.ndim != 2 or len(z) != 2:
        raise ValueError(
            f"encoder gives codes of shape {tuple(z.shape)} for two rows; it must map (m, *shape) to (m, d)"
        )
    if back is not None and back.shape != x.shape:
        raise ValueError(
            f"decoder gives shape {tuple(back.shape)} for two rows of shape {shape}; it must map codes (m, d) to (m, *shape): "
            "end it with nn.Unflatten"
        )
    return int(z.shape[1])


def new_optimiser(members: Members, centres: nn.Parameter, options: Options) -> torch.optim.Optimizer:
    """Adam (Kingma & Ba 2015), as in Genevay, Dulac-Arnold & Vert 2019."""
    return torch.optim.Adam([*members.parameters(), centres], lr=options.learning_rate, fused=True)
