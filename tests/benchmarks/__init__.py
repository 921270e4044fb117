"""How fast ragscore is, beside what one would use instead: `python -m tests.benchmarks`."""
