"""Tight maximum-likelihood values computed by other programs (mclust 6.0.0 continued to 1e-12, scikit-learn, BFGS)."""

from itertools import product

import numpy as np
import pytest
from sklearn.datasets import load_iris

from sinkhorn_em import GaussianMixture
from sinkhorn_em.datasets import (
    load_acidity,
    load_banknote,
    load_crabs,
    load_diabetes,
    load_faithful,
    load_galaxies,
    load_thyroid,
)

STRUCTURE = {
    "EII": "tied_spherical",
    "VII": "spherical",
    "EEI": "tied_diag",
    "VVI": "diag",
    "EEE": "tied",
    "VVV": "full",
    "E": "tied",
    "V": "full",
}
LOADERS = {
    "faithful": lambda: load_faithful().data,
    "waiting": lambda: load_faithful().data[:, 1:],
    "eruptions": lambda: load_faithful().data[:, :1],
    "iris": lambda: load_iris().data,
    "diabetes": lambda: load_diabetes().data,
    "thyroid": lambda: load_thyroid().data,
    "banknote": lambda: load_banknote().data,
    "crabs": lambda: load_crabs().data,
    "acidity": lambda: load_acidity().data,
    "galaxies": lambda: load_galaxies().data / 1000,
}

# data, mclust model, components, free parameters with weights, log-likelihood at the stationary point
TIGHT = """
faithful EII 1 3 -2003.952036585   faithful EII 2 6 -1709.681372950   faithful EII 3 9 -1663.539599754
faithful VII 2 7 -1709.529282177   faithful VII 3 11 -1637.434417999  faithful EEI 2 7 -1157.680012342
faithful EEI 3 10 -1133.455399924  faithful VVI 1 4 -1516.705826618   faithful VVI 2 9 -1147.806352538
faithful VVI 3 14 -1131.818534839  faithful EEE 2 8 -1140.186759437   faithful EEE 3 11 -1126.315927823
faithful VVV 1 5 -1289.796745053   faithful VVV 2 11 -1130.263960185  faithful VVV 3 17 -1127.071667402
iris EII 2 10 -536.652471381   iris EII 3 15 -401.802175789   iris VII 2 11 -478.559095769   iris VII 3 17 -384.314095061
iris EEI 2 13 -488.914818690   iris EEI 3 18 -361.425522043   iris VVI 2 17 -386.185346934   iris VVI 3 26 -307.177571598
iris EEE 2 19 -296.447574769   iris EEE 3 24 -256.354043126   iris VVV 2 29 -214.354704371   iris VVV 3 44 -180.185477131
diabetes EII 3 12 -2676.430436879   diabetes VII 3 14 -2568.344662118   diabetes EEI 3 14 -2464.382779472
diabetes VVI 3 20 -2364.137202499   diabetes EEE 3 17 -2445.889904982   diabetes VVV 3 29 -2303.491843160
thyroid EEI 3 22 -2981.535797179    thyroid VVI 3 32 -2303.022330631    thyroid VVV 3 62 -2238.390440194
banknote EEI 2 19 -932.065968617   banknote EEI 3 26 -882.518404713   banknote VVI 2 25 -903.485852542
banknote VVI 3 38 -825.385255076   banknote EEE 2 34 -793.641609497   banknote EEE 3 41 -698.121212558
banknote VVV 2 55 -729.952076640   banknote VVV 3 83 -627.036589943   crabs EEE 4 38 -1361.676235423
waiting V 2 5 -1034.0017498316     waiting E 2 4 -1034.0017603578     eruptions V 2 5 -276.3600404957
acidity E 2 4 -185.9492644965
""".split()  # noqa: SIM905 (a table)
ROWS = [
    (TIGHT[i], TIGHT[i + 1], int(TIGHT[i + 2]), int(TIGHT[i + 3]), float(TIGHT[i + 4])) for i in range(0, len(TIGHT), 5)
]

# best values known to anybody; common tools stop below them (mclust's values in the comments)
BEST_KNOWN = [
    ("crabs", "VVV", 4, -1223.693022),  # -1299.024
    ("crabs", "EEE", 4, -1349.052492),  # -1361.676
    ("acidity", "V", 2, -184.644709),  # -187.2345
    ("galaxies", "V", 3, -203.179228),  # -212.0804
    ("galaxies", "E", 2, -230.352387),  # -240.354
    ("thyroid", "EEE", 3, -2888.178),  # -3028.29
    ("banknote", "VVV", 2, -718.395919),  # -729.952
    ("faithful", "VVI", 3, -1127.007520),  # -1131.8185
]


def fits(data, model, K, seeds=range(12)):
    X = LOADERS[data]()
    for init, seed, tau in product(("kmeans", "random_from_data", "random"), seeds, (1, 0)):
        yield (
            GaussianMixture(
                K,
                covariance_type=STRUCTURE[model],
                tau=tau,
                random_state=seed,
                init_params=init,
                tol=1e-13,
                max_iter=20_000,
            ).fit(X),
            X,
        )


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("data,model,K,n_parameters,reference", ROWS)
def test_a_start_reaches_the_tight_maximum_likelihood_value(data, model, K, n_parameters, reference):
    closest = np.inf
    for mixture, X in fits(data, model, K):
        closest = min(closest, abs(mixture.score(X) * len(X) - reference))
        if closest < 1e-6:
            break
    assert closest < 1e-6
    assert mixture.aic(X) == pytest.approx(-2 * reference + 2 * n_parameters, abs=1e-5)
    assert mixture.bic(X) == pytest.approx(-2 * reference + n_parameters * np.log(len(X)), abs=1e-5)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("data,model,K,reference", BEST_KNOWN)
def test_a_start_reaches_the_best_value_that_anybody_knows(data, model, K, reference):
    digits = 10.0 ** -len(str(reference).split(".")[1])  # the reference is rounded
    assert any(abs(mixture.score(X) * len(X) - reference) < max(1e-6, digits) for mixture, X in fits(data, model, K))


def test_the_parameters_of_faithful_are_those_of_three_other_programs():
    X = load_faithful().data
    mixture = GaussianMixture(2, tol=1e-14, max_iter=20_000, random_state=0).fit(X)
    order = np.argsort(mixture.means_[:, 0])
    np.testing.assert_allclose(mixture.weights_[order], [0.3558728573, 0.6441271427], atol=1e-7)
    np.testing.assert_allclose(
        mixture.means_[order], [[2.0363884550, 54.4785163806], [4.2896619734, 79.9681151778]], atol=1e-5
    )
    np.testing.assert_allclose(
        mixture.covariances_[order],
        [
            [[0.0691676728, 0.4351676275], [0.4351676275, 33.6972820929]],
            [[0.1699684353, 0.9406093141], [0.9406093141, 36.0462112590]],
        ],
        rtol=1e-5,
    )


def test_frequency_weights_give_mclusts_weighted_fit_of_faithful():
    X = load_faithful().data
    frequency = 1 + np.arange(1, len(X) + 1) % 3
    mixture = GaussianMixture(2, tol=1e-14, max_iter=20_000, random_state=0).fit(X, sample_weight=frequency)
    assert mixture.score(X, sample_weight=frequency) * frequency.sum() == pytest.approx(-2274.78897481, abs=1e-6)
    order = np.argsort(-mixture.weights_)
    np.testing.assert_allclose(mixture.weights_[order], [0.6507488519, 0.3492511482], atol=1e-6)
    np.testing.assert_allclose(
        mixture.means_[order], [[4.2871406989, 80.2134078372], [2.0273768971, 54.2795073186]], rtol=1e-6
    )
