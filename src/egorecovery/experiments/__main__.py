"""One training of an experiment, in a process of its own; started by `trainings.TrainingProcess`."""

import sys
from pathlib import Path

from egorecovery.experiments.trainings import main

sys.exit(main(Path(sys.argv[1])))
