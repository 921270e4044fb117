"""Golden sets: checks, coverage by runs, health, and labels by a sheet."""
