"""Closed-loop evaluation in the workcell: the protocol, rollouts on all cores, results that survive, statistics."""

from egorecovery.evaluation.batched_policy import BatchedPolicy, PolicyCrashed, SourceFactory
from egorecovery.evaluation.closed_loop import Evaluation, evaluate
from egorecovery.evaluation.pool import RolloutPool, default_workers
from egorecovery.evaluation.protocol import (
    COMPARISON,
    REGIMES,
    VALIDATION,
    EvaluationProtocol,
    Regime,
    bench_protocol,
    paper_protocol,
    starts,
)
from egorecovery.evaluation.results import ResultFile, ResultsError, RolloutRecord, Subject, load, merge
from egorecovery.evaluation.statistics import Comparison, Rate, SeedSummary, compare, over_seeds, rate, rates, wilson

__all__ = [
    "COMPARISON",
    "REGIMES",
    "VALIDATION",
    "BatchedPolicy",
    "Comparison",
    "Evaluation",
    "EvaluationProtocol",
    "PolicyCrashed",
    "Rate",
    "Regime",
    "ResultFile",
    "ResultsError",
    "RolloutPool",
    "RolloutRecord",
    "SeedSummary",
    "SourceFactory",
    "Subject",
    "bench_protocol",
    "compare",
    "default_workers",
    "evaluate",
    "load",
    "merge",
    "over_seeds",
    "paper_protocol",
    "rate",
    "rates",
    "starts",
    "wilson",
]
