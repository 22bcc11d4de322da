"""The whole policy: vision, stems, trunk, two heads, and a decoder per embodiment or one for both."""

# B batch (robots first, then humans), R robots, V views, N tokens, D width, H horizon, A action dimensions,
# C intent dimensions, S picture side, P cells

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from egorecovery.policy.action_head import ActionHead
from egorecovery.policy.attention import CrossAttention, LearnedTokens, Linear
from egorecovery.policy.config import PolicyConfig
from egorecovery.policy.modulation import GatedModulation
from egorecovery.policy.stems import StateStem, ViewStem
from egorecovery.policy.trunk import Trunk
from egorecovery.policy.vision import ViewEncoder


@dataclass(frozen=True, kw_only=True, eq=False)
class Prediction:
    """What the network gives for a batch; actions and intent are normalised."""

    pooled_BD: Tensor  # the feature that both heads read; diagnostics look at it
    robot_action_RHA: Tensor | None
    human_action_MHA: Tensor | None
    intent_BC: Tensor | None
    gate_logit_B: Tensor | None
    film_scale_RD: Tensor | None  # Gamma(c) and B(c) on robot rows
    film_shift_RD: Tensor | None


class Pooling(nn.Module):
    """One learned query reads the action tokens."""

    def __init__(self, config: PolicyConfig) -> None:
        super().__init__()
        self.query = LearnedTokens(1, config.width)
        self.kv = Linear(config.width, 2 * config.width)
        self.attention = CrossAttention(config.width, config.heads)

    def forward(self, tokens_BND: Tensor) -> Tensor:
        return self.attention(self.query(), self.kv(tokens_BND))[:, 0]


