"""`egorecovery serve`."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from tyro.conf import Positional

from egorecovery.errors import ServingError

if TYPE_CHECKING:
    from egorecovery.kinematics.arms import Arms
    from egorecovery.serving.loading import PolicySettings
    from egorecovery.serving.served_policy import ServedPolicy
    from egorecovery.serving.server import PolicyServer
    from egorecovery.serving.server_settings import ServerSettings

BATCH = {"cpu": 1, "cuda": 16}  # on a processor batches gain little, and padding costs time


@dataclass(frozen=True, kw_only=True)
class Serve:
    """Serve a policy to robots over the openpi WebSocket protocol; SIGHUP loads the run's newest checkpoint."""

    EXAMPLE: ClassVar = "serve runs/policy --client-hz 25"
    HEADINGS: ClassVar = {
        "host": "who may connect",
        "client_hz": "what robots send and get",
        "clients": "this machine",
    }

    checkpoint: Positional[Path]
    """A training run, whose latest checkpoint is served, or one checkpoint."""
    host: str = "127.0.0.1"
    """Address to listen on; any but a loopback one needs --api-key-file."""
    port: int = 8000
    """The port to listen on; 0 for any free one."""
    api_key_file: Path | None = None
    """A file with the key that clients must send as 'Authorization: Api-Key KEY'."""
    allow_host: tuple[str, ...] = ()
    """Names by which clients may address this machine, beside its own address and localhost."""
    client_hz: float = 50.0
    """Rate at which the robot plays actions: 25 for the workcell (egorecovery control), 50 for ALOHA robots.

    Chunks are resampled to it from the policy's 25 Hz."""
    robot: Path | None = None
    """The arms (MJCF, URDF or JSON) of a policy that acts in effector space; the workcell's own by default."""
    answer: Literal["joints", "poses"] = "joints"
    """What a policy that acts in effector space answers with."""
    fit: Literal["letterbox", "crop", "exact"] | None = None
    """How pictures of another size are fitted; the checkpoint's own rule by default, exact where it has none."""
    camera: tuple[str, ...] = ()
    """Further names of cameras, as in front=head; cam_high, cam_left_wrist and cam_right_wrist are known."""
    clients: int = 32
    """Robots connected at once."""
    batch: int = 0
    """Observations in one inference at most; 0 for 16 on a GPU and 1 without."""
    device: str = "auto"
    """cpu, cuda, cuda:1, ...; auto is a GPU where there is one."""
    acceleration: Literal["auto", "on", "off"] = "auto"
    """Fused kernels on a GPU. auto: where a parity check passes on its kind; off: plain PyTorch."""
    threads: int = 0
    """Processor threads of an inference; 0 for PyTorch's choice. With 1, actions equal those of evaluate to the bit."""

    def run(self) -> int:
        import asyncio
        import sys

        from egorecovery.serving.json_log import write_json_logs

        serving, settings = self._plan()
        policy, arms = self._load(serving)
        write_json_logs(sys.stderr)
        asyncio.run(self._serve(policy, settings, serving, arms))
        return 0

    def _plan(self) -> "tuple[PolicySettings, ServerSettings]":
        """All that can be refused before a checkpoint is read."""
        try:
            from egorecovery.policy.device import pick_device
            from egorecovery.serving.access import AccessRules, read_api_key
            from egorecovery.serving.loading import PolicySettings
            from egorecovery.serving.server_settings import ServerSettings
        except ImportError as error:
            raise ServingError(f"serving needs {error.name}: pip install 'egorecovery[policy,serving]'") from None
        key = read_api_key(self.api_key_file) if self.api_key_file else None
        settings = ServerSettings(
            host=self.host,
            port=self.port,
            access=AccessRules(api_key=key, hosts=frozenset(name.lower() for name in self.allow_host)),
            camera_names=_camera_names(self.camera),
            clients=self.clients,
            batch=self.batch or BATCH[pick_device(self.device).type],
        )
        serving = PolicySettings(
            run=self.checkpoint,
            device=self.device,
            client_hz=self.client_hz,
            fit=self.fit,
            answer=self.answer,
            acceleration=self.acceleration,
        )
        return serving, settings

    def _load(self, serving: "PolicySettings") -> "tuple[ServedPolicy, Arms | None]":
        import torch

        from egorecovery.cli.console import console
        from egorecovery.kinematics.robot_file import load_arms
        from egorecovery.policy.checkpoint import open_checkpoint
        from egorecovery.serving.loading import load_served
        from egorecovery.workcell.kinematics import workcell_arms

        if self.threads:
            torch.set_num_threads(self.threads)
        arms = None
        if open_checkpoint(serving.run).config.action_space == "effector":
            arms = load_arms(self.robot) if self.robot else workcell_arms()
            if not self.robot:
                console.print("arms: the simulated workcell's own, for another robot give --robot FILE")
        elif self.robot:
            raise ServingError(f"{serving.run} acts in joint space: it needs no kinematics, leave out --robot")
        return load_served(serving, arms), arms

    async def _serve(
        self, policy: "ServedPolicy", settings: "ServerSettings", serving: "PolicySettings", arms: "Arms | None"
    ) -> None:
        import asyncio
        import signal

        from egorecovery.serving.loading import load_served
        from egorecovery.serving.server import serving as running

        loop, stop, reloads = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()

        async def reload_when_asked(server: "PolicyServer") -> None:
            while True:
                await reloads.wait()
                reloads.clear()
                await server.reload(lambda: load_served(serving, arms))

        for name in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(name, stop.set)
        loop.add_signal_handler(signal.SIGHUP, reloads.set)
        async with running(policy, settings, lambda server: _announce(server, self.host)) as server:
            reloading = asyncio.create_task(reload_when_asked(server))
            await stop.wait()
            reloading.cancel()


def _announce(server: "PolicyServer", host: str) -> None:
    import os

    from egorecovery.cli.console import console

    metadata = server.policy.metadata
    cameras, steps = ", ".join(metadata.cameras), f"{metadata.horizon} steps of {metadata.action_dim}"
    shown = f"[{host}]" if ":" in host else host
    for line in (
        f"serving: {metadata.model} (checkpoint {metadata.checkpoint[:12]})",
        f"  at      ws://{shown}:{server.port}",
        f"  wants   {metadata.state_dim} joints; {cameras} of {metadata.image_size} px ({metadata.picture_fit})",
        f"  answers {steps} at {metadata.action_hz:g} Hz ({metadata.action_space} space)",
        f"  reload  kill -HUP {os.getpid()}",
        f"next: curl http://{shown}:{server.port}/healthz",
    ):
        console.print(line, soft_wrap=True)
        if line.startswith("  answers") and metadata.action_hz != metadata.policy_hz:
            console.print(f"          for 'egorecovery control' start it with --client-hz {metadata.policy_hz:g}")


def _camera_names(pairs: tuple[str, ...]) -> dict[str, str]:
    names = {}
    for pair in pairs:
        name, equals, camera = pair.partition("=")
        if not (name and equals and camera):
            raise ServingError(f"--camera {pair}: write NAME=CAMERA, as in front=head")
        names[name] = camera
    return names
