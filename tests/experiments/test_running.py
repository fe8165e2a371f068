"""The runner: the same table for any number of jobs, any interruption and any order, and nothing lost."""

import json
import os
import signal
import subprocess
import sys
import time
import traceback

import numpy as np
import pandas as pd
import pytest

from sinkhorn_em import __version__
from sinkhorn_em.experiments import EXPERIMENTS, Experiment, ReproductionError, Verdict, reproduce
from sinkhorn_em.experiments.base import TaskError
from sinkhorn_em.experiments.journal import Journal
from sinkhorn_em.plots import panels


class Draws(Experiment):
    """The means of a few draws."""

    name, question, source = "draws", "Are draws centred?", "nobody"
    stop_at = None  # raise there
    error = KeyboardInterrupt

    def tasks(self, scale):
        return [{"shift": shift, "repetition": r} for shift in (0.0, 2.5) for r in range(scale.count(4, 2))]

    def run(self, task, rng):
        if (task["shift"], task["repetition"]) == self.stop_at:
            raise self.error("oops")
        return pd.DataFrame(
            {"draw": range(3), "mean": task["shift"] + rng.normal(size=(3, 5)).mean(axis=1), "ok": True}
        )

    def verdicts(self, table):
        return [
            Verdict("the mean of all is 1.25", f"{table['mean'].mean()}", bool(abs(table["mean"].mean() - 1.25) < 1))
        ]

    def draw(self, table):
        figure, axes = panels(1, 1, (3, 3))
        axes[0, 0].plot(table["mean"])
        return figure

    def summary(self, table):
        return table.groupby("shift", as_index=False)["mean"].mean()


def table_of(folder, **options):
    reproduce(Draws(), folder, **options)
    return (folder / "draws.csv").read_bytes()


@pytest.fixture
def whole(tmp_path):
    return table_of(tmp_path / "whole")


def test_everything_is_written_and_the_report_says_what_was_found(tmp_path):
    result = reproduce(Draws(), tmp_path, jobs=1)
    assert [file.name for file in result.files] == ["draws.png", "draws.svg", "draws.csv", "draws.md"]
    assert (tmp_path / "draws.png").read_bytes().startswith(b"\x89PNG")
    text = (tmp_path / "draws.md").read_text()
    for words in (
        "Are draws centred?",
        "the mean of all is 1.25",
        "| yes |",
        "sinkhorn-em reproduce draws --seed 0",
        "numpy",
    ):
        assert words in text
    assert list(result.table) == ["shift", "repetition", "draw", "mean", "ok"]
    assert len(result.table) == 24
    assert not list(tmp_path.glob("*.part*"))


def test_the_table_does_not_depend_on_the_number_of_jobs(tmp_path, whole):
    assert table_of(tmp_path / "two", jobs=2) == whole


def test_an_interrupted_run_goes_on_and_gives_the_same_file(tmp_path, whole, monkeypatch):
    monkeypatch.setattr(Draws, "stop_at", (2.5, 1))
    with pytest.raises(KeyboardInterrupt):
        reproduce(Draws(), tmp_path)
    kept = (tmp_path / "draws.journal.jsonl").read_text().splitlines()
    assert len(kept) == 1 + 5
    assert not (tmp_path / "draws.csv").exists()
    monkeypatch.setattr(Draws, "stop_at", (0.0, 0))  # finished: is not run again
    assert table_of(tmp_path) == whole


def test_a_line_cut_short_is_done_again(tmp_path, whole):
    reproduce(Draws(), tmp_path)
    journal = tmp_path / "draws.journal.jsonl"
    journal.write_bytes(journal.read_bytes()[:-20])
    assert table_of(tmp_path) == whole


@pytest.mark.parametrize("size", [0, 10])
def test_a_header_cut_short_begins_anew(tmp_path, whole, size):
    (tmp_path / "draws.journal.jsonl").write_bytes(b'{"experiment": "draws"'[:size])
    assert table_of(tmp_path) == whole


