"""One training step, from a plan to updated weights, without a single wait for the device.

On a GPU the whole step (gathering, augmentation, forward, backward, clipping, update) is captured as one CUDA graph:
at these sizes most of an eager step is launching kernels.
"""

# B batch (robots first), H horizon, A action dimensions, F frames of the table, V views, S picture side

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from egorecovery.policy.kernels import gather_augmented
from egorecovery.policy.objective import Targets, objective
from egorecovery.policy.pixels import PIXEL_DEVIATION, PIXEL_MEAN
from egorecovery.policy.policy import Prediction
from egorecovery.training.clipping import MadClip
from egorecovery.training.frame_table import FrameTable
from egorecovery.training.pictures import Pictures, ResidentPictures
from egorecovery.training.plan import StepPlan
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
        self._robots = recipe.batch.robot // runtime.ranks
        self._table = {
            name: torch.from_numpy(getattr(frames, name)).to(device)
            for name in ("state_FA", "action_FA", "anchor_FA", "last_F", "intent_FC", "intent_mask_F", "in_recovery_F")
        }
        self._ahead_H = torch.arange(recipe.policy.horizon, device=device)
        self._pixel_mean_3 = torch.from_numpy(PIXEL_MEAN).to(device)
        self._pixel_deviation_3 = torch.from_numpy(PIXEL_DEVIATION).to(device)
        self._network: nn.Module = weights.working
        if runtime.ranks > 1:
            on = [device.index] if device.type == "cuda" else None
            self._network = DistributedDataParallel(weights.working, device_ids=on, gradient_as_bucket_view=True)
        self._rate = torch.zeros((), device=device)
        self.optimiser = AdamW(weights, recipe.optimisation.weight_decay)
        self.clip = MadClip(recipe.optimisation.clip_after, recipe.optimisation.clip_deviations, device)
        # Once a loss or a gradient is not finite every later update is skipped, until the host looks and stops.
        self._stopped = torch.zeros((), device=device)
        self._bad_step = torch.full((), -1, dtype=torch.int64, device=device)
        self._step = torch.zeros((), dtype=torch.int64, device=device)
        self._sums: dict[str, Tensor] = {}
        self._summed = 0
        self._inputs: dict[str, Tensor] = {}
        self._replay: Callable[[], None] | None = None

    def run(self, plan: StepPlan) -> None:
        """Queues one step; returns before the device has done it."""
        self._load(plan.shard(self._runtime.rank, self._runtime.ranks, self._recipe.batch.robot))
        if not self._runtime.graph:
            self._compute()
        else:
            if self._replay is None:
                self._replay = self._captured()
            self._replay()
        self._summed += 1

    def rehearse(self, plan: StepPlan) -> dict[str, Tensor]:
        """Forward and backward without an update or a trace: to count work, or to compare gradients."""
        self._load(plan.shard(self._runtime.rank, self._runtime.ranks, self._recipe.batch.robot))
        return self._backward()

    def network_parameters(self) -> list[tuple[str, nn.Parameter]]:
        """The weights that compute, where a rehearsal leaves its gradients."""
        return [each for each in self._weights.working.named_parameters() if each[1].requires_grad]

    def means(self) -> dict[str, float]:
        """Means of all terms since the last call. Waits for the device."""
        if not self._summed:
            return {}
        sums = self._total(torch.stack(list(self._sums.values()))).tolist()
        means = {name: value / self._summed / self._runtime.ranks for name, value in zip(self._sums, sums, strict=True)}
        for total in self._sums.values():
            total.zero_()
        self._summed = 0
        return means

    def bad_step(self) -> int | None:
        """The step whose loss or gradient was not finite. Waits for the device."""
        step = int(self._bad_step.item())
        return None if step < 0 else step

    def state(self) -> dict[str, Tensor]:
        """All of it that a resumed run needs, beside the weights."""
        flat = {f"clip.{name}": value for name, value in self.clip.state().items()}
        flat |= {f"sums.{name}": value for name, value in self._sums.items()}
        flat["summed"] = torch.tensor(self._summed)
        return flat | {f"optimiser.{name}": value for name, value in self.optimiser.state().items()}

    def load(self, flat: dict[str, Tensor]) -> None:
        device = self._runtime.device
        self.clip.load({name: flat[f"clip.{name}"] for name in self.clip.state()})
        self._sums = {
            name.removeprefix("sums."): value.to(device) for name, value in flat.items() if name.startswith("sums.")
        }
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
            "keep_KB": torch.from_numpy(plan.keep_KB),
            "noise_BA": torch.from_numpy(plan.noise_BA),
            "state_keep_B": torch.from_numpy(plan.state_keep_B),
        }
        if not self._inputs:
            self._inputs = {name: value.to(self._runtime.device, copy=True) for name, value in values.items()}
            resident = isinstance(self._pictures, ResidentPictures)
            self._inputs["pictures"] = pictures if resident else pictures.clone()
        else:
            for name, value in values.items():
                # From pinned memory the copy is queued; from any other the host would wait for the whole last step.
                pinned = value.pin_memory() if self._runtime.device.type == "cuda" else value
                self._inputs[name].copy_(pinned, non_blocking=True)
            if self._inputs["pictures"] is not pictures:
                self._inputs["pictures"].copy_(pictures, non_blocking=True)
        self._rate.fill_(plan.learning_rate)
        self._step.fill_(plan.step)

    def _backward(self) -> dict[str, Tensor]:
        """All terms of the objective; gradients are left on the working weights."""
        self._weights.drop_gradients()
        keep_KB = self._inputs["keep_KB"].to(self._runtime.precision)
        prediction: Prediction = self._network(self._images(), self._state(), self._robots, keep_KB)
        targets = self._targets()
        terms = objective(prediction, targets, self._recipe.losses, self._total)
        # The terms are shares of one mean over the whole batch. Processes average gradients and logged values, so each
        # puts forward its share as if it were the whole.
        terms = {name: value * self._runtime.ranks for name, value in terms.items()}
        terms["loss"].backward()
        return {**terms, **gate_report(prediction, targets)}

    def _compute(self) -> None:
        terms = self._backward()
        norm = norm_of_row(self._weights.collect_gradients())
        bad = ~(torch.isfinite(norm) & torch.isfinite(self._total(terms["loss"].detach())))
        self._bad_step.copy_(torch.where(bad & (self._stopped == 0), self._step, self._bad_step))
        self._stopped.copy_(torch.maximum(self._stopped, bad.float()))
        factor = self.clip.factor(norm)
        self.optimiser.update(self._rate, factor, self._stopped)
        self._add({**terms, "gradient_norm": norm, "clipped": (factor < 1).float()})

    def _images(self) -> Tensor:
        inputs = self._inputs
        return gather_augmented(
            inputs["pictures"],
            inputs["rows_B"],
            inputs["colour_B34"],
            inputs["crop_BV5"],
            self._pixel_mean_3,
            self._pixel_deviation_3,
            dtype=self._runtime.precision,
            space_to_depth=self._runtime.device.type == "cuda",
        )

    def _state(self) -> Tensor:
        inputs = self._inputs
        state_BA = self._table["state_FA"][inputs["frame_B"]] + inputs["noise_BA"]
        return (state_BA * inputs["state_keep_B"][:, None]).to(self._runtime.precision)

    def _targets(self) -> Targets:
        table, frame_B = self._table, self._inputs["frame_B"]
        wanted_BH = frame_B[:, None] + self._ahead_H
        last_B1 = table["last_F"][frame_B][:, None]
        return Targets(
            action_BHA=table["action_FA"][torch.minimum(wanted_BH, last_B1)] - table["anchor_FA"][frame_B][:, None],
            action_mask_BH=(wanted_BH <= last_B1 + self._recipe.stay_steps).float(),
            intent_BC=table["intent_FC"][frame_B],
            intent_mask_B=table["intent_mask_F"][frame_B].float(),
            in_recovery_B=table["in_recovery_F"][frame_B].float(),
        )

    def _total(self, count: Tensor) -> Tensor:
        if self._runtime.ranks == 1:
            return count
        count = count.detach().clone()
        dist.all_reduce(count)
        return count

    def _add(self, terms: dict[str, Tensor]) -> None:
        for name, value in terms.items():
            if name not in self._sums:
                self._sums[name] = torch.zeros((), device=self._runtime.device)
            self._sums[name].add_(value.detach())

    def _captured(self) -> Callable[[], None]:
        """The step as a CUDA graph. Warm-up runs change nothing: updates are switched off, the rest is put back."""
        before = {name: value.clone() for name, value in self.clip.state().items()}
        sums = {name: value.clone() for name, value in self._sums.items()}
        self._stopped.fill_(1)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_UP):
                self._compute()
        torch.cuda.current_stream().wait_stream(side)
        self._weights.drop_gradients()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._compute()
        self.clip.load(before)
        for name, total in self._sums.items():
            total.copy_(sums[name]) if name in sums else total.zero_()
        self._stopped.zero_()
        self._bad_step.fill_(-1)
        return graph.replay


def gate_report(prediction: Prediction, targets: Targets) -> dict[str, Tensor]:
    if prediction.gate_logit_B is None:
        return {}
    right_B = (prediction.gate_logit_B > 0) == (targets.in_recovery_B > 0.5)
    return {"gate_accuracy": right_B.float().mean()}
