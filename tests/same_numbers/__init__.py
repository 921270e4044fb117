"""Recorded answers: whether the library still computes the numbers that it computed before.

`python -m tests.same_numbers` asks the questions of `questions.py` and compares the answers with
`answers.parquet`, one row per value: object, run, query, metric, field, number, text. Differences
that are meant are lines of `meant.csv`; any other one fails. `record` writes the answers anew.
"""
