"""One training step, from a plan to updated weights, without a single wait for the device.

On a GPU the whole step (gathering, augmentation, forward, backward, clipping, update) is captured as one CUDA graph:
at these sizes most of an eager step is launching kernels. Chains of small ones that the next large one does not need
are launched apart from it, where the backend can (see `backend`).
"""

# B batch (robots first), H horizon, A action dimensions, F frames of the table, V views, S picture side, N sums

from collections.abc import Callable

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from egorecovery.kinematics.action_space import anchored_dims
from egorecovery.policy.near_and_far import output_dims
from egorecovery.policy.objective import Targets, objective
from egorecovery.policy.pixels import PIXEL_DEVIATION, PIXEL_MEAN
from egorecovery.policy.policy import Prediction
from egorecovery.training.batch_sampler import InputRow, StepPlan
from egorecovery.training.clipping import MadClip
from egorecovery.training.frame_table import FrameTable, chunk_frames
from egorecovery.training.image_source import Pictures, ResidentImages
from egorecovery.training.products import bfloat16_products
from egorecovery.training.recipe import Recipe
from egorecovery.training.runtime import Runtime
from egorecovery.training.weights import AdamW, Weights, norm_of_row

WARM_UP = 3  # runs before the capture: libraries choose their algorithms and allocate


