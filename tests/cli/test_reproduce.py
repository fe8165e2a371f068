"""``sinkhorn-em reproduce``: what it prints, writes and refuses."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

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
        ((), "NAME is missing; it must be one of all, "),
        (("nothing",), "NAME is 'nothing'; it must be one of all, "),
        (("landscape", "--reps", "0"), "--reps is 0; it must be at least 1"),
        (("landscape", "--jobs", "0"), "--jobs is 0; it must be at least 1"),
        (("landscape", "--seed", "-1"), "--seed is -1; it must be"),
        (("landscape", "--format", "xls"), "--format is 'xls'; it must be one of csv, csv.gz, parquet"),
        (("landscape", "--data", "nowhere"), "--data is nowhere; it must be a folder"),
        (("landscape", "--dataset", "mnist"), "--dataset is 'mnist'; landscape takes no settings: leave it out"),
        (("landscape", "--seeds", "0"), "--reps is 0; it must be at least 1"),
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


@pytest.mark.parametrize("package", ["matplotlib", "pyarrow"])
def test_a_missing_package_is_named_before_anything_is_done(run, tmp_path, monkeypatch, package):
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    result = run("reproduce", "landscape", "--quick", "--format", "parquet", "--output", tmp_path / "not made")
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
    assert f"need{'s' * (package == 'pyarrow')} {package}" in result.stderr
    assert "pip install 'sinkhorn-em[" in result.stderr
    assert not (tmp_path / "not made").exists()


@pytest.mark.filterwarnings("default")
def test_a_broken_line_of_the_journal_is_said_in_one_line_and_done_again(run, tmp_path):
    command = ("reproduce", "uniqueness", "--quick", "--output", tmp_path)
    run(*command)
    table, journal = tmp_path / "uniqueness.quick.csv", tmp_path / "uniqueness.quick.journal.jsonl"
    whole, lines = table.read_bytes(), journal.read_bytes().split(b"\n")
    journal.write_bytes(b"\n".join([*lines[:4], lines[4][:9] + b"\xff", *lines[5:]]))
    table.unlink()
    result = run(*command)
    assert result.exit_code == 0
    assert result.stderr == f"warning: {journal} has 1 broken line(s), whose tasks are run again\n"
    assert table.read_bytes() == whole


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_run_that_is_killed_leaves_no_process_behind(tmp_path, number):
    command = [sys.executable, "-m", "sinkhorn_em.cli", "reproduce", "many-to-one", "--quick", "--jobs", "2"]
    process = subprocess.Popen([*command, "--output", str(tmp_path)], stderr=subprocess.PIPE, start_new_session=True)
    journal = tmp_path / "many-to-one.quick.journal.jsonl"
    _wait(lambda: journal.exists() and journal.stat().st_size > 0)
    assert _session(process.pid)
    os.kill(process.pid, number)
    stderr = process.communicate(timeout=60)[1].decode()
    _wait(lambda: not _session(process.pid))
    assert not _session(process.pid)
    if number == signal.SIGTERM:
        assert process.returncode == 128 + number
        assert stderr.startswith("note: interrupted; what is finished is kept in")


def _wait(condition):
    until = time.monotonic() + 120
    while not condition() and time.monotonic() < until:
        time.sleep(0.05)


def _session(leader):
    """Living processes that ``leader``, the first of a session, has started."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, _, _, session = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
        except OSError:  # has just ended
            continue
        if int(session) == leader and int(folder.name) != leader and state != "Z":
            found.append(folder.name)
    return found


def test_experiments_are_loaded_for_no_other_command():
    code = "import sys, sinkhorn_em.cli; sys.exit('sinkhorn_em.experiments' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
