"""Transport problems, many of them with known answers, as Hypothesis strategies.

The solved ones are built backwards: draw the plan's responsibilities R, row masses a and potentials g; then the
scores S = log R - log b - g, and the b or the bounds that the rule asks of c = R' a, make exactly that plan optimal.
"""

from typing import NamedTuple

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import softmax

from sinkhorn_em.ot import BoundedMass, FixedMass, FreeMass, RelaxedMass, VirtualColumn

LARGEST_LOGIT = 2.0  # a responsibility is at least exp(-4)/K: every pair of columns overlaps, so g is well determined

modest = settings(max_examples=40, deadline=None, derandomize=True)
few = settings(max_examples=15, deadline=None, derandomize=True)


class Problem(NamedTuple):
    scores: np.ndarray  # (n, K)
    row_mass: np.ndarray
    column_mass: np.ndarray


class Solved(NamedTuple):
    """A problem, its rule, and its plan: responsibilities and potentials, with those of a virtual column."""

    problem: Problem
    rule: object
    responsibilities: np.ndarray
    potentials: np.ndarray

    @property
    def mass(self):
        return self.problem.row_mass @ self.responsibilities


def floats(low, high):
    return st.floats(low, high, allow_nan=False)


def vectors(size, low, high):
    return arrays(np.float64, size, elements=floats(low, high))


@st.composite
def masses(draw, size):
    """Positive masses of sum 1, none smaller than a fortieth of another."""
    m = draw(vectors(size, 0.05, 2.0))
    return m / m.sum()


@st.composite
def problems(draw, rows=(1, 30), columns=(1, 6), largest=4.0):
    """Any scores in [-largest, largest] and any positive masses."""
    n, K = draw(st.integers(*rows)), draw(st.integers(*columns))
    return Problem(draw(vectors((n, K), -largest, largest)), draw(masses(n)), draw(masses(K)))


@st.composite
def drawn_plans(draw, columns=(2, 6)):
    """R (n, K), a (n,), g (K,), and a row offset u (n, 1) that must not matter."""
    n, K = draw(st.integers(2, 30)), draw(st.integers(*columns))
    R = softmax(draw(vectors((n, K), -LARGEST_LOGIT, LARGEST_LOGIT)), axis=1)
    return R, draw(masses(n)), draw(vectors(K, -3, 3)), draw(vectors((n, 1), -50, 50))


@st.composite
def solved_free(draw):
    R, a, g, u = draw(drawn_plans())
    b = draw(masses(len(g)))
    return Solved(Problem(np.log(R) - np.log(b) + u, a, b), FreeMass(), R, np.zeros_like(g))


@st.composite
def solved_fixed(draw):
    R, a, g, u = draw(drawn_plans())
    b = a @ R
    return Solved(Problem(np.log(R) - np.log(b) - g + u, a, b), FixedMass(), R, g - b @ g)


@st.composite
def solved_relaxed(draw):
    """b = c exp(g/rho), with the constant in g that makes b sum to 1."""
    R, a, g, u = draw(drawn_plans())
    tau = draw(floats(0.2, 0.95))
    rho = tau / (1 - tau)
    b = a @ R * np.exp(g / rho)
    g = g - rho * np.log(b.sum())
    b = b / b.sum()
    return Solved(Problem(np.log(R) - np.log(b) - g + u, a, b), RelaxedMass(tau), R, g)


@st.composite
def solved_bounded(draw):
    """A bound touches where g is not 0; at least one column is strictly inside."""
    R, a, g, u = draw(drawn_plans())
    side = draw(arrays(np.int64, len(g), elements=st.integers(-1, 1)))
    side[draw(st.integers(0, len(g) - 1))] = 0
    g = np.where(side == 0, 0.0, side * (0.1 + np.abs(g)))
    b, c = draw(masses(len(g))), a @ R
    lower, upper = np.where(side > 0, c, 0.5 * c), np.where(side < 0, c, np.minimum(2 * c, 1.0))
    return Solved(Problem(np.log(R) - np.log(b) - g + u, a, b), BoundedMass(lower, upper), R, g)


@st.composite
def solved_virtual(draw):
    """The virtual column's score is 0 in every row, which says what the row offset is."""
    R, a, g, _ = draw(drawn_plans(columns=(3, 6)))
    c = a @ R
    g = g - c @ g
    lse = np.log(c[-1]) + g[-1] - np.log(R[:, -1:])
    S = np.log(R[:, :-1]) + lse - np.log(c[:-1]) - g[:-1]
    return Solved(Problem(S, a, c[:-1] / (1 - c[-1])), VirtualColumn(float(c[-1])), R, g)


def solved():
    """A solved problem of any rule."""
    return st.one_of(solved_free(), solved_fixed(), solved_relaxed(), solved_bounded(), solved_virtual())


@st.composite
def rules(draw, K, virtual=True):
    """Any rule for K columns, feasible for every problem without -inf."""
    kind = draw(st.sampled_from(["free", "fixed", "tau", "taus", "bounded"]))
    m = draw(floats(0.05, 0.6)) if virtual and draw(st.booleans()) else 0.0
    if kind == "bounded":
        middle = (1 - m) * draw(masses(K))
        lower = middle * draw(vectors(K, 0, 1))
        rule = BoundedMass(lower, np.minimum(middle * draw(floats(1.05, 3)), 1.0))
    elif kind == "taus":
        rule = RelaxedMass(draw(arrays(np.float64, K, elements=st.sampled_from([0.0, 0.3, 0.9, 1.0]))))
    elif kind == "tau":
        rule = RelaxedMass(draw(floats(0.05, 0.98)))
    else:
        rule = {"free": FreeMass(), "fixed": FixedMass()}[kind]
    return VirtualColumn(m, rule) if m else rule


@st.composite
def problems_with_rules(draw, virtual=True, **sizes):
    problem = draw(problems(**sizes))
    return problem, draw(rules(len(problem.column_mass), virtual))


def least_curvature(problem, rule, responsibilities, potentials):
    """Smallest curvature of the semi-dual over the potentials that are not held.

    An error of e in the column masses is one of at most e over this in g, and in R.
    """
    b = rule.extend(problem.column_mass)
    c = problem.row_mass @ responsibilities
    curvature, moves = rule.curvature(potentials, b), rule.movable(potentials, b, c)
    H = np.diag(c + curvature)
    H -= (responsibilities * problem.row_mass[:, None]).T @ responsibilities
    constant = bool(moves.all() and not curvature.any())  # then a constant added to g changes nothing
    return float(np.append(np.linalg.eigvalsh(H[np.ix_(moves, moves)]), np.inf)[int(constant)])


def separated_clusters(seed, separation, n=1500, K=12):
    """Scores of n points around K centres ``separation`` apart, with each centre's share of the points as b."""
    rng = np.random.default_rng(seed)
    mu = rng.normal(size=(K, 2)) * separation
    z = rng.choice(K, n, p=rng.dirichlet(np.full(K, 5.0)))
    X = mu[z] + rng.normal(size=(n, 2))
    S = -0.5 * ((X[:, None] - mu) ** 2).sum(-1)
    counts = np.maximum(np.bincount(z, minlength=K), 1)
    return Problem(S, np.full(n, 1 / n), counts / counts.sum())
