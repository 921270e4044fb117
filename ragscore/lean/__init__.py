"""Scoring as it could be: hits + targets -> one column per metric. A prototype beside `scoring`."""
