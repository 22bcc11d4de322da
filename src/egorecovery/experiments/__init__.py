"""The paper's experiments: suites of cells, run within the time there is, and set beside the paper's figures."""

from egorecovery.experiments.cell import Cell, CellPlan
from egorecovery.experiments.condition import Condition, episodes
from egorecovery.experiments.events import Event, SuiteOutcome
from egorecovery.experiments.folder import ExperimentFolder, FolderError
from egorecovery.experiments.merging import merge
from egorecovery.experiments.plan import SuitePlan, plan_suite
from egorecovery.experiments.resources import Resources
from egorecovery.experiments.runner import run_suite
from egorecovery.experiments.suites import SUITES, Suite, suite_named

__all__ = [
    "SUITES",
    "Cell",
    "CellPlan",
    "Condition",
    "Event",
    "ExperimentFolder",
    "FolderError",
    "Resources",
    "Suite",
    "SuiteOutcome",
    "SuitePlan",
    "episodes",
    "merge",
    "plan_suite",
    "run_suite",
    "suite_named",
]
