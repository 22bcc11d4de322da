"""The importer of each format, imported on use because readers of other formats need extras."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from egorecovery.capture.formats.importer import ImportAs, Importer
from egorecovery.capture.formats.options import Format, Options
from egorecovery.errors import RecordingError

# Each module has `open_paths(paths, wanted, options) -> Importer`.
MODULES = {"aloha": "aloha_importer", "lerobot": "lerobot", "egoverse": "egoverse"}


def open_data_set(format: Format, paths: Sequence[Path], wanted: ImportAs, options: Options) -> Importer:
    """The importer of another project's data. Raises `RecordingError` if there is nothing to import."""
    module = f"egorecovery.capture.formats.{MODULES[format]}"
    try:
        importer: Importer = import_module(module).open_paths(tuple(paths), wanted, options)
    except ModuleNotFoundError as error:
        raise RecordingError(
            f"--format {format} needs {error.name}: install the extra, 'pip install egorecovery[formats]'"
        ) from None
    if not importer.places():
        raise RecordingError(f"{', '.join(map(str, paths))}: there is no {format} episode to import")
    return importer
