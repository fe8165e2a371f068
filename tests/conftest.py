"""Fixtures for every test."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared() -> Path:
    """A folder beside the checkout with large data sets that are not part of the project."""
    folder = Path(__file__).resolve().parents[2] / "shared"
    if not folder.is_dir():
        pytest.skip(f"{folder} is absent: the large data sets are not part of the project")
    return folder
