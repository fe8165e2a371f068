"""Numbers of clusters by the integrated completed likelihood: the criterion itself, the grid, splits and merges."""

import numpy as np
import pytest
from scipy import stats
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import adjusted_rand_score

from sinkhorn_em import LatentBlockModel
from sinkhorn_em.block_families import Gaussian
from sinkhorn_em.coclustering import search_grid, search_moves
from sinkhorn_em.coclustering.selection import MOVES
from sinkhorn_em.datasets import simulate_latent_blocks

EFFECTS = np.array([[0.0, 1.5, 0.0], [1.5, 0.0, 0.0], [0.0, 0.0, 1.5], [1.5, 1.5, 1.5]])


@pytest.fixture(scope="module")
def drawn():
    return simulate_latent_blocks(80, 60, EFFECTS, random_state=1)


@pytest.fixture(scope="module")
def by_moves(drawn):
    return search_moves(LatentBlockModel(random_state=0), drawn.data)


@pytest.mark.parametrize("weights", ["learned", "uniform"])
def test_the_criterion_is_that_of_the_labels_computed_cell_by_cell(drawn, weights):
    model = LatentBlockModel(
        4, 3, family=Gaussian("common"), row_weights=weights, column_weights=weights, random_state=0
    ).fit(drawn.data)
    z, w, X = model.row_labels_, model.column_labels_, drawn.data
    means = np.array([[X[np.ix_(z == k, w == l)].mean() for l in range(3)] for k in range(4)])
    residuals = X - means[z][:, w]
    log_likelihood = stats.norm.logpdf(residuals, scale=residuals.std()).sum()
    price = 13 * np.log(X.size)
    for labels, size in ((z, 4), (w, 3)):
        if weights == "learned":
            counts = np.bincount(labels, minlength=size)
            log_likelihood += counts @ np.log(counts / len(labels))
            price += (size - 1) * np.log(len(labels))
        else:
            log_likelihood -= len(labels) * np.log(size)
    assert model.icl() == pytest.approx(price - 2 * log_likelihood, rel=1e-10)


def test_there_is_no_criterion_before_a_fit():
    with pytest.raises(NotFittedError):
        LatentBlockModel().icl()


def test_a_grid_finds_the_numbers_that_were_drawn(drawn):
    model = LatentBlockModel(random_state=0, n_init=3, tol=1e-6)
    before = model.get_params()
    search = search_grid(model, drawn.data, range(2, 6), [2, 3, 4])
    assert (search.model.n_row_clusters, search.model.n_column_clusters) == (4, 3)
    assert adjusted_rand_score(drawn.row_labels, search.model.row_labels_) == 1
    assert adjusted_rand_score(drawn.column_labels, search.model.column_labels_) == 1
    assert len(search.table) == 12
    assert search.table["icl"].min() == search.model.icl()
    assert model.get_params() == before
    assert not hasattr(model, "row_labels_")


def test_a_fit_of_the_grid_is_the_fit_that_one_would_make(drawn):
    options = {"random_state": 3, "n_init": 2}
    search = search_grid(LatentBlockModel(**options), drawn.data, [2, 4], [3, 6])
    alone = LatentBlockModel(4, 3, **options).fit(drawn.data)
    assert search.table.set_index(["n_row_clusters", "n_column_clusters"])["bound"][4, 3] == alone.bound_
    assert search.model.bound_ == alone.bound_
    assert (search.model.row_labels_ == alone.row_labels_).all()
    assert search.model.n_features_in_ == alone.n_features_in_ == 60


def test_splits_and_merges_find_the_numbers_that_were_drawn(drawn, by_moves):
    assert (by_moves.model.n_row_clusters, by_moves.model.n_column_clusters) == (4, 3)
    assert adjusted_rand_score(drawn.row_labels, by_moves.model.row_labels_) == 1


def test_accepted_moves_lower_the_criterion_and_change_one_number_by_one(by_moves):
    path = by_moves.table[by_moves.table["accepted"]]
    assert (np.diff(path["icl"]) < 0).all()
    numbers = path[["n_row_clusters", "n_column_clusters"]].to_numpy()
    steps = np.abs(np.diff(numbers, axis=0)).sum(axis=1)
    expected = path["move"].map(lambda move: {"burn-in": 0, "split both": 2}.get(move, 1))
    assert (steps == expected.to_numpy()[1:]).all()
    assert set(by_moves.table["move"]) == {"start", *MOVES, "burn-in"}


def test_rows_and_columns_are_split_at_once_where_neither_helps_alone(by_moves):
    # from 3 x 2 clusters, 4 x 2 and 3 x 3 are worse, and 4 x 3 is what was drawn
    step = by_moves.table[by_moves.table["move"] == "split both"].iloc[0]
    before = by_moves.table[by_moves.table["step"] < step["step"]].query("accepted").iloc[-1]
    assert step["accepted"]
    assert (before["n_row_clusters"], before["n_column_clusters"]) == (3, 2)
    single = by_moves.table[(by_moves.table["step"] == step["step"]) & (by_moves.table["move"] != "split both")]
    assert (single["icl"] > before["icl"]).all()


