"""Golden sets: checks, coverage by runs, health, and labelling by hand."""
