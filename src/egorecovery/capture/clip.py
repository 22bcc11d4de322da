"""The clip of a session that is being recorded or judged."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from egorecovery.capture.clip_draft import LATE_S, CameraTake, ClipDraft, RobotTake, Take, write_description
from egorecovery.capture.recording import HandTracks
from egorecovery.capture.recording_files import DESCRIPTION, description, save_motion
from egorecovery.capture.replay import Replay, ReplayCamera
from egorecovery.capture.sensor import CameraDriver, CameraFrame, RobotSample
from egorecovery.capture.sensor_worker import SensorWorker
from egorecovery.episodes import Camera, EpisodeId, Provenance, Source, Task
from egorecovery.errors import CaptureError, EgoRecoveryError
from egorecovery.motion import KeypointOrder
from egorecovery.storage.bounded_json import read_json
from egorecovery.storage.typed_json import to_json


@dataclass(frozen=True, kw_only=True)
class ClipFacts:
    """Progress of the clip."""

    name: EpisodeId
    seconds: float
    items: Mapping[str, int]  # by stream
    dropped: Mapping[str, int]


class RunningClip:
    """The takes of all streams, and the draft that they are written to."""

    def __init__(
        self,
        draft: ClipDraft,
        start_s: float,
        cameras: Mapping[Camera, SensorWorker[CameraFrame]],
        robot: SensorWorker[RobotSample] | None,
    ) -> None:
        self.draft, self.start_s = draft, start_s
        self.name = EpisodeId(draft.name)
        self.stop_s: float | None = None
        self.interrupted = ""  # why it cannot be accepted
        self.accepted = False  # by the operator; its description may not have found room yet
        self.problem = ""  # why an accepted clip is no recording yet
        self._cameras, self._robot = cameras, robot
        self._takes: dict[str, Take] = {
            str(camera): CameraTake(
                draft.directory / camera, start_s, worker.sensor.rate_hz, waits=worker.sensor.at_full_speed
            )
            for camera, worker in cameras.items()
        }
        if robot is not None:
            path = draft.directory / "robot.npz"
            self._takes["robot"] = RobotTake(path, start_s, robot.sensor.rate_hz, waits=robot.sensor.at_full_speed)
        self._order = KeypointOrder.MANO
        self._finishing: threading.Thread | None = None
        self._failure: EgoRecoveryError | None = None

    @classmethod
    def begin(
        cls,
        root: Path,
        name: EpisodeId,
        start_s: float,
        cameras: Mapping[Camera, SensorWorker[CameraFrame]],
        robot: SensorWorker[RobotSample] | None,
        interrupted_attempt: Mapping[str, Any],
    ) -> "RunningClip":
        clip = cls(ClipDraft.begin(root, name, interrupted_attempt), start_s, cameras, robot)
        for stream, worker in clip._workers.items():
            worker.record_into(clip._takes[stream])
            worker.sensor.begin(start_s)
        return clip

    @property
    def _workers(self) -> dict[str, SensorWorker[CameraFrame] | SensorWorker[RobotSample]]:
        named: dict[str, SensorWorker[CameraFrame] | SensorWorker[RobotSample]] = {
            str(camera): worker for camera, worker in self._cameras.items()
        }
        return named if self._robot is None else {**named, "robot": self._robot}

    def replay_end_s(self) -> float:
        """When the replayed clip ended, on the session's clock."""
        sensors = [worker.sensor for worker in self._workers.values()]
        return self.start_s + max(sensor.clip.duration_s for sensor in sensors if isinstance(sensor, Replay))

    def facts(self, now_s: float) -> ClipFacts:
        return ClipFacts(
            name=self.name,
            seconds=(now_s if self.stop_s is None else self.stop_s) - self.start_s,
            items={stream: take.offered for stream, take in self._takes.items()},
            dropped={stream: take.missing + take.overflowed for stream, take in self._takes.items()},
        )

    def details(self) -> dict[str, object]:
        """How the recording was made, for its provenance."""
        streams = {}
        for stream, worker in self._workers.items():
            sensor, take = worker.sensor, self._takes[stream]
            streams[stream] = {
                "driver": sensor.described,
                "rate_hz": round(sensor.rate_hz, 3),
                "missing": take.missing,
                "overflowed": take.overflowed,
            }
            if isinstance(sensor, CameraDriver):
                streams[stream]["guessed_intrinsics"] = sensor.guessed_intrinsics
        played = self._replayed()
        return {"streams": streams} if played is None else {"streams": streams, "replay_of": played.clip.name}

    def stop(self, stop_s: float, *, with_hands: bool) -> None:
        """Ends the takes. Late pictures are still accepted, and everything is synced while the operator judges."""
        self.stop_s = stop_s
        hands = self._hands() if with_hands else None
        for take in self._takes.values():
            take.stop_s = stop_s
        self._finishing = threading.Thread(target=self._bring_to_disk, args=(hands,), daemon=True)
        self._finishing.start()

    def _bring_to_disk(self, hands: HandTracks | None) -> None:
        for stream, worker in self._workers.items():
            if not worker.sensor.at_end and worker.live:
                self._takes[stream].passed_end.wait(LATE_S)
            worker.record_into(None)
            worker.sensor.rest()
        for take in self._takes.values():
            take.end()
        try:
            for stream, take in self._takes.items():
                take.finish()
                if take.failure is not None:
                    raise take.failure
                if not take.times_s:
                    raise CaptureError(f"{stream} delivered nothing while the clip was recorded")
            if hands is not None:
                self._order = hands.order
                save_motion(hands, self.draft.directory)
            self.draft.sync()
        except EgoRecoveryError as error:
            self._failure = error
        except OSError as error:
            self._failure = CaptureError(str(error))

    def _replayed(self) -> ReplayCamera | None:
        """The replay whose hands or robot log belong to the clip. Only if every camera plays the same clip."""
        sensors = [worker.sensor for worker in self._cameras.values()]
        played = [sensor for sensor in sensors if isinstance(sensor, ReplayCamera)]
        if len(played) < len(sensors) or len({sensor.clip.name for sensor in played}) != 1:
            return None
        return played[0]

    def _hands(self) -> HandTracks | None:
        """The hands of a replayed clip, up to the stop. Hands of a live camera are tracked later."""
        played = self._replayed()
        if played is None or not isinstance(played.clip.motion, HandTracks):
            return None
        hands = played.clip.motion
        assert self.stop_s is not None
        shown = hands.timestamps_s <= self.stop_s - self.start_s
        return HandTracks(
            timestamps_s=hands.timestamps_s[shown],
            keypoints_m=hands.keypoints_m[shown],
            wrist_rotation=hands.wrist_rotation[shown],
            confidence=hands.confidence[shown],
            order=hands.order,
        )

    def finish(self) -> None:
        """Waits until everything is on disk. Raises errors of the writing threads."""
        assert self._finishing is not None, "a clip is stopped first"
        self._finishing.join()
        if self._failure is not None:
            raise self._failure

    def described(self, task: Task, source: Source, made: Provenance) -> dict[str, Any]:
        intrinsics = {}
        for camera, worker in self._cameras.items():
            assert isinstance(worker.sensor, CameraDriver)
            intrinsics[camera] = worker.sensor.intrinsics
        return description(
            name=self.name,
            task=task,
            source=source,
            cameras=intrinsics,
            provenance=made,
            order=self._order if source.is_human else None,
        )

    def commit(self, task: Task, source: Source, made: Provenance) -> None:
        self.draft.commit(self.described(task, source, made), DESCRIPTION)

    def discard(self) -> None:
        self.draft.discard()

    @staticmethod
    def redescribe(path: Path, made: Provenance) -> None:
        """Updates the reset time in the description. It is known only after the clip is committed."""
        described = read_json(path, CaptureError)
        if described["provenance"]["reset_s"] != made.reset_s:
            write_description(path, {**described, "provenance": to_json(made)})
