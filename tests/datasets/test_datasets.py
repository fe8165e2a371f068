"""The data sets are those that the literature describes, and the loaders keep scikit-learn's conventions."""

import hashlib
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris

from sinkhorn_em import datasets
from sinkhorn_em.datasets.files import Source, load

ROOT = Path(__file__).resolve().parents[2]
SHAPES = {
    "faithful": (272, 2),
    "crabs": (200, 5),
    "diabetes": (145, 3),
    "banknote": (200, 6),
    "thyroid": (215, 5),
    "galaxies": (82, 1),
    "acidity": (155, 1),
    "chevron": (1104, 2),
    "cross": (500, 2),
    "gvhd": (9083, 4),
}
COUNTS = {
    "crabs": {"blue male": 50, "blue female": 50, "orange male": 50, "orange female": 50},
    "diabetes": {"Normal": 76, "Chemical": 36, "Overt": 33},
    "banknote": {"genuine": 100, "counterfeit": 100},
    "thyroid": {"Normal": 150, "Hyper": 35, "Hypo": 30},
    "chevron": {"data": 350, "noise": 754},
    "cross": {"1": 250, "2": 250},
}
UNLABELLED = sorted(SHAPES.keys() - COUNTS.keys())


def loader(name):
    return getattr(datasets, f"load_{name}")


@pytest.mark.parametrize("name", SHAPES)
def test_data_are_finite_floats_of_the_published_shape(name):
    bunch = loader(name)()
    assert bunch.data.shape == SHAPES[name]
    assert bunch.data.dtype == np.float64
    assert np.isfinite(bunch.data).all()
    assert len(bunch.feature_names) == SHAPES[name][1]


@pytest.mark.parametrize("name", COUNTS)
def test_groups_have_the_published_sizes(name):
    bunch = loader(name)()
    sizes = np.bincount(bunch.target)
    assert dict(zip(bunch.target_names.tolist(), sizes.tolist(), strict=True)) == COUNTS[name]


@pytest.mark.parametrize("name", UNLABELLED)
def test_unlabelled_data_have_no_target(name):
    bunch = loader(name)()
    assert bunch.target is None
    assert bunch.target_names is None
    X, y = loader(name)(return_X_y=True)
    assert X.shape == SHAPES[name]
    assert y is None


def test_the_control_patient_has_6809_cells_and_differs_from_the_other():
    control = datasets.load_gvhd("control").data
    assert control.shape == (6809, 4)
    assert not np.array_equal(control[:100], datasets.load_gvhd().data[:100])


def test_an_unknown_patient_is_refused_by_name():
    with pytest.raises(ValueError, match=r"subset='both' must be 'positive' or 'control'"):
        datasets.load_gvhd("both")


def test_acidity_has_the_published_mean():
    assert datasets.load_acidity().data.mean() == pytest.approx(5.105, abs=5e-4)  # three digits are published


def test_crabs_leave_out_the_running_index():
    assert datasets.load_crabs().feature_names == ["FL", "RW", "CL", "CW", "BD"]


def test_orange_crabs_are_the_second_hundred():
    bunch = datasets.load_crabs()
    assert np.array_equal(bunch.target, np.repeat([0, 1, 2, 3], 50))


def test_counterfeit_notes_have_the_shorter_diagonal():
    X, y = datasets.load_banknote(return_X_y=True)
    assert X[y == 1, 5].mean() < X[y == 0, 5].mean()


def test_cross_has_its_long_axis_across_in_each_group():
    X, y = datasets.load_cross(return_X_y=True)
    spread = np.array([X[y == k].std(axis=0) for k in range(2)])
    # the standard error of a standard deviation of 250 draws is 4.5 %; four of them
    assert spread == pytest.approx(np.array([[1, 9], [9, 1]]), rel=0.18)


@pytest.mark.parametrize(
    ("name", "row", "column", "flawed", "right"),
    [("diabetes", 104, "insulin", 45, 455), ("galaxies", 78, "velocity", 26690, 26960)],
)
def test_the_known_flaw_is_kept_unless_a_correction_is_asked_for(name, row, column, flawed, right):
    shipped, corrected = loader(name)(), loader(name)(corrected=True)
    k = shipped.feature_names.index(column)
    assert shipped.data[row - 1, k] == flawed
    assert corrected.data[row - 1, k] == right
    assert np.count_nonzero(shipped.data != corrected.data) == 1


