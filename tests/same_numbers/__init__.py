"""Recorded answers: whether the library still computes the numbers that it computed before.

`python -m tests.same_numbers` asks the demo, its dialects, the history and small random
worlds, and compares the answers with `answers.parquet`, one row a value. A number that
is meant to change is recorded anew (`… record`) in the commit that changes it, which says why.
"""
