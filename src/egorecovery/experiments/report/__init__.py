"""What a suite has shown, for people (HTML, Markdown) and programs (JSON)."""

from egorecovery.experiments.report.writing import ReportFiles, write_numbers, write_report

__all__ = ["ReportFiles", "write_numbers", "write_report"]
