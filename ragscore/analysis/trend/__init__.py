"""A metric over runs, and how much of it is noise."""
