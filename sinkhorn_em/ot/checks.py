"""What is asked of the masses, the rule and the settings of a transport problem."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np

from .._parameters import as_numbers
from .._typing import Floats
from .columns import RULES, ColumnRule, rule_for_tau

METHODS = ("newton", "sinkhorn")
EMPTY_ROWS = ("raise", "prior", "drop")
SAME_TOTAL = 1e-6  # relative difference of the totals of both marginals that rounding may make


def check_settings(method: Any, tol: Any, max_passes: Any, empty_rows: Any) -> None:
    """Raise ValueError if a setting of `solve_plan` breaks its rule."""
    if not isinstance(method, str) or method not in METHODS:
        raise ValueError(f"method is {method!r}; it must be one of {sorted(METHODS)}")
    if empty_rows not in EMPTY_ROWS:
        raise ValueError(f"empty_rows is {empty_rows!r}; it must be 'raise', 'prior' or 'drop'")
    if max_passes is not None and not (isinstance(max_passes, Integral) and int(max_passes) >= 1):
        raise ValueError(f"max_passes is {max_passes!r}; it must be an integer of at least 1, or None")
    if tol is not None and not (isinstance(tol, Real) and float(tol) > 0):
        raise ValueError(f"tol is {tol}; it must be positive: 1e-9 is the default")


def check_masses(mass: Any, size: int, name: str, other: Any, batch: tuple[int, ...] = ()) -> Floats:
    """Masses (size,), or (*batch, size) of a batch of problems, divided by their sum; uniform if there are none."""
    if mass is None:
        return np.full(size, 1 / size)
    m = np.asarray(as_numbers(name, mass), float)
    if m.shape not in ((size,), (*batch, size)):
        expected = f"({size},)" if not batch else f"({size},) or {(*batch, size)}"
        raise ValueError(f"{name} has shape {m.shape}; it must be {expected}, one mass for each of the scores' axis")
    good = (m >= 0) & np.isfinite(m)
    if not good.all():
        bad = tuple(int(i) for i in np.argwhere(~good)[0])
        raise ValueError(f"{name}{list(bad)} is {m[bad]}; masses must be finite and not negative")
    total = m.sum(axis=-1)
    if not (total > 0).all():
        raise ValueError(f"{name} sums to {total.min()}; at least one mass must be positive")
    others = None if other is None else np.asarray(as_numbers("the other marginal", other), float).sum(axis=-1)
    if others is not None and (others > 0).all() and (np.abs(others - total) > SAME_TOTAL * total).any():
        raise ValueError(
            f"{name} sums to {np.ravel(total)[0]:.6g} and the other marginal to {np.ravel(others)[0]:.6g}; both must have the "
            "same total: divide each by its sum"
        )
    return m / total[..., None]


def check_rule(rule: str | ColumnRule, tau: Any, K: int) -> ColumnRule:
    """The rule object that is meant, if it fits K columns."""
    if tau is not None:
        if rule != "fixed":
            raise ValueError(f"tau is {tau} and rule is {rule!r}; tau is short for a rule: give only one of them")
        chosen = rule_for_tau(as_numbers("tau", tau))
    elif isinstance(rule, ColumnRule):
        chosen = rule
    elif isinstance(rule, str) and rule in RULES:
        chosen = RULES[rule]()
    else:
        raise ValueError(f"rule is {rule!r}; it must be one of {sorted(RULES)} or a rule object")
    chosen.check(K)
    return chosen
