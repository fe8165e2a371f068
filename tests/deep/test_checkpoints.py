"""A training that is killed and resumed gives the same bits; files hold no code."""

import json

import numpy as np
import pandas as pd
import pytest

torch = pytest.importorskip("torch")
safetensors = pytest.importorskip("safetensors")

from sinkhorn_em.deep import DeepTransportClustering  # noqa: E402
from sinkhorn_em.deep.checkpoints import FILE  # noqa: E402
from sinkhorn_em.ot import BoundedMass  # noqa: E402


class Kill(Exception):
    pass


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    return np.concatenate([rng.normal(c, 0.4, (n, 6)) for c, n in ((-1, 60), (0, 30), (1, 30))])


def jitter(x):
    return x + 0.05 * torch.randn_like(x)


def estimator(**options):
    few = {"pretrain_epochs": 2, "epochs": 4, "batch_size": 40, "n_codes": 2, "device": "cpu", "random_state": 0}
    return DeepTransportClustering(3, **(few | options))


VARIANTS = {
    "plain": {},
    "learned sizes": {"weights": "learned"},
    "unequal sizes, early centres": {"weights": [0.5, 0.3, 0.2], "centres": "random_encoder"},
    "global potentials, views": {"dual": "global", "augment": jitter, "consistency_weight": 1.0},
    "bank, dropout": {
        "dual": "bank",
        "bank_size": 60,
        "encoder": torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.Dropout(0.2), torch.nn.Linear(4, 2)),
    },
    "batch normalisation": {"encoder": torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.BatchNorm1d(4))},
}


def assert_same(a, b):
    np.testing.assert_array_equal(a.labels_, b.labels_)
    np.testing.assert_array_equal(a.cluster_centers_, b.cluster_centers_)
    np.testing.assert_array_equal(a.potentials_, b.potentials_)
    pd.testing.assert_frame_equal(a.history_, b.history_, check_exact=True)
    for p, q in zip(a._state.parameters(), b._state.parameters(), strict=True):
        assert torch.equal(p, q)


@pytest.mark.parametrize("name", VARIANTS)
def test_a_run_killed_after_any_epoch_goes_on_to_the_same_bits(rows, tmp_path, name):
    options = VARIANTS[name]
    whole = estimator(**options).fit(rows)
    for epoch in (1, 2, 4):
        folder = tmp_path / str(epoch)
        seen = []

        def kill(model, row, seen=seen, epoch=epoch):
            seen.append(row)
            if len(seen) == epoch:
                raise Kill

        with pytest.raises(Kill):  # in the midst of an epoch's end: its own checkpoint is not written
            estimator(**options, checkpoint_dir=folder, callbacks=[kill]).fit(rows)
        resumed = estimator(**options, checkpoint_dir=folder)
        after = []
        resumed.set_params(callbacks=[lambda model, row, after=after: after.append(row)])
        assert_same(whole, resumed.fit(rows))
        assert len(after) == 6 - (epoch - 1)
        assert not list(folder.glob("*.tmp"))


def test_a_finished_run_is_taken_as_it_is(rows, tmp_path):
    first = estimator(checkpoint_dir=tmp_path).fit(rows)
    again = estimator(checkpoint_dir=tmp_path, callbacks=[lambda model, row: pytest.fail("trained again")])
    assert_same(first, again.fit(rows))


def test_a_checkpoint_of_other_data_or_parameters_is_refused(rows, tmp_path):
    estimator(checkpoint_dir=tmp_path).fit(rows)
    with pytest.raises(ValueError, match=r"differs in data.*another folder"):
        estimator(checkpoint_dir=tmp_path).fit(rows + 1)
    with pytest.raises(ValueError, match="differs in parameters"):
        estimator(checkpoint_dir=tmp_path, epsilon=0.1).fit(rows)
    with pytest.raises(ValueError, match="random_state is None with checkpoint_dir"):
        estimator(checkpoint_dir=tmp_path, random_state=None).fit(rows)


def test_save_and_load_give_the_same_predictions(rows, tmp_path):
    path = tmp_path / "model.safetensors"
    model = estimator(assign_by="potential", weights=np.array([0.5, 0.3, 0.2])).fit(rows)
    model.save(path)
    loaded = DeepTransportClustering.load(path)
    np.testing.assert_array_equal(loaded.predict(rows), model.predict(rows))
    np.testing.assert_array_equal(loaded.predict_proba(rows), model.predict_proba(rows))
    np.testing.assert_array_equal(loaded.transform(rows), model.transform(rows))
    assert loaded.score(rows) == model.score(rows)
    pd.testing.assert_frame_equal(loaded.history_, model.history_)
    assert loaded.epsilon_ == model.epsilon_
    loaded.partial_fit(rows)
    assert loaded.n_iter_ == model.n_iter_ + 1


def test_objects_are_given_again_to_load(rows, tmp_path):
    path, rule = tmp_path / "model.safetensors", BoundedMass(0.1, 0.6)
    model = estimator(rule=rule).fit(rows)
    model.save(path)
    with pytest.raises(ValueError, match="rule"):
        DeepTransportClustering.load(path)
    np.testing.assert_array_equal(DeepTransportClustering.load(path, rule=rule).predict(rows), model.predict(rows))


def test_a_file_is_tensors_and_json_and_a_damaged_one_is_refused(rows, tmp_path):
    path = tmp_path / "model.safetensors"
    estimator(epochs=1).fit(rows).save(path)
    with safetensors.safe_open(path, framework="pt") as file:
        header = json.loads(file.metadata()["sinkhorn_em"])
    assert set(header) == {"format", "numbers", "facts"}
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"cannot be read|no file of this package"):
        DeepTransportClustering.load(path)
    with pytest.raises(FileNotFoundError, match="no such file"):
        DeepTransportClustering.load(tmp_path / "nothing")


def test_checkpoints_are_replaced_in_one_step(rows, tmp_path):
    sizes = []
    estimator(
        checkpoint_dir=tmp_path,
        callbacks=[lambda model, row: sizes.append((tmp_path / FILE).stat().st_size if sizes else 1)],
    ).fit(rows)
    assert len(sizes) == 6
    assert (tmp_path / FILE).is_file()
