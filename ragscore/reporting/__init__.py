"""Runs and comparisons as one page.

In: frames. Out: one HTML file with its figures inside, Markdown, or JSON that reloads.
"""

from ragscore.reporting.model import Report

__all__ = ["Report"]
