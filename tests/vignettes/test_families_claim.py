"""What the vignette says of the geyser is so: the model that mclust chooses, and that heavier tails are not needed."""

import pytest


@pytest.fixture
def tables(ran):
    _, variables = ran("families")
    return variables["gaussian"], variables["families"]


def test_bic_chooses_what_mclust_chooses(tables):
    """mclust's documentation: EEE with 3 components has a BIC of -2314.316, VVE with 2 one of -2320.433."""
    gaussian, _ = tables
    assert gaussian.stack().idxmin() == ("EEE", 3)
    assert gaussian.loc["EEE", 3] == pytest.approx(2314.316, abs=0.05)
    assert gaussian.loc["VVE", 2] == pytest.approx(2320.433, abs=0.2)  # starts and stopping rules differ


def test_the_gaussian_family_needs_no_heavier_tails(tables):
    _, families = tables
    assert families.stack().idxmin() == ("gaussian", 3)
    assert families.loc["gaussian", 3] + 5 < families.drop(index="gaussian").min(axis=None)


def test_noise_and_prior_do_not_lower_bic(ran):
    variables = ran("families")[1]
    mixture, X = variables["GaussianMixture"], variables["X"]
    bic = {
        name: mixture(3, covariance_type="EEE", random_state=0, **extra).fit(X).bic(X)
        for name, extra in variables["EXTRAS"].items()
    }
    assert min(bic, key=bic.get) == "neither"
