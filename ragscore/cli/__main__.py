"""`python -m ragscore.cli`."""

import sys

from ragscore.cli import main

sys.exit(main())
