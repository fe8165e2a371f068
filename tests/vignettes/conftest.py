"""Every vignette is run once, in an empty folder, and its variables are kept for the tests of what it claims."""

import runpy
from functools import cache
from pathlib import Path

import pytest

VIGNETTES = Path(__file__).resolve().parents[2] / "vignettes"


@pytest.fixture(scope="session")
def ran(tmp_path_factory):
    """Run a vignette, by name: the folder that it ran in, and its variables."""

    @cache
    def run(name):
        folder = tmp_path_factory.mktemp(name)
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            patch.setenv("MPLBACKEND", "Agg")
            variables = runpy.run_path(str(VIGNETTES / f"{name}.py"), run_name="__main__")
            import matplotlib.pyplot as plt  # here: the backend is chosen by the first import

            plt.close("all")
        return folder, variables

    return run
