"""Column rules: what the transport problem asks of the mass of each column.

With column masses b and potentials g (in nats), the semi-dual is

    minimise over g:   sum_i a_i lse_k(S_ik + log b_k + g_k) + sum_k psi_k(g_k),

and a rule is its second term: `penalty` psi, `target` t = -psi' (optimal means: column mass c equals t) and `curvature`
psi''. The first term is invariant to a constant added to g; a rule says with `translate` where the constant goes.
"""

from typing import Any

from .base import ColumnRule
from .bounded import BoundedMass
from .marginals import FixedMass, FreeMass, RelaxedMass, rule_for_tau
from .virtual import VirtualColumn

#: rules by name
RULES: dict[str, Any] = {"free": FreeMass, "fixed": FixedMass, "relaxed": RelaxedMass, "bounded": BoundedMass}

__all__ = [
    "RULES",
    "BoundedMass",
    "ColumnRule",
    "FixedMass",
    "FreeMass",
    "RelaxedMass",
    "VirtualColumn",
    "rule_for_tau",
]
