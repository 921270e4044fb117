"""`python -m ragscore.cli`."""

import sys

from ragscore.cli import main

if __name__ == "__main__":
    sys.exit(main())
