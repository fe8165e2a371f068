"""Every claim of the papers as a command: one file an experiment, no algorithm in it.

`base` says what an experiment is, `run` runs one, `journal` keeps results as they come, `statistics` has the intervals and `report`
writes what was found.
"""

from .base import Experiment, ReproductionError, Scale, Task, Verdict
from .run import FORMATS, Reproduction, reproduce

MEMBERS: tuple[Experiment, ...] = ()
EXPERIMENTS = {experiment.name: experiment for experiment in MEMBERS}

__all__ = [
    "EXPERIMENTS",
    "FORMATS",
    "Experiment",
    "Reproduction",
    "ReproductionError",
    "Scale",
    "Task",
    "Verdict",
    "reproduce",
]
