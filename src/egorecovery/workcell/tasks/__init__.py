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
# Tasks whose demonstrators can be asked to grip off-centre.
OFF_CENTRE = ("round_disk",)


def scene_named(name: str, *, off_centre_grips: bool = False) -> TaskScene:
    """The scene of a task. Tasks not in `OFF_CENTRE` are demonstrated as ever."""
    if name not in _SCENES:
        raise RecipeError(f"the workcell has no task {name!r}; it has {', '.join(_SCENES)}")
    make: Callable[..., TaskScene] = getattr(import_module(f"egorecovery.workcell.tasks.{name}"), _SCENES[name])
    return make(off_centre_grips=True) if off_centre_grips and name in OFF_CENTRE else make()
