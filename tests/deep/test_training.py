"""The course of a training: gradients, sizes, centres and epsilon, whatever is around it and however it is cut short."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from sinkhorn_em.deep import DeepTransportClustering, Options  # noqa: E402
from sinkhorn_em.deep.centres import first_centres  # noqa: E402
from sinkhorn_em.deep.side_by_side import train_seeds  # noqa: E402
from sinkhorn_em.metrics import clustering_accuracy  # noqa: E402


@pytest.fixture(scope="module")
def blobs():
    """Clusters of 20, 20 and 60 rows, in this order."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], (20, 20, 60))
    return (rng.normal(size=(100, 3)) * 0.3 + 4 * np.eye(3)[y]).astype(np.float32), y


def estimator(**options):
    few = {"pretrain_epochs": 2, "epochs": 4, "batch_size": 50, "n_codes": 2, "device": "cpu", "random_state": 0}
    return DeepTransportClustering(**({"n_clusters": 3} | few | options))


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_training_trains_where_gradients_are_off(blobs, mode):
    whole = estimator().fit(blobs[0])
    with mode():
        within = estimator().fit(torch.tensor(blobs[0]))
        within.partial_fit(torch.tensor(blobs[0]))
    np.testing.assert_array_equal(whole.partial_fit(blobs[0]).cluster_centers_, within.cluster_centers_)


def test_sizes_do_not_depend_on_the_order_of_the_rows(blobs):
    """30 000 rows sorted by class: the largest size goes to the largest cluster, which comes last."""
    X, y = np.repeat(blobs[0], 300, axis=0), np.repeat(blobs[1], 300)
    model = estimator(encoder="identity", weights=[0.6, 0.2, 0.2], pretrain_epochs=0, epochs=0).fit(X)
    assert model.weights_[model.labels_[-1]] == 0.6
    assert clustering_accuracy(y, model.labels_) == 1.0


def test_learned_sizes_stay_uniform_in_the_first_half_of_partial_fits_too(blobs):
    model = estimator(encoder="identity", weights="learned", epochs=4)
    sizes = [model.partial_fit(blobs[0]).weights_ for _ in range(4)]
    np.testing.assert_allclose(sizes[:2], 1 / 3, rtol=1e-12)
    assert sizes[3].max() > 0.4


def test_annealing_is_the_same_in_partial_fits_and_ends_where_it_was_stopped(blobs):
    options = {
        "encoder": "identity",
        "pretrain_epochs": 0,
        "epsilon": 0.5,
        "final_epsilon": 0.004,
        "epsilon_mode": "absolute",
    }
    whole = estimator(**options).fit(blobs[0])
    pieces = estimator(**options)
    for _ in range(5):
        pieces.partial_fit(blobs[0])
    np.testing.assert_array_equal(pieces.history_["epsilon"][:4], whole.history_["epsilon"])
    np.testing.assert_allclose(whole.history_["epsilon"], [0.5, 0.1, 0.02, 0.004])
    assert pieces.history_["epsilon"].iloc[4] == pytest.approx(0.004)
    stopped = estimator(**options, callbacks=[lambda model, row: row["epoch"] == 2]).fit(blobs[0])
    assert stopped.epsilon_ == pytest.approx(0.1)


def test_centres_are_placed_once_and_always(blobs):
    early = estimator(callbacks=[lambda model, row: True]).fit(blobs[0])
    assert (early.n_iter_, len(np.unique(early.cluster_centers_, axis=0))) == (1, 3)
    only = estimator(encoder="identity", pretrain_epochs=0, epochs=0).fit(blobs[0])
    before = only.cluster_centers_
    only.set_params(learning_rate=1e-9).partial_fit(blobs[0][[0, 25, 70]])
    np.testing.assert_allclose(only.cluster_centers_, before, atol=1e-6)


def test_what_has_no_weight_is_not_computed(blobs):
    calls = []

    class Decoder(torch.nn.Linear):
        def forward(self, x):
            calls.append(len(x))
            return super().forward(x)

    networks = {"encoder": torch.nn.Linear(3, 2), "decoder": Decoder(2, 3)}
    views = {"augment": lambda x: pytest.fail("a view was drawn"), "consistency_weight": 0.0}
    model = estimator(**networks, **views, reconstruction_weight=0.0, pretrain_epochs=0).fit(blobs[0])
    model.predict(blobs[0])
    model.transform(blobs[0])
    assert calls == [2]  # when its shape was checked


def test_the_mixture_finds_ellipses_where_k_means_cuts_them():
    """Three long clusters side by side: centres of a mixture with the sizes held are theirs."""
    rng = np.random.default_rng(1)
    y = np.repeat([0, 1, 2], 200)
    Z = rng.normal(size=(600, 2)) * (6.0, 0.25) + np.c_[np.zeros(600), 2.0 * y]
    codes, w = torch.tensor(Z, dtype=torch.float32)[None], torch.full((1, 3), 1 / 3, dtype=torch.float64)
    true = np.array([Z[y == k].mean(0) for k in range(3)])
    away = {}
    for way in ("mixture", "kmeans"):
        found = first_centres(codes, w, Options(3, centres=way), [[0, 0]])[0].double().numpy()
        away[way] = np.abs(found[np.argsort(found[:, 1])] - true).max()
    assert away["mixture"] < 0.1
    assert away["kmeans"] > 2


def test_a_mixture_of_codes_that_it_cannot_tell_apart_says_what_to_do():
    with pytest.warns(match=r"centres is 'mixture', and the mixture of the codes says: .* centres='kmeans' asks less"):
        first_centres(torch.ones(1, 20, 3), torch.full((1, 3), 1 / 3), Options(3, centres="mixture"), [[0, 0]])


def test_seeds_side_by_side_may_start_from_a_mixture(blobs):
    options = Options(3, centres="mixture", pretrain_epochs=3, epochs=1, batch_size=50)
    trained = train_seeds(torch.tensor(blobs[0]), options, [1, 2], n_codes=2, y=blobs[1])
    assert trained.labels.shape == (2, 100)
    assert trained.history["accuracy"].notna().sum() == 2


@pytest.mark.parametrize("encoder", ["identity", "linear", "cosine"])
def test_heads_keep_what_embeddings_tell(encoder):
    """Unequal clusters of directions in 16 dimensions: a head starts at the principal components and stays with the data."""
    rng = np.random.default_rng(0)
    sizes = [200, 120, 60, 20]
    y = np.repeat(range(4), sizes)
    X = rng.normal(size=(400, 16)) + 6 * np.linalg.qr(rng.normal(size=(16, 4)))[0].T[y]
    model = estimator(
        encoder=encoder, weights=np.array(sizes) / 400, n_codes=4, pretrain_epochs=0, epochs=10, n_clusters=4
    )
    assert clustering_accuracy(y, model.fit(X).labels_) > 0.95


def test_nothing_is_pretrained_where_nothing_is_reconstructed(blobs):
    for options in ({"encoder": "identity"}, {"reconstruction_weight": 0.0}):
        assert set(estimator(**options, pretrain_epochs=5).fit(blobs[0]).history_.phase) == {"cluster"}
