"""What a suite has shown, for people (HTML, Markdown) and programs (JSON)."""

from egorecovery.report.files import ReportFiles, write_analysis, write_report

__all__ = ["ReportFiles", "write_analysis", "write_report"]