class Policy(nn.Module):
    def __init__(self, config: PolicyConfig) -> None:
        super().__init__()
        self.config = config
        modalities = len(config.cameras) + 1
        self.views = nn.ModuleList(ViewEncoder(config.vision) for _ in config.cameras)
        self.stems = nn.ModuleList(ViewStem(config) for _ in config.cameras)
        self.robot_state = StateStem(config)
        self.human_state = StateStem(config) if config.human_decoder else None
        self.action_tokens = LearnedTokens(config.action_tokens, config.width)
        self.place_ND = nn.Parameter(torch.randn(modalities * config.stem_tokens, config.width) * 0.02)
        self.trunk = Trunk(config)
        self.robot = ActionHead(config)
        self.human = ActionHead(config) if config.human_decoder and not config.shares_decoder else None
        correction = config.correction
        self.pooling = Pooling(config) if correction else None
        self.intent = nn.Linear(config.width, correction.intent_dim) if correction else None
        self.gate = nn.Linear(config.width, 1) if correction else None
        modulated = correction is not None and correction.modulation != "none"
        self.modulation = GatedModulation(correction, config.width) if correction and modulated else None

    def load_pretrained_vision(self, source: str) -> None:
        """Every view starts from the same weights; see `ViewEncoder.load_pretrained`."""
        for view in self.views:
            cast("ViewEncoder", view).load_pretrained(source)

    def on(self, device: torch.device) -> "Policy":
        """Moved, with the memory layout that convolutions like."""
        return self.to(device).to(memory_format=torch.channels_last)  # type: ignore[call-overload] - torch's stub lacks it

    def forward(self, images_VB3SS: Tensor, state_BA: Tensor, robots: int, keep_KB: Tensor | None = None) -> Prediction:
        """The first `robots` rows are robot observations, the others human; `keep_KB` are drop-path factors."""
        tokens_BND = self.tokens(images_VB3SS, state_BA, robots, keep_KB)
        pooled_BD, intent_BC, gate_logit_B = self.correction(tokens_BND)
        gate_B = None if gate_logit_B is None else gate_logit_B.sigmoid()
        return self.act(tokens_BND, pooled_BD, intent_BC, gate_logit_B, gate_B, robots)

    def tokens(self, images_VB3SS: Tensor, state_BA: Tensor, robots: int, keep_KB: Tensor | None = None) -> Tensor:
        """The trunk's action tokens: everything shared runs once, on both embodiments together."""
        observed = self.observed(images_VB3SS, state_BA, robots)
        asked_BND = self.action_tokens(state_BA.shape[0]).contiguous()  # else a GPU joins them three times slower
        stream_BND = torch.cat([asked_BND, *observed], dim=1)
        return self.trunk(stream_BND, keep_KB, wanted=self.config.action_tokens)

    def observed(self, images_VB3SS: Tensor, state_BA: Tensor, robots: int) -> list[Tensor]:
        """The tokens of every view and of the state, each in its place."""
        *places_of_views, place_of_state_MD = self.place_ND.chunk(len(self.views) + 1)
        looks = zip(self.views, self.stems, images_VB3SS, places_of_views, strict=True)
        seen = [stem(view(pixels_B3SS)) + place_MD for view, stem, pixels_B3SS, place_MD in looks]
        return [*seen, self.felt(state_BA, robots) + place_of_state_MD]

    def felt(self, state_BA: Tensor, robots: int) -> Tensor:
        """Proprioception through the stem of each row's embodiment."""
        felt = [self.robot_state(state_BA[:robots])] if robots else []
        if robots < state_BA.shape[0]:
            assert self.human_state is not None, "human rows in a policy built without human data"
            felt.append(self.human_state(state_BA[robots:]))
        return torch.cat(felt)

    def correction(self, tokens_BND: Tensor) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """The pooled feature, and what the two heads read from it."""
        if not (self.pooling and self.intent and self.gate):
            return tokens_BND.mean(dim=1), None, None
        pooled_BD = self.pooling(tokens_BND)
        return pooled_BD, self.intent(pooled_BD), self.gate(pooled_BD).squeeze(-1).float()

    def act(
        self,
        tokens_BND: Tensor,
        pooled_BD: Tensor,
        intent_BC: Tensor | None,
        gate_logit_B: Tensor | None,
        gate_B: Tensor | None,
        robots: int,
    ) -> Prediction:
        """Both decoders, given intent and gate: what the heads said, or what an intervention puts in their place."""
        film = None
        if self.modulation:
            assert intent_BC is not None
            reach = intent_BC.shape[0] if self.config.correction.film_on_human else robots  # type: ignore[union-attr] - modulation implies it
            film = self.modulation.terms(intent_BC[:reach])
        robot_action_RHA, human_action_MHA = self.decoded(tokens_BND, film, gate_B, robots)
        return Prediction(
            pooled_BD=pooled_BD,
            robot_action_RHA=robot_action_RHA,
            human_action_MHA=human_action_MHA,
            intent_BC=intent_BC,
            gate_logit_B=gate_logit_B,
            film_scale_RD=None if film is None else film[0][:robots],
            film_shift_RD=None if film is None else film[1][:robots],
        )

    def decoded(
        self, tokens_BND: Tensor, film: tuple[Tensor, Tensor] | None, gate_B: Tensor | None, robots: int
    ) -> tuple[Tensor | None, Tensor | None]:
        """Actions of robot rows and of human rows; `film` is Gamma(c) and B(c)."""
        rows = tokens_BND.shape[0]
        if self.config.shares_decoder:
            acted_BHA = self.acted(self.robot, tokens_BND, slice(0, rows), film, gate_B)
            return acted_BHA[:robots] if robots else None, acted_BHA[robots:] if robots < rows else None
        robot_action_RHA = human_action_MHA = None
        if robots:
            robot_action_RHA = self.acted(self.robot, tokens_BND, slice(0, robots), film, gate_B)
        if robots < rows:
            assert self.human is not None, "human rows in a policy built without human data"
            on_human = bool(self.config.correction and self.config.correction.film_on_human)
            human_film = film if on_human else None
            human_action_MHA = self.acted(self.human, tokens_BND, slice(robots, rows), human_film, gate_B)
        return robot_action_RHA, human_action_MHA

    def acted(
        self,
        head: ActionHead,
        tokens_BND: Tensor,
        rows: slice,
        film: tuple[Tensor, Tensor] | None,
        gate_B: Tensor | None,
    ) -> Tensor:
        """One decoder's actions; Eq. 2 changes its feature where there is `film`."""

        def modulated(feature_BHD: Tensor) -> Tensor:
            if film is None or self.modulation is None:
                return feature_BHD
            assert gate_B is not None
            scale_BD, shift_BD = film
            return self.modulation(feature_BHD, scale_BD[rows], shift_BD[rows], gate_B[rows])

        return head(tokens_BND[rows], modulated)
