"""Scoring: hits and targets -> one column per metric, and what is known of every cell."""

from ragscore.scoring import match as match
