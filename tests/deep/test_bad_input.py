"""Mistakes are named before any training starts."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset  # noqa: E402

from sinkhorn_em.deep import DeepTransportClustering, Options  # noqa: E402
from sinkhorn_em.deep.augment import RandomAffine  # noqa: E402
from sinkhorn_em.deep.networks import build  # noqa: E402
from sinkhorn_em.deep.side_by_side import train_seeds  # noqa: E402
from sinkhorn_em.ot import BoundedMass  # noqa: E402

X = np.random.default_rng(0).normal(size=(20, 4))


class Words(Dataset):
    """Items that are no rows."""

    def __len__(self):
        return 20

    def __getitem__(self, i):
        return {"image": torch.zeros(4)}


class Stream(IterableDataset):
    """Items without number."""

    def __iter__(self):
        return iter(torch.zeros(20, 4))


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
        ({"weights": None}, "weights is None; it must be 'uniform'"),
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
        ({"callbacks": print}, r"callbacks is <built-in function print>; it must be a sequence"),
        ({"rule": "fixed"}, "rule is 'fixed'; it must be a rule object"),
        ({"rule": BoundedMass(0.1, 0.6), "tau": 0.5}, r"rule and tau=0\.5 are given"),
        ({"kmeans_rows": 2}, "kmeans_rows is 2 and n_clusters is 3"),
        ({"weights": [0.5, 0.3, 0.2], "loss": "soft_kmeans"}, "sizes are held with loss='transport' only"),
        ({"decoder": torch.nn.Linear(2, 4)}, "decoder is Linear with encoder='mlp'"),
        ({"encoder": torch.nn.Linear(4, 2), "decoder": torch.nn.Linear(2, 1)}, r"decoder gives shape \(2, 1\)"),
        ({"encoder": torch.nn.LSTM(4, 2)}, "encoder does not take rows of shape .* one tensor"),
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
        (torch.full((20, 4), 1e200, dtype=torch.float64), None, r"X\[0, 0\] is inf in float32.*scale X down"),
        (DataLoader(TensorDataset(torch.zeros(20, 4)), batch_size=1), None, "whose batches have 1 row"),
        (DataLoader(TensorDataset(torch.zeros(3, 4)), batch_size=9, drop_last=True), None, r"0 sample\(s\) to give"),
        (Words(), None, "gives batches of dict"),
        (Stream(), None, "IterableDataset; rows are visited more than once"),
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


@pytest.mark.parametrize(
    ("X", "options", "message"),
    [
        (torch.full((20, 4), torch.nan), {}, r"X\[0, 0\] is nan"),
        (torch.zeros(2, 4), {}, r"X has 2 sample\(s\); there must be at least 3"),
        (torch.zeros(20, 4), {"y": [0, 1]}, "y has shape"),
        (torch.zeros(20, 4), {"weights": [0.5, 0.5]}, "weights"),
        (torch.zeros(20, 4), {"encoder": "resnet"}, "encoder is 'resnet'"),
        (torch.zeros(20, 4), {"device": "gpu"}, "device is 'gpu'"),
    ],
)
def test_seeds_side_by_side_are_checked_too(X, options, message):
    with pytest.raises(ValueError, match=message):
        train_seeds(X, Options(3, pretrain_epochs=1, epochs=1), [0, 1], **options)


def few(**options):
    return DeepTransportClustering(3, pretrain_epochs=1, epochs=2, n_codes=2, device="cpu", random_state=0, **options)


def test_a_training_that_diverges_says_so_and_leaves_the_estimator_as_it_was():
    with pytest.raises(FloatingPointError, match=r"is (nan|inf|not finite).*diverged; lower learning_rate"):
        few(learning_rate=1e30).fit(X)
    model = few().fit(X)
    labels, proba = model.labels_.copy(), model.predict_proba(X)
    for refused, method in ((X[:2, :3], "fit"), (X[:, :3], "partial_fit"), (X * np.nan, "partial_fit")):
        with pytest.raises(ValueError):
            getattr(model, method)(refused)
    model.set_params(learning_rate=1e30)
    for method in ("partial_fit", "fit"):
        with pytest.raises(FloatingPointError):
            getattr(model, method)(X)
    model.set_params(callbacks=[never])
    with pytest.raises(pytest.fail.Exception):
        model.fit(X + 1)
    np.testing.assert_array_equal(model.labels_, labels)
    np.testing.assert_array_equal(model.predict(X), labels)
    np.testing.assert_array_equal(model.predict_proba(X), proba)
    failed = few(callbacks=[never])
    with pytest.raises(pytest.fail.Exception):
        failed.fit(X)
    with pytest.raises(NotFittedError):
        failed.predict(X)


def test_the_number_of_clusters_stays_in_partial_fit():
    model = few().fit(X).set_params(n_clusters=4)
    with pytest.raises(ValueError, match="n_clusters is 4 and the fitted model has 3 clusters"):
        model.partial_fit(X)


def test_channels_that_come_last_are_refused():
    images = np.zeros((20, 8, 8, 3), np.float32)
    with pytest.raises(ValueError, match=r"channels seem to come last.*np.moveaxis\(images, -1, 1\)"):
        fit(images, encoder="conv")
    with pytest.raises(ValueError, match="channels seem to come last"):
        RandomAffine()(torch.as_tensor(images))
