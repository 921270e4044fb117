"""Runs as Parquet, scored part by part, here or on a cluster."""
