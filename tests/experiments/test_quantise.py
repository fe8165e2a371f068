"""Codes are used as evenly as the plan says, whatever the seed."""

import numpy as np
import pytest

from sinkhorn_em.experiments import ReproductionError, quantise_codebooks
from sinkhorn_em.experiments.quantise import _scores
from sinkhorn_em.experiments.quantise_codebooks import SHARP, quantiser


@pytest.fixture(scope="module")
def scores(quick):
    table = quick("quantise").table
    return table[(table["part"] == "scores") & (table["of"] == "held out")]


def test_the_plan_of_any_codebook_uses_its_codes_evenly(scores):
    """16 codes for 200 rows: at most a few rows are split between codes; four moved rows cost less than .005 of log2 16."""
    sharp = scores[scores["method"] == SHARP]
    assert (sharp["balanced_entropy"] > 0.98).all()
    assert (sharp["balanced_dead"] == 0).all()


def test_the_nearest_code_is_the_best_one(scores):
    assert (scores["nearest_mse"] <= scores["balanced_mse"] * (1 + 1e-12)).all()


def test_codes_that_are_equal_count_as_coincident_and_unused():
    X = np.arange(8.0)[:, None]
    row = _scores(quantiser(np.array([[1.0], [1.0], [6.0]]), 0.01), X, "train").iloc[0]
    assert row["twins"] == pytest.approx(2 / 3)
    assert row["nearest_dead"] == pytest.approx(1 / 3)
    assert row["nearest_entropy"] == pytest.approx(np.log(2) / np.log(3))
    assert row["nearest_mse"] == pytest.approx((1 + 0 + 1 + 4 + 4 + 1 + 0 + 1) / 8)


def test_without_pillow_the_message_says_what_to_install(monkeypatch):
    def missing(name):
        raise ImportError("no PIL")

    monkeypatch.setattr(quantise_codebooks, "load_sample_image", missing)
    with pytest.raises(ReproductionError, match=r"china.jpg needs Pillow .*pip install"):
        quantise_codebooks.photograph("china.jpg")
