"""Every covariance structure minimises sum_k [n_k log|S_k| + tr(W_k S_k^-1)] over its members, and never raises it."""

import numpy as np
import pytest
from scipy.linalg import expm
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits

from sinkhorn_em.families.covariances import MCLUST_NAMES, STRUCTURES, BlockDiagonal, Regularisation, structure_named
from sinkhorn_em.families.covariances.blocks import dense_values, own_values

NONE = Regularisation(0.0)
every_structure = pytest.mark.parametrize("name", STRUCTURES)
LETTERS = {name: name for name in STRUCTURES if len(name) == 3} | {
    ours: letters for letters, ours in MCLUST_NAMES.items() if len(letters) == 3
}

#: mclust's nMclustParams for three components, by number of features (means and weights included)
N_PARAMETERS = """
d EII VII EEI VEI EVI VVI EEE VEE EVE VVE EEV VEV EVV VVV
2   9  11  10  12  12  14  11  13  13  15  13  15  15  17
3  12  14  14  16  18  20  17  19  21  23  23  25  27  29
4  15  17  18  20  24  26  24  26  30  32  36  38  42  44
5  18  20  22  24  30  32  32  34  40  42  52  54  60  62
"""


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Matrices are tiny here: threads of BLAS that wait for each other would take most of the time."""
    with threadpool_limits(1):
        yield


def problem(K, d, seed, spread=0.5):
    """Masses, and scatters (K, d, d) that belong to no particular structure."""
    rng = np.random.default_rng(seed)
    mass = rng.dirichlet(np.full(K, 5.0))
    A = rng.normal(size=(K, d, 2 * d)) * np.exp(spread * rng.normal(size=(K, d, 1)))
    return mass, mass[:, None, None] * (A @ A.transpose(0, 2, 1)) / (2 * d)


def covariances(name, mass, W, regularisation=NONE, current=None):
    structure = structure_named(name)
    scatter = W if structure.full else W.diagonal(axis1=1, axis2=2).copy()
    return structure.maximise(mass, scatter, regularisation, current)


def dense(name, result, d):
    return dense_values(structure_named(name), result.values, len(result.log_det), d)


def objective(mass, W, S):
    """Per unit of mass."""
    eigenvalues, U = np.linalg.eigh(S)
    spread = ((W @ U) * U).sum(axis=1)
    return float((mass[:, None] * np.log(eigenvalues) + spread / eigenvalues).sum() / mass.sum())


def rotations(angles, d):
    """From (m, d (d - 1) / 2) entries of skew-symmetric matrices."""
    skew = np.zeros((len(angles), d, d))
    skew[:, *np.tril_indices(d, -1)] = angles
    return expm(skew - skew.transpose(0, 2, 1))


class Members:
    """The members of a structure near given ones, by coordinates of volumes, shapes and orientations; 0 are the given ones."""

    def __init__(self, name, S):
        self.letters, (self.K, self.d, _) = LETTERS[name], S.shape
        volume, shape, orientation = self.letters
        if orientation == "I":
            D = np.eye(self.d)
        elif orientation == "E":  # generic weights: the same eigenvalue twice in the sum only if in all
            D = np.linalg.eigh(np.tensordot(1 + np.sqrt(np.arange(self.K) + 2), S, 1))[1]
        else:
            D = np.linalg.eigh(S)[1]
        self.D = np.broadcast_to(D, S.shape)
        self.log_spectra = np.log(np.einsum("kij,kil,klj->kj", self.D, S, self.D))
        self.sizes = [
            1 if volume == "E" else self.K,
            {"I": 0, "E": self.d, "V": self.K * self.d}[shape],
            {"I": 0, "E": 1, "V": self.K}[orientation] * self.d * (self.d - 1) // 2,
        ]

    def __call__(self, theta):
        volumes, shapes, angles = np.split(theta, np.cumsum(self.sizes)[:2])
        shapes = shapes.reshape(-1, self.d) if len(shapes) else np.zeros((1, self.d))
        spectra = np.exp(self.log_spectra + volumes[:, None] + shapes - shapes.mean(axis=1, keepdims=True))
        D = self.D @ rotations(angles.reshape(-1, self.d * (self.d - 1) // 2), self.d) if len(angles) else self.D
        return (D * spectra[:, None, :]) @ D.transpose(0, 2, 1)


def test_parameters_are_counted_as_in_mclust():
    header, *lines = [line.split() for line in N_PARAMETERS.strip().splitlines()]
    for line in lines:
        d = int(line[0])
        for letters, expected in zip(header[1:], line[1:], strict=True):
            assert structure_named(letters).n_parameters(3, d) + 3 * d + 2 == int(expected), (letters, d)


def test_names_are_ours_and_those_of_mclust():
    for name, kind in STRUCTURES.items():
        assert type(structure_named(name)) is kind
        assert type(structure_named(LETTERS[name])) is kind
    assert [structure_named(letter).name for letter in "EV"] == ["tied", "full"]
    with pytest.raises(ValueError, match=r"'XYZ'.*full.*VEV.*EII"):
        structure_named("XYZ")


@every_structure
def test_values_have_the_shape_that_the_structure_says(name):
    K, d = 3, 4
    structure, result = structure_named(name), covariances(name, *problem(K, d, 0))
    assert result.values.shape == structure.shape(K, d)
    S = dense(name, result, d)
    assert S.shape == (K, d, d)
    assert np.array_equal(own_values(structure, S), result.values)
    again = structure.from_values(result.values, K, d)
    assert again.factors == pytest.approx(result.factors, rel=1e-11, abs=1e-13)
    assert structure.shared == (structure.shape(K, d) == structure.shape(K + 1, d))


@every_structure
def test_covariances_have_the_volumes_shapes_and_orientations_of_the_name(name):
    K, d = 3, 4
    S = dense(name, covariances(name, *problem(K, d, 1)), d)
    volume, shape, orientation = LETTERS[name]
    spectra = np.linalg.eigvalsh(S)
    volumes = np.exp(np.log(spectra).mean(axis=1))
    # of diagonal matrices the order counts
    shapes = (S.diagonal(axis1=1, axis2=2) if orientation == "I" else spectra) / volumes[:, None]
    commutators = S @ S[0] - S[0] @ S
    assert (np.ptp(volumes) < 1e-12) == (volume == "E")
    assert (np.ptp(shapes, axis=0) < 1e-10).all() == (shape != "V")
    assert (np.abs(shapes - 1) < 1e-12).all() == (shape == "I")
    assert (np.abs(S - S * np.eye(d)) < 1e-14).all() == (orientation == "I")
    assert (np.abs(commutators) < 1e-10).all() == (orientation != "V")


@every_structure
@pytest.mark.parametrize(("K", "d"), [(2, 2), (3, 4), (5, 3)])
@pytest.mark.parametrize("seed", range(3))
def test_no_neighbour_within_the_structure_is_better(name, K, d, seed):
    mass, W = problem(K, d, seed)
    S = dense(name, covariances(name, mass, W), d)
    members, best = Members(name, S), objective(mass, W, S)
    n = sum(members.sizes)
    assert objective(mass, W, members(np.zeros(n))) == pytest.approx(best, abs=1e-12)
    rng = np.random.default_rng(seed)
    # near enough to be below no other local minimum, which EVE and VVE have
    for size in np.repeat([1e-5, 1e-3, 0.03, 0.2], 25):
        assert objective(mass, W, members(size * rng.normal(size=n))) >= best - 1e-12


@every_structure
@pytest.mark.parametrize(("K", "d"), [(2, 2), (3, 2), (2, 3)])
def test_no_optimiser_finds_a_better_member(name, K, d):
    mass, W = problem(K, d, 10 * K + d, 0.8)
    best = objective(mass, W, dense(name, covariances(name, mass, W), d))
    members = Members(name, np.repeat(np.eye(d)[None], K, axis=0))
    starts = np.random.default_rng(0).normal(size=(4, sum(members.sizes)))
    values = [minimize(lambda theta: objective(mass, W, members(theta)), start).fun for start in starts]
    assert best <= min(values) + 1e-9
    assert best == pytest.approx(min(values), abs=1e-8)


@every_structure
@pytest.mark.parametrize("regularisation", [NONE, Regularisation(0.3)], ids=["free", "floor"])
def test_an_m_step_never_raises_what_it_minimises(name, regularisation):
    K, d = 4, 3
    rng = np.random.default_rng(0)
    current = None
    for step in range(30):
        if step % 10 == 0:
            mass, W = problem(K, d, step)
        mass = mass * np.exp(0.1 * rng.normal(size=K))
        B = np.eye(d) + 0.1 * rng.normal(size=(K, d, d))
        W = B @ W @ B.transpose(0, 2, 1)
        after = covariances(name, mass, W, regularisation, current)
        if current is not None:
            before = objective(mass, W, dense(name, current, d))
            assert objective(mass, W, dense(name, after, d)) <= before + 1e-13 * max(1, abs(before))
        again = covariances(name, mass, W, regularisation, after)
        assert dense(name, again, d) == pytest.approx(dense(name, after, d), rel=1e-9, abs=1e-10)
        current = after


@every_structure
def test_covariances_of_the_pooled_structure_are_a_start_too(name):
    mass, W = problem(3, 4, 0)
    pooled = structure_named(name).pooled.name
    current = covariances(pooled, mass, W)
    W = W + 0.05 * W[::-1]
    before = objective(mass, W, dense(pooled, current, 4))
    assert objective(mass, W, dense(name, covariances(name, mass, W, NONE, current), 4)) < before


@every_structure
def test_a_start_outside_the_structure_does_no_harm(name):
    mass, W = problem(3, 4, 0)
    other = covariances("full", *problem(3, 4, 5))
    fresh, started = (dense(name, covariances(name, mass, W, NONE, c), 4) for c in (None, other))
    assert objective(mass, W, started) == pytest.approx(objective(mass, W, fresh), abs=1e-11)


@every_structure
def test_one_component_has_the_covariance_of_its_rows(name):
    mass, W = problem(1, 4, 0)
    C, (_, shape, orientation) = W / mass, LETTERS[name]
    diagonal = C.trace(axis1=1, axis2=2)[:, None, None] / 4 * np.eye(4) if shape == "I" else C * np.eye(4)
    target = diagonal if orientation == "I" else C
    assert dense(name, covariances(name, mass, W), 4) == pytest.approx(target, rel=1e-11, abs=1e-12)


@every_structure
def test_the_order_of_components_does_not_matter(name):
    mass, W = problem(4, 3, 2)
    order = [2, 0, 3, 1]
    S, permuted = dense(name, covariances(name, mass, W), 3), covariances(name, mass[order], W[order])
    assert dense(name, permuted, 3) == pytest.approx(S[order], rel=1e-9, abs=1e-10)


@every_structure
def test_linear_maps_of_its_coordinates_commute_with_the_structure(name):
    mass, W = problem(3, 4, 0)
    rng = np.random.default_rng(1)
    A = {
        "isotropic": 2.5 * np.linalg.qr(rng.normal(size=(4, 4)))[0],
        "scaled": np.diag(np.exp(rng.normal(size=4))),
        "whitened": rng.normal(size=(4, 4)),
    }[structure_named(name).coordinates]
    S, mapped = (dense(name, covariances(name, mass, scatter), 4) for scatter in (W, A @ W @ A.T))
    if not structure_named(name).spherical:
        assert mapped == pytest.approx(A @ S @ A.T, rel=1e-8, abs=1e-9)
    else:  # scatters are given by their diagonals, whose sum is the same
        assert mapped == pytest.approx(2.5**2 * S, rel=1e-12)


DEGENERATE = {
    "one row": lambda W: np.where(np.arange(3)[:, None, None] == 1, 0.0, W),
    "all rows the same": np.zeros_like,
    "flat along an axis": lambda W: W * np.outer([1, 1, 1, 0], [1, 1, 1, 0]),
    "on a line": lambda W: W[:, :1, :1] * np.outer([1, 2, 3, 4], [1, 2, 3, 4]),
    "each on its own line": lambda W: W[:, :, :1] * W[:, :1, :],
    "tiny": lambda W: 1e-200 * W,
}


@every_structure
@pytest.mark.parametrize("kind", DEGENERATE)
@pytest.mark.parametrize("floor", [0.0, 1e-12, 1e-3])
def test_degenerate_scatters_are_held_at_the_floor(name, kind, floor):
    mass, W = problem(3, 4, 0)
    W = DEGENERATE[kind](W)
    regularisation, current = Regularisation(floor), None
    for _ in range(3):
        current = covariances(name, mass, W, regularisation, current)
        S = dense(name, current, 4)
        rounding = 4 * np.spacing(np.linalg.eigvalsh(S).max())
        assert all(np.isfinite(field).all() for field in current[:3])
        assert (np.linalg.eigvalsh(S) >= floor - 1e-9 * floor - rounding).all()
    if kind == "all rows the same" and floor:
        assert current.held.all()
        assert S / floor == pytest.approx(np.repeat(np.eye(4)[None], 3, axis=0), rel=1e-9)


@every_structure
def test_a_component_without_mass_takes_the_pooled_scatter(name):
    mass, W = problem(3, 4, 0)
    mass, W = mass * [1, 0, 1], W * np.array([1, 0, 1])[:, None, None]
    S, others = dense(name, covariances(name, mass, W), 4), covariances(name, mass[[0, 2]], W[[0, 2]])
    assert S[[0, 2]] == pytest.approx(dense(name, others, 4), rel=1e-8, abs=1e-9)
    assert np.isfinite(S).all()


@every_structure
@pytest.mark.parametrize("regularisation", [NONE, Regularisation(0.5), Regularisation(0.1, 0.2 * np.eye(1))], ids=str)
def test_a_single_feature_has_own_or_pooled_variances(name, regularisation):
    mass, W = problem(4, 1, 0)
    ridge = 0.0 if regularisation.ridge is None else 0.2
    own = LETTERS[name][0] == "V"
    expected = W / mass[:, None, None] if own else np.broadcast_to(W.sum() / mass.sum(), (4, 1, 1))
    assert structure_named(name).n_parameters(4, 1) == (4 if own else 1)
    result = dense(name, covariances(name, mass, W, regularisation), 1)
    assert result == pytest.approx(np.maximum(expected + ridge, regularisation.floor), rel=1e-12)


def test_scatters_with_common_axes_are_kept_by_vve():
    rng = np.random.default_rng(0)
    mass, D = rng.dirichlet(np.full(4, 5.0)), np.linalg.qr(rng.normal(size=(5, 5)))[0]
    W = mass[:, None, None] * ((D * np.exp(rng.normal(size=(4, 1, 5)))) @ D.T)
    assert dense("VVE", covariances("VVE", mass, W), 5) == pytest.approx(W / mass[:, None, None], rel=1e-11, abs=1e-12)


@every_structure
@pytest.mark.parametrize("bounds", [(0.8, np.inf), (0.0, 1.5), (0.8, 1.5), (3.0, 3.0)], ids=str)
@pytest.mark.parametrize("seed", range(2))
def test_no_member_within_the_users_bounds_is_better(name, bounds, seed):
    mass, W = problem(3, 3, seed)
    structure, regularisation = structure_named(name), Regularisation(1e-9, bounds=bounds)
    if bounds[0] > 0 and bounds[1] < np.inf and not structure.bounds_together:
        with pytest.raises(ValueError, match=r"eigenvalue_bounds.*two bounds at once"):
            structure.check(regularisation)
        return
    structure.check(regularisation)
    result = covariances(name, mass, W, regularisation)
    S = dense(name, result, 3)
    eigenvalues = np.linalg.eigvalsh(S)
    assert eigenvalues.min() >= bounds[0] * (1 - 1e-12)
    assert eigenvalues.max() <= bounds[1] * (1 + 1e-12)
    assert not result.held.any()
    members, best = Members(name, S), objective(mass, W, S)
    rng = np.random.default_rng(seed)
    for size in np.repeat([1e-6, 1e-4, 1e-2, 0.2], 50):
        other = members(size * rng.normal(size=sum(members.sizes)))
        spectra = np.linalg.eigvalsh(other)
        if spectra.min() >= bounds[0] and spectra.max() <= bounds[1]:
            assert objective(mass, W, other) >= best - 1e-12


@pytest.mark.parametrize("bounds", [(2.0, 1.0), (-1.0, 1.0), (0.0, 0.0), (0.0, 1e-9), (np.nan, 1.0)], ids=str)
@every_structure
def test_bounds_that_nothing_satisfies_are_refused(name, bounds):
    with pytest.raises(ValueError, match="eigenvalue_bounds"):
        structure_named(name).check(Regularisation(1e-6, bounds=bounds))


@every_structure
def test_only_the_floor_counts_as_holding_a_component(name):
    mass, W = problem(3, 4, 0)
    W = W * np.outer([1, 1, 1, 1e-9], [1, 1, 1, 1e-9])
    spherical = LETTERS[name][1] == "I"
    held = [covariances(name, mass, W, Regularisation(0.01, bounds=(b, np.inf))).held for b in (0.0, 0.005, 0.02)]
    assert [h.tolist() for h in held] == [[not spherical] * 3] * 2 + [[False] * 3]


BLOCKS = ((0, 3), (4, 1, 2))


@every_structure
def test_blocks_are_what_their_structure_makes_of_them(name):
    mass, W = problem(3, 5, 0)
    structure = BlockDiagonal(BLOCKS, structure_named(name))
    whole = structure.maximise(mass, W, NONE)
    expected = np.zeros_like(W)
    for block in BLOCKS:
        place = np.ix_(range(3), block, block)
        expected[place] = dense(name, covariances(name, mass, W[place]), len(block))
    assert whole.values.shape == structure.shape(3, 5)
    assert whole.values == pytest.approx(expected, rel=1e-11, abs=1e-13)
    assert structure.n_parameters(3, 5) == sum(structure_named(name).n_parameters(3, d) for d in (2, 3))
    F = whole.factors
    assert np.array_equal(F, np.tril(F))
    assert F @ whole.values @ F.transpose(0, 2, 1) == pytest.approx(np.repeat(np.eye(5)[None], 3, axis=0), abs=1e-12)
    assert whole.log_det == pytest.approx(-0.5 * np.linalg.slogdet(whole.values)[1], abs=1e-12)
    again = structure.from_values(whole.values, 3, 5)
    assert again.factors == pytest.approx(F, rel=1e-11, abs=1e-13)
    pooled = structure.pooled.maximise(mass, W, NONE).values
    assert np.array_equal(pooled, np.repeat(pooled[:1], 3, axis=0))


def test_blocks_of_several_kinds_have_their_own_bounds_and_never_raise_what_they_minimise():
    kinds, current = ("VVE", "spherical", "tied"), None
    structure = BlockDiagonal(
        ((5, 0, 2), (1,), (3, 4)), tuple(map(structure_named, kinds)), (None, (0.0, 0.25), (2.0, np.inf))
    )
    structure.check(Regularisation(0.01))
    rng = np.random.default_rng(0)
    mass, W = problem(3, 6, 0)
    for _ in range(10):
        B = np.eye(6) + 0.1 * rng.normal(size=(3, 6, 6))
        W = B @ W @ B.transpose(0, 2, 1)
        after = structure.maximise(mass, W, Regularisation(0.01, 0.01 * np.eye(6)), current)
        ridged = W + 0.01 * mass[:, None, None] * np.eye(6)
        if current is not None:
            assert objective(mass, ridged, after.values) <= objective(mass, ridged, current.values) + 1e-12
        current = after
    assert (current.values[:, 1, 1] <= 0.25).all()
    assert np.linalg.eigvalsh(current.values[:, 3:5, 3:5]).min() >= 2 - 1e-12


@pytest.mark.parametrize(
    ("blocks", "parts", "rule"),
    [
        (((0, 1), (1, 2)), 1, "exactly one block"),
        (((0, 2),), 1, "exactly one block"),
        (((0, 1), ()), 1, "no block may be empty"),
        (((0, 1), (2,)), 3, "one for each block"),
    ],
)
def test_blocks_that_are_no_partition_are_refused(blocks, parts, rule):
    with pytest.raises(ValueError, match=rule):
        BlockDiagonal(blocks, tuple(structure_named("full") for _ in range(parts)))


def test_other_data_than_the_blocks_are_of_are_refused():
    with pytest.raises(ValueError, match="a partition of 5 coordinates, not of 4"):
        BlockDiagonal(BLOCKS).maximise(*problem(2, 4, 0), NONE)
