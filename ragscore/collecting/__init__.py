"""Collect runs: ask a system under test every golden query, and compare runs except for timing."""