class TrainingStep:
    def __init__(
        self, recipe: Recipe, frames: FrameTable, pictures: Pictures, weights: Weights, runtime: Runtime
    ) -> None:
        self._recipe, self._pictures, self._weights, self._runtime = recipe, pictures, weights, runtime
        device = runtime.device
        self._backend = weights.backend
        self._robots = recipe.batch.robot // runtime.ranks
        self._table = {
            name: torch.from_numpy(getattr(frames, name)).to(device)
            for name in ("state_FA", "action_FA", "anchor_FA", "last_F", "intent_FC", "intent_mask_F", "in_recovery_F")
        }
        self._ahead_H = torch.arange(recipe.policy.horizon, device=device)
        whole_H, part_H = chunk_frames(recipe.policy.horizon, frames.speed_ratio)
        self._stretched = frames.speed_ratio != 1 and recipe.batch.human > 0
        self._human_ahead_H, self._human_part_H1 = (
            torch.from_numpy(whole_H).to(device),
            torch.from_numpy(part_H).to(device)[:, None],
        )
        dims_O = output_dims(recipe.human_supervision.dims(recipe.policy.action_space), recipe.policy)
        self._human_dims_A = None if dims_O.all() else torch.from_numpy(dims_O.astype(np.float32)).to(device)
        anchored_N = np.flatnonzero(anchored_dims(recipe.policy.action_space))
        self._anchored_N = None if recipe.policy.near_m is None else torch.from_numpy(anchored_N).to(device)
        self._pixel_mean_3 = torch.from_numpy(PIXEL_MEAN).to(device)
        self._pixel_deviation_3 = torch.from_numpy(PIXEL_DEVIATION).to(device)
        self.network: nn.Module = weights.working
        if runtime.ranks > 1:
            on = [device.index] if device.type == "cuda" else None
            self.network = DistributedDataParallel(weights.working, device_ids=on, gradient_as_bucket_view=True)
        self.optimiser = AdamW(weights, recipe.optimisation.weight_decay)
        self.clip = MadClip(recipe.optimisation.clip_after, recipe.optimisation.clip_deviations, device)
        # Once a loss or a gradient is not finite every later update is skipped, until the host looks and stops.
        self._stopped = torch.zeros((), device=device)
        self._bad_step = torch.full((), -1, dtype=torch.int64, device=device)
        self._lay_out_sums([], torch.zeros(0, device=device))
        self._summed = 0
        self._input_row: InputRow | None = None
        self._inputs: dict[str, Tensor] = {}
        self._replay: Callable[[], None] | None = None

    def run(self, plan: StepPlan) -> None:
        """Queues one step; returns before the device has done it."""
        self._load(plan.shard(self._runtime.rank, self._runtime.ranks, self._recipe.batch.robot))
        if not self._runtime.graph:
            with bfloat16_products(self._runtime.bfloat16_products):
                self._compute()
        else:
            if self._replay is None:
                self._replay = self._captured()
            self._replay()
        self._summed += 1

    def rehearse(self, plan: StepPlan) -> dict[str, Tensor]:
        """Forward and backward without an update or a trace: to count work, or to compare gradients.

        Those of another rehearsal come to lie in the same memory: copy what is to be kept.
        """
        self._load(plan.shard(self._runtime.rank, self._runtime.ranks, self._recipe.batch.robot))
        return self._backward()

    def network_parameters(self) -> list[tuple[str, nn.Parameter]]:
        """The weights that compute, where a rehearsal leaves its gradients."""
        return [named for named in self._weights.working.named_parameters() if named[1].requires_grad]

    def means(self) -> dict[str, float]:
        """Means of all terms since the last call. Waits for the device."""
        if not self._summed:
            return {}
        sums = self._total(self._sums_N).tolist()
        means = {name: value / self._summed / self._runtime.ranks for name, value in zip(self._sums, sums, strict=True)}
        self._sums_N.zero_()
        self._summed = 0
        return means

    def bad_step(self) -> int | None:
        """The step whose loss or gradient was not finite. Waits for the device."""
        step = int(self._bad_step.item())
        return None if step < 0 else step

    def state(self) -> dict[str, Tensor]:
        """All of it that a resumed run needs, beside the weights."""
        flat = {f"clip.{name}": value for name, value in self.clip.state().items()}
        flat |= {f"sums.{name}": value.clone() for name, value in self._sums.items()}  # views cannot be saved
        flat["summed"] = torch.tensor(self._summed)
        return flat | {f"optimiser.{name}": value for name, value in self.optimiser.state().items()}

    def load(self, flat: dict[str, Tensor]) -> None:
        device = self._runtime.device
        self.clip.load({name: flat[f"clip.{name}"] for name in self.clip.state()})
        sums = {name.removeprefix("sums."): value for name, value in flat.items() if name.startswith("sums.")}
        if sums:
            self._lay_out_sums(list(sums), torch.stack(list(sums.values())).to(device))
        self._summed = int(flat["summed"])
        self.optimiser.load({name: flat[f"optimiser.{name}"] for name in self.optimiser.state()})

    def _load(self, plan: StepPlan) -> None:
        """The plan into buffers that stay where they are, as a graph needs."""
        pictures, rows_B = self._pictures.of(plan.frame_B, plan.step)
        values = {
            "frame_B": torch.from_numpy(plan.frame_B),
            "rows_B": rows_B,
            "colour_B34": torch.from_numpy(plan.colour_B34),
            "crop_BV5": torch.from_numpy(plan.crop_BV5),
            "keep_KB": torch.from_numpy(plan.keep_KB).to(self._runtime.precision),
            "noise_BA": torch.from_numpy(plan.noise_BA),
            "state_keep_B": torch.from_numpy(plan.state_keep_B),
            "learning_rate": torch.tensor(plan.learning_rate, dtype=torch.float32),
            "step": torch.tensor(plan.step),
        }
        if self._input_row is None:
            self._input_row = InputRow(values, self._runtime.device)
            resident = isinstance(self._pictures, ResidentImages)
            self._inputs = {**self._input_row.views, "pictures": pictures if resident else pictures.clone()}
        elif self._inputs["pictures"] is not pictures:
            self._inputs["pictures"].copy_(pictures, non_blocking=True)
        self._input_row.send(values)

    def _backward(self) -> dict[str, Tensor]:
        """All terms of the objective; gradients are left on the working weights."""
        self._weights.drop_gradients()
        launch, alone = self._backend.launch, self._runtime.ranks == 1
        state, wanted = launch("state", self._state), launch("targets", self._targets)
        prediction: Prediction = self.network(self._images(), state(), self._robots, self._inputs["keep_KB"])
        targets = wanted()
        if alone:
            terms = self._backend.objective(prediction, targets, self._recipe.losses)
        else:
            terms = objective(prediction, targets, self._recipe.losses, self._total)
        report = launch("gate report", gate_report, prediction, targets)
        # The terms are shares of one mean over the whole batch. Processes average gradients and logged values, so each
        # puts forward its share as if it were the whole.
        if not alone:
            terms = {name: value * self._runtime.ranks for name, value in terms.items()}
        if alone:
            self._backend.backward(terms["loss"], self._weights.destinations)
        else:  # processes that share a batch average their gradients as they come
            terms["loss"].backward()
        return {**terms, **report()}

    def _compute(self) -> None:
        launch = self._backend.launch
        limit = launch("clip limit", self.clip.limit)
        ahead = launch("optimiser", self.optimiser.ahead, self._inputs["learning_rate"])
        terms = self._backward()
        norm = norm_of_row(self._weights.collect_gradients())
        # Neither a norm nor a loss is negative, and NaN is below nothing.
        bad = ~(torch.maximum(norm, self._total(terms["loss"].detach())) < torch.inf)
        self._stopped.masked_fill_(bad, 1)
        factor = self.clip.factor(norm, limit())
        noted = launch("notes", self._note, terms, norm, factor, bad)
        self.optimiser.update(self._inputs["learning_rate"], factor, self._stopped, ahead())
        noted()

    def _note(self, terms: dict[str, Tensor], norm: Tensor, factor: Tensor, bad: Tensor) -> None:
        """All that a step leaves behind beside its update."""
        self._bad_step.copy_(torch.where(bad & (self._bad_step < 0), self._inputs["step"], self._bad_step))
        self.clip.remember(norm)
        self._add({**terms, "gradient_norm": norm, "clipped": (factor < 1).float()})

    def _images(self) -> Tensor:
        inputs = self._inputs
        return self._backend.augmented(
            inputs["pictures"],
            inputs["rows_B"],
            inputs["colour_B34"],
            inputs["crop_BV5"],
            self._pixel_mean_3,
            self._pixel_deviation_3,
            self._runtime.precision,
        )

    def _state(self) -> Tensor:
        inputs = self._inputs
        state_BA = self._table["state_FA"][inputs["frame_B"]] + inputs["noise_BA"]
        return (state_BA * inputs["state_keep_B"][:, None]).to(self._runtime.precision)

    def _targets(self) -> Targets:
        table, frame_B = self._table, self._inputs["frame_B"]
        ahead_BH = self._ahead_H.expand(len(frame_B), -1)
        if self._stretched:
            humans = len(frame_B) - self._robots
            ahead_BH = torch.cat([ahead_BH[: self._robots], self._human_ahead_H.expand(humans, -1)])
        wanted_BH = frame_B[:, None] + ahead_BH
        last_B1 = table["last_F"][frame_B][:, None]
        action_BHA = table["action_FA"][torch.minimum(wanted_BH, last_B1)]
        if self._stretched:  # human steps lie between frames
            following_MHA = table["action_FA"][torch.minimum(wanted_BH + 1, last_B1)[self._robots :]]
            human_MHA = torch.lerp(action_BHA[self._robots :], following_MHA, self._human_part_H1)
            action_BHA = torch.cat([action_BHA[: self._robots], human_MHA])
        way_BHA = action_BHA - table["anchor_FA"][frame_B][:, None]
        if self._anchored_N is not None:  # both positions in the workspace and ways from the hand
            way_BHA = torch.cat([action_BHA, way_BHA[..., self._anchored_N]], dim=-1)
        return Targets(
            action_BHA=way_BHA,
            action_mask_BH=(wanted_BH <= last_B1 + self._recipe.stay_steps).float(),
            intent_BC=table["intent_FC"][frame_B],
            intent_mask_B=table["intent_mask_F"][frame_B].float(),
            in_recovery_B=table["in_recovery_F"][frame_B].float(),
            human_dims_A=self._human_dims_A,
        )

    def _total(self, count: Tensor) -> Tensor:
        if self._runtime.ranks == 1:
            return count
        count = count.detach().clone()
        dist.all_reduce(count)
        return count

    def _add(self, terms: dict[str, Tensor]) -> None:
        if self._sums.keys() != terms.keys():  # the first step, or the first after a checkpoint with other terms
            self._lay_out_sums(list(terms), torch.zeros(len(terms), device=self._runtime.device))
            self._summed = 0
        self._sums_N.add_(torch.stack([terms[name].detach() for name in self._sums]))

    def _lay_out_sums(self, names: list[str], sums_N: Tensor) -> None:
        """All sums in one row, so that a step adds to all of them at once; those by name are views of it."""
        self._sums_N = sums_N
        self._sums: dict[str, Tensor] = dict(zip(names, sums_N.unbind(), strict=True))

    def _captured(self) -> Callable[[], None]:
        """The step as a CUDA graph. Warm-up runs change nothing: updates are switched off, the rest is put back."""
        before = {name: value.clone() for name, value in self.clip.state().items()}
        names, sums_N = list(self._sums), self._sums_N.clone()
        self._stopped.fill_(1)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_UP):
                self._compute()
        torch.cuda.current_stream().wait_stream(side)
        self._weights.drop_gradients()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=torch.cuda.Stream(priority=self._backend.stream_priority)):
            self._compute()
        self.clip.load(before)
        self._sums_N.copy_(sums_N if list(self._sums) == names else torch.zeros_like(self._sums_N))
        self._stopped.zero_()
        self._bad_step.fill_(-1)
        return graph.replay


def gate_report(prediction: Prediction, targets: Targets) -> dict[str, Tensor]:
    if prediction.gate_logit_B is None:
        return {}
    right_B = (prediction.gate_logit_B > 0) == (targets.in_recovery_B > 0.5)
    return {"gate_accuracy": right_B.float().mean()}
