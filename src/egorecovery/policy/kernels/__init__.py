"""Fused operations of the policy: one Triton kernel each way on a CUDA device, plain PyTorch elsewhere."""

from egorecovery.policy.kernels.attention import cross_attention, self_attention
from egorecovery.policy.kernels.augment import CELL_STEM_PADDING, gather_augmented, stem_weight_space_to_depth
from egorecovery.policy.kernels.dispatch import fused, plain_kernels
from egorecovery.policy.kernels.group_norm import group_norm_act, group_norm_act_twice
from egorecovery.policy.kernels.group_norm_max_pool import group_norm_relu_max_pool
from egorecovery.policy.kernels.layer_norm import add_layer_norm, layer_norm
from egorecovery.policy.kernels.linear import linear
from egorecovery.policy.kernels.mlp import mlp
from egorecovery.policy.kernels.modulation import modulate
from egorecovery.policy.kernels.owed import Account, gradients_owed, pay_when_reached
from egorecovery.policy.kernels.projection import project
from egorecovery.policy.kernels.stem import stem_convolution, stem_convolution_and_sums
from egorecovery.policy.kernels.stem_norm_pool import stem_norm_pool

__all__ = [
    "CELL_STEM_PADDING",
    "Account",
    "add_layer_norm",
    "cross_attention",
    "fused",
    "gather_augmented",
    "gradients_owed",
    "group_norm_act",
    "group_norm_act_twice",
    "group_norm_relu_max_pool",
    "layer_norm",
    "linear",
    "mlp",
    "modulate",
    "pay_when_reached",
    "plain_kernels",
    "project",
    "self_attention",
    "stem_convolution",
    "stem_convolution_and_sums",
    "stem_norm_pool",
    "stem_weight_space_to_depth",
]
