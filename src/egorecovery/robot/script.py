"""The command line of a robot's own script: `sys.exit(run_script(MyRobot))`. Few imports, for the robot's computer."""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from egorecovery.errors import EgoRecoveryError
from egorecovery.robot.chunk_player import Playback
from egorecovery.robot.controller import Mode
from egorecovery.robot.event_log import EventLog
from egorecovery.robot.limits import Limits, read_limits
from egorecovery.robot.motion import MotionRecorder, write_motion
from egorecovery.robot.reporting import report_lines, stop_times
from egorecovery.robot.robot import Robot
from egorecovery.robot.running import run_robot
from egorecovery.serving.access import read_api_key
from egorecovery.serving.client import PolicyClient

BLEND_S = 0.3


def run_script(make_robot: Callable[[], Robot], arguments: Sequence[str] | None = None) -> int:
    """Exit code 0 if a person ended the run, 1 if a fault did, 2 if it could not begin."""
    options = _parser(make_robot.__doc__ or "").parse_args(arguments)
    try:
        return _run(make_robot, options)
    except (EgoRecoveryError, OSError) as error:
        print(f"{Path(sys.argv[0]).name}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; the robot was stopped", file=sys.stderr)
        return 130


def _run(make_robot: Callable[[], Robot], options: argparse.Namespace) -> int:
    limits: Limits = read_limits(options.limits)
    mode = Mode(
        shadow=options.shadow, slow=options.slow, playback=Playback(replan_steps=options.replan, blend_s=options.blend)
    )
    api_key = read_api_key(options.api_key_file) if options.api_key_file else None
    robot = make_robot()
    for line in stop_times(limits, robot.rate_hz):
        print(line)
    motion = MotionRecorder(limits.names, robot.rate_hz) if options.motion else None
    with EventLog(options.log) as log:
        log.start(0.0, server=options.server, limits=str(options.limits), shadow=options.shadow, slow=options.slow)
        report = run_robot(
            robot,
            lambda: PolicyClient(options.server, api_key=api_key),
            limits,
            mode=mode,
            prompt=options.prompt,
            log=log,
            on_cycle=motion,
        )
    for line in report_lines(report):
        print(line)
    print(log.summary)
    if motion is not None:
        write_motion(motion.motion, options.motion)
        print(f"motion: {options.motion}")
    return 0 if report.ended_well else 1


def _parser(description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description.strip().split("\n")[0])
    parser.add_argument("--server", required=True, help="such as ws://192.168.1.20:8000")
    parser.add_argument("--limits", required=True, type=Path, help="JSON file with the joints' limits")
    parser.add_argument("--shadow", action="store_true", help="compute and log everything, never move the robot")
    parser.add_argument("--slow", type=float, default=1.0, help="share of the policy's pace, 0..1")
    parser.add_argument("--replan", type=int, default=Playback().replan_steps, help="steps of a chunk to execute")
    parser.add_argument("--blend", type=float, default=BLEND_S, help="seconds over which a new chunk takes over")
    parser.add_argument("--prompt", default="", help="sent with every observation")
    parser.add_argument("--api-key-file", type=Path, help="where the server wants a key")
    parser.add_argument("--log", type=Path, default=Path("control.jsonl"), help="events are added to this file")
    parser.add_argument("--motion", type=Path, help="an .npz file for the joints of every control cycle")
    return parser
