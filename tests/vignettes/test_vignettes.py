"""Every vignette runs from top to bottom in an empty folder and leaves its figure there."""

from pathlib import Path

import pytest

VIGNETTES = sorted(path.stem for path in (Path(__file__).resolve().parents[2] / "vignettes").glob("*.py"))
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.mark.parametrize("name", VIGNETTES)
def test_a_vignette_runs_and_draws_its_figure(name, ran):
    folder, _ = ran(name)
    assert (folder / f"{name}.png").read_bytes().startswith(PNG)


def test_there_is_a_vignette():
    assert VIGNETTES
