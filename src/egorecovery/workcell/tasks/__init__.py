"""The four tasks of the paper, by name."""

from collections.abc import Callable
from importlib import import_module

from egorecovery.errors import RecipeError
from egorecovery.workcell.scene import TaskScene

_SCENES = {
    "cup_brush": "CupBrush",
    "table_sweep": "TableSweep",
    "round_disk": "RoundDisk",
    "cube_stack": "CubeStack",
}


def scene_named(name: str) -> TaskScene:
    """The scene of a task."""
    if name not in _SCENES:
        raise RecipeError(f"the workcell has no task {name!r}; it has {', '.join(_SCENES)}")
    make: Callable[[], TaskScene] = getattr(import_module(f"egorecovery.workcell.tasks.{name}"), _SCENES[name])
    return make()
