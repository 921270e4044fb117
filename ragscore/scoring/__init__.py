"""From hits and targets to scores, and from scores to means."""
