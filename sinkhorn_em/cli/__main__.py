"""``python -m sinkhorn_em.cli``."""

from . import app

app()
