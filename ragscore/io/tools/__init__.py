"""Importers of the files of other evaluation tools."""
