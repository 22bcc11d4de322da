"""Accelerated module classes: the same parameters under the same names, another `forward`."""

# B batch (robots first), N tokens, M queries, D width, H horizon, A action dimensions, C channels

from collections.abc import Collection
from typing import Any, Literal, get_args

from torch import Tensor, nn

from egorecovery.acceleration import kernels
from egorecovery.acceleration.streams import run_concurrently
from egorecovery.policy.attention import CrossAttention, Linear, Mlp, Norm, SelfAttention
from egorecovery.policy.policy import Policy
from egorecovery.policy.trunk import Trunk
from egorecovery.policy.vision import FrozenBatchNorm, GroupNorm, ViewEncoder

Part = Literal[
    "attention",
    "layer_norm",
    "mlp",
    "group_norm",
    "stem",
    "deferred_gradients",
    "streams",
    "augmentation",
    "optimiser",
]
PARTS: tuple[Part, ...] = get_args(Part)


class AcceleratedNorm(Norm):
    def forward(self, stream_BND: Tensor) -> Tensor:
        return kernels.layer_norm(stream_BND, self.weight, self.bias)

    def after(self, stream_BND: Tensor, branch_BND: Tensor, keep_B: Tensor | None = None) -> tuple[Tensor, Tensor]:
        return kernels.add_layer_norm(stream_BND, branch_BND, keep_B, self.weight, self.bias)


class AcceleratedLinear(Linear):
    """Its weight's gradient may be deferred to the end of the backward pass."""

    def forward(self, input: Tensor) -> Tensor:
        return kernels.linear(input, self.weight)


class AcceleratedSelfAttention(SelfAttention):
    def forward(self, tokens_BND: Tensor, readers: int | None = None) -> Tensor:
        return self.out(kernels.self_attention(self.qkv(tokens_BND), self.heads, readers))


class AcceleratedCrossAttention(CrossAttention):
    def forward(self, query_BMD: Tensor, kv_BN2D: Tensor) -> Tensor:
        query_BMD = self.q(query_BMD).expand(kv_BN2D.shape[0], -1, -1)
        return self.out(kernels.cross_attention(query_BMD, kv_BN2D, self.heads))


class AcceleratedMlp(Mlp):
    def forward(self, tokens_BND: Tensor) -> Tensor:
        return kernels.mlp(tokens_BND, self.rise.weight, self.fall.weight)


class AcceleratedGroupNorm(GroupNorm):
    def forward(self, maps_BCHW: Tensor, residual_BCHW: Tensor | None = None, relu: bool = True) -> Tensor:
        return kernels.group_norm_act(maps_BCHW, self.groups, self.weight, self.bias, residual_BCHW, relu)

    def twice(self, maps_BCHW: Tensor, residual_BCHW: Tensor) -> tuple[Tensor, Tensor]:
        """Norm, residual and ReLU, for two readers."""
        return kernels.group_norm_act_twice(maps_BCHW, self.groups, self.weight, self.bias, residual_BCHW)

    def pooled(self, maps_BCHW: Tensor) -> Tensor:
        return kernels.group_norm_relu_max_pool(maps_BCHW, self.groups, self.weight, self.bias)


class AcceleratedViewEncoder(ViewEncoder):
    def forward(self, pixels_B3HW: Tensor) -> Tensor:
        """Pixels, or the same cut into 2 x 2 cells as `kernels.gather_augmented` writes them."""
        network: Any = self.network
        stem = network.embedder.embedder
        maps_BCHW = _stem(stem.convolution, stem.normalization, pixels_B3HW)
        shortcut_BCHW = maps_BCHW
        for stage in network.encoder.stages:
            for block in stage.layers:
                maps_BCHW, shortcut_BCHW = _residual_block(block, maps_BCHW, shortcut_BCHW)
        return maps_BCHW.flatten(2).transpose(1, 2)


class AcceleratedTrunk(Trunk):
    def forward(self, stream_BND: Tensor, keep_RB: Tensor | None, wanted: int | None = None) -> Tensor:
        # What follows in a backward pass is the views', each on a part of the GPU: it leaves room for a flush.
        kernels.flush_when_reached(stream_BND)
        return super().forward(stream_BND, keep_RB, wanted)


