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


#: fixtures of the session that run something long, once, for all tests of one name
LONG = {"quick", "ran"}


def pytest_collection_modifyitems(items):
    """Each file goes to one worker (--dist loadgroup), which has its fixtures once; all tests of the same long run to the same."""
    for item in items:
        name = str(item.path)
        if LONG & set(getattr(item, "fixturenames", ())):
            of_file = item.path.stem.removeprefix("test_").removesuffix("_claim")
            name = item.callspec.params.get("name", of_file) if hasattr(item, "callspec") else of_file
        item.add_marker(pytest.mark.xdist_group(name.replace("_", "-")))
