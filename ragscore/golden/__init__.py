"""What a golden set is worth: checks, coverage, health; labelling."""
