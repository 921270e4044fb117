"""Collecting.

A system under test is asked every golden query; two such runs, compared but for their timing.
"""

from ragscore.collect.run import collect
from ragscore.collect.same import SameRun, same_run

__all__ = ["SameRun", "collect", "same_run"]
