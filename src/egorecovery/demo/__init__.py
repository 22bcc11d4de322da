"""The demo: three policies that differ only in their demonstrations, and a page that shows what came of it."""

from egorecovery.demo.plan import HUMAN_CLIPS, METHODS, NAMES, ROBOT_RECOVERY, ROBOT_SUCCESS, DemoPlan, demo_protocol

__all__ = ["HUMAN_CLIPS", "METHODS", "NAMES", "ROBOT_RECOVERY", "ROBOT_SUCCESS", "DemoPlan", "demo_protocol"]