def test_loading_twice_gives_arrays_that_do_not_share_memory():
    first = datasets.load_faithful().data
    first[:] = 0
    assert datasets.load_faithful().data.min() > 0


@pytest.mark.parametrize("name", COUNTS)
def test_as_frame_gives_the_same_pandas_types_as_scikit_learn(name):
    ours, theirs = loader(name)(as_frame=True), load_iris(as_frame=True)
    for key in ("data", "target", "frame"):
        assert type(ours[key]) is type(theirs[key])
    assert list(ours.frame.columns) == [*ours.feature_names, "target"]
    assert ours.target.name == theirs.target.name
    assert np.array_equal(ours.data.to_numpy(), loader(name)().data)


@pytest.mark.parametrize("name", UNLABELLED)
def test_a_frame_without_labels_is_the_data(name):
    bunch = loader(name)(as_frame=True)
    pd.testing.assert_frame_equal(bunch.frame, bunch.data)
    assert bunch.target is None


@pytest.mark.parametrize("as_frame", [False, True])
def test_return_X_y_gives_the_data_and_target_of_the_bunch(as_frame):
    bunch = datasets.load_thyroid(as_frame=as_frame)
    X, y = datasets.load_thyroid(return_X_y=True, as_frame=as_frame)
    assert np.array_equal(X, bunch.data)
    assert np.array_equal(y, bunch.target)


def test_a_bunch_has_the_keys_of_scikit_learn():
    assert datasets.load_crabs().keys() >= load_iris().keys() - {"data_module"}


@pytest.mark.parametrize("name", SHAPES)
def test_the_description_names_every_column_and_the_source(name):
    bunch = loader(name)()
    assert "Source:" in bunch.DESCR
    for column in bunch.feature_names:
        assert f"`{column}`" in bunch.DESCR
    assert Path(bunch.filename).is_file()


def test_a_missing_file_names_the_places_looked_at_and_the_remedy():
    with pytest.raises(FileNotFoundError, match=r"'absent.csv' must be at .*data.* or .*data.*; reinstall"):
        load(Source("absent", ("x",)), False, False)


