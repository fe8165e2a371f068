"""What deep clustering finds: sizes that are held, handed out and learned; losses; labels that do not depend on the batch."""

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

torch = pytest.importorskip("torch")

from sinkhorn_em.deep import DeepTransportClustering, Options, train_seeds  # noqa: E402
from sinkhorn_em.deep.networks import build_from  # noqa: E402
from sinkhorn_em.metrics import clustering_accuracy  # noqa: E402
from sinkhorn_em.ot import BoundedMass, solve_plan  # noqa: E402


def embedded(K=3, **options):
    few = {
        "pretrain_epochs": 0,
        "epochs": 15,
        "encoder": "identity",
        "batch_size": 100,
        "device": "cpu",
        "random_state": 0,
    }
    return DeepTransportClustering(K, **(few | options))


def blobs(sizes, spread=0.5, distance=2.0, seed=0):
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(len(sizes)), sizes)
    return distance * np.eye(len(sizes))[y] + spread * rng.normal(size=(len(y), len(sizes))), y


@pytest.fixture(scope="module")
def digits():
    data = load_digits()
    return data.data / 16, data.target


def test_it_finds_the_digits_better_than_k_means_of_pixels_starts(digits):
    X, y = digits
    model = DeepTransportClustering(
        10, pretrain_epochs=20, epochs=10, batch_size=100, device="cpu", random_state=0
    ).fit(X, y)
    assert clustering_accuracy(y, model.labels_) > 0.7  # chance: 0.1; five other seeds: 0.72 to 0.84
    assert model.history_.accuracy.iloc[-1] == clustering_accuracy(y, model.labels_)


@pytest.mark.parametrize("loss", ["transport", "soft_kmeans", "dkm", "kmeans"])
def test_every_loss_falls_and_finds_blobs(loss):
    X, y = blobs([60, 60, 60])
    model = embedded(loss=loss, learning_rate=0.02).fit(X)
    assert clustering_accuracy(y, model.labels_) > 0.95
    start = embedded(loss=loss, epochs=0).fit(X)
    np.testing.assert_allclose(start.cluster_centers_, model.cluster_centers_, atol=0.5)


def test_without_epochs_it_is_an_autoencoder_then_k_means():
    X, _ = blobs([60, 60, 60])
    model = embedded(encoder="linear", n_codes=2, pretrain_epochs=10, epochs=0).fit(X)
    assert set(model.history_.phase) == {"pretrain"}
    Z = model.transform(X)
    inertia = np.square(Z - model.cluster_centers_[model.labels_]).sum()
    assert inertia == pytest.approx(KMeans(3, n_init=10, random_state=1).fit(Z).inertia_, rel=1e-3)


@pytest.mark.parametrize("dual", ["batch", "global", "bank"])
def test_uniform_sizes_are_held_where_blobs_overlap(dual):
    X, _ = blobs([200, 60, 40], spread=1.0)
    held = embedded(dual=dual, epochs=20, bank_size=300, batch_size=100).fit(X)
    mass = held.predict_proba(X).mean(axis=0)
    np.testing.assert_allclose(mass, 1 / 3, atol=1e-6)  # the potentials are those of the plan of all rows
    assert held.marginal_error_ < 1e-9
    if dual == "global":  # an average over batches: no batch of its own meets the sizes
        assert held.history_.marginal_error.iloc[-1] < 0.3


@pytest.mark.parametrize("seed", range(4))
def test_the_larger_prior_goes_to_the_larger_cluster(seed):
    X, y = blobs([210, 60, 30], seed=seed)
    weights = np.random.default_rng(seed).permutation([0.7, 0.2, 0.1])
    model = embedded(weights=weights, random_state=seed).fit(X)
    assert clustering_accuracy(y, model.labels_) > 0.93
    sizes = np.bincount(model.labels_, minlength=3)
    np.testing.assert_array_equal(np.argsort(sizes), np.argsort(model.weights_))
    np.testing.assert_allclose(np.sort(model.weights_), [0.1, 0.2, 0.7], atol=1e-12)


