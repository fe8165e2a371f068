"""The command fits tables of every kind, says what was found, and writes what was asked for."""

import gzip
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import adjusted_rand_score

import sinkhorn_em.cli.command as command
from sinkhorn_em import GaussianMixture, __version__
from sinkhorn_em.datasets import load_crabs

ROOT = Path(__file__).resolve().parents[2]
CRABS = ROOT / "data" / "crabs.csv"
FEATURES = "FL,RW,CL,CW,BD"


def measure(output, name):
    return re.search(rf"^{re.escape(name)} +(.*)$", output, re.MULTILINE)[1].split()


def test_the_crabs_are_fitted_and_compared_with_the_truth(fit, tmp_path):
    saved = tmp_path / "fit.json"
    result = fit(CRABS, "--components", 4, "--columns", FEATURES, "--truth", "sp,sex", "--output", saved)
    assert result.stderr == ""
    assert "200 rows, 5 features (FL, RW, CL, CW, BD)" in result.stdout
    assert "4 groups of sp,sex" in result.stdout
    X, y = load_crabs(return_X_y=True)
    model = GaussianMixture(4, random_state=0).fit(X)
    assert measure(result.stdout, "log-likelihood, nats") == [f"{200 * model.score(X):.2f}"]
    assert measure(result.stdout, "BIC (lower is better)") == [f"{model.bic(X):.2f}"]
    rand = adjusted_rand_score(y, model.predict(X))
    assert measure(result.stdout, "adjusted Rand index") == [f"{rand:.3f}"]
    frame = pd.read_csv(CRABS)[FEATURES.split(",")]
    loaded = GaussianMixture.load(saved)
    np.testing.assert_array_equal(loaded.predict(frame), model.predict(X))
    np.testing.assert_array_equal(loaded.predict_proba(frame), model.predict_proba(X))
    assert loaded.get_params()["verbose"] == 0


def test_em_is_fitted_from_the_same_starts_and_the_higher_likelihood_is_named(fit):
    options = ("-k", 4, "--columns", FEATURES, "--init", "random_from_data", "--covariance", "tied")
    result = fit(CRABS, *options, "--seed", 4, "--weights", "uniform", "--compare", "em")
    X = load_crabs().data
    values = []
    for tau in (1.0, 0.0):
        model = GaussianMixture(
            4,
            covariance_type="tied",
            tau=tau,
            weights="uniform",
            init_params="random_from_data",
            random_state=4,
        )
        values.append(200 * model.fit(X).score(X))
    assert measure(result.stdout, "log-likelihood, nats") == [f"{value:.2f}" for value in values]
    better = "Sinkhorn-EM" if values[0] > values[1] else "EM"
    gap = abs(values[0] - values[1])
    assert gap > 0.1
    assert f"\n{better} has the higher log-likelihood, by {gap:.2f} nats" in result.stdout


def test_two_fits_of_equal_likelihood_are_called_equal(fit, table):
    result = fit(table, "-k", 2, "--compare", "em")
    assert "the same log-likelihood" in result.stdout


def test_columns_that_are_not_numeric_are_left_out_and_named(fit, table):
    result = fit(table, "-k", 2)
    assert result.stderr == "note: columns left out, not numeric: kind\n"
    assert "2 features (x, y)" in result.stdout


def test_known_groups_are_never_features(fit, tmp_path):
    result = fit(ROOT / "data" / "cross.csv", "-k", 2, "--truth", "group")
    assert "2 features (X1, X2)" in result.stdout


def test_rows_without_a_known_group_are_left_out_of_the_comparison(fit, table):
    frame = pd.read_csv(table)
    frame.loc[:4, "kind"] = None
    frame.to_csv(table, index=False)
    result = fit(table, "-k", 2, "--truth", "kind")
    assert measure(result.stdout, "adjusted Rand index") == ["1.000"]
    assert "2 groups of kind, known in 35 rows" in result.stdout


def test_a_header_of_numbers_is_remarked(fit, tmp_path):
    path = tmp_path / "bare.csv"
    np.savetxt(path, np.random.default_rng(0).normal(size=(20, 2)), delimiter=",")
    assert "was read as column names" in fit(path, "-k", 1).stderr


def test_the_same_numbers_give_the_same_fit_from_every_kind_of_file(fit, table, tmp_path):
    frame = pd.read_csv(table)[["x", "y"]]
    paths = [tmp_path / name for name in ("t.csv", "t.csv.gz", "t.tsv", "t.tsv.gz", "T.CSV", "t.parquet", "t.npy")]
    for path in paths:
        if path.suffix == ".parquet":
            frame.to_parquet(path)
        elif path.suffix == ".npy":
            np.save(path, frame.to_numpy())
        else:
            separator = "\t" if ".tsv" in path.suffixes else ","
            text = frame.to_csv(index=False, sep=separator).encode()
            path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    outputs = [fit(path, "-k", 2).stdout for path in paths]
    likelihoods = [measure(output, "log-likelihood, nats") for output in outputs]
    assert len(set(map(tuple, likelihoods))) == 1


def test_columns_of_an_array_are_chosen_by_number(fit, tmp_path):
    np.save(tmp_path / "a.npy", np.random.default_rng(0).normal(size=(30, 3)))
    assert "2 features (2, 0)" in fit(tmp_path / "a.npy", "-k", 1, "--columns", "2,0").stdout


