"""Running the command, and a small table for it."""

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from sinkhorn_em.cli import app


@pytest.fixture(autouse=True)
def no_display(monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "Agg")


@pytest.fixture
def table(tmp_path):
    """Two groups in two features, with a column of text."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2)) + np.repeat([[0.0], [9.0]], 20, axis=0)
    frame = pd.DataFrame({"x": X[:, 0], "y": X[:, 1], "kind": np.repeat(["a", "b"], 20)})
    frame.to_csv(tmp_path / "table.csv", index=False)
    return tmp_path / "table.csv"


def _run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def run():
    """Call the command."""
    return _run


@pytest.fixture
def fit():
    """Call ``fit``, which succeeds."""

    def call(*arguments):
        result = _run("fit", *arguments)
        assert result.exit_code == 0, result.output
        return result

    return call


@pytest.fixture
def refused():
    """Call ``fit``, which is refused: its one line on stderr."""

    def call(*arguments):
        result = _run("fit", *arguments)
        assert result.exit_code == 2, result.output
        assert result.stdout == ""
        assert isinstance(result.exception, SystemExit)
        lines = result.stderr.splitlines()
        assert len(lines) == 1
        assert lines[0].startswith("error: ")
        return lines[0]

    return call