@pytest.mark.parametrize("broken", [b"", b"{}", b"17", b'{"task": {"shift"', b"\xff\xfe", b'{"experiment": "draws"}'])
def test_broken_lines_in_the_middle_are_done_again(tmp_path, whole, broken):
    reproduce(Draws(), tmp_path)
    journal = tmp_path / "draws.journal.jsonl"
    lines = journal.read_bytes().splitlines()
    journal.write_bytes(b"\n".join([*lines[:3], broken, *lines[4:]]) + b"\n")
    with pytest.warns(UserWarning, match=r"draws.journal.jsonl has 1 broken line\(s\), whose tasks are run again"):
        assert table_of(tmp_path) == whole


@pytest.mark.parametrize("first", [b"a,b", b"\xff", b'{"experiment": "draws"}', b"[]"])
def test_a_file_that_is_no_journal_is_left_alone(tmp_path, first):
    journal = tmp_path / "draws.journal.jsonl"
    journal.write_bytes(first + b"\n1,2")
    with pytest.raises(ReproductionError, match="holds results of something else, and this run is experiment draws, "):
        reproduce(Draws(), tmp_path)
    assert journal.read_bytes() == first + b"\n1,2"


@pytest.mark.parametrize("fresh", [False, True])
def test_one_run_at_a_time_has_the_journal(tmp_path, whole, fresh):
    pytest.importorskip("fcntl")
    reproduce(Draws(), tmp_path, reps=1)
    journal = Journal(tmp_path / "draws.journal.jsonl", "draws", 0, __version__)
    kept = journal.path.read_bytes()
    with pytest.raises(ReproductionError, match="is being written by another run"):
        reproduce(Draws(), tmp_path, fresh=fresh)
    assert journal.path.read_bytes() == kept
    journal.close()
    assert table_of(tmp_path, fresh=fresh) == whole


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_task_that_fails_is_named_and_the_others_are_kept(tmp_path, whole, monkeypatch, jobs):
    experiment = Draws()
    experiment.stop_at, experiment.error = (2.5, 3), OSError
    with pytest.raises(TaskError, match=r'draws failed at {"repetition": 3, "shift": 2.5}: OSError: oops') as caught:
        reproduce(experiment, tmp_path, jobs=jobs)
    assert "experiment.run(" in "".join(traceback.format_exception(caught.value))
    if jobs == 1:
        assert len((tmp_path / "draws.journal.jsonl").read_text().splitlines()) == 1 + 7
    assert table_of(tmp_path) == whole


def test_numbers_text_and_booleans_come_back_as_they_were(tmp_path):
    rows = {
        "float": [np.nan, np.inf, 0.1 + 0.2],
        "single": np.array([0.1, np.nan, -np.inf], np.float32),
        "int": np.array([1, -2, 2**62]),
        "bool": [True, False, True],
        "text": ["a,b|c", 'a "quote"', "line\nline \u2028 \u03b8"],
    }
    path, task = tmp_path / "journal", {"kind": "\u03b8*", "x": 0.1}
    for turn in range(2):
        journal = Journal(path, "any", 0, "1")
        if turn == 0:
            journal.add(task, pd.DataFrame(rows), 1.5, 2.0)
        table = journal.table([task])
        journal.close()
        expected = pd.DataFrame({"kind": "\u03b8*", "x": 0.1, **rows}).astype({"single": float})
        pd.testing.assert_frame_equal(table, expected, rtol=0, atol=0)


def test_rows_that_cannot_be_kept_are_refused(tmp_path):
    journal = Journal(tmp_path / "journal", "any", 0, "1")
    with pytest.raises(TypeError, match="is a Timestamp; the rows of a task hold numbers, text and booleans"):
        journal.add({"a": 1}, pd.DataFrame({"when": [pd.Timestamp(0)]}), 1.0, 1.0)
    journal.close()


def test_fewer_repetitions_give_only_those(tmp_path):
    few = table_of(tmp_path / "few", reps=2)
    reproduce(Draws(), tmp_path / "many")
    assert table_of(tmp_path / "many", reps=2) == few