def test_one_dimensional_arrays_and_single_precision_are_fitted(fit, tmp_path):
    np.save(tmp_path / "a.npy", np.random.default_rng(0).normal(size=30).astype(np.float32))
    assert "1 feature (0)" in fit(tmp_path / "a.npy", "-k", 1).stdout


def test_numbers_that_a_file_holds_as_text_are_numbers_when_asked_for(fit, tmp_path):
    frame = pd.DataFrame({"x": [str(i * i) for i in range(9)], "whole": pd.array(range(9), "Int64")})
    frame.to_parquet(tmp_path / "t.parquet")
    assert "2 features (x, whole)" in fit(tmp_path / "t.parquet", "-k", 1, "--columns", "x,whole").stdout


def test_the_labels_file_has_every_row_its_label_and_its_posterior_probability(fit, table, tmp_path):
    fit(table, "-k", 2, "--labels", tmp_path / "labels.csv", "--output", tmp_path / "fit.json")
    written = pd.read_csv(tmp_path / "labels.csv")
    assert written.columns.tolist() == ["row", "label", "probability"]
    assert written.row.tolist() == list(range(40))
    model, X = GaussianMixture.load(tmp_path / "fit.json"), pd.read_csv(table)[["x", "y"]]
    np.testing.assert_array_equal(written.label, model.predict(X))
    np.testing.assert_allclose(written.probability, model.predict_proba(X).max(axis=1), rtol=1e-12)


@pytest.mark.parametrize("name", ["fit.png", "fit.pdf", "fit.svg"])
def test_the_plot_is_written(fit, table, tmp_path, name):
    fit(table, "-k", 2, "--plot", tmp_path / name)
    assert (tmp_path / name).stat().st_size > 1000


def test_every_option_of_the_model_reaches_it(fit, table, tmp_path):
    saved = tmp_path / "fit.json"
    options = "--covariance diag --tau .5 --weights .25,.75 --trim .1 --init k-means++ --n-init 2 --seed 5"
    fit(
        table,
        "-k",
        2,
        *options.split(),
        "--tol",
        1e-5,
        "--max-iter",
        50,
        "--reg-covar",
        0.1,
        "--output",
        saved,
    )
    parameters = GaussianMixture.load(saved).get_params()
    np.testing.assert_array_equal(parameters.pop("weights"), [0.25, 0.75])
    expected = {
        "n_components": 2,
        "covariance_type": "diag",
        "tau": 0.5,
        "trim": 0.1,
        "init_params": "k-means++",
        "n_init": 2,
        "random_state": 5,
        "tol": 1e-5,
        "max_iter": 50,
        "reg_covar": 0.1,
    }
    assert {name: parameters[name] for name in expected} == expected


def test_a_fit_that_does_not_converge_warns_in_one_line_and_is_kept(fit):
    result = fit(CRABS, "-k", 4, "--columns", FEATURES, "--max-iter", 1)
    (line,) = result.stderr.splitlines()
    assert line.startswith("warning: Sinkhorn-EM: no convergence in --max-iter = 1")
    assert "raise --max-iter or --tol" in line
    assert measure(result.stdout, "converged") == ["no"]


def test_quiet_prints_nothing_but_warnings_and_errors(fit, table):
    result = fit(table, "-k", 2, "--quiet")
    assert result.stdout == result.stderr == ""


def test_only_the_first_features_of_a_wide_table_are_printed(fit, tmp_path):
    np.save(tmp_path / "a.npy", np.random.default_rng(0).normal(size=(60, 11)))
    output = fit(tmp_path / "a.npy", "-k", 1, "--covariance", "diag").stdout
    assert "(0, 1, 2, 3, 4, 5, 6, 7, and 3 more)" in output
    assert "means of 3 more features" in output


@pytest.mark.parametrize(("long", "terminal", "expected"), [(1, True, 1), (1, False, 0), (10**9, True, 0)])
def test_a_long_fit_at_a_terminal_shows_progress(table, monkeypatch, long, terminal, expected):
    seen = []
    true_fit = GaussianMixture.fit

    def spy(self, X, *rest):
        seen.append(self.verbose)
        self.verbose = 0
        return true_fit(self, X, *rest)

    class Terminal(io.StringIO):
        def isatty(self):
            return terminal

    monkeypatch.setattr(GaussianMixture, "fit", spy)
    monkeypatch.setattr(command, "LONG", long)
    monkeypatch.setattr(command.sys, "stderr", Terminal())
    command.fit(table, 2)
    assert seen[-1] == expected


def test_the_version_is_printed(run):
    result = run("--version")
    assert result.exit_code == 0
    assert result.stdout == f"sinkhorn-em {__version__}\n"


def test_help_names_the_command(run):
    assert "fit" in run("--help").stdout


def test_fit_is_a_command_of_its_own_process(table):
    code = "from sinkhorn_em.cli import app; app()"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    arguments = [sys.executable, "-c", code, "fit", str(table), "-k", "99"]
    done = subprocess.run(arguments, capture_output=True, text=True, env=environment)
    assert done.returncode == 2
    assert done.stderr.startswith("note: columns left out")
    assert "Traceback" not in done.stderr


def test_weights_may_be_learned_by_exponentiated_gradient_and_em_is_compared_with_its_own_weights(fit):
    options = ("-k", 2, "--columns", "FL,RW", "--weights", "exponentiated_gradient", "--compare", "em")
    result = fit(CRABS, *options)
    assert "weights exponentiated_gradient" in result.stdout
    assert "weights learned" in result.stdout
