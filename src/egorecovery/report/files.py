"""A suite's results as a page, as Markdown and as JSON, each saying the same."""

import json
from dataclasses import dataclass
from pathlib import Path

from egorecovery.report.analysis import Analysis
from egorecovery.report.judged_claims import judge_all
from egorecovery.report.page import html_page, markdown_page
from egorecovery.report.results import read_results
from egorecovery.report.summary import as_json, summary
from egorecovery.storage.atomic_io import write_file


@dataclass(frozen=True, kw_only=True)
class ReportFiles:
    html: Path
    markdown: Path
    json: Path

    def __str__(self) -> str:
        return str(self.html)


def write_report(out: Path) -> ReportFiles:
    """From whatever cells are finished; may be called again as more of them are."""
    return write_analysis(Analysis(read_results(out)))


def write_analysis(analysis: Analysis) -> ReportFiles:
    """The report of a suite that was read already, in its folder."""
    claims, out = judge_all(analysis), analysis.results.root
    files = ReportFiles(html=out / "report.html", markdown=out / "report.md", json=out / "report.json")
    write_file(files.html, html_page(analysis, claims).encode())
    write_file(files.markdown, markdown_page(analysis, claims).encode())
    record = json.dumps(summary(analysis, claims), indent=1, allow_nan=False, default=as_json)
    write_file(files.json, record.encode() + b"\n")
    return files