def test_learned_sizes_come_near_the_true_ones():
    X, _ = blobs([210, 60, 30], spread=0.3)
    held, learned = embedded(epochs=40).fit(X), embedded(weights="learned", epochs=40).fit(X)
    np.testing.assert_allclose(held.weights_, 1 / 3)
    truth = np.array([0.1, 0.2, 0.7])
    np.testing.assert_allclose(np.sort(learned.weights_), truth, atol=0.05)


def test_relaxed_and_bounded_sizes():
    X, _ = blobs([200, 60, 40])
    relaxed = embedded(tau=0.5).fit(X)
    fixed = embedded().fit(X)
    mass, held = (np.sort(m.predict_proba(X).mean(axis=0)) for m in (relaxed, fixed))
    assert mass[-1] > held[-1] + 0.05
    bounded = embedded(rule=BoundedMass(0.2, 0.5)).fit(X)
    shares = bounded.predict_proba(X).mean(axis=0)
    assert (shares > 0.2 - 1e-6).all()
    assert (shares < 0.5 + 1e-6).all()


def test_labels_by_centre_by_potential_and_by_the_exact_plan():
    X, _ = blobs([120, 40, 20], spread=1.0)
    models = {how: embedded(assign_by=how, epochs=5).fit(X) for how in ("centre", "potential", "plan")}
    centres = models["centre"].cluster_centers_
    C = np.square(X[:, None] - centres).sum(axis=2)
    np.testing.assert_array_equal(models["centre"].labels_, C.argmin(axis=1))
    plan = solve_plan(-C / models["potential"].epsilon_)
    np.testing.assert_array_equal(models["potential"].labels_, plan.responsibilities.argmax(axis=1))
    labels = models["plan"].labels_
    np.testing.assert_array_equal(np.bincount(labels), 60)
    rows, columns = linear_sum_assignment(np.repeat(C, 60, axis=1))
    assert C[np.arange(180), labels].sum() == pytest.approx(C[rows, columns // 60].sum(), rel=1e-5)  # codes are float32
    sizes = np.bincount(models["plan"].balanced_predict(X, [100, 50, 30]))
    np.testing.assert_array_equal(sizes, [100, 50, 30])


def test_score_is_the_mean_log_partition_at_the_potentials():
    X, _ = blobs([60, 60, 60])
    model = embedded(epochs=3).fit(X)
    C = np.square(X[:, None] - model.cluster_centers_).sum(axis=2)
    plan = solve_plan(-C / model.epsilon_)
    assert model.score(X) == pytest.approx(model.epsilon_ * plan.value, rel=1e-5)  # sum b g = 0


def test_a_batch_may_have_fewer_rows_than_clusters():
    X, _ = blobs([30] * 8)
    for dual in ("batch", "global", "bank"):
        model = embedded(8, batch_size=5, dual=dual, epochs=3).fit(X)
        assert np.isfinite(model.history_.loss).all()
        assert len(np.unique(model.labels_)) == 8


def test_duplicated_rows_and_a_single_cluster():
    X = np.repeat(blobs([2, 2])[0], 20, axis=0)
    one = embedded(1, epochs=2).fit(X)
    assert (one.labels_ == 0).all()
    assert one.weights_ == pytest.approx([1.0])
    assert np.isfinite(embedded(2, epochs=2).fit(X).history_.loss).all()


def test_annealing_lowers_epsilon_and_the_entropy_of_the_plan():
    X, _ = blobs([60, 60, 60], spread=1.0)
    history = embedded(epsilon=1.0, final_epsilon=0.01, epochs=8).fit(X).history_
    ratios = history.epsilon.to_numpy()[1:] / history.epsilon.to_numpy()[:-1]
    np.testing.assert_allclose(ratios, 0.01 ** (1 / 7), rtol=0.1)  # times the change of the mean cost
    assert history.plan_entropy.is_monotonic_decreasing


def test_the_patience_ends_the_training():
    X, _ = blobs([60, 60, 60])
    model = embedded(patience=2, tol=0.5, epochs=100).fit(X)
    assert model.n_iter_ < 10


def test_a_callback_sees_every_row_and_may_stop():
    X, _ = blobs([60, 60, 60])
    seen = []

    def stop_at_third(estimator, row):
        seen.append(row)
        return len(seen) == 3

    model = embedded(callbacks=[stop_at_third], encoder="linear", pretrain_epochs=2, epochs=9).fit(X)
    assert [row["phase"] for row in seen] == ["pretrain", "pretrain", "cluster"]
    assert model.n_iter_ == 3


def test_augmented_views_add_a_consistency_term():
    X, y = blobs([60, 60, 60])

    def jitter(x):
        return x + 0.1 * torch.randn_like(x)

    model = embedded(augment=jitter, consistency_weight=1.0, encoder="linear", n_codes=3, pretrain_epochs=5).fit(X)
    consistency = model.history_.consistency.dropna()
    assert (consistency > 0).all()
    again = embedded(augment=jitter, consistency_weight=1.0, encoder="linear", n_codes=3, pretrain_epochs=5).fit(X)
    np.testing.assert_array_equal(again.cluster_centers_, model.cluster_centers_)
    assert clustering_accuracy(y, model.labels_) > 0.9


def test_half_precision_networks_and_compiled_ones_agree_with_the_plain_one():
    X, _ = blobs([60, 60, 60])
    options = {"encoder": "linear", "n_codes": 2, "pretrain_epochs": 3, "epochs": 2}
    plain = embedded(**options).fit(X)
    half = embedded(**options, precision="bfloat16").fit(X)
    assert not np.array_equal(plain.cluster_centers_, half.cluster_centers_)
    np.testing.assert_allclose(plain.cluster_centers_, half.cluster_centers_, atol=0.05)  # bfloat16 has three digits
    compiled = embedded(**options, compile="eager").fit(X)
    np.testing.assert_allclose(plain.cluster_centers_, compiled.cluster_centers_, atol=1e-5)


def test_the_gradient_modes_train_alike():
    X, _ = blobs([60, 60, 60])
    fits = [
        embedded(value=value, gradient=gradient, epochs=2).fit(X)
        for value, gradient in [("entropic", "envelope"), ("entropic", "implicit"), ("sharp", "implicit")]
    ]
    np.testing.assert_allclose(fits[0].cluster_centers_, fits[1].cluster_centers_, atol=1e-4)
    np.testing.assert_allclose(fits[0].cluster_centers_, fits[2].cluster_centers_, atol=0.05)


def test_seeds_side_by_side_are_what_they_are_alone():
    X, y = blobs([60, 60, 60])
    X = torch.tensor(X, dtype=torch.float32)
    options = Options(3, pretrain_epochs=3, epochs=3, batch_size=50)
    both = train_seeds(X, options, [1, 2], n_codes=2, y=y)
    for member, seed in enumerate([1, 2]):
        alone = train_seeds(X, options, [seed], n_codes=2, y=y)
        np.testing.assert_allclose(alone.state.centres[0].detach(), both.state.centres[member].detach(), atol=1e-3)
        rows = both.history[both.history.member == member]
        np.testing.assert_allclose(
            rows.loss, alone.history.loss, rtol=1e-3
        )  # sums in another order, amplified by training
    assert not torch.equal(both.state.centres[0], both.state.centres[1])
    later = train_seeds(X, options, [1, 2], n_codes=2, start=both.state)
    assert set(later.history.phase) == {"cluster"}


def test_networks_with_buffers_are_not_trained_side_by_side():
    from sinkhorn_em.deep.members import members

    net = build_from(0, "mlp", (4,), 2)
    net.encoder.append(torch.nn.BatchNorm1d(2))
    with pytest.raises(ValueError, match="buffers"):
        members([net, net])


def test_clusters_that_lost_their_rows_are_named():
    X = np.concatenate([np.zeros((50, 2)), np.ones((50, 2))])
    X += 1e-3 * np.random.default_rng(0).normal(size=X.shape)
    with pytest.warns(ConvergenceWarning, match=r"clusters \[\d"):
        embedded(6, weights=[0.5, 0.1, 0.1, 0.1, 0.1, 0.1], epsilon=100.0, learning_rate=0.3, epochs=20).fit(X)
