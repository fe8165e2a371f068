"""What the README shows is what happens."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from sinkhorn_em.cli import app

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_python_example_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(re.search(r"```python\n(.*?)```", README, re.S)[1], {})
    assert (tmp_path / "crabs.json").exists()
    assert len(capsys.readouterr().out.split()) == 3


@pytest.mark.parametrize("number", range(1, len(re.findall(r"```python\n", README))))
def test_the_other_examples_run(number, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(re.findall(r"```python\n(.*?)```", README, re.S)[number], {"__name__": "readme"})
    assert capsys.readouterr().out


def test_the_family_of_your_own_keeps_the_contract():
    from scipy.integrate import quad

    source = next(block for block in re.findall(r"```python\n(.*?)```", README, re.S) if "(Generator)" in block)
    assert len(source[source.index("@dataclass") : source.index("X = ")].strip().splitlines()) < 40
    namespace = {"__name__": "readme"}
    exec(source, namespace)
    generator, model, X = namespace["Hyperbolic"](), namespace["model"], namespace["X"]

    def density(z):
        q = np.array([[z * z]])
        generator.log_density(q, 1)
        return float(np.exp(q[0, 0]))

    assert quad(density, -np.inf, np.inf)[0] == pytest.approx(1.0, abs=1e-8)
    assert generator.cdf(0.7) == pytest.approx(0.5 + quad(density, 0, 0.7)[0], abs=1e-7)
    assert np.abs(generator.draw(4000, 1, np.random.default_rng(0))).mean() == pytest.approx(
        2 * quad(lambda z: z * density(z), 0, np.inf)[0], rel=0.05
    )
    assert np.diff(model.lower_bounds_[-model.n_iter_ :]).min() >= -1e-12
    sample = model.sample(4000)[0]
    assert model.score(sample) == pytest.approx(model.score(X), abs=0.2)


def test_the_command_finds_what_em_misses(tmp_path, monkeypatch):
    command = re.search(r"sinkhorn-em (fit data/crabs.csv .*)", README)[1]
    monkeypatch.chdir(ROOT)
    arguments = [str(tmp_path / a) if a.endswith(".png") else a for a in shlex.split(command)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0
    ours, theirs = map(float, re.search(r"adjusted Rand index\s+(\S+)\s+(\S+)", result.output).groups())
    assert ours > 0.85 > 0.8 > theirs
    assert (tmp_path / "crabs.png").exists()


def test_every_vignette_has_its_line():
    for vignette in (ROOT / "vignettes").glob("*.py"):
        assert f"vignettes/{vignette.name}" in README


def test_every_file_named_exists():
    for path in re.findall(r"`((?:sinkhorn_em|tests|vignettes|data)/[\w/.]+)`", README):
        assert (ROOT / path).exists(), path


@pytest.mark.parametrize("seed", range(3))
def test_the_claim_about_k_means_starts_holds_beyond_one_seed(seed):
    from sklearn.metrics import adjusted_rand_score

    from sinkhorn_em import GaussianMixture
    from sinkhorn_em.datasets import load_crabs

    X, groups = load_crabs(return_X_y=True)
    found = {}
    for tau in (0, 1):
        fits = [
            GaussianMixture(
                4, covariance_type="tied", tau=tau, weights="uniform", random_state=100 * seed + s
            ).fit_predict(X)
            for s in range(15)
        ]
        found[tau] = sum(adjusted_rand_score(groups, labels) > 0.8 for labels in fits)
    assert found[1] >= 12 and found[0] <= 5
