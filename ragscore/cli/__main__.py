"""`python -m ragscore.cli`."""

import sys

from ragscore.cli.commands import main

if __name__ == "__main__":
    sys.exit(main())
