"""Importers of what other evaluation tools write."""
