"""Mistakes are named before any training starts."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.utils.data import TensorDataset  # noqa: E402

from sinkhorn_em.deep import DeepTransportClustering, Options  # noqa: E402
from sinkhorn_em.deep.networks import build  # noqa: E402

X = np.random.default_rng(0).normal(size=(20, 4))


def never(model, row):
    pytest.fail("training started")


def fit(X=X, y=None, **options):
    few = {"pretrain_epochs": 1, "epochs": 1, "device": "cpu", "random_state": 0, "callbacks": [never]}
    DeepTransportClustering(**({"n_clusters": 3} | few | options)).fit(X, y)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_clusters": 0}, "n_clusters is 0"),
        ({"n_clusters": 21}, r"n_clusters is 21 and X has 20 rows.*lower n_clusters"),
        ({"n_codes": 0}, "n_codes is 0"),
        ({"weights": [0.5, 0.4, 0.2]}, "weights"),
        ({"weights": [0.5, 0.5]}, "weights"),
        ({"weights": "equal"}, "weights is 'equal'"),
        ({"batch_size": 1}, "batch_size is 1"),
        ({"encoder": "resnet"}, "encoder is 'resnet'"),
        ({"encoder": "conv"}, "encoder='conv' needs"),
        ({"encoder": torch.nn.Linear(7, 2)}, "encoder does not take rows of shape"),
        ({"loss": "ot"}, "loss is 'ot'"),
        ({"epsilon": 0.0}, r"epsilon is 0\.0"),
        ({"epsilon": float("nan")}, "epsilon is nan"),
        ({"final_epsilon": -1.0}, "final_epsilon"),
        ({"tau": 1.5}, r"tau is 1\.5"),
        ({"loss": "dkm", "tau": 0.5}, "without meaning for loss='dkm'"),
        ({"loss": "soft_kmeans", "weights": "learned"}, "sizes are learned with loss='transport' only"),
        ({"value": "sharp"}, "gradient is 'envelope' and value is 'sharp'"),
        ({"dual": "global", "value": "sharp", "gradient": "implicit"}, "dual is 'global'"),
        ({"consistency_weight": 1.0}, "without augment"),
        ({"augment": 3}, "augment is 3"),
        ({"patience": 0}, "patience is 0"),
        ({"epochs": -1}, "epochs is -1"),
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"precision": "float16"}, "precision is 'float16'"),
        ({"assign_by": "rows"}, "assign_by is 'rows'"),
        ({"device": "cuda:7"}, r"device is 'cuda:7', which cannot be used"),
        ({"device": "gpu"}, "device is 'gpu'"),
        ({"callbacks": [1]}, "callbacks"),
    ],
)
def test_options_are_checked(options, message):
    with pytest.raises(ValueError, match=message):
        fit(**options)


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (np.where(np.arange(80).reshape(20, 4) == 7, np.nan, X), None, "NaN"),
        (torch.tensor(np.where(np.arange(80).reshape(20, 4) == 7, np.nan, X)), None, r"X\[1, 3\] is nan"),
        (np.full((20, 3, 3), np.inf), None, "infinity"),
        (TensorDataset(torch.full((20, 4), float("nan"))), None, r"X\[0, 0\] is nan"),
        (torch.zeros(20), None, r"tensor of shape \(20,\)"),
        (X[:1], None, "1 sample"),
        (X, np.zeros(19), "y has shape"),
        (X, np.zeros((20, 2)), "y has shape"),
    ],
)
def test_data_are_checked(X, y, message):
    with pytest.raises(ValueError, match=message):
        fit(X, y)


def test_options_are_checked_where_they_are_made():
    with pytest.raises(ValueError, match=r"halve_every is 0; it must be an integer of at least 1"):
        Options(3, halve_every=0)
    with pytest.raises(ValueError, match="shape"):
        build("conv", (5,), 3)
