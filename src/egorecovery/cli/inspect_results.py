"""`egorecovery inspect` of what `evaluate` wrote."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from egorecovery.cli.console import console, print_json
from egorecovery.cli.words import command
from egorecovery.episodes.beside import around
from egorecovery.errors import RecipeError

if TYPE_CHECKING:
    from egorecovery.cli.inspect import Inspect
    from egorecovery.evaluation import RolloutRecord


def inspect_results(asked: "Inspect") -> int:
    from egorecovery.cli.evaluate import show_rates
    from egorecovery.evaluation import ResultFile
    from egorecovery.evaluation.rollout_groups import policy_groups

    if asked.episode is not None:
        raise RecipeError(f"{asked.store} holds rollouts, not episodes: name one with --rollout")
    if asked.sheet or asked.film:
        raise RecipeError(
            "--sheet and --film are of episodes; rollouts are filmed with 'egorecovery evaluate --film N'"
        )
    if asked.store.suffix != ".jsonl" or asked.store.name == "log.jsonl":
        raise RecipeError(f"{asked.store} is no result file: 'evaluate' writes those{around(asked.store)}")
    records = ResultFile(asked.store).records()
    if asked.rollout is not None:
        return _detail(asked, records)
    if asked.rerun:
        raise RecipeError("--rerun shows one rollout: name it with --rollout, as in --rollout 0")
    if asked.json:
        print_json([record.record() for record in records])
        return 0
    for title, chosen in policy_groups(records).items():
        show_rates(chosen, title)
    console.print(f"{asked.store}: {len(records)} rollouts", soft_wrap=True)
    following = ["--rollout", 0] if records else ["--help"]
    console.print(f"next: {command('inspect', asked.store, *following)}", soft_wrap=True)
    return 0


def _detail(asked: "Inspect", records: "list[RolloutRecord]") -> int:
    from egorecovery.evaluation.rollout_videos import rollout_videos

    number = asked.rollout or 0
    if not 0 <= number < len(records):
        raise RecipeError(f"{asked.store} has rollouts 0 to {len(records) - 1}; --rollout {number} is none of them")
    record = records[number]
    film: Path | None = next(
        (one.film for one in rollout_videos(asked.store).rollouts if one.record.key == record.key), None
    )
    if asked.rerun:
        from egorecovery.cli.rerun_log import log_rollout

        log_rollout(record, film, asked.rerun)
    if asked.json:
        print_json(record.record())
        return 0
    console.print(f"rollout {number}: {record.task}, {record.regime} start {record.index}", soft_wrap=True)
    console.print(f"  by {record.subject.policy}", soft_wrap=True)
    console.print(f"  {record.outcome} after {record.duration_s:.1f} s: {record.reason}", soft_wrap=True)
    console.print(f"  {record.decisions} decisions, {record.retries} retries, start {record.mode}", soft_wrap=True)
    if record.gate_trace:
        console.print(f"  gate {' '.join(f'{gate:.2f}' for gate in record.gate_trace)}", soft_wrap=True)
    if film:
        console.print(f"  film {film}", soft_wrap=True)
    if asked.rerun and asked.rerun != "view":
        console.print(f"wrote: {asked.rerun}", soft_wrap=True)
        console.print(f"next: rerun {shlex.quote(asked.rerun)}", soft_wrap=True)
    else:
        console.print(f"next: {command('watch' if film else 'inspect', asked.store)}", soft_wrap=True)
    return 0
