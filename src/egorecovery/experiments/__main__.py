"""One training of an experiment, in a process of its own; started by `training_process.TrainingProcess`."""

import sys
from pathlib import Path

from egorecovery.experiments.training_process import main

sys.exit(main(Path(sys.argv[1])))
