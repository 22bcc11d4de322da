"""The spaces that actions are expressed in, and kinematics of arms given as MJCF or URDF.

The arms are in `kinematics.arm` and `kinematics.arms`, which import MuJoCo; what is imported here does not.
"""

from egorecovery.kinematics.action_space import ActionSpace, action_dim, gripper_dims
from egorecovery.kinematics.effector_space import EffectorPoses, pack, unpack

__all__ = ["ActionSpace", "EffectorPoses", "action_dim", "gripper_dims", "pack", "unpack"]
