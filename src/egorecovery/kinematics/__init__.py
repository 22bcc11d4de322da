"""The action spaces, and kinematics of arms given as MJCF or URDF.

`kinematics.arm` and `kinematics.arms` import MuJoCo; this module does not.
"""

from egorecovery.kinematics.action_space import ActionSpace, action_dim, gripper_dims
from egorecovery.kinematics.effector_space import EffectorPoses, pack, unpack

__all__ = ["ActionSpace", "EffectorPoses", "action_dim", "gripper_dims", "pack", "unpack"]
