"""The command ``sinkhorn-em``: fit a mixture to a table and say what was found."""

from .command import app

__all__ = ["app"]
