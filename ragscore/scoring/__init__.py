"""Hits and targets to scores to means: matching rules, grading, the table of metrics, policies, profiles, provenance, summary."""
