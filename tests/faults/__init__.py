"""Attacks on the product: kills, writers at once, flipped bits, broken disks, odd inputs.

Small by default; `RAGSCORE_FAULTS=N` makes each N hundredths as large.
"""