def test_too_many_clusters_are_merged(drawn):
    search = search_moves(LatentBlockModel(random_state=0), drawn.data, start=(6, 5))
    assert (search.model.n_row_clusters, search.model.n_column_clusters) == (4, 3)
    moves = set(search.table.loc[search.table["accepted"], "move"])
    assert {"merge rows", "merge columns"} <= moves


def test_blocks_that_differ_in_pairs_only_are_found_from_two_by_two():
    chessboard = simulate_latent_blocks(60, 60, [[2.0, -2.0], [-2.0, 2.0]], random_state=0)
    search = search_moves(LatentBlockModel(random_state=0), chessboard.data)
    assert (search.model.n_row_clusters, search.model.n_column_clusters) == (2, 2)


def test_noise_has_one_block():
    X = np.random.default_rng(0).normal(size=(60, 50))
    search = search_moves(LatentBlockModel(random_state=0), X)
    assert (search.model.n_row_clusters, search.model.n_column_clusters) == (1, 1)


def test_no_more_clusters_than_the_largest_numbers(drawn):
    search = search_moves(LatentBlockModel(random_state=0), drawn.data, largest=(2, 3))
    assert search.table["n_row_clusters"].max() == search.model.n_row_clusters == 2
    assert search.table["n_column_clusters"].max() <= 3


def test_cells_left_out_and_sparse_counts_are_searched():
    rates = np.array([[0.3, 3.0], [3.0, 0.3]])
    X = simulate_latent_blocks(50, 40, rates, family="poisson", random_state=0).data.astype(float)
    mask = np.random.default_rng(0).random(X.shape) < 0.1
    for given in (X, csr_array(X)):
        model = LatentBlockModel(family="poisson", random_state=0)
        for search in (search_grid(model, given, [1, 2, 3], [1, 2], mask=mask), search_moves(model, given, mask=mask)):
            assert (search.model.n_row_clusters, search.model.n_column_clusters) == (2, 2)


def test_a_search_says_what_it_found(by_moves):
    assert repr(by_moves).startswith("BlockSearch(model: 4 x 3 clusters, ICL ")


def test_the_same_seed_gives_the_same_search(drawn, by_moves):
    again = search_moves(clone(by_moves.model), drawn.data)
    assert again.table.equals(by_moves.table)


def test_there_is_one_warning_if_the_best_fit_did_not_converge(drawn):
    with pytest.warns(ConvergenceWarning, match=r"no convergence in max_iter = 1 sweeps") as caught:
        search_grid(LatentBlockModel(max_iter=1, random_state=0), drawn.data, [3], [2, 3])
    assert len(caught) == 1


SEARCHES = [search_moves, lambda m, X: search_grid(m, X, [1, 2], [1, 2])]


@pytest.mark.parametrize("search", SEARCHES, ids=["moves", "grid"])
def test_constant_columns_do_not_draw_a_search_to_the_floor_of_variances(search):
    X = np.random.default_rng(0).normal(size=(40, 30))
    X[:, :6] = 0.0
    found = search(LatentBlockModel(random_state=0), X)
    assert found.table["collapsed"].any()
    assert found.table.loc[found.table["icl"] == found.model.icl(), "collapsed"].min() == 0


@pytest.mark.parametrize("search", SEARCHES, ids=["moves", "grid"])
def test_a_search_warns_of_what_a_fit_would_warn_of(search):
    with pytest.warns(ConvergenceWarning, match="held at its floor"):
        search(LatentBlockModel(random_state=0), np.full((6, 5), 2.0))


def test_the_progress_bar_counts_fits_and_steps(drawn, capsys):
    search_grid(LatentBlockModel(random_state=0), drawn.data, [2], [2, 3], progress=True)
    assert "2/2" in capsys.readouterr().err
    search_moves(LatentBlockModel(random_state=0), drawn.data, largest=(2, 2), progress=True)
    assert "splits and merges" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m, X: search_grid(m, X, [], [2]), "n_row_clusters is empty"),
        (lambda m, X: search_grid(m, X, 3, [2]), "n_row_clusters is 3; it must be several numbers"),
        (lambda m, X: search_grid(m, X, [2], [0]), "n_column_clusters is 0; it must be an integer of at least 1"),
        (lambda m, X: search_grid(m, X, [2], [61]), "n_column_clusters is 61"),
        (lambda m, X: search_moves(m, X, start=(3, 2), largest=(2, 2)), "start is .3, 2. and largest"),
        (
            lambda m, X: search_moves(m.set_params(row_weights=[0.5, 0.5]), X),
            "row_weights of model is an array.*'learned' or 'uniform'",
        ),
    ],
)
def test_bad_input_is_named(drawn, call, message):
    with pytest.raises(ValueError, match=message):
        call(LatentBlockModel(), drawn.data)
