"""Analyses that only some systems need: behaviour, chunk lint, freshness, knowledge gain."""
