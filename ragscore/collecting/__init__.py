"""Collecting.

A system under test is asked every golden query; two such runs, compared but for their timing.
"""

from ragscore.collecting.reproducible import SameRun, same_run
from ragscore.collecting.run import collect

__all__ = ["SameRun", "collect", "same_run"]
