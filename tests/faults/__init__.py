"""Attacks on the product: kills, writers at once, flipped bits, broken disks, odd inputs.

Small by default; `RAGSCORE_EXAMPLES=200` makes each 25 times as large.
"""
