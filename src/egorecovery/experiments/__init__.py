"""The paper's experiments: suites of cells, run within the time there is, and set beside the paper's figures."""

from egorecovery.experiments.cell import Cell, CellPlan
from egorecovery.experiments.events import Event, SuiteOutcome
from egorecovery.experiments.folder import ExperimentFolder, FolderError
from egorecovery.experiments.merging import merge
from egorecovery.experiments.paper import paper_rate
from egorecovery.experiments.plan import SuitePlan, plan_suite
from egorecovery.experiments.resources import Resources
from egorecovery.experiments.runner import run_suite
from egorecovery.experiments.suites import SUITES, Row, Suite, suite_named

__all__ = [
    "SUITES",
    "Cell",
    "CellPlan",
    "Event",
    "ExperimentFolder",
    "FolderError",
    "Resources",
    "Row",
    "Suite",
    "SuiteOutcome",
    "SuitePlan",
    "merge",
    "paper_rate",
    "plan_suite",
    "run_suite",
    "suite_named",
]
