"""The command fits every family and structure, noise, a prior and known groups, and says what it found of them."""

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import adjusted_rand_score

from sinkhorn_em import GaussianMixture, LocationScaleMixture
from sinkhorn_em.cli.models import COVARIANCES, family_name
from sinkhorn_em.families import FAMILIES, StudentT


def rows(output):
    """The table of components, by the first word of each line."""
    block = re.search(r"^( *component .*\n(?: .*\n)+)", output, re.MULTILINE)[1]
    return {line.split()[0]: line.split()[1:] for line in block.splitlines()}


@pytest.fixture
def counts(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.poisson(np.repeat([[2, 9], [12, 1]], 30, axis=0)), columns=["a", "b"])
    frame.to_csv(tmp_path / "counts.csv", index=False)
    return tmp_path / "counts.csv"


@pytest.fixture
def noisy(table):
    """The table with four rows far away."""
    frame = pd.read_csv(table)
    far = pd.DataFrame({"x": [80, -60, 70, -90], "y": [-70, 80, 60, -60], "kind": ["far"] * 4})
    pd.concat([frame, far]).to_csv(table, index=False)
    return table


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_is_fitted_and_saved(fit, table, tmp_path, family):
    frame = pd.read_csv(table)[["x", "y"]].round().abs()
    frame = (frame > 4).astype(int) if family == "bernoulli" else frame
    frame = frame[["x"]] if family == "skew_normal" else frame
    frame.to_csv(table, index=False)
    saved, labels, plot = (tmp_path / name for name in ("fit.json", "labels.csv", "fit.png"))
    options = ("--max-iter", 30, "--compare", "em", "--output", saved, "--labels", labels, "--plot", plot)
    result = fit(table, "-k", 2, "--family", family, *options)
    kind = GaussianMixture if family == "gaussian" else LocationScaleMixture
    loaded = kind.load(saved)
    assert family_name(loaded) == family
    assert (f"family {family}" in result.stdout) == (family != "gaussian")
    assert ("covariance full" in result.stdout) == hasattr(loaded, "covariances_")
    np.testing.assert_array_equal(pd.read_csv(labels).label, loaded.predict(frame))
    assert plot.stat().st_size > 1000


@pytest.mark.parametrize("name", sorted(set(COVARIANCES) - {"E", "V"}))
def test_every_structure_is_fitted(fit, table, name):
    assert f"covariance {name}," in fit(table, "-k", 2, "--covariance", name, "--max-iter", 20).stdout


@pytest.mark.parametrize("name", ["E", "V"])
def test_the_univariate_structures_are_for_one_feature(fit, refused, table, name):
    assert f"covariance {name}," in fit(table, "-k", 2, "--covariance", name, "--columns", "x").stdout
    assert f"--covariance is '{name}', for one" in refused(table, "-k", 2, "--covariance", name, "--columns", "x,y")


@pytest.mark.parametrize(
    ("df", "expected"), [("4", StudentT(4.0)), ("common", StudentT()), ("component", StudentT("component"))]
)
def test_degrees_of_freedom_are_set_and_printed(fit, table, tmp_path, df, expected):
    saved = tmp_path / "fit.json"
    output = fit(table, "-k", 2, "--family", "student_t", "--df", df, "--output", saved).stdout
    model = LocationScaleMixture.load(saved)
    assert model.family == expected
    assert rows(output)["component"][-1] == "df"
    assert [rows(output)[k][-1] for k in "01"] == [f"{value:.5g}" for value in model.df_]


def test_shape_parameters_of_other_families_are_printed(fit, table):
    output = fit(table, "-k", 2, "--family", "contaminated_gaussian").stdout
    assert rows(output)["component"][-2:] == ["contamination", "inflation"]
    output = fit(table, "-k", 2, "--family", "skew_normal", "--columns", "x").stdout
    assert rows(output)["component"][-2:] == ["scales", "slants"]


def test_rates_are_called_rates(fit, counts):
    output = fit(counts, "-k", 2, "--family", "poisson").stdout
    assert rows(output)["component"][2:] == ["rate", "a", "rate", "b"]


def test_noise_is_estimated_counted_and_labelled_minus_one(fit, noisy, tmp_path):
    labels, saved = tmp_path / "labels.csv", tmp_path / "fit.json"
    output = fit(noisy, "-k", 2, "--noise", "estimate", "--labels", labels, "--output", saved).stdout
    written, model = pd.read_csv(labels), GaussianMixture.load(saved)
    assert (written.label == -1).sum() == 4
    assert rows(output)["noise"] == ["4", f"{model.noise_weight_:.4f}"]
    X = pd.read_csv(noisy)[["x", "y"]]
    np.testing.assert_allclose(written.probability, model.predict_proba(X).max(axis=1), rtol=1e-12)


