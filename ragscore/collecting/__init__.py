"""Collect runs: ask a system under test every golden query, and compare runs except for timing.

The package itself imports nothing, so that `ragscore.collecting.secrets` stays cheap to import.
"""
