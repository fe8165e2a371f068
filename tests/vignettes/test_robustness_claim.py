"""What the vignette says of outliers is so: who keeps the centres, who loses them, and with which weights."""

import numpy as np
import pytest


@pytest.fixture
def errors(ran):
    _, variables = ran("robustness")
    return {key: group.to_numpy() for key, group in variables["errors"].groupby(["model", "recipe"])["error"]}


RECIPES = ("EM", "learned", "uniform", "uniform, then EM")


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_gaussian_loses_a_centre_in_every_replication(errors, recipe):
    assert (errors["Gaussian", recipe] > 1).all()


@pytest.mark.parametrize("recipe", ["learned", "uniform", "uniform, then EM"])
@pytest.mark.parametrize("model", ["Student-t", "noise"])
def test_heavy_tails_and_noise_keep_all_centres_in_every_replication(errors, model, recipe):
    assert (errors[model, recipe] < 1).all()


@pytest.mark.parametrize("recipe", ["learned", "uniform", "uniform, then EM"])
def test_trimming_keeps_all_centres_in_every_replication(errors, recipe):
    assert (errors["trimmed", recipe] < 1).all()


@pytest.mark.parametrize("model", ["Student-t", "trimmed", "noise"])
def test_em_from_the_same_starts_loses_a_centre_now_and_then(errors, model):
    lost = (errors[model, "EM"] > 1).mean()
    assert 0.1 < lost < 0.5


def test_laplace_keeps_the_centres_with_held_weights_and_not_always_with_learned_ones(errors):
    assert (errors["Laplace", "uniform"] < 1).all()
    assert 0.1 < (errors["Laplace", "learned"] > 1).mean() < 0.5


@pytest.mark.parametrize("model", ["trimmed", "noise"])
def test_letting_the_weights_go_halves_the_error(errors, model):
    assert np.median(errors[model, "uniform, then EM"]) < 0.6 * np.median(errors[model, "uniform"])


@pytest.mark.parametrize("model", ["Laplace", "Student-t", "trimmed", "noise"])
def test_outliers_move_the_centres_of_the_geyser_little(ran, model):
    moves = ran("robustness")[1]["moves"]
    kept = moves[(moves["model"] == model) & (moves["recipe"] == "uniform, then EM")]["error"]
    assert len(kept) == 8
    assert (kept < 0.15).all()


def test_outliers_move_the_centres_of_gaussians_on_the_geyser_by_more_than_a_deviation(ran):
    moves = ran("robustness")[1]["moves"]
    learned = moves[(moves["model"] == "Gaussian") & (moves["recipe"] == "learned")]["error"]
    assert (learned > 1).all()
