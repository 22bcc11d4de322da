"""Tasks by name: the paper's four, and those of other packages."""

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points

from egorecovery.errors import RecipeError
from egorecovery.workcell.scene import TaskScene

ENTRY_POINTS = "egorecovery.tasks"  # the group in which packages register scenes (docs/tutorial_task.md)

_SCENES = {
    "cup_brush": "CupBrush",
    "table_sweep": "TableSweep",
    "round_disk": "RoundDisk",
    "cube_stack": "CubeStack",
}
# Tasks whose demonstrators support off-centre grips.
OFF_CENTRE = ("round_disk",)


def scene_named(name: str, *, off_centre_grips: bool = False) -> TaskScene:
    """The scene of a task. `off_centre_grips` has no effect on tasks that are not in `OFF_CENTRE`."""
    if name in _SCENES:
        make: Callable[..., TaskScene] = getattr(import_module(f"egorecovery.workcell.tasks.{name}"), _SCENES[name])
        return make(off_centre_grips=True) if off_centre_grips and name in OFF_CENTRE else make()
    installed = {point.name: point for point in entry_points(group=ENTRY_POINTS)}
    if name not in installed:
        raise RecipeError(
            f"the workcell has no task {name!r}; it has {', '.join([*_SCENES, *installed])}. A task of your own is "
            f"installed as an entry point of the group {ENTRY_POINTS!r}"
        )
    return _own_scene(name, installed[name])


def task_names() -> list[str]:
    """Names of the available tasks. Tasks of other packages are not loaded."""
    return [*_SCENES, *(point.name for point in entry_points(group=ENTRY_POINTS))]


def _own_scene(name: str, point: EntryPoint) -> TaskScene:
    try:
        scene = point.load()()
    except Exception as error:
        raise RecipeError(f"task {name!r} ({point.value}) cannot be loaded: {type(error).__name__}: {error}") from error
    wanted = [*TaskScene.__annotations__, *(member for member in vars(TaskScene) if not member.startswith("_"))]
    missing = [member for member in wanted if not hasattr(scene, member)]
    if missing:
        raise RecipeError(f"task {name!r} ({point.value}) lacks {', '.join(missing)} of TaskScene")
    if scene.task.name != name:
        raise RecipeError(f"task {name!r} ({point.value}) calls itself {scene.task.name!r}: use one name for both")
    return scene
