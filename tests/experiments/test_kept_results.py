"""The results of full runs that are kept with the vignettes: their reports follow from their tables, with today's code."""

from pathlib import Path

import pandas as pd
import pytest

from sinkhorn_em.experiments import EXPERIMENTS
from sinkhorn_em.experiments.report import ANSWERS, markdown

KEPT = Path(__file__).resolve().parents[2] / "vignettes" / "results"
EXACT = {} if int(pd.__version__.split(".")[0]) >= 3 else {"float_precision": "round_trip"}  # the default from 3 on
README = (KEPT.parents[1] / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_verdicts_of_a_kept_report_are_those_of_its_table(name):
    (file,) = KEPT.glob(f"{name}.csv*")
    verdicts = EXPERIMENTS[name].verdicts(pd.read_csv(file, **EXACT))
    rows = markdown(["claim", "measured", "holds"], ((v.claim, v.measured, ANSWERS[v.holds]) for v in verdicts))
    report = (KEPT / f"{name}.md").read_text(encoding="utf-8")
    for row in rows.splitlines():
        assert row in report


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_what_is_kept_is_small_and_named_in_the_readme(name):
    assert sum(file.stat().st_size for file in KEPT.glob(f"{name}.*")) < 1_500_000
    assert (KEPT / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert f"| `{name}` |" in README


def test_nothing_else_is_kept():
    assert {file.name.split(".")[0] for file in KEPT.iterdir()} == set(EXPERIMENTS)
