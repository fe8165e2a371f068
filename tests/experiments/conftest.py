"""Figures are drawn without a display; every quick mode is run once, in a folder of its own."""

from functools import cache

import pytest

from sinkhorn_em.experiments import EXPERIMENTS, reproduce


@pytest.fixture(autouse=True)
def no_display(monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "Agg")


@pytest.fixture(scope="session")
def quick(tmp_path_factory):
    """The quick mode of an experiment, by name: its `Reproduction`."""

    @cache
    def run(name):
        for package in EXPERIMENTS[name].needs:
            pytest.importorskip(package)
        return reproduce(EXPERIMENTS[name], tmp_path_factory.mktemp(name), quick=True)

    return run
