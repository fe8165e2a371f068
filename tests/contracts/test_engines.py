"""Every engine visits the rows in order and gives the sums, plans and fits of the rows in memory."""

import inspect
from importlib.util import find_spec

import numpy as np
import pytest
from scipy.special import softmax

from sinkhorn_em.em import Phase, State, e_step, run_phase, score
from sinkhorn_em.engines import ENGINES, InMemory
from sinkhorn_em.families import Elliptical, Gaussian
from sinkhorn_em.families.covariances import STRUCTURES, Regularisation
from sinkhorn_em.ot import FixedMass, FreeMass, RelaxedMass, VirtualColumn
from sinkhorn_em.ot.newton import Tolerances

N, D, K = 1000, 3, 4
FAMILY = Elliptical(Gaussian(), STRUCTURES["full"](), Regularisation(1e-6))


def rows(seed=0):
    rng = np.random.default_rng(seed)
    X = 2 * rng.normal(size=(K, D))[rng.integers(0, K, N)] + rng.normal(size=(N, D))
    return X, rng.dirichlet(np.ones(N))


def start(X):
    parameters = FAMILY.start(K, D)._replace(means=X[:K].copy())
    return State(parameters, np.full(K, 1 / K), np.zeros(K))


def engines():
    """Every registered engine; one that cuts the rows into tiles also with tiles that do not divide them."""
    without_torch = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
    for name, engine in ENGINES.items():
        yield pytest.param(engine, id=name, marks=[without_torch] if name == "tensor" else [])
        if "tile_rows" in inspect.signature(engine).parameters:
            for size in (1, 300, N):
                yield pytest.param(lambda X, a, e=engine, s=size: e(X, a, tile_rows=s), id=f"{name}-{size}")


every_engine = pytest.mark.parametrize("make", list(engines()))


@pytest.fixture
def mapped_rows(tmp_path):
    X, a = rows()
    np.save(tmp_path / "X.npy", X)
    return np.load(tmp_path / "X.npy", mmap_mode="r"), a


@every_engine
def test_the_tiles_are_the_rows_in_order(make):
    X, a = rows()
    engine = make(X, a)
    tiles = list(engine.tiles())
    assert engine.shape == (N, D)
    assert engine.n_tiles == len(tiles)
    assert np.array_equal(np.vstack([x for x, _ in tiles]), X)
    assert np.array_equal(np.concatenate([m for _, m in tiles]), a)


@every_engine
def test_tiles_can_be_visited_again(make):
    engine = make(*rows())
    for (x, m), (y, w) in zip(engine.tiles(), engine.tiles(), strict=True):
        assert np.array_equal(x, y)
        assert np.array_equal(m, w)


@every_engine
def test_a_reduction_is_the_sum_over_all_rows(make):
    X, a = rows()

    def moments(x, mass):
        return float(mass.sum()), mass @ x, (x * mass[:, None]).T @ x

    for ours, exact in zip(make(X, a).reduce(moments), moments(X, a), strict=True):
        assert ours == pytest.approx(exact, abs=1e-12)


@every_engine
def test_a_reduction_keeps_the_kind_of_tuple_and_absent_parts(make):
    X, a = rows()
    parameters = start(X).parameters
    engine = make(X, a)
    scores = score(engine, FAMILY, parameters)

    class Plan:
        def __init__(self, scores, mass):
            self.scores, self.row_mass, self.offset = scores, mass, np.zeros(K)

    statistics = engine.reduce(lambda x, mass, S: FAMILY.statistics(x, Plan(S, mass), parameters), scores)
    assert statistics._fields == ("mass", "weight", "coincident", "first", "second")
    assert engine.reduce(lambda x, mass: (None, mass.sum()))[0] is None


@every_engine
def test_what_was_mapped_is_handed_back_tile_by_tile(make):
    X, a = rows()
    engine = make(X, a)
    first = engine.map(lambda x, out: 1 * x[:, 0])
    assert len(first) == engine.n_tiles
    assert engine.reduce(lambda x, mass, f: (float(mass @ f),), first)[0] == pytest.approx(a @ X[:, 0], abs=1e-12)


