"""Runs and comparisons as one page.

In: objects that show themselves. Out: one HTML file with its figures inside, Markdown, or JSON.
"""

from ragscore.reporting.report import Report

__all__ = ["Report"]
