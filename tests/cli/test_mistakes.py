"""The command answers a mistake with one line that names it and the remedy, and with exit code 2."""

import sys

import numpy as np
import pandas as pd
import pytest

from sinkhorn_em import GaussianMixture

# Mistakes in the table


def test_a_missing_file_is_refused(refused, tmp_path):
    assert "does not exist" in refused(tmp_path / "none.csv", "-k", 2)


def test_a_folder_is_refused(refused, tmp_path):
    (tmp_path / "folder.csv").mkdir()
    assert "is a folder" in refused(tmp_path / "folder.csv", "-k", 2)


@pytest.mark.parametrize("name", ["table.xlsx", "table.npy.gz", "table"])
def test_a_file_of_unknown_type_is_refused(refused, tmp_path, name):
    (tmp_path / name).write_text("x\n1\n")
    assert "it must be .csv, .tsv (both also .gz), .parquet or .npy" in refused(tmp_path / name, "-k", 1)


@pytest.mark.parametrize(("text", "message"), [("", "is empty"), ("x,y\n", "has no rows")])
def test_an_empty_table_is_refused(refused, tmp_path, text, message):
    (tmp_path / "t.csv").write_text(text)
    assert message in refused(tmp_path / "t.csv", "-k", 1)


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet", "t.npy"])
def test_a_damaged_file_is_refused(refused, tmp_path, name):
    (tmp_path / name).write_bytes(b'a,b\n1,2\n"1,2,\xff3\n')
    assert "cannot be read as" in refused(tmp_path / name, "-k", 1)


def test_an_array_of_three_dimensions_is_refused(refused, tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((2, 2, 2)))
    assert "has 3 dimensions" in refused(tmp_path / "a.npy", "-k", 1)


@pytest.mark.parametrize(("entry", "kind"), [("", "a missing value"), ("inf", "an infinite value")])
def test_a_missing_or_infinite_value_is_refused_with_its_column_and_row(refused, tmp_path, entry, kind):
    (tmp_path / "t.csv").write_text(f"x,y\n1,2\n{entry},4\n5,6\n")
    line = refused(tmp_path / "t.csv", "-k", 1)
    assert f"column 'x' has {kind} in row 1 (from 0)" in line
    assert "remove or fill the row" in line


def test_missing_values_are_counted(refused, tmp_path):
    (tmp_path / "t.csv").write_text("x,y\n1,2\n,4\n,6\n")
    assert "in row 1 (from 0) and 1 more" in refused(tmp_path / "t.csv", "-k", 1)


def test_text_in_a_column_that_was_asked_for_is_refused(refused, table):
    line = refused(table, "-k", 2, "--columns", "x,kind")
    assert "column 'kind' has text, 'a' in row 0" in line


def test_a_table_of_text_alone_is_refused(refused, tmp_path):
    (tmp_path / "t.csv").write_text("x;y\n1;2\n3;4\n")
    assert "no numeric column, only x;y" in refused(tmp_path / "t.csv", "-k", 1)


@pytest.mark.parametrize("option", ["--columns", "--truth"])
def test_an_unknown_column_is_refused_and_the_known_ones_are_named(refused, table, option):
    line = refused(table, "-k", 2, option, "z")
    assert f"{option} names 'z', which is no column; the columns are x, y, kind" in line


def test_a_column_named_twice_is_refused(refused, table):
    assert "names 'x' twice" in refused(table, "-k", 2, "--columns", "x,x")


def test_a_column_that_is_feature_and_truth_is_refused(refused, table):
    assert "'x' is in --columns and in --truth" in refused(table, "-k", 2, "--columns", "x,y", "--truth", "x")


def test_a_truth_without_entries_is_refused(refused, tmp_path):
    (tmp_path / "t.csv").write_text("x,y\n1,\n2,\n3,\n")
    assert "no row" in refused(tmp_path / "t.csv", "-k", 1, "--truth", "y")


def test_more_components_than_rows_are_refused(refused, tmp_path):
    (tmp_path / "t.csv").write_text("x\n1\n2\n3\n")
    assert "--components is 4" in refused(tmp_path / "t.csv", "-k", 4)


# Mistakes in the options


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-k", 0), "--components is 0; it must be an integer of at least 1"),
        (("-k", 2, "--covariance", "round"), "--covariance is 'round'; it must be one of full, tied"),
        (("-k", 2, "--init", "magic"), "--init is 'magic'; it must be one of kmeans"),
        (("-k", 2, "--weights", "heavy"), "--weights is 'heavy'; it must be learned, uniform"),
        (("-k", 2, "--weights", ".5,.6"), "--weights is [0.5, 0.6], with sum 1.1"),
        (("-k", 2, "--weights", "1"), "--weights has shape (1,); it must be (2,)"),
        (("-k", 2, "--trim", 1), "--trim is 1.0; it must lie in [0, 1)"),
        (("-k", 2, "--tau", 7), "--tau"),
        (("-k", 2, "--tol", -1), "--tol is -1.0"),
        (("-k", 2, "--seed", -1), "--seed is -1; it must be an integer from 0 to 2^32 - 1"),
        (("-k", 2, "--compare", "kmeans"), "--compare is 'kmeans'; it must be one of em"),
        (("-k", 2, "--compare", "em", "--tau", 0), "--compare em with --tau 0"),
    ],
)
def test_an_option_out_of_range_is_refused_in_the_words_of_the_command_line(refused, table, arguments, message):
    assert message in refused(table, "--columns", "x,y", *arguments)


@pytest.mark.parametrize("option", ["--plot", "--output", "--labels"])
@pytest.mark.parametrize("place", ["missing/out.png", "folder.png", "table.csv/out.png"])
def test_an_output_that_cannot_be_written_is_refused_before_the_fit(
    refused, table, tmp_path, monkeypatch, option, place
):
    (tmp_path / "folder.png").mkdir()
    monkeypatch.setattr(GaussianMixture, "fit", lambda *_: pytest.fail("the fit has started"))
    assert f"{option} {tmp_path / place} cannot be written" in refused(table, "-k", 2, option, tmp_path / place)


def test_an_output_does_not_replace_the_table(refused, table):
    before = table.read_bytes()
    assert "--labels is" in refused(table, "-k", 2, "--labels", table)
    assert table.read_bytes() == before


def test_two_outputs_of_one_name_are_refused(refused, table, tmp_path):
    line = refused(table, "-k", 2, "--output", tmp_path / "a", "--labels", tmp_path / "a")
    assert "which is --output too" in line


def test_a_picture_of_unknown_type_is_refused(refused, table, tmp_path):
    assert ".png, .pdf, .svg" in refused(table, "-k", 2, "--plot", tmp_path / "fit.docx")


def test_an_output_that_fails_after_the_fit_leaves_the_summary(run, table, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(GaussianMixture, "save", full)
    result = run("fit", table, "-k", 2, "--output", tmp_path / "fit.json")
    assert result.exit_code == 2
    assert "log-likelihood" in result.stdout
    assert "could not be written (No space left on device)" in result.stderr


# Missing packages


def test_without_matplotlib_a_plot_is_refused_with_the_remedy(refused, table, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    line = refused(table, "-k", 2, "--plot", tmp_path / "fit.png")
    assert "pip install 'sinkhorn-em[plot]'" in line


def test_without_pyarrow_a_parquet_file_is_refused_with_the_remedy(refused, tmp_path, monkeypatch):
    pd.DataFrame({"x": [1.0, 2.0]}).to_parquet(tmp_path / "t.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "fastparquet", None)
    assert "pip install 'sinkhorn-em[parquet]'" in refused(tmp_path / "t.parquet", "-k", 1)
