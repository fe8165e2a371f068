"""The estimator of deep clustering keeps scikit-learn's contract, on arrays, tensors, Datasets and images of any shape."""

import numpy as np
import pandas as pd
import pytest

torch = pytest.importorskip("torch")

from sklearn.base import clone  # noqa: E402
from sklearn.utils.estimator_checks import parametrize_with_checks  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

from sinkhorn_em.deep import DeepTransportClustering  # noqa: E402

FLOAT32 = "codes are in single precision: the same row at another place of the batch may differ in the last bits"


def estimator(**options):
    few = {"pretrain_epochs": 1, "epochs": 3, "batch_size": 100, "device": "cpu", "random_state": 0}
    return DeepTransportClustering(3, **(few | options))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # tiny data leave clusters empty
@parametrize_with_checks(
    [estimator()], expected_failed_checks=lambda _: {"check_methods_sample_order_invariance": FLOAT32}
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    return np.concatenate([rng.normal(c, 0.3, (40, 12)) for c in (-1, 0, 1)])


def test_the_code_of_a_row_does_not_depend_on_the_others(rows):
    model = estimator().fit(rows)
    alone = np.concatenate([model.transform(rows[i : i + 1]) for i in range(10)])
    np.testing.assert_allclose(alone, model.transform(rows)[:10], rtol=0, atol=1e-5)  # single precision
    np.testing.assert_array_equal([model.predict(rows[i : i + 1])[0] for i in range(10)], model.predict(rows)[:10])


def test_arrays_frames_and_tensors_give_the_same_bits(rows):
    fits = [estimator().fit(X) for X in (rows, pd.DataFrame(rows).rename(columns=str), torch.tensor(rows))]
    for other in fits[1:]:
        np.testing.assert_array_equal(fits[0].cluster_centers_, other.cluster_centers_)
        np.testing.assert_array_equal(fits[0].labels_, other.labels_)


def test_datasets_and_loaders_are_taken(rows):
    data = TensorDataset(torch.tensor(rows), torch.zeros(len(rows)))
    loader = DataLoader(data, batch_size=30, shuffle=True)
    for given in (data, loader):
        first, second = estimator(epochs=2).fit(given), estimator(epochs=2).fit(given)
        np.testing.assert_array_equal(first.labels_, second.labels_)  # the same seed: the same order of the rows
        assert first.labels_.shape == (len(rows),)
        np.testing.assert_array_equal(first.predict(given), first.predict(rows))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # two steps from a random network
@pytest.mark.parametrize("encoder", ["mlp", "conv"])
@pytest.mark.parametrize("shape", [(9, 7), (1, 8, 8), (3, 6, 11)])
def test_images_of_any_shape(encoder, shape):
    rng = np.random.default_rng(0)
    images = np.repeat(rng.random((3, *shape)), 20, axis=0) + 0.1 * rng.random((60, *shape))
    model = estimator(encoder=encoder, epochs=1, n_codes=4).fit(images)
    assert model.transform(images).shape == (60, 4)
    assert model.n_features_in_ == np.prod(shape)
    clustering = model.history_[model.history_.phase == "cluster"]
    assert np.isfinite(clustering.select_dtypes("number")).all(axis=None)
    with pytest.raises(ValueError, match="shape"):
        model.predict(images.reshape(60, -1)[:, :-1].reshape(60, 1, -1))


def test_modules_of_ones_own_are_used_and_left_as_they_were(rows):
    encoder, decoder = torch.nn.Linear(12, 3), torch.nn.Linear(3, 12)
    before = encoder.weight.detach().clone()
    model = estimator(encoder=encoder, decoder=decoder).fit(rows)
    assert torch.equal(encoder.weight, before)
    assert model.cluster_centers_.shape == (3, 3)
    assert (model.history_["reconstruction"] > 0).all()
    assert clone(model).encoder is not None


def test_classes_are_for_monitoring_only(rows):
    y = np.repeat(["a", "b", "c"], 40)
    with_classes, without = estimator().fit(rows, y), estimator().fit(rows)
    np.testing.assert_array_equal(with_classes.cluster_centers_, without.cluster_centers_)
    accuracy = with_classes.history_.set_index("phase").accuracy
    assert accuracy["cluster"].between(1 / 3, 1).all()
    assert np.isnan(accuracy["pretrain"])
    assert "accuracy" not in without.history_


def test_partial_fit_places_centres_then_adds_epochs(rows):
    model = estimator(encoder="identity")
    model.partial_fit(rows)
    centres = model.cluster_centers_
    model.partial_fit(rows[::2])
    assert list(model.history_.epoch) == [1, 2]
    assert not np.array_equal(centres, model.cluster_centers_)
    assert len(model.labels_) == 60


def test_the_history_is_a_table_with_residual_passes_and_entropy(rows):
    model = estimator(epochs=2, pretrain_epochs=2).fit(rows)
    table = model.history_
    assert list(table.phase) == ["pretrain", "pretrain", "cluster", "cluster"]
    assert list(table.epoch) == [1, 2, 1, 2]
    clustering = table[table.phase == "cluster"]
    assert (clustering.marginal_error < 1e-6).all()
    assert clustering.plan_entropy.between(0, np.log(3)).all()
    assert (clustering.n_passes >= 1).all()
    assert model.n_iter_ == 4


def test_progress_shows_loss_residual_entropy_and_accuracy(rows, capsys):
    estimator(verbose=1).fit(rows, np.repeat([0, 1, 2], 40))
    shown = capsys.readouterr().err
    for name in ("loss=", "residual=", "entropy=", "accuracy="):
        assert name in shown