class AcceleratedPolicy(Policy):
    """Views and state on streams of their own, and so both decoders."""

    def observed(self, images_VB3SS: Tensor, state_BA: Tensor, robots: int) -> list[Tensor]:
        *places_of_views, place_of_state_MD = self.place_ND.chunk(len(self.views) + 1)
        looks = zip(self.views, self.stems, images_VB3SS, places_of_views, strict=True)
        parts = [
            lambda view=view, stem=stem, pixels=pixels_B3SS, place=place_MD: stem(view(pixels)) + place
            for view, stem, pixels_B3SS, place_MD in looks
        ]
        state = lambda: self.felt(state_BA, robots) + place_of_state_MD  # noqa: E731 - one more of the parts
        return run_concurrently([*parts, state], images_VB3SS, state_BA)

    def decoded(
        self, tokens_BND: Tensor, film: tuple[Tensor, Tensor] | None, gate_B: Tensor | None, robots: int
    ) -> tuple[Tensor | None, Tensor | None]:
        rows, human = tokens_BND.shape[0], self.human
        on_human = self.config.correction and self.config.correction.film_on_human
        if human is None or on_human or robots in (0, rows):
            return super().decoded(tokens_BND, film, gate_B, robots)
        robot_action_RHA, human_action_MHA = run_concurrently(
            [
                lambda: self.acted(self.robot, tokens_BND, slice(0, robots), film, gate_B),
                lambda: self.acted(human, tokens_BND, slice(robots, rows), None, gate_B),
            ],
            tokens_BND,
        )
        return robot_action_RHA, human_action_MHA


ACCELERATED: dict[type[nn.Module], tuple[type[nn.Module], tuple[Part, ...]]] = {
    # plain class: its accelerated one, and the parts any of which asks for it
    SelfAttention: (AcceleratedSelfAttention, ("attention",)),
    CrossAttention: (AcceleratedCrossAttention, ("attention",)),
    Norm: (AcceleratedNorm, ("layer_norm",)),
    Mlp: (AcceleratedMlp, ("mlp",)),
    GroupNorm: (AcceleratedGroupNorm, ("group_norm",)),
    ViewEncoder: (AcceleratedViewEncoder, ("group_norm", "stem")),
    Linear: (AcceleratedLinear, ("deferred_gradients",)),
    Trunk: (AcceleratedTrunk, ("deferred_gradients",)),
    Policy: (AcceleratedPolicy, ("streams",)),
}


def accelerate(policy: nn.Module, parts: Collection[Part] = PARTS) -> None:
    """Gives every module its accelerated class, in place; parameters, buffers and their names stay as they are."""
    for module in policy.modules():
        accelerated, asked_by = ACCELERATED.get(type(module), (None, ()))
        if accelerated is not None and not set(asked_by).isdisjoint(parts):
            module.__class__ = accelerated


def _stem(convolution: nn.Conv2d, norm: GroupNorm | FrozenBatchNorm, pixels_B3HW: Tensor) -> Tensor:
    """Convolution, norm, ReLU and pooling; on cells and with a group norm, in kernels that know of each other."""
    if pixels_B3HW.shape[1] == convolution.in_channels:
        return norm.pooled(convolution(pixels_B3HW))
    if isinstance(norm, GroupNorm):
        return kernels.stem_norm_pool(pixels_B3HW, convolution.weight, norm.groups, norm.weight, norm.bias)
    return norm.pooled(kernels.stem_convolution(pixels_B3HW, convolution.weight))


def _residual_block(block: Any, maps_BCHW: Tensor, shortcut_BCHW: Tensor) -> tuple[Tensor, Tensor]:
    """Takes and gives the same maps twice, for convolutions and shortcut: their gradients then stay apart."""
    if not isinstance(block.shortcut, nn.Identity):
        shortcut_BCHW = block.shortcut.normalization(block.shortcut.convolution(shortcut_BCHW), relu=False)
    *inner, last = block.layer
    for layer in inner:
        maps_BCHW = layer.normalization(layer.convolution(maps_BCHW))
    maps_BCHW = last.convolution(maps_BCHW)
    if isinstance(last.normalization, AcceleratedGroupNorm):
        return last.normalization.twice(maps_BCHW, shortcut_BCHW)
    out_BCHW = last.normalization(maps_BCHW, shortcut_BCHW)
    return out_BCHW, out_BCHW