def test_the_order_in_which_tasks_finish_does_not_matter(tmp_path, whole):
    reproduce(Draws(), tmp_path)
    journal = tmp_path / "draws.journal.jsonl"
    header, *lines = journal.read_text().splitlines()
    journal.write_text("\n".join([header, *reversed(lines)]) + "\n")
    assert table_of(tmp_path) == whole


def test_more_repetitions_add_to_those_there_are(tmp_path, monkeypatch):
    few = reproduce(Draws(), tmp_path, reps=2).table
    monkeypatch.setattr(Draws, "stop_at", (2.5, 1))  # among the first two: is not run again
    more = reproduce(Draws(), tmp_path, reps=3).table
    again = more[more["repetition"] < 2].reset_index(drop=True)
    pd.testing.assert_frame_equal(few, again)


def test_another_seed_gives_other_draws_and_is_not_mixed_in(tmp_path, whole):
    assert table_of(tmp_path, seed=1) != whole
    with pytest.raises(ReproductionError, match=r"draws.journal.jsonl holds results of .*seed 1, .*--fresh"):
        reproduce(Draws(), tmp_path)
    assert table_of(tmp_path, fresh=True) == whole


def test_results_of_another_version_are_not_mixed_in(tmp_path):
    reproduce(Draws(), tmp_path)
    journal = tmp_path / "draws.journal.jsonl"
    header, *lines = journal.read_text().splitlines()
    journal.write_text("\n".join([json.dumps({**json.loads(header), "version": "0.0"}), *lines]) + "\n")
    with pytest.raises(ReproductionError, match="another output folder"):
        reproduce(Draws(), tmp_path)


def test_parquet_holds_the_same_table(tmp_path, whole):
    reproduce(Draws(), tmp_path, format="parquet")
    reproduce(Draws(), tmp_path)
    assert (tmp_path / "draws.csv").read_bytes() == whole
    pd.testing.assert_frame_equal(
        pd.read_parquet(tmp_path / "draws.parquet"), pd.read_csv(tmp_path / "draws.csv"), rtol=1e-15
    )


def test_a_packed_table_is_the_same_file_twice(tmp_path):
    packed = []
    for folder in ("a", "b"):
        reproduce(Draws(), tmp_path / folder, format="csv.gz")
        packed.append((tmp_path / folder / "draws.csv.gz").read_bytes())
    assert packed[0] == packed[1]
    pd.testing.assert_frame_equal(
        pd.read_csv(tmp_path / "a" / "draws.csv.gz"), reproduce(Draws(), tmp_path / "a").table
    )


def test_draws_of_tasks_are_independent_of_each_other(whole):
    means = [float(line.split(b",")[3]) for line in whole.splitlines()[1:]]
    assert len(set(means)) == len(means)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reps": 0}, "reps is 0; it must be at least 1"),
        ({"seed": -1}, "seed is -1; it must be an integer from 0"),
        ({"jobs": 0}, "jobs is 0; it must be at least 1"),
        ({"format": "xls"}, "format is 'xls'; it must be one of csv, csv.gz, parquet"),
        ({"data": "nowhere"}, "data is nowhere; it must be a folder"),
    ],
)
def test_options_out_of_range_are_refused_before_anything_is_done(tmp_path, options, message):
    with pytest.raises(ReproductionError, match=message):
        reproduce(Draws(), tmp_path / "not made", **options)
    assert not (tmp_path / "not made").exists()


def test_settings_that_an_experiment_does_not_take_are_refused_before_anything_is_done(tmp_path, monkeypatch):
    with pytest.raises(ReproductionError, match="device is 'cuda'; draws takes no settings: leave it out"):
        reproduce(Draws(), tmp_path / "not made", settings={"device": "cuda"})
    monkeypatch.setattr(Draws, "takes", ("dataset",))
    with pytest.raises(ReproductionError, match="device is 'cuda'; draws takes only dataset: leave it out"):
        reproduce(Draws(), tmp_path / "not made", settings={"device": "cuda"})
    assert not (tmp_path / "not made").exists()


