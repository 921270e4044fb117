"""Hits and targets to scores to means: rules, metrics, policies, profiles, provenance, summary."""
