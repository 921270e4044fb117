"""Analyses of scores: comparison, trend, leaderboard, slices, refusals, failure causes, ..."""
