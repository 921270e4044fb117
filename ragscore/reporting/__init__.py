"""Runs and comparisons as one page.

Frames in, one HTML file with its figures inside, one Markdown, one JSON that reloads.
"""

from ragscore.reporting.build import report
from ragscore.reporting.model import Report

__all__ = ["Report", "report"]
