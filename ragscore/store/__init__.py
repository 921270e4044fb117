"""Runs as Parquet, scored group by group, here or on a cluster."""
