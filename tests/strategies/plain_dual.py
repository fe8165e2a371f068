"""An independent solver: the semi-dual written in plain NumPy and given to a general-purpose optimiser.

The penalties are written anew here, not taken from the package. A bounded potential is g = p - q with p, q >= 0, so
that its penalty -l p + u q is smooth.
"""

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax

from sinkhorn_em.ot import BoundedMass, FixedMass, FreeMass, RelaxedMass, VirtualColumn


def responsibilities(S, b, g):
    return softmax(S + np.log(b) + g, axis=1)


def smooth_part(S, a, b, g):
    return float(a @ logsumexp(S + np.log(b) + g, axis=1))


def taus(rule, K):
    """Relaxations (K,) of a rule that is not about bounds."""
    if isinstance(rule, FreeMass):
        return np.zeros(K)
    if isinstance(rule, FixedMass):
        return np.ones(K)
    assert isinstance(rule, RelaxedMass)
    return np.broadcast_to(np.asarray(rule.tau, float), K)


def extended(S, b, rule):
    """The problem with its virtual column written out: scores, masses, rule of the others, virtual columns."""
    if not isinstance(rule, VirtualColumn):
        return S, b, rule, 0
    return np.column_stack([S, np.zeros(len(S))]), np.append((1 - rule.mass) * b, rule.mass), rule.rule, 1


def minimise_dual(S, a, b, rule):
    """Potentials and value at the minimum of the semi-dual."""
    S, b, rule, virtual = extended(S, b, rule)
    K = len(b)
    if isinstance(rule, BoundedMass):
        pad = [b[-1]] * virtual
        lower = np.append(np.broadcast_to(rule.lower, K - virtual), pad)
        upper = np.append(np.broadcast_to(rule.upper, K - virtual), pad)

        def objective(x):
            p, q = x[:K], x[K:]
            c = a @ responsibilities(S, b, p - q)
            value = smooth_part(S, a, b, p - q) - lower @ p + upper @ q
            return value, np.concatenate([c - lower, upper - c])

        x, value = _minimise(objective, [(0, None)] * (2 * K))
        return x[:K] - x[K:], value

    tau = np.append(taus(rule, K - virtual), [1.0] * virtual)
    free, fixed = tau == 0, tau == 1
    soft = ~free & ~fixed
    rho = tau[soft] / (1 - tau[soft])

    def objective(g):
        t = b * fixed
        t[soft] = b[soft] * np.exp(-g[soft] / rho)
        value = smooth_part(S, a, b, g) - b[fixed] @ g[fixed] + rho @ (t[soft] - b[soft])
        gradient = a @ responsibilities(S, b, g) - t
        gradient[free] = 0.0
        return value, gradient

    return _minimise(objective, [(0, 0) if f else (None, None) for f in free])


def _minimise(objective, bounds):
    """L-BFGS, begun again until it finds nothing better: at a kink it can take a small decrease for the end."""
    options = {"maxiter": 5000, "maxfun": 50_000, "ftol": 0.0, "gtol": 1e-10, "maxcor": 30}
    x, value = np.zeros(len(bounds)), np.inf
    for _ in range(20):
        best = minimize(objective, x, jac=True, bounds=bounds, method="L-BFGS-B", options=options)
        if not best.fun < value:
            break
        x, value = best.x, float(best.fun)
    return x, value
