"""The command ``sinkhorn-em``: fit a mixture to a table and say what was found."""

from .command import app
from .reproduce import reproduce

app.command()(reproduce)

__all__ = ["app"]
