"""An Interbotix arm that is at once where it was told to be, and refuses what is outside its own range."""

from types import SimpleNamespace

import rospy


class InterbotixManipulatorXS:
    def __init__(self, robot_model, group_name, gripper_name, robot_name, init_node):
        if init_node:
            rospy.init_node("interbotix")
        self._side = robot_name.removeprefix("puppet_")
        self.modes = []
        self.dxl = SimpleNamespace(robot_set_operating_modes=lambda *mode: self.modes.append(mode))
        self.arm = self
        self.gripper = SimpleNamespace(core=SimpleNamespace(pub_single=SimpleNamespace(publish=self._grip)))

    def set_joint_positions(self, positions, blocking):
        assert len(self.modes) == 2
        assert not blocking
        if max(map(abs, positions)) > 3.1:
            return False
        rospy.arms[self._side] = [*positions, *rospy.arms[self._side][6:]]
        return True

    def _grip(self, command):
        opening = (command.cmd + 0.6213) / (1.4910 + 0.6213)
        rospy.arms[self._side] = [*rospy.arms[self._side][:6], command.cmd, 0.01844 + opening * (0.05800 - 0.01844)]
