"""Every claim of the papers as a command: one file an experiment, no algorithm in it.

`base` says what an experiment is, `run` runs one, `journal` keeps results as they come, `statistics` has the intervals and `report`
writes what was found. Where an experiment has a second part, its file begins with the name of the experiment.
"""

from .base import Experiment, ReproductionError, Scale, Task, TaskError, Verdict
from .bounds import Bounds
from .celegans import Celegans
from .coclustering import Coclustering
from .dlpfc import Dlpfc
from .figure2 import Figure2
from .finite_sample import FiniteSample
from .genevay import Genevay
from .gmm_grid import GmmGrid
from .landscape import Landscape
from .many_to_one import ManyToOne
from .quantise import Quantise
from .rates import Rates
from .report import WRITERS
from .run import Reproduction, reproduce
from .timing import Timing
from .uniqueness import Uniqueness
from .weights import Weights

MEMBERS: tuple[Experiment, ...] = (  # in the order of a reader: the theory, then simulations, then data
    Landscape(),
    Figure2(),
    Uniqueness(),
    Rates(),
    ManyToOne(),
    Bounds(),
    GmmGrid(),
    Weights(),
    FiniteSample(),
    Timing(),
    Coclustering(),
    Celegans(),
    Dlpfc(),
    Quantise(),
    Genevay(),
)
EXPERIMENTS = {experiment.name: experiment for experiment in MEMBERS}

__all__ = [
    "EXPERIMENTS",
    "WRITERS",
    "Experiment",
    "Reproduction",
    "ReproductionError",
    "Scale",
    "Task",
    "TaskError",
    "Verdict",
    "reproduce",
]
