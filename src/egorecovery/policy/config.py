"""Every size and switch of the network, in one place."""

from dataclasses import dataclass, field
from typing import Literal

from egorecovery.episodes import Camera
from egorecovery.errors import RecipeError
from egorecovery.kinematics import ActionSpace
from egorecovery.kinematics import action_dim as length_of
from egorecovery.kinematics.action_space import anchored_dims

MOST_PIXELS = 2048  # along a side of a picture
Modulation = Literal["gated", "always_on", "none"]


@dataclass(frozen=True, kw_only=True)
class VisionConfig:
    """One residual network per view, shared by both embodiments."""

    pretrained: str | None = None  # a local folder or a hub id of a ResNet to start from; None starts from scratch
    norm: Literal["group", "frozen_batch"] = "group"  # frozen_batch for pretrained weights
    block: Literal["basic", "bottleneck"] = "basic"
    stem_width: int = 64
    widths: tuple[int, ...] = (64, 128, 256, 512)  # the defaults are ResNet-18
    depths: tuple[int, ...] = (2, 2, 2, 2)  # basic blocks per stage
    group_channels: int = 16  # GroupNorm from scratch: statistics do not depend on who else is in the batch

    def __post_init__(self) -> None:
        if len(self.widths) != len(self.depths) or not self.widths:
            raise RecipeError(f"vision: one depth per width is wanted, got widths {self.widths}, depths {self.depths}")
        if self.pretrained and self.norm == "group":
            raise RecipeError('vision: pretrained weights come with batch norm; set norm to "frozen_batch"')
        if min(self.stem_width, *self.widths, *self.depths, self.group_channels) < 1:
            raise RecipeError("vision: stem_width, widths, depths and group_channels must be positive")
        inner = tuple(width // 4 for width in self.widths) if self.block == "bottleneck" else ()
        for width in (self.stem_width, *self.widths, *inner) if self.norm == "group" else ():
            if width % self.group_channels:
                inside = " inside a bottleneck" if width in inner else ""
                raise RecipeError(
                    f"vision: width {width}{inside} is not a multiple of group_channels {self.group_channels}"
                )

    @property
    def stride(self) -> int:
        """Pixels per cell: the stem divides by 4, each later stage by 2."""
        return 4 * 2 ** (len(self.widths) - 1)


@dataclass(frozen=True, kw_only=True)
class CorrectionConfig:
    """The paper's contribution: intent head, recovery gate and modulation. A policy without it is plain co-training."""

    intent_dim: int = 4  # K coefficients x A active effectors, or what another target has
    modulation: Modulation = "gated"
    film_std: float = 0.02  # start of Gamma and B: small, not zero, so that intent is felt from the first step
    gate_floor: float = 0.0  # the authors' release uses 0.1, and then the gate never closes
    film_on_human: bool = False  # the release also modulates the human decoder

    def __post_init__(self) -> None:
        if self.intent_dim < 1:
            raise RecipeError(f"intent_dim must be positive, got {self.intent_dim}")
        if not 0 <= self.gate_floor < 1:
            raise RecipeError(f"gate_floor must lie in 0..1, got {self.gate_floor}")


@dataclass(frozen=True, kw_only=True)
class PolicyConfig:
    """The defaults are the paper's policy."""

    cameras: tuple[Camera, ...] = tuple(Camera)
    image_size: int = 224
    # How pictures of other sizes become squares of that size (capture/picture_fit.py). `train` takes it from the data.
    picture_fit: Literal["exact", "letterbox", "crop"] = "exact"
    hidden_embodiment: bool = False  # trained on pictures without arms and hands, and to be shown such pictures
    vision: VisionConfig = field(default_factory=VisionConfig)
    width: int = 256  # d
    heads: int = 8
    mlp_ratio: int = 4
    stem_tokens: int = 16  # learned queries per modality
    action_tokens: int = 64
    blocks: int = 16
    drop_path: float = 0.1  # of the last block, linear from 0
    decoder_layers: int = 8
    horizon: int = 100  # steps of a chunk, 4 s
    action_space: ActionSpace = "joint"  # joint is the paper's; in effector space both embodiments act alike
    action_dim: int = length_of("joint")  # the length of a vector of that space
    relative_actions: bool = False  # the network counts from where the arms are; decisions are absolute all the same
    # Positions are predicted both ways, and this far from the hand (metres) both count the same: see near_and_far.py.
    near_m: float | None = None
    human_decoder: bool = True  # human rows get a state stem, and a decoder; left out when no human data is trained on
    decoders: Literal["separate", "shared"] = "separate"  # shared: one decoder, trained by both embodiments
    correction: CorrectionConfig | None = field(default_factory=CorrectionConfig)

    def __post_init__(self) -> None:
        for name in ("image_size", "width", "heads", "mlp_ratio", "stem_tokens", "action_tokens", "blocks",
                     "decoder_layers", "horizon", "action_dim"):  # fmt: skip
            if getattr(self, name) < 1:
                raise RecipeError(f"{name} must be positive, got {getattr(self, name)}")
        if self.image_size > MOST_PIXELS:
            raise RecipeError(f"image_size must be at most {MOST_PIXELS}, got {self.image_size}")
        if self.width % self.heads:
            raise RecipeError(f"width {self.width} is not a multiple of {self.heads} heads")
        if self.image_size % self.vision.stride:
            raise RecipeError(
                f"image_size {self.image_size} is not a multiple of the vision stride {self.vision.stride}"
            )
        if not self.cameras:
            raise RecipeError("a policy needs at least one camera")
        if not 0 <= self.drop_path < 1:
            raise RecipeError(f"drop_path must lie in 0..1, got {self.drop_path}")
        if self.action_dim != length_of(self.action_space):
            raise RecipeError(
                f"action_dim must be {length_of(self.action_space)} in {self.action_space} space, got {self.action_dim}"
            )
        if self.near_m is not None and not (0 < self.near_m < float("inf") and self.action_space == "effector"):
            raise RecipeError(
                f'near_m is a positive number of metres and goes with action_space "effector", got {self.near_m} in '
                f"{self.action_space} space"
            )
        if self.near_m is not None and self.relative_actions:
            raise RecipeError("near_m predicts positions both ways already: leave relative_actions false")
        if self.decoders == "shared" and self.human_decoder and self.action_space == "joint":
            raise RecipeError(
                'decoders "shared" needs action_space "effector": in joint space a person\'s numbers mean other things'
            )
        if self.shares_decoder and self.correction and not self.correction.film_on_human:
            raise RecipeError('decoders "shared" is modulated for both embodiments: set correction.film_on_human')

    @property
    def output_dim(self) -> int:
        """What a decoder predicts for a step: an action, and positions a second time where `near_m` asks for it."""
        return self.action_dim + (int(anchored_dims(self.action_space).sum()) if self.near_m is not None else 0)

    @property
    def shares_decoder(self) -> bool:
        """Whether human rows go through the robot's decoder."""
        return self.human_decoder and self.decoders == "shared"

    @property
    def cells_along_side(self) -> int:
        """A view has the square of it."""
        return self.image_size // self.vision.stride

    @property
    def drop_path_rates(self) -> tuple[float, ...]:
        """One per residual branch: attention and MLP of each block."""
        last = max(self.blocks - 1, 1)
        return tuple(self.drop_path * block / last for block in range(self.blocks) for _ in ("attention", "mlp"))


@dataclass(frozen=True, kw_only=True)
class LossWeights:
    """The paper's weights; the options are choices of the authors' release (docs/paper_map.md)."""

    human: float = 1.0  # of L_bc^h; the paper has no such weight
    intent: float = 0.05  # lambda_c
    gate: float = 0.05  # lambda_g
    nominal: float = 0.01  # lambda_n
    imitation_beta: float = 0.05  # smooth-L1 of behaviour cloning, on normalised actions
    human_beta: float | None = None  # the same for human rows; None: as for robots
    intent_form: Literal["l1", "smooth_l1"] = "l1"  # l1: the norm, summed over dimensions; smooth_l1: their mean
    nominal_form: Literal["film", "intent"] = "film"  # intent: the release's (p |c|)^2 over all robot frames

    def __post_init__(self) -> None:
        for name in ("human", "intent", "gate", "nominal", "imitation_beta"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise RecipeError(f"losses.{name} must be finite and not be negative, got {getattr(self, name)}")
        if self.human_beta is not None and not 0 <= self.human_beta < float("inf"):
            raise RecipeError(f"losses.human_beta must be finite and not be negative, got {self.human_beta}")
