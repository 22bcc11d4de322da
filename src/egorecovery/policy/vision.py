"""Vision: one residual network per view, its structure and its weights from `transformers`.

Modules and parameter names are those of `transformers.ResNetModel`, so that pretrained weights fit; the forward pass
is ours, because norm, residual sum and ReLU belong together.
"""

# B batch, C channels, P cells

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import ResNetConfig, ResNetModel

from egorecovery.errors import RecipeError
from egorecovery.policy.config import VisionConfig

EPSILON = 1e-5  # added to a variance


def group_norm(
    image_NCHW: Float[Tensor, "N C H W"],
    groups: int,
    weight_C: Float[Tensor, " C"],
    bias_C: Float[Tensor, " C"],
    residual_NCHW: Float[Tensor, "N C H W"] | None = None,
    relu: bool = True,
) -> Float[Tensor, "N C H W"]:
    """relu(GN(image) + residual), channels last, in the input's dtype; sums in float32."""
    exact = torch.promote_types(image_NCHW.dtype, torch.float32)
    out_NCHW = nn.functional.group_norm(image_NCHW.to(exact), groups, weight_C.to(exact), bias_C.to(exact), EPSILON)
    if residual_NCHW is not None:
        out_NCHW = out_NCHW + residual_NCHW.to(exact)
    if relu:
        out_NCHW = nn.functional.relu(out_NCHW)
    return out_NCHW.to(image_NCHW.dtype).contiguous(memory_format=torch.channels_last)


def group_norm_max_pool(
    image_NCHW: Float[Tensor, "N C H W"], groups: int, weight_C: Float[Tensor, " C"], bias_C: Float[Tensor, " C"]
) -> Float[Tensor, "N C h w"]:
    """max_pool2d(relu(GN(image)), kernel 3, stride 2, padding 1), channels last."""
    exact = torch.promote_types(image_NCHW.dtype, torch.float32)
    normed_NCHW = nn.functional.group_norm(image_NCHW.to(exact), groups, weight_C.to(exact), bias_C.to(exact), EPSILON)
    # ReLU after the maximum: the same numbers, of a quarter as many.
    pooled_NChw = nn.functional.relu(nn.functional.max_pool2d(normed_NCHW, kernel_size=3, stride=2, padding=1))
    return pooled_NChw.to(image_NCHW.dtype).contiguous(memory_format=torch.channels_last)


class GroupNorm(nn.Module):
    def __init__(self, channels: int, group_channels: int) -> None:
        super().__init__()
        self.groups = channels // group_channels
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, maps_BCHW: Tensor, residual_BCHW: Tensor | None = None, relu: bool = True) -> Tensor:
        return group_norm(maps_BCHW, self.groups, self.weight, self.bias, residual_BCHW, relu)

    def pooled(self, maps_BCHW: Tensor) -> Tensor:
        """Norm, ReLU and the 3x3 max pooling of the stem."""
        return group_norm_max_pool(maps_BCHW, self.groups, self.weight, self.bias)


class FrozenBatchNorm(nn.Module):
    """Batch norm with the statistics and the affine map it was pretrained with: a constant scale and shift."""

    weight: Tensor
    bias: Tensor
    running_mean: Tensor
    running_var: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        for name, start in (("weight", 1.0), ("bias", 0.0), ("running_mean", 0.0), ("running_var", 1.0)):
            self.register_buffer(name, torch.full((channels,), start))

    def forward(self, maps_BCHW: Tensor, residual_BCHW: Tensor | None = None, relu: bool = True) -> Tensor:
        scale_C = self.weight * torch.rsqrt(self.running_var + EPSILON)
        shift_C = self.bias - self.running_mean * scale_C
        normed_BCHW = torch.addcmul(shift_C[:, None, None], maps_BCHW, scale_C[:, None, None])
        summed_BCHW = normed_BCHW if residual_BCHW is None else normed_BCHW + residual_BCHW
        return torch.relu(summed_BCHW) if relu else summed_BCHW

    def pooled(self, maps_BCHW: Tensor) -> Tensor:
        return nn.functional.max_pool2d(self(maps_BCHW), kernel_size=3, stride=2, padding=1)


class ViewEncoder(nn.Module):
    """Pixels of one view to cells, coarse places in the picture."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.network = ResNetModel(transformers_config(config))
        for module in list(self.network.modules()):
            norm = getattr(module, "normalization", None)
            if isinstance(norm, nn.BatchNorm2d):
                module.normalization = (
                    GroupNorm(norm.num_features, config.group_channels)
                    if config.norm == "group"
                    else FrozenBatchNorm(norm.num_features)
                )

    def forward(self, pixels_B3HW: Tensor) -> Tensor:
        network: Any = self.network
        stem = network.embedder.embedder
        maps_BCHW = stem.normalization.pooled(stem.convolution(pixels_B3HW))
        for stage in network.encoder.stages:
            for block in stage.layers:
                maps_BCHW = _residual_block(block, maps_BCHW)
        return maps_BCHW.flatten(2).transpose(1, 2)

    def load_pretrained(self, source: str) -> None:
        """Weights of a local folder or a hub id; only safetensors files are read."""
        try:
            pretrained = ResNetModel.from_pretrained(source, use_safetensors=True)
        except (OSError, ValueError) as error:
            raise RecipeError(f"vision.pretrained: {source} cannot be loaded: {error}") from error
        weights = {name: value for name, value in pretrained.state_dict().items() if "num_batches" not in name}
        own = self.network.state_dict()
        wrong = [name for name in own if name not in weights or weights[name].shape != own[name].shape]
        if wrong:
            raise RecipeError(
                f"vision.pretrained: {source} does not have the structure of this recipe: {wrong[0]} should have shape "
                f"{tuple(own[wrong[0]].shape)}; set vision.widths, depths and block to those of the weights"
            )
        self.network.load_state_dict({name: weights[name] for name in own})


def transformers_config(config: VisionConfig) -> ResNetConfig:
    return ResNetConfig(
        embedding_size=config.stem_width,
        hidden_sizes=list(config.widths),
        depths=list(config.depths),
        layer_type=config.block,
    )


def _residual_block(block: Any, maps_BCHW: Tensor) -> Tensor:
    """`block` is a `transformers` layer: torch cannot tell a type checker what its parts are."""
    shortcut_BCHW = maps_BCHW
    if not isinstance(block.shortcut, nn.Identity):
        shortcut_BCHW = block.shortcut.normalization(block.shortcut.convolution(maps_BCHW), relu=False)
    *inner, last = block.layer
    for layer in inner:
        maps_BCHW = layer.normalization(layer.convolution(maps_BCHW))
    return last.normalization(last.convolution(maps_BCHW), shortcut_BCHW)
