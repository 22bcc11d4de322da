"""A thread per sensor. It reads the sensor at its own rate, updates its meter, and passes items to a take."""

import threading
from collections.abc import Callable
from typing import Generic

from egorecovery.capture.clip_draft import Take
from egorecovery.capture.sensor import CameraFrame, Item, Sensor
from egorecovery.capture.stream_meter import StreamMeter
from egorecovery.errors import EgoRecoveryError

RETRY_S = 2.0  # between attempts to open a lost device again


class SensorWorker(Generic[Item]):
    """Owns an open sensor and reopens it when it is lost."""

    def __init__(self, name: str, sensor: Sensor[Item], reopen: Callable[[], Sensor[Item]]) -> None:
        self.name, self.sensor = name, sensor
        self.meter = StreamMeter(sensor.rate_hz)
        self.lost = ""  # why the sensor delivers nothing
        self.live = False  # it has delivered since it was opened
        self.latest: Item | None = None
        self._reopen = reopen
        self._take: Take | None = None
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"sensor {name}", daemon=True)
        self._thread.start()

    def record_into(self, take: Take | None) -> None:
        with self._lock:
            self._take = take

    def close(self) -> None:
        self._ending.set()
        self.sensor.close()
        self._thread.join(timeout=5.0)  # a hanging driver must not prevent saving of clips

    def _run(self) -> None:
        while not self._ending.is_set():
            try:
                self._read()
            except EgoRecoveryError as error:
                self._give_up(str(error))
            except Exception as error:  # a driver's library may raise anything; the operator sees the message
                self._give_up(f"{self.sensor.described}: {type(error).__name__}: {error}")
            while self.lost and not self._ending.wait(RETRY_S):
                self._open_again()

    def _read(self) -> None:
        for item in self.sensor.items():
            size = len(item.jpeg) if isinstance(item, CameraFrame) else 1000  # a robot's line, roughly
            with self._lock:
                take = self._take
            self.meter.add(item.captured_s, size, follows=not self.sensor.replayed)
            self.latest, self.live = item, True
            if take is not None and not take.offer(item):
                self.meter.overflowed += 1
            if self._ending.is_set():
                return
        if not self._ending.is_set():
            self._give_up(f"{self.sensor.described} has ended")

    def _give_up(self, why: str) -> None:
        self.live, self.lost = False, self._reason(why)
        self.sensor.close()

    def _open_again(self) -> None:
        try:
            self.sensor = self._reopen()
        except EgoRecoveryError as error:
            self.lost = self._reason(str(error))
            return
        self.meter.restart()
        self.lost = ""

    def _reason(self, why: str) -> str:
        return why.removeprefix(f"{self.name}: ")  # the caller adds the stream's name