def test_provenance_lists_every_file_with_its_checksum():
    table = (ROOT / "data" / "PROVENANCE.md").read_text(encoding="utf-8")
    listed = dict(re.findall(r"^\| (\S+\.(?:csv|csv\.gz|npz)) \|.*\| ([0-9a-f]{64}) \|$", table, re.MULTILINE))
    paths = [path for path in (ROOT / "data").iterdir() if path.name != "PROVENANCE.md"]
    assert listed == {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def test_a_wheel_carries_the_data(tmp_path):
    command = [
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        str(tmp_path),
        str(ROOT),
    ]
    subprocess.run(command, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert names >= {f"sinkhorn_em/data/{path.name}" for path in (ROOT / "data").iterdir()}


def test_simulated_counts_are_multinomial_by_default():
    _, labels = datasets.simulate_gaussian_mixture(10_000, [0.2, 0.8], [[0.0], [1.0]], [[1.0]], random_state=0)
    # binomial standard deviation 40; five of them
    assert abs(np.count_nonzero(labels == 0) - 2000) <= 200


@pytest.mark.parametrize(
    ("n_samples", "weights", "counts"),
    [
        (10, [0.5, 0.3, 0.2], [5, 3, 2]),
        (100, [0.29, 0.71], [29, 71]),  # 100 * 0.29 is just below 29 in floating point
        (10, [1 / 3, 1 / 3, 1 / 3], [4, 3, 3]),  # the first of ties
        (7, [0.25, 0.75, 0.0], [2, 5, 0]),
        (1, [0.4, 0.6], [0, 1]),
    ],
)
def test_balanced_counts_round_by_largest_remainder(n_samples, weights, counts):
    means = np.zeros((len(weights), 1))
    _, labels = datasets.simulate_gaussian_mixture(
        n_samples, weights, means, [[1.0]], random_state=0, balanced_counts=True
    )
    assert np.bincount(labels, minlength=len(weights)).tolist() == counts


def test_each_component_has_its_mean_and_covariance():
    means = np.array([[0.0, 5.0], [-3.0, 1.0]])
    covariances = np.array([[[2.0, 0.9], [0.9, 1.0]], [[0.5, -0.3], [-0.3, 1.5]]])
    X, labels = datasets.simulate_gaussian_mixture(
        40_000, [0.5, 0.5], means, covariances, random_state=1, balanced_counts=True
    )
    for k in range(2):
        draws = X[labels == k]
        # largest standard errors at n = 20000: sqrt(2 / n) = .01 of a mean, .02 of a variance; five of them
        assert draws.mean(axis=0) == pytest.approx(means[k], abs=0.05)
        assert np.cov(draws.T) == pytest.approx(covariances[k], abs=0.1)


def test_one_covariance_serves_all_components():
    common = np.array([[2.0, 0.5], [0.5, 1.0]])
    means = np.array([[0.0, 0.0], [9.0, 9.0]])
    one, _ = datasets.simulate_gaussian_mixture(50, [0.5, 0.5], means, common, random_state=3)
    two, _ = datasets.simulate_gaussian_mixture(50, [0.5, 0.5], means, [common] * 2, random_state=3)
    assert np.array_equal(one, two)


def test_a_seed_fixes_the_draws_and_another_changes_them():
    def draw(seed):
        return datasets.simulate_gaussian_mixture(30, [0.5, 0.5], [[0.0], [4.0]], [[1.0]], random_state=seed)

    (X, labels), (X_again, labels_again), (X_other, _) = draw(7), draw(np.random.default_rng(7)), draw(8)
    assert np.array_equal(X, X_again)
    assert np.array_equal(labels, labels_again)
    assert not np.array_equal(X, X_other)


def test_draws_come_in_random_order():
    _, labels = datasets.simulate_gaussian_mixture(200, [0.5, 0.5], [[0.0], [4.0]], [[1.0]], random_state=0)
    assert not np.array_equal(labels, np.sort(labels))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_samples": 0}, r"n_samples=0 must be an integer of at least 1"),
        ({"n_samples": 2.5}, r"n_samples=2.5 must be an integer"),
        ({"weights": [0.5, 0.6]}, r"weights=\[0.5, 0.6\] must be .* sum to 1; divide"),
        ({"weights": [-0.5, 1.5]}, r"weights=\[-0.5, 1.5\] must be a vector of non-negative numbers"),
        ({"weights": [np.nan, 1.0]}, r"weights=\[nan, 1.0\] must be"),
        ({"means": [0.0, 1.0]}, r"means=\[0.0, 1.0\] must be .* \(K, d\) with K = 2.*means\[:, None\]"),
        ({"means": [[0.0], [np.inf]]}, r"means=\[\[0.0\], \[inf\]\] must be a finite array"),
        ({"covariances": [1.0, 1.0]}, r"covariances of shape \(2,\) must have the shape .*\(2, 1, 1\)"),
        ({"covariances": [[[1.0]], [[0.0]]]}, r"covariances\[1\]=\[\[0.0\]\] must be .*positive definite"),
        ({"covariances": [[np.inf]]}, r"covariances\[0\]=\[\[inf\]\] must be finite"),
        ({"means": np.zeros((2, 2)), "covariances": [[1.0, 0.5], [0.0, 1.0]]}, r"must be finite, symmetric"),
    ],
)
def test_a_bad_parameter_is_named_with_its_value_and_its_rule(change, message):
    good = {"n_samples": 10, "weights": [0.5, 0.5], "means": [[0.0], [1.0]], "covariances": [[1.0]]}
    with pytest.raises(ValueError, match=message):
        datasets.simulate_gaussian_mixture(**(good | change))


def test_many_to_one_gives_the_truth_and_the_bad_start():
    bunch = datasets.simulate_many_to_one(5, 3000, random_state=0)
    assert bunch.data.shape == (3000, 1)
    assert bunch.means.ravel().tolist() == [-5, 5, 50]
    assert bunch.start.ravel().tolist() == [0, 49, 51]
    for k in range(3):
        # about 1000 draws of variance 1 each: standard error .032; five of them
        assert bunch.data[bunch.target == k].mean() == pytest.approx(bunch.means[k, 0], abs=0.16)


@pytest.mark.parametrize("radius", [0, -1.0, np.nan, np.inf])
def test_many_to_one_needs_a_positive_radius(radius):
    with pytest.raises(ValueError, match=r"radius=.* must be positive and finite"):
        datasets.simulate_many_to_one(radius, 10)
