"""Two systems side by side: paired differences, verdicts, a gate."""
