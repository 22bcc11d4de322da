"""The metadata of a LeRobot data set, v3.0, v2.1 or v2.0: one `DataSet` for all of them."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from egorecovery.capture.formats import lerobot_v2, lerobot_v3
from egorecovery.capture.formats.lerobot_files import INFO, DataSet, Feature, inside
from egorecovery.errors import RecordingError
from egorecovery.storage.bounded_json import read_named_json

LAYOUTS = {"v3.0": lerobot_v3.episodes, "v2.1": lerobot_v2.episodes, "v2.0": lerobot_v2.episodes}
LARGEST_JSON = 16 << 20  # bytes; a real info.json has some kilobytes
FASTEST_HZ = 1000.0


def read_data_set(root: Path) -> DataSet:
    """All metadata. Nothing outside the data set's directory is opened."""
    info = _info(root)
    episodes = LAYOUTS[info["codebase_version"]]
    features = _features(info.get("features"), root / INFO)
    rate_hz = info.get("fps")
    if not isinstance(rate_hz, (int, float)) or isinstance(rate_hz, bool) or not 0 < rate_hz <= FASTEST_HZ:
        raise RecordingError(f"{root / INFO}: fps must lie in 0..{FASTEST_HZ:g}, got {rate_hz!r}")
    counted = info.get("total_episodes")
    return DataSet(
        root=root,
        rate_hz=float(rate_hz),
        robot=str(info.get("robot_type") or "unknown"),
        features=features,
        version=info["codebase_version"],
        counted=counted if type(counted) is int else None,
        episodes=episodes(root, info, [feature.name for feature in features.values() if feature.dtype == "video"]),
    )


def _info(root: Path) -> dict[str, Any]:
    path = root / INFO
    if not path.is_file():
        raise RecordingError(f"{root}: no LeRobot data set there, it has no {INFO}")
    path = inside(root, INFO)
    info = read_named_json(path, RecordingError, "copy or download it again", largest=LARGEST_JSON)
    version = info.get("codebase_version")
    if version not in LAYOUTS:
        older = isinstance(version, str) and version.startswith("v1.")
        how = "; convert it with LeRobot 0.3, whose scripts write v2.0 from v1.6" if older else ""
        raise RecordingError(f"{path}: codebase_version is {version!r}, {', '.join(LAYOUTS)} are read{how}")
    return info


def _features(record: object, where: Path) -> dict[str, Feature]:
    if not isinstance(record, dict) or not record:
        raise RecordingError(f"{where}: features must be an object of features, got {type(record).__name__}")
    features = {}
    for name, facts in record.items():
        shape = facts.get("shape") if isinstance(facts, dict) else None
        if not isinstance(shape, list) or not all(type(size) is int and 0 < size <= 1 << 20 for size in shape):
            raise RecordingError(f"{where}: features.{name}.shape must be a list of sizes, got {shape!r:.80}")
        feature = Feature(name=name, dtype=str(facts.get("dtype")), shape=tuple(shape), info=_object(facts.get("info")))
        if feature.is_camera and len(shape) != 3:
            raise RecordingError(f"{where}: features.{name}.shape must be height, width and channels, got {shape}")
        if feature.is_camera and re.search(r"(^|/)\.\.(/|$)|^/|\\|\0", name):
            raise RecordingError(f"{where}: feature {name!r} has a name that leads outside of the data set")
        features[name] = feature
    return features


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
