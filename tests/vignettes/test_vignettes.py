"""Every vignette runs from top to bottom in an empty folder and leaves its figure there."""

import runpy
from pathlib import Path

import pytest

VIGNETTES = sorted((Path(__file__).resolve().parents[2] / "vignettes").glob("*.py"))
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.mark.parametrize("path", VIGNETTES, ids=lambda path: path.stem)
def test_a_vignette_runs_and_draws_its_figure(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    runpy.run_path(str(path), run_name="__main__")
    import matplotlib.pyplot as plt  # here: the backend is chosen by the first import

    plt.close("all")
    picture = tmp_path / f"{path.stem}.png"
    assert picture.read_bytes().startswith(PNG)


def test_there_is_a_vignette():
    assert VIGNETTES
