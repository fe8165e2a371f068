"""``sinkhorn-em reproduce``: what it prints, writes and refuses."""

import pytest

from sinkhorn_em.experiments import EXPERIMENTS


def test_the_list_names_every_experiment_with_its_question(run):
    result = run("reproduce", "--list")
    assert result.exit_code == 0
    for experiment in EXPERIMENTS.values():
        assert f"{experiment.name} " in result.stdout
        assert experiment.question in result.stdout


def test_a_quick_run_prints_verdicts_and_names_its_files(run, tmp_path):
    result = run("reproduce", "landscape", "--quick", "--output", tmp_path)
    assert result.exit_code == 0, result.output
    assert "holds: L >= l at every parameter" in result.stdout
    for suffix in ("csv", "png", "svg", "md"):
        file = tmp_path / f"landscape.quick.{suffix}"
        assert file.exists()
        assert str(file) in result.stdout
    assert result.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "NAME is ''; it must be one of all, "),
        (("nothing",), "NAME is 'nothing'; it must be one of all, "),
        (("landscape", "--reps", "0"), "--reps is 0; it must be at least 1"),
        (("landscape", "--jobs", "0"), "--jobs is 0; it must be at least 1"),
        (("landscape", "--seed", "-1"), "--seed is -1; it must be"),
        (("landscape", "--format", "xls"), "--format is 'xls'; it must be one of csv, csv.gz, parquet"),
    ],
)
def test_mistakes_get_one_line(run, tmp_path, arguments, message):
    result = run("reproduce", *arguments, "--output", tmp_path / "not made")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    assert message in result.stderr
    assert not (tmp_path / "not made").exists()


def test_a_folder_that_cannot_be_made_is_an_error_of_its_option(run, tmp_path):
    (tmp_path / "file").write_text("")
    result = run("reproduce", "landscape", "--quick", "--output", tmp_path / "file" / "folder")
    assert result.exit_code == 2
    assert "--output is" in result.stderr