def test_settings_reach_the_design_and_the_command_of_the_report(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(Draws, "takes", ("dataset",))
    tasks = Draws.tasks
    monkeypatch.setattr(Draws, "tasks", lambda self, scale: seen.append(scale.settings) or tasks(self, scale))
    reproduce(Draws(), tmp_path, settings={"dataset": "digits"})
    assert seen == [{"dataset": "digits"}]
    assert "reproduce draws --seed 0 --jobs 1 --dataset digits`" in (tmp_path / "draws.md").read_text()


def test_a_package_that_an_experiment_needs_is_named_before_anything_is_done(tmp_path, monkeypatch):
    monkeypatch.setattr(Draws, "needs", ("no_such_package",))
    with pytest.raises(
        ImportError, match=r"draws needs no_such_package .*pip install 'sinkhorn-em\[no_such_package\]'"
    ):
        reproduce(Draws(), tmp_path / "not made")
    assert not (tmp_path / "not made").exists()


def test_a_run_that_is_killed_goes_on_and_gives_the_same_file(tmp_path):
    """The real thing: SIGKILL in the middle of the command, then the command again."""
    command = [sys.executable, "-m", "sinkhorn_em.cli", "reproduce", "landscape", "--quick", "--output"]
    journal = tmp_path / "killed" / "landscape.quick.journal.jsonl"
    process = subprocess.Popen([*command, str(tmp_path / "killed")], stderr=subprocess.DEVNULL)
    until = time.monotonic() + 120
    while not journal.exists() and time.monotonic() < until:
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert journal.exists()
    for folder in ("killed", "whole"):
        subprocess.run([*command, str(tmp_path / folder)], check=True, stdout=subprocess.DEVNULL)
    tables = [(tmp_path / folder / "landscape.quick.csv").read_bytes() for folder in ("killed", "whole")]
    assert tables[0] == tables[1]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_has_a_quick_mode_whose_claims_hold(name, quick):
    result = quick(name)
    assert result.verdicts
    failed = [verdict for verdict in result.verdicts if verdict.holds is False]
    assert not failed, failed
    assert any(verdict.holds for verdict in result.verdicts)
    assert np.isfinite(result.table.select_dtypes("number").to_numpy(float)[:, 0]).any()


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_full_design_has_distinct_tasks_and_a_claim_with_its_source(name):
    from sinkhorn_em.experiments.base import Scale, key

    experiment = EXPERIMENTS[name]
    tasks = experiment.tasks(Scale())
    assert len({key(task) for task in tasks}) == len(tasks)
    assert len(tasks) >= len(experiment.tasks(Scale(quick=True)))
    assert experiment.question.endswith("?")
    assert experiment.source


def test_the_report_adds_up_the_wall_time_of_all_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(Draws, "stop_at", (2.5, 1))
    with pytest.raises(KeyboardInterrupt):
        reproduce(Draws(), tmp_path)
    monkeypatch.setattr(Draws, "stop_at", None)
    reproduce(Draws(), tmp_path)
    records = [json.loads(line) for line in (tmp_path / "draws.journal.jsonl").read_text().splitlines()[1:]]
    wall = sum(record["wall"] for record in records)
    assert wall >= sum(record["seconds"] for record in records) > 0
    assert f"wall time {wall:.1f} s" in (tmp_path / "draws.md").read_text()


def test_a_journal_without_wall_times_is_read(tmp_path, whole):
    reproduce(Draws(), tmp_path)
    journal = tmp_path / "draws.journal.jsonl"
    header, *lines = journal.read_text().splitlines()
    old = [json.dumps({k: v for k, v in json.loads(line).items() if k != "wall"}) for line in lines]
    journal.write_text("\n".join([header, *old]) + "\n")
    assert table_of(tmp_path) == whole
    assert "wall time" not in (tmp_path / "draws.md").read_text()