def test_a_given_share_of_noise_is_kept(fit, noisy):
    output = fit(noisy, "-k", 2, "--noise", ".1", "--weights", "uniform", "--family", "student_t").stdout
    assert rows(output)["noise"][1] == "0.1000"


def test_the_prior_of_mclust_is_used_and_named(fit, table, tmp_path):
    saved = tmp_path / "fit.json"
    assert ", prior mclust" in fit(table, "-k", 2, "--prior", "mclust", "--output", saved).stdout
    assert GaussianMixture.load(saved).prior == "mclust"


# Known groups


def test_known_groups_get_components_of_their_names_and_keep_their_rows(fit, table, tmp_path):
    frame = pd.read_csv(table)
    frame["told"] = None
    frame.loc[[0, 1, 2], "told"], frame.loc[[30, 31], "told"] = "low", "high"
    frame.to_csv(table, index=False)
    labels = tmp_path / "labels.csv"
    output = fit(table, "-k", 2, "--known", "told", "--truth", "kind", "--labels", labels).stdout
    assert ", 5 rows with a known group" in output
    assert re.search(r"^ *0 \(high\)", output, re.MULTILINE)
    assert re.search(r"^ *1 \(low\)", output, re.MULTILINE)
    written = pd.read_csv(labels).label
    assert written[[0, 1, 2]].tolist() == [1, 1, 1]
    assert written[[30, 31]].tolist() == [0, 0]
    assert adjusted_rand_score(frame["kind"], written) == 1


def test_known_numbers_are_no_features(fit, table):
    frame = pd.read_csv(table)
    frame["told"] = np.where(frame.index < 2, 7.0, np.nan)
    frame.to_csv(table, index=False)
    result = fit(table, "-k", 2, "--known", "told")
    assert "2 features (x, y)" in result.stdout
    assert "0 (7.0)" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--known", "x,y"), "--known is x,y; it must name one column"),
        (("--known", "z"), "--known names 'z', which is no column"),
        (("--known", "x", "--columns", "x,y"), "column 'x' is in --columns and in --known"),
        (("--known", "group", "--columns", "x,y"), "--components is 2, but --known has the groups a, b, c"),
        (("--known", "empty", "--columns", "x,y"), "--known is empty, but no row"),
    ],
)
def test_known_groups_that_cannot_be_used_are_refused(refused, table, arguments, message):
    frame = pd.read_csv(table)
    frame["group"], frame["empty"] = (["a", "b", "c", None] * 10), None
    frame.to_csv(table, index=False)
    assert message in refused(table, "-k", 2, *arguments)


# Row numbers


@pytest.mark.parametrize("first", [0, 1])
def test_a_column_that_numbers_the_rows_is_remarked(fit, table, first):
    frame = pd.read_csv(table)[["x", "y"]]
    frame.insert(0, "id", np.arange(40) + first)
    frame.to_csv(table, index=False)
    result = fit(table, "-k", 2)
    assert result.stderr.startswith("note: column 'id' numbers the rows and is fitted as a feature; leave it out with")
    assert "--columns x,y" in result.stderr
    assert fit(table, "-k", 2, "--columns", "id,x").stderr == ""


def test_other_whole_numbers_are_not_remarked(fit, counts):
    assert fit(counts, "-k", 2).stderr == ""


# Mistakes


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--family", "normal"), "--family is 'normal'; it must be one of gaussian, student_t"),
        (("--df", 3), "--df is 3, but --family is gaussian"),
        (("--family", "student_t", "--df", "many"), "--df is 'many'; it must be common, component, or a positive"),
        (("--family", "student_t", "--df", -1), "--df is -1.0; it must be positive"),
        (("--noise", "some"), "--noise is 'some'; it must be estimate, or the share"),
        (("--noise", 2), "--noise is 2.0; it must be"),
        (("--noise", "estimate", "--weights", "uniform"), "--noise is 'estimate' but weights are prescribed"),
        (("--prior", "flat"), "--prior is 'flat'; it must be one of mclust"),
        (("--family", "poisson"), "Poisson takes counts"),
        (("--family", "gumbel", "--covariance", "VEE"), "--covariance is 'VEE'; it is about scale matrices"),
        (("--family", "gumbel", "--prior", "mclust"), "--prior is 'mclust'; it is about scale matrices"),
        (("--family", "skew_normal"), "SkewNormal takes one"),
    ],
)
def test_options_that_do_not_fit_are_refused_in_the_words_of_the_command_line(refused, table, arguments, message):
    assert message in refused(table, "-k", 2, "--columns", "x,y", *arguments)
