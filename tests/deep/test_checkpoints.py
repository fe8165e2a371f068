"""A training that is killed and resumed gives the same bits; files hold no code."""

import functools
import json

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

torch = pytest.importorskip("torch")
safetensors = pytest.importorskip("safetensors.torch")

from safetensors import safe_open  # noqa: E402

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
        assert len(after) == whole.n_iter_ - (epoch - 1)
        assert [file.name for file in folder.iterdir()] == ([FILE] if len(after) else [])


def test_a_finished_run_is_taken_as_it_is(rows, tmp_path):
    first = estimator(checkpoint_dir=tmp_path).fit(rows)
    again = estimator(checkpoint_dir=tmp_path, callbacks=[lambda model, row: pytest.fail("trained again")])
    assert_same(first, again.fit(rows))


class Rows(torch.utils.data.Dataset):
    """A Dataset of float64 rows; with ``noise`` it draws another view every time."""

    def __init__(self, X, noise=0.0):
        self.X, self.noise = X, noise

    def __len__(self):
        return len(self.X)

    def __getitem__(self, i):
        return self.X[i] + self.noise * np.random.default_rng().normal(size=self.X.shape[1])


def test_a_dataset_gives_the_bits_of_its_array_and_its_checkpoint_knows_it(rows, tmp_path):
    before = torch.random.get_rng_state()
    model = estimator(checkpoint_dir=tmp_path / "a").fit(Rows(rows))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert_same(model, estimator().fit(rows))
    with pytest.raises(ValueError, match="differs in data"):
        estimator(checkpoint_dir=tmp_path / "a").fit(Rows(rows + 1))
    estimator(checkpoint_dir=tmp_path / "b").fit(Rows(rows, 0.01))
    estimator(checkpoint_dir=tmp_path / "b", callbacks=[lambda model, row: pytest.fail("trained again")]).fit(
        Rows(rows, 0.01)
    )


def test_a_checkpoint_knows_objects_by_what_they_are_and_not_by_where(rows, tmp_path):
    views = {"augment": functools.partial(jitter), "consistency_weight": 1.0}
    estimator(checkpoint_dir=tmp_path / "a", **views).fit(rows)
    views["augment"] = functools.partial(jitter)
    estimator(checkpoint_dir=tmp_path / "a", **views).fit(rows)
    for seed, told in ((1, None), (2, "differs in parameters")):
        torch.manual_seed(seed)
        model = estimator(encoder=torch.nn.Linear(6, 2), checkpoint_dir=tmp_path / "b")
        if told is None:
            model.fit(rows)
        else:
            with pytest.raises(ValueError, match=told):
                model.fit(rows)


def test_a_run_that_was_stopped_is_taken_as_it_is_and_says_so(rows, tmp_path):
    stop = [lambda model, row: row["phase"] == "cluster"]
    first = estimator(checkpoint_dir=tmp_path, callbacks=stop).fit(rows)
    with pytest.warns(UserWarning, match="stopped after 3 epochs; it is taken as it is"):
        again = estimator(checkpoint_dir=tmp_path).fit(rows)
    assert_same(first, again)
    with pytest.raises(FileNotFoundError, match="its folder does not exist"):
        first.save(tmp_path / "nowhere" / "model")


def test_a_checkpoint_of_other_data_or_parameters_is_refused(rows, tmp_path):
    estimator(checkpoint_dir=tmp_path).fit(rows)
    with pytest.raises(ValueError, match=r"differs in data.*another folder"):
        estimator(checkpoint_dir=tmp_path).fit(rows + 1)
    with pytest.raises(ValueError, match=r"differs in parameters \(epsilon\)"):
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


def test_tables_and_generators_among_the_parameters_go_through_a_file(rows, tmp_path):
    path, table = tmp_path / "model", pd.DataFrame(rows, columns=list("abcdef"))
    model = estimator(weights=pd.Series([0.5, 0.25, 0.25]), random_state=np.random.RandomState(0)).fit(table)
    model.save(path)
    loaded = DeepTransportClustering.load(path)
    np.testing.assert_array_equal(loaded.predict(table), model.predict(table))
    assert list(loaded.feature_names_in_) == list("abcdef")
    clone(loaded).fit(table)


def test_a_file_is_read_by_the_estimator_it_is_of(rows, tmp_path):
    estimator(checkpoint_dir=tmp_path).fit(rows).save(tmp_path / "model")
    with pytest.raises(ValueError, match="checkpoint of a run and no saved model"):
        DeepTransportClustering.load(tmp_path / FILE)
    with pytest.raises(ValueError, match=r"centres have shape \(1, 3, 2\) in the file and \(1, 5, 2\)"):
        DeepTransportClustering.load(tmp_path / "model", n_clusters=5)
    with pytest.raises(ValueError, match="encoder is not the one of the file"):
        DeepTransportClustering.load(tmp_path / "model", encoder="linear")


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
    with safe_open(path, framework="pt") as file:
        header = json.loads(file.metadata()["sinkhorn_em"])
    assert set(header) == {"format", "sum", "numbers", "facts"}
    whole = path.read_bytes()
    path.write_bytes(whole[:-100])
    with pytest.raises(ValueError, match=r"cannot be read|no file of this package"):
        DeepTransportClustering.load(path)
    path.write_bytes(whole[:-100] + bytes([whole[-100] ^ 64]) + whole[-99:])
    with pytest.raises(ValueError, match=r"is damaged.*checksum"):
        DeepTransportClustering.load(path)
    safetensors.save_file({"x": torch.zeros(2)}, path, metadata={"sinkhorn_em": "{}"})
    with pytest.raises(ValueError, match="has format None; this version reads format 1"):
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
