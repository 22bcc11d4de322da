"""A figure of the operator's hour: how it was spent, for each task and source."""

from collections.abc import Sequence
from pathlib import Path

from egorecovery.audit.accounts import Account, Audit, Use, shown
from egorecovery.errors import AuditError

# Okabe and Ito's palette, distinct for every common kind of colour blindness.
COLOURS = {
    Use.SETUP: "#595959",
    Use.SYNCHRONISATION: "#C8C8C8",
    Use.STAGING: "#0072B2",
    Use.RECORDING: "#009E73",
    Use.RESET: "#E69F00",
    Use.DISCARDED: "#D55E00",
}
BAR_INCHES, TOP_INCHES = 0.42, 1.5
HOUR_MINUTES = 60


def require_matplotlib() -> None:
    """Refuses before anything is written."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise AuditError(
            "the picture of the hour needs matplotlib: pip install 'egorecovery[policy]', or leave --out away"
        ) from None


def draw_hour(audit: Audit, path: Path) -> None:
    """One bar of an hour per task and source, with the accepted demonstrations of that hour at its end."""
    from matplotlib.figure import Figure

    accounts = [account for account in audit.accounts if account.worked]
    figure = Figure(figsize=(8.0, TOP_INCHES + BAR_INCHES * max(len(accounts), 1)), layout="constrained")
    axes = figure.add_subplot()
    rows = range(len(accounts))
    left = [0.0] * len(accounts)
    for use in Use:
        minutes = [HOUR_MINUTES * account.spent[use] / account.worked for account in accounts]
        if any(minutes):
            hatch = "//" if audit.simulated else None
            axes.barh(rows, minutes, left=left, color=COLOURS[use], edgecolor="white", hatch=hatch, label=str(use))
            left = [begun + more for begun, more in zip(left, minutes, strict=True)]
    for row, account in zip(rows, accounts, strict=True):
        axes.text(HOUR_MINUTES + 0.7, row, f"{shown(account.per_hour)} an hour", va="center", fontsize=9)
    axes.set_yticks(list(rows), _names(accounts))
    axes.set_ylim(len(accounts) - 0.4, -0.6)
    axes.set_xlim(0, HOUR_MINUTES)
    axes.set_xticks(range(0, HOUR_MINUTES + 1, 10))
    axes.set_xlabel("minutes of an operator's hour; accepted demonstrations an hour at the right")
    axes.spines[["top", "right"]].set_visible(False)
    title = "SIMULATED operator times: made up, not measured" if audit.simulated else "How an operator's hour is spent"
    axes.set_title(title, loc="left", fontsize=11)
    if accounts:
        figure.legend(loc="outside lower center", ncols=6, fontsize=8, frameon=False)
    figure.savefig(path, dpi=120)


def _names(accounts: Sequence[Account]) -> list[str]:
    return [f"{account.task}  {account.source.replace('_', ' ')}" for account in accounts]
