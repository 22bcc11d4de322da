"""Fused operations of the policy: one Triton kernel each way. What no kernel can take is computed by `policy`."""

from egorecovery.acceleration.kernels.attention import cross_attention, self_attention
from egorecovery.acceleration.kernels.augment import (
    CELL_STEM_PADDING,
    gather_augmented,
    in_cells,
    stem_weight_space_to_depth,
)
from egorecovery.acceleration.kernels.deferred_gradients import Ledger, deferring, flush_when_reached
from egorecovery.acceleration.kernels.dispatch import fused, plain_kernels
from egorecovery.acceleration.kernels.group_norm import group_norm_act, group_norm_act_twice
from egorecovery.acceleration.kernels.group_norm_max_pool import group_norm_relu_max_pool
from egorecovery.acceleration.kernels.layer_norm import add_layer_norm, layer_norm
from egorecovery.acceleration.kernels.linear import linear
from egorecovery.acceleration.kernels.mlp import mlp
from egorecovery.acceleration.kernels.stem import stem_convolution, stem_convolution_and_sums
from egorecovery.acceleration.kernels.stem_norm_pool import stem_norm_pool

__all__ = [
    "CELL_STEM_PADDING",
    "Ledger",
    "add_layer_norm",
    "cross_attention",
    "deferring",
    "flush_when_reached",
    "fused",
    "gather_augmented",
    "group_norm_act",
    "group_norm_act_twice",
    "group_norm_relu_max_pool",
    "in_cells",
    "layer_norm",
    "linear",
    "mlp",
    "plain_kernels",
    "self_attention",
    "stem_convolution",
    "stem_convolution_and_sums",
    "stem_norm_pool",
    "stem_weight_space_to_depth",
]