@every_engine
def test_the_memory_of_an_earlier_map_is_used_again(make):
    X, a = rows()
    engine, parameters = make(X, a), start(X).parameters
    first = score(engine, FAMILY, parameters)
    kept = [np.asarray(tile).copy() for tile in first]
    again = score(engine, FAMILY, parameters, first)
    assert all(x is y for x, y in zip(first, again, strict=True))
    assert all(np.array_equal(x, y) for x, y in zip(kept, again, strict=True))


@every_engine
def test_what_is_placed_is_what_a_map_gives(make):
    X, a = rows()
    engine, parameters = make(X, a), start(X).parameters
    scores = score(InMemory(X, a), FAMILY, parameters)[0]
    placed, mapped = engine.place(scores), score(engine, FAMILY, parameters)
    assert [np.shape(tile) for tile in placed] == [np.shape(tile) for tile in mapped]
    assert np.array_equal(np.vstack(placed), scores)
    sums = [engine.reduce(lambda x, mass, S: (mass @ S,), tiles)[0] for tiles in (placed, mapped)]
    assert np.asarray(sums[0]) == pytest.approx(np.asarray(sums[1]), abs=1e-12)


@every_engine
def test_a_map_into_the_wrong_number_of_tiles_is_refused(make):
    engine = make(*rows())
    with pytest.raises(ValueError):
        engine.map(lambda x, out: x, [None] * (engine.n_tiles + 1))


@every_engine
@pytest.mark.parametrize("rule", [FreeMass(), FixedMass(), RelaxedMass(0.5), VirtualColumn(0.1)], ids=repr)
def test_the_plan_is_that_of_the_rows_in_memory(make, rule):
    X, a = rows()
    state = start(X)
    state = state._replace(potentials=np.zeros(len(rule.extend(state.weights))))
    solutions = []
    for engine in (make(X, a), InMemory(X, a)):
        scores = score(engine, FAMILY, state.parameters)
        solutions.append(e_step(engine, rule, state, scores, Tolerances(marginal=1e-12, relative=1e-9)))
    ours, theirs = solutions
    assert ours.status == theirs.status == "converged"
    assert ours.value == pytest.approx(theirs.value, abs=1e-12)
    assert ours.mass == pytest.approx(theirs.mass, abs=2e-12)
    S = np.column_stack([*np.vstack(scores).T, *[np.zeros(N)] * (len(ours.mass) - K)])
    offset = np.log(rule.extend(state.weights))
    # both are within 1e-12 of the masses; the overlaps of these clusters are not weak
    R = [softmax(S + offset + s.potentials, axis=1) for s in solutions]
    assert R[0] == pytest.approx(R[1], abs=1e-10)


@every_engine
def test_a_fit_is_that_of_the_rows_in_memory(make):
    X, a = rows()
    phase = Phase(FAMILY, FixedMass(), False, 10, 0.0)
    ours, theirs = (run_phase(engine, phase, start(X)) for engine in (make(X, a), InMemory(X, a)))
    # ten M-steps pass on the errors of E-steps that stop at a thousandth of a nat of the potentials
    assert ours.bounds == pytest.approx(theirs.bounds, abs=1e-6)
    assert ours.n_iter == theirs.n_iter == 10


@every_engine
def test_rows_may_stay_in_a_file(make, mapped_rows):
    X, a = mapped_rows
    in_file = make(X, a).reduce(lambda x, mass: (mass @ x,))[0]
    assert in_file == pytest.approx(a @ np.asarray(X), abs=1e-12)


@every_engine
def test_reducing_twice_gives_the_same_bits(make):
    engine = make(*rows())
    first, second = (engine.reduce(lambda x, mass: (mass @ x**3,))[0] for _ in range(2))
    assert np.array_equal(first, second)
